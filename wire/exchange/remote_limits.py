"""What a remote takes: as its CONNACK says, as the configuration says, or as was learnt of its address. Pure.

These are joined here and nowhere else, so that what is known of a remote is heeded alike, whoever said it.
"""

from __future__ import annotations

from typing import NamedTuple


class RemoteLimits(NamedTuple):
    """The highest QoS, whether RETAIN and wildcard subscriptions are taken, and the largest packet (None: any).

    Source: MQTT 5.0 section 3.2.2.3.
    """

    maximum_qos: int = 2
    retain_available: bool = True
    packet_max_bytes: int | None = None
    wildcard_available: bool = True

    def joined(self, other: RemoteLimits) -> RemoteLimits:
        """What both allow."""
        sizes = [size for size in (self.packet_max_bytes, other.packet_max_bytes) if size is not None]
        return RemoteLimits(
            maximum_qos=min(self.maximum_qos, other.maximum_qos),
            retain_available=self.retain_available and other.retain_available,
            packet_max_bytes=min(sizes, default=None),
            wildcard_available=self.wildcard_available and other.wildcard_available,
        )


NO_LIMITS = RemoteLimits()
