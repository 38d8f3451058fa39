"""Limits of a remote: as its CONNACK says, as the configuration says, or as was learnt of its address. Pure.

These are joined here and nowhere else, so that what is known of a remote is heeded alike, whoever said it.
"""

from __future__ import annotations

from typing import NamedTuple

from wire.exchange.quarantine_class import MessageClass

REFUSED_MAX = 32  # classes of messages; the oldest is forgotten, and learnt again


class RemoteLimits(NamedTuple):
    """The highest QoS, whether RETAIN, wildcard and shared subscriptions are taken, and the largest packet (None: any).

    refused: messages on which the remote closes the connection, whatever leaves with them.

    Source: MQTT 5.0 section 3.2.2.3.
    """

    maximum_qos: int = 2
    retain_available: bool = True
    packet_max_bytes: int | None = None
    wildcard_available: bool = True
    shared_available: bool = True
    refused: tuple[MessageClass, ...] = ()

    def joined(self, other: RemoteLimits) -> RemoteLimits:
        """The limits that both allow."""
        sizes = [size for size in (self.packet_max_bytes, other.packet_max_bytes) if size is not None]
        refused = tuple(dict.fromkeys((*self.refused, *other.refused)))
        return RemoteLimits(
            maximum_qos=min(self.maximum_qos, other.maximum_qos),
            retain_available=self.retain_available and other.retain_available,
            packet_max_bytes=min(sizes, default=None),
            wildcard_available=self.wildcard_available and other.wildcard_available,
            shared_available=self.shared_available and other.shared_available,
            refused=tuple(one for one in refused if not any(wide != one and wide.covers(one) for wide in refused))[-REFUSED_MAX:],
        )

    @property
    def lacks(self) -> dict[str, str]:
        """Limits of the remote, in words -> the key of the configuration that says so for good."""
        lacks = {}
        if self.maximum_qos < 2:
            lacks[f"QoS above {self.maximum_qos}"] = f"local_subscriptions[].max_qos: {self.maximum_qos}"
        if not self.retain_available:
            lacks["RETAIN"] = "local_subscriptions[].preserve_retain: false"
        if not self.wildcard_available:
            lacks["subscriptions with wildcards"] = "remote_subscriptions[].filters"
        if not self.shared_available:
            lacks["shared subscriptions"] = "remote_subscriptions[].shared"
        return lacks | {f"messages with {one.says}": "on_refusal.connection-closed" for one in self.refused}


NO_LIMITS = RemoteLimits()
