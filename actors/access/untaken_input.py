"""Input of one client that was read and is not taken: packets in the making, and packets that wait their turn. Pure."""

from __future__ import annotations


class UntakenInput:
    """front: what is there from the first packet on. missing: what that packet lacks, where that is known; 0 where it is not."""

    __slots__ = ("_gathered", "front", "missing")

    def __init__(self) -> None:
        self.front = b""
        self.missing = 0
        self._gathered = bytearray()  # behind ``front``; joined once, because a large packet may come in small pieces

    @property
    def size_bytes(self) -> int:
        """How much is here."""
        return len(self.front) + len(self._gathered)

    def join(self, data: bytes) -> bytes | None:
        """All that is here with ``data`` behind it, to be taken; None if that makes no whole packet, and it is kept."""
        if self.missing > len(data):
            self.missing -= len(data)
            self._gathered += data
            return None
        if not self._gathered:
            return self.front + data
        whole, self._gathered = b"".join((self.front, self._gathered, data)), bytearray()
        return whole

    def keep(self, data: bytes, missing: int) -> bool:
        """``data`` is left of what was to be taken, whose first packet lacks so much; whether anything is here, or was."""
        was_here, self.front, self.missing = bool(self.front), data, missing
        return was_here or bool(data)
