"""Requests to readers of snapshots, and their answers: which rows are wanted, the parts of the work, what could not be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from analysis.tables.snapshot_arrivals import Gap
from storage.snapshots.manifest import QueueFacts
from wire.errors import StorageDamaged
from wire.ranges import Ranges

Damaged = Literal["fail", "skip"]
Newer = Literal["fail", "skip"]


@dataclass(frozen=True, slots=True)
class SplitFilters:
    """Which rows are wanted; ``read`` applies all of them exactly. None: no matter which.

    since_us, until_us: UTC epoch in microseconds, ``[since, until)``, of accepted_at, settled_at, at or else snapshot_at.
    seq_from, seq_to: ``[seq_from, seq_to)`` of ``seq``; of settlements, those that reach into it.
    states: of messages and inflight. numbers: queue -> the ranges of ``number`` wanted of its settlements, and of settled messages
    those of ``settlement``; the queue "" stands for events.
    """

    nodes: tuple[str, ...] | None = None
    queues: tuple[str, ...] | None = None
    bridges: tuple[str, ...] | None = None
    seq_from: int | None = None
    seq_to: int | None = None
    since_us: int | None = None
    until_us: int | None = None
    states: tuple[str, ...] | None = None
    numbers: Mapping[str, Ranges] = field(default_factory=dict)

    def numbers_of(self, queue: str, first: int, stop: int) -> list[tuple[int, int]]:
        """The wanted numbers among [``first``, ``stop``) of ``queue``."""
        wanted = self.numbers.get(queue, ((first, stop),))
        return [(max(first, low), min(stop, high)) for low, high in wanted if low < stop and high > first]


EVERYTHING = SplitFilters()


@dataclass(frozen=True, slots=True)
class Part:
    """The part of one snapshot to read: the folder, and of its queue ``number`` the sequences ``[start, stop)`` (messages only).

    problem: why nothing can be. gap: the row of the table ``gaps``, which only the planning knows.
    """

    path: str
    number: int = -1
    start: int = 0
    stop: int = 0
    problem: str = ""
    gap: Gap | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """The work of one task: parts of snapshots, about ``rows`` rows in all. Plain values, so that it can be pickled."""

    table: str
    parts: tuple[Part, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Problem:
    """An unreadable part, which was left out. queue: empty where it is in none. The sequences are -1 where they are not known."""

    path: str
    snapshot_id: str
    why: str
    queue: str = ""
    first_seq: int = -1
    last_seq: int = -1

    def __str__(self) -> str:
        where = f" queue {self.queue}" if self.queue else ""
        seqs = f" sequences {self.first_seq} to {self.last_seq}" if self.first_seq >= 0 else ""
        place = f":{where}{seqs}" if where or seqs else ""
        return f"{self.path}{place}: {self.why}"


class SnapshotDamaged(StorageDamaged):
    """A snapshot, or a part of it, is not what was written; ``problem`` says where."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.why, path=problem.path, queue=problem.queue, first_seq=problem.first_seq)
        self.problem = problem


class Trouble:
    """The treatment of unreadable parts: it fails, or reports them and leaves them out."""

    def __init__(self, damaged: Damaged, on_problem: Callable[[Problem], None] | None = None) -> None:
        self.fails = damaged == "fail"
        self._tell = on_problem

    def meet(self, problem: Problem) -> None:
        """``problem`` was met.

        Raises:
            SnapshotDamaged: it is not to be left out.
        """
        if self.fails:
            raise SnapshotDamaged(problem)
        if self._tell is not None:
            self._tell(problem)


def wants(filters: SplitFilters, queue: QueueFacts) -> bool:
    """Whether rows of ``queue`` are wanted."""
    if filters.queues is not None and queue.name not in filters.queues:
        return False
    return filters.bridges is None or queue.bridge in filters.bridges
