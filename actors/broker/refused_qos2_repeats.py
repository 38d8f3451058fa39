"""QoS 2 messages that no queue had room for, and that connected clients have had live, when their publisher comes back. Pure.

A publisher at MQTT 3.1.1 cannot be told that a message is refused; when its connection ends meanwhile it sends it again. For those
who have had it live it is the same message (P2), so ``parse_publishes`` marks it like one that is offered again, as DUP tells
[MQTT-3.3.1-1].
"""

from __future__ import annotations

from collections.abc import Iterable


class RefusedBefore:
    """Packet identifiers by the queue of the session that they were used in, which no other session ever has.

    While a session is connected, its connection has them (``ReceiverHalf.refused_before``).
    """

    def __init__(self) -> None:
        self._ids: dict[str, set[int]] = {}

    def __contains__(self, queue: str) -> bool:
        return queue in self._ids

    def note(self, queue: str, packet_ids: Iterable[int]) -> None:
        """Messages of this session were refused, or have not come again, and its connection has ended."""
        noted = self._ids.get(queue, set()).union(packet_ids)
        if noted:
            self._ids[queue] = noted

    def take(self, queue: str) -> set[int]:
        """Those of this session, whose connection has them from now on."""
        return self._ids.pop(queue, set())

    def forget(self, queue: str) -> None:
        """The session has ended."""
        self._ids.pop(queue, None)
