"""What became of messages that a shared subscription has dealt and that may be offered to the store again. Pure.

The store refuses a message whole, after the Distributor has dealt it: a member that it was dealt to live has had it by then, one
that was to get it through its queue has not. When its sender offers it again, it is dealt so that the group has it once
(``wire/routing/shared_subscription.py``, routing.refused-row-dealt-once). What is not known here is that of groups whose members
are all of one kind, what was too much, and what a former life of the Distributor has dealt.
"""

from __future__ import annotations

from collections.abc import Hashable

NOTES_MAX = 32_768  # of each of two generations; twice as many as there can be rows in the batches of one sender on their way


class DealtBefore:
    """For each group, publisher, topic and payload a pile of notes, the newest on top.

    Equal messages of one publisher need not be told apart: those that were refused are the last ones that it has published, so
    their notes are on top. The piles are bits of a number, below a 1.
    """

    __slots__ = ("_count", "_new", "_notes_max", "_old")

    def __init__(self, notes_max: int = NOTES_MAX) -> None:
        self._notes_max = notes_max
        self._new: dict[int, int] = {}
        self._old: dict[int, int] = {}
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._new or self._old)

    def note(self, key: int, *, had: bool) -> None:
        """The group of ``key`` was dealt such a message. had: it has it now, whatever the store says."""
        if self._count >= self._notes_max:
            self._new, self._old, self._count = {}, self._new, 0
        self._count += 1
        self._new[key] = self._new.get(key, 1) << 1 | had

    def take(self, key: int) -> bool | None:
        """Whether the group has had it, as noted last, and take that note away; None: nothing is noted."""
        for notes in (self._new, self._old):
            pile = notes.pop(key, 1)
            if pile > 1:
                if pile > 3:
                    notes[key] = pile >> 1
                return bool(pile & 1)
        return None


def key_of(group: tuple[str, str], publisher: Hashable, topic: bytes, payload: bytes) -> int:
    """What a message and the group, named by share name and filter, are known by."""
    return hash((group, publisher, topic, payload))
