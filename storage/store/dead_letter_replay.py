"""Dead letters go back to the queues of their bridge, a page at a time. Each leaves by the commit that appends it there again
(queue.dead-or-queued-never-both).

A page ends after so many letters, where it has read enough, or where a queue has no room. The right to order that, and the answer,
are the business of ``queue_commands``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple
from zlib import crc32

from storage.queue.admission import AdmissionRoom
from storage.queue.dead_letters import DeadLetter

SCANNED_MESSAGES = 5000  # of a page, those that are not in it included
SCANNED_BYTES = 8 << 20


class Page(NamedTuple):
    """One page: which letters go back to which queue, and what became of the others.

    full: a queue had no room for the next one. following: the place of the letter behind the page; None if it saw none.
    """

    chosen: Mapping[str, Sequence[DeadLetter]]
    skipped: int
    damaged: int
    full: bool
    following: int | None

    @property
    def taken(self) -> int:
        """How many go back."""
        return sum(map(len, self.chosen.values()))


def choose_page(
    letters: Iterable[tuple[int, DeadLetter | None]],
    names: Sequence[str],
    rooms: Mapping[str, Sequence[AdmissionRoom]],
    *,
    reason: str | None,
    count: int,
) -> Page:
    """Choose up to ``count`` of ``letters`` that died of ``reason`` (None: of any), and take their room.

    names: the queues of their bridge, of which each topic has one. rooms: of each queue.
    """
    chosen: dict[str, list[DeadLetter]] = {}
    taken = skipped = damaged = 0
    following: int | None = None
    for seq, letter in _bounded(letters):
        following = seq + 1
        if letter is None:
            damaged += 1
        elif reason not in (None, letter.reason):
            skipped += 1
        else:
            name = names[crc32(letter.message.topic) % len(names)]
            if not all(room.fits(1, letter.message.size_bytes) for room in rooms[name]):
                return Page(chosen, skipped, damaged, full=True, following=seq)
            for room in rooms[name]:
                room.take(1, letter.message.size_bytes)
            chosen.setdefault(name, []).append(letter)
            taken += 1
            if taken == count:
                break
    return Page(chosen, skipped, damaged, full=False, following=following)


def _bounded(letters: Iterable[tuple[int, DeadLetter | None]]) -> Iterator[tuple[int, DeadLetter | None]]:
    """``letters``, as many as one page may look at."""
    size_bytes = 0
    for seq, letter in islice(letters, SCANNED_MESSAGES):
        yield seq, letter
        size_bytes += letter.message.size_bytes if letter is not None else 0
        if size_bytes >= SCANNED_BYTES:
            return
