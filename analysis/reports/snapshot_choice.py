"""Which snapshots answer what, decided from where their queues stood. Pure.

State (what waits, what is in flight) is the newest snapshot's. History is put together from as few snapshots as hold all of it:
they overlap, and what two of them have is read from one.

reports.all-kept-history-taken [reports]: what any snapshot of the store's present life has kept of a queue's history is taken, each
    sequence from one snapshot, unless a gap between two of them hides it. The sequences from ``Covered.seq_from`` on are all
    accounted for by what was taken, if nothing was lost.
reports.snapshots-by-life-not-clock [reports]: the snapshots of a node are in the order in which they were made, whatever its clock
    said: lives of a store are numbered upwards, and within one the numbers of a queue only rise. If these say nothing, time
    decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

_WIDTHS_S = (1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800)
POINTS_MAX = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAt:
    """The place of a queue in one snapshot: settled chunks kept from ``history_from``, [``head``, ``tail``) in the queue.

    place: where the snapshot stands among all (``in_order``).
    """

    node: str
    snapshot_id: str
    place: int
    queue: str
    history_from: int
    head: int
    tail: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotAt:
    """The moment of a snapshot: the life of the store (None: not known), the clock, and how far each queue of a bridge was then.

    progress: by queue, a number that only rises within a life; a queue that is not there, or is at 0, says nothing.
    """

    node: str
    snapshot_id: str
    epoch: int | None
    at_ms: int
    progress: Mapping[str, int]

    def is_before(self, other: SnapshotAt) -> bool:
        """Whether the queues prove, within one life, that this one was made first."""
        if self.epoch is None or self.epoch != other.epoch:
            return False
        both = [(mine, other.progress.get(queue, 0)) for queue, mine in self.progress.items()]
        known = [(mine, theirs) for mine, theirs in both if mine and theirs]
        return any(mine < theirs for mine, theirs in known) and all(mine <= theirs for mine, theirs in known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    """The part of the history of a queue that is read from one snapshot: settled messages of the sequences [``seq_from``,
    ``seq_to``)."""

    node: str
    snapshot_id: str
    queue: str
    seq_from: int
    seq_to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The settlements of one queue in one snapshot: their lowest and highest number, -1 and -1 for none."""

    node: str
    snapshot_id: str
    queue: str
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """From ``seq_from`` on, every sequence of the queue must be settled once or still be there."""

    node: str
    queue: str
    seq_from: int


def in_order(made: Iterable[SnapshotAt]) -> list[SnapshotAt]:
    """The snapshots, by node, in the order in which they were made (reports.snapshots-by-life-not-clock)."""
    found: list[SnapshotAt] = []
    by_clock = sorted(made, key=lambda one: (one.node, -1 if one.epoch is None else one.epoch, one.at_ms, one.snapshot_id))
    for _, life in groupby(by_clock, key=lambda one: (one.node, one.epoch)):
        found.extend(_in_order_of_life(life))
    return found


def _in_order_of_life(by_clock: Iterable[SnapshotAt]) -> list[SnapshotAt]:
    placed: list[SnapshotAt] = []
    reached: dict[str, int] = {}
    for one in by_clock:
        place = len(placed)
        if any(0 < progress < reached.get(queue, 0) for queue, progress in one.progress.items()):  # the clock was set back
            place = next((at for at, other in enumerate(placed) if one.is_before(other)), place)
        placed.insert(place, one)
        for queue, progress in one.progress.items():
            reached[queue] = max(reached.get(queue, 0), progress)
    return placed


def set_backs(ordered: Sequence[SnapshotAt]) -> list[tuple[SnapshotAt, SnapshotAt]]:
    """The neighbours, of snapshots in order, between which a node's clock was set back."""
    return [(before, after) for before, after in pairwise(ordered) if before.node == after.node and after.at_ms < before.at_ms]


def lives(queues: Iterable[QueueAt]) -> dict[tuple[str, str], list[QueueAt]]:
    """(node, queue) -> its snapshots of the store's present life, newest first.

    A tail never goes back; where it seems to, the store was made anew, and what came before belongs to another one.
    """
    by_queue: dict[tuple[str, str], list[QueueAt]] = defaultdict(list)
    for one in sorted(queues, key=lambda each: each.place, reverse=True):
        newer = by_queue[one.node, one.queue]
        if not newer or (newer[-1].tail >= one.tail >= 0):
            newer.append(one)
        elif newer[-1].tail >= 0:
            newer.append(_END)
    return {key: [one for one in found if one is not _END] for key, found in by_queue.items()}


_END = QueueAt(node="", snapshot_id="", place=0, queue="", history_from=0, head=0, tail=-1)


def takes(queues: Iterable[QueueAt]) -> list[Take]:
    """The parts to read for the history of each queue, so that reports.all-kept-history-taken holds; the newest snapshot first."""
    return [take for states in lives(queues).values() for take in _takes_of(states)]


def _takes_of(states: Sequence[QueueAt]) -> list[Take]:
    newest = states[0]
    taken = [
        Take(node=newest.node, snapshot_id=newest.snapshot_id, queue=newest.queue, seq_from=newest.history_from, seq_to=newest.tail)
    ]
    reached = newest.history_from
    older = list(states[1:])
    while older := [one for one in older if one.history_from < reached]:
        joined = [one for one in older if one.head >= reached]
        chosen = min(joined, key=lambda one: one.history_from) if joined else older[0]
        taken.append(
            Take(
                node=chosen.node,
                snapshot_id=chosen.snapshot_id,
                queue=chosen.queue,
                seq_from=chosen.history_from,
                seq_to=min(reached, chosen.tail),
            )
        )
        reached = chosen.history_from
    return taken


def covered(queues: Iterable[QueueAt], numbers: Iterable[Numbers]) -> list[Covered]:
    """From where on each queue's sequences must add up (reports.all-kept-history-taken), by the settlements that were read.

    An older snapshot leads further back only if its settlements join those of the newer one. A number missing *within* one
    snapshot breaks nothing here: what it settled is missing, and the sequences say so.
    """
    known = {(one.node, one.queue, one.snapshot_id): one for one in numbers}
    found = []
    for (node, queue), states in lives(queues).items():
        seq_from = states[0].history_from
        newer = known.get((node, queue, states[0].snapshot_id))
        low = newer.low if newer is not None else -1
        for state in states[1:]:
            mine = known.get((node, queue, state.snapshot_id))
            if mine is None or mine.high < 0 or low < 0:
                continue  # it was not read, or says nothing
            if mine.high < low - 1:
                break
            seq_from, low = min(seq_from, state.history_from), min(low, mine.low)
        found.append(Covered(node=node, queue=queue, seq_from=seq_from))
    return found


def bucket_s(span_s: float, points_max: int = POINTS_MAX) -> int:
    """The width in which ``span_s`` is drawn: the smallest round one that makes at most ``points_max`` points."""
    return next((width for width in _WIDTHS_S if span_s <= width * points_max), _WIDTHS_S[-1])
