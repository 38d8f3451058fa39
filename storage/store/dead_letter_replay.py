"""Dead letters go back to the queues of their bridge, a page at a time. Each leaves by the commit that appends it there again
(queue.dead-or-queued-never-both).

A page ends after so many letters, where it has read enough, or where a queue has no room. Who may order that, and what is answered,
is the business of ``queue_commands``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple
from zlib import crc32

from storage.queue.dead_letters import DeadLetter, DeadLetters
from storage.queue.full_queue_refusal import Room
from storage.queue.single_messages import batch_of
from storage.store.lanes import Lanes
from storage.store.next_commit import NextCommit
from wire.frames.batch import QOS_MASK

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
    rooms: Mapping[str, Sequence[Room]],
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


class Replay:
    """Puts letters back with the next commit. ready: is told which queue can be handed out."""

    def __init__(self, lanes: Lanes, next_commit: NextCommit, ready: Callable[[str], None]) -> None:
        self.next_commit = next_commit
        self._lanes = lanes
        self._ready = ready

    def put_back(self, name: str, back: Sequence[DeadLetter], letters: DeadLetters, wall_ms: int) -> None:
        """Put ``back`` at the end of queue ``name``, accepted now, and out of the dead letters, by one write."""
        write = self.next_commit.write
        batch = batch_of([letter.message for letter in back], accepted_ms=wall_ms)
        qos0 = sum(1 for flags in batch.flags if not flags & QOS_MASK)
        self._lanes.of_bridges[name].queue.append(batch.encode(), len(batch), batch.size_bytes(), qos0, write)
        letters.replayed(back, write)
        write.on_commit(partial(self._ready, name))


def _bounded(letters: Iterable[tuple[int, DeadLetter | None]]) -> Iterator[tuple[int, DeadLetter | None]]:
    """``letters``, as many as one page may look at."""
    size_bytes = 0
    for seq, letter in islice(letters, SCANNED_MESSAGES):
        yield seq, letter
        size_bytes += letter.message.size_bytes if letter is not None else 0
        if size_bytes >= SCANNED_BYTES:
            return
