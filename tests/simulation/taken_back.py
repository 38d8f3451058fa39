"""QoS 2 exchanges that were ended for their sender and are open again on the disk: a known weakness of P2 (p2-delivery.md).

A PUBCOMP may leave before its commit while nobody wants more. If a death takes that commit back, the identifier is on record
again, and the next message under it is taken for the repeat of a message that was ended long ago.
"""

from __future__ import annotations

from collections.abc import Callable

_Received = Callable[[str], set[int]]  # the identifiers on record, of a sender


class ReleasesTakenBack:
    """Which messages that costs: no more than one for each such identifier, and none that was committed."""

    def __init__(self) -> None:
        self.swallowed: set[bytes] = set()  # payloads
        self._early: set[tuple[str, int]] = set()  # ended in this life of the store; the commit is owed, or may be taken back
        self._held: set[tuple[str, int]] = set()  # ended in an earlier life, and on record in this one

    def completed(self, sender: str, packet_id: int, *, committed: bool) -> None:
        """A PUBCOMP is written; committed: with what it says on the disk, as strongly as the bridge wants."""
        self._held.discard((sender, packet_id))
        self._early.discard((sender, packet_id))
        if not committed:
            self._early.add((sender, packet_id))

    def wrote(self, received: _Received) -> None:
        """The next commit has each release that was answered before it: one that it has not is not taken back, but forgotten."""
        self._early = {(sender, packet_id) for sender, packet_id in self._early if packet_id not in received(sender)}

    def store_died(self) -> None:
        """The store's life ends, perhaps with the power."""
        self._held |= self._early
        self._early.clear()

    def store_opened(self, received: _Received) -> None:
        """The next life begins with what is left."""
        self._held = {(sender, packet_id) for sender, packet_id in self._held if packet_id in received(sender)}

    def acknowledged(self, sender: str, packet_id: int, payload: bytes, *, written: bool) -> None:
        """A PUBREC is written; written: its message was in a commit, so that it was not taken for a repeat."""
        self._early.discard((sender, packet_id))
        if (sender, packet_id) in self._held and not written:
            self.swallowed.add(payload)
