"""Which snapshots a stream has had, what in the next ones is new to it, and what is gone between them.

Pure decisions over manifests. Successive snapshots of a store overlap: each has all the settlements and events that its node still
keeps. Their numbers never repeat within a store, so what a stream has had of a queue, and of the node's events, is a set of
numbers. A store is known by its identity: two nodes of one name, and a data folder that took the place of another, are two stores.

tables.snapshot-taken-once [reports]: a snapshot is taken once, and a batch names its snapshots: repeated, it reads the same,
    whatever has arrived since. A settlement, a settled message and an event is taken once: in the first snapshot taken that has it,
    whatever the order in which snapshots arrive. Numbers that fall over a restart of the store are given again, to others: all of
    it is new.
tables.gap-is-named [reports]: what left a queue after one snapshot and is kept no longer in the next one is a gap, and so is what a
    store had no longer in its first snapshot if another one of that node was taken before. Nothing else that was settled is passed
    over, but in a queue that keeps no history.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import islice, pairwise
from typing import Any, NamedTuple

from storage.snapshots.manifest import Manifest, snapshot_id
from wire.ranges import Ranges, RangeSet

NUMBERED = ("settlements", "messages", "events")  # tables whose rows have numbers; of messages, the settled ones
EVENTS = ""  # stands for the node's events among the names of queues
REMEMBERED = 16  # snapshots of a store, though they are there no longer
RANGES_MAX = 64  # of a queue; beyond that the lowest gap is forgotten

Made = tuple[int, int]  # the life of the store and the time (ms): the snapshots of a store in order
Key = tuple[str, str]  # of a snapshot: the identity of its store, and its own


class Gap(NamedTuple):
    """Some or all of the messages [``first``, ``stop``) of ``queue``, or of the events if it is empty: they can't be read any more.

    before: the last snapshot made before they were gone, empty if there is none; after: the one that lacks them, made at_ms.
    """

    node: str
    store_id: str
    queue: str
    first: int
    stop: int
    before: str
    after: str
    at_ms: int

    def __str__(self) -> str:
        what = (
            f"sequences {self.first} to {self.stop - 1} of {self.queue}"
            if self.queue
            else f"events {self.first} to {self.stop - 1}"
        )
        return f"{what} of node {self.node}, gone between {self.before or 'the begin of its store'} and {self.after}"


class Had(NamedTuple):
    """Taken parts of a queue: the numbers of settlements, and the spans of sequences of which nothing is missing.

    An empty span says where the next one should begin. No span: the queue keeps no history.
    """

    numbers: Ranges = ()
    spans: Ranges = ()


@dataclass(frozen=True, slots=True)
class News:
    """New parts of a snapshot: by queue the numbers of settlements, and what is gone before them."""

    manifest: Manifest
    numbers: Mapping[str, Ranges]
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class StoreProgress:
    """Taken parts of a store: its snapshots that were made after ``floor``, in order, and by queue what was in them."""

    node: str
    taken: tuple[Made, ...] = ()
    floor: Made = (-1, -1)
    had: Mapping[str, Had] = field(default_factory=dict)
    follows: bool = False  # another store of the node was taken before

    def is_new(self, manifest: Manifest) -> bool:
        """Whether the snapshot was not taken; one that is older than all that are remembered, whether it has news."""
        mine = made(manifest)
        return mine not in self.taken and (mine > self.floor or bool(self.take(manifest)[0].numbers))

    def take(self, manifest: Manifest) -> tuple[News, StoreProgress]:
        """The new parts of the snapshot, and the progress behind it."""
        mine, numbers, gaps = made(manifest), {}, []
        stood = {name: (numbered, history) for name, numbered, history in _stood(manifest)}
        went_back = self._went_back(mine, stood)
        known = {name: had for name, had in self.had.items() if not went_back or name not in stood}
        unseen: Ranges = ((0, 0),) if (self.taken or self.follows) and not went_back else ()
        before = next((snapshot_id(self.node, at_ms, epoch) for epoch, at_ms in reversed(self.taken) if (epoch, at_ms) < mine), "")
        for name, (numbered, (begins, head)) in stood.items():
            had = known.get(name, Had(spans=unseen if begins >= 0 else ()))
            new = tuple(RangeSet(had.numbers).missing(*numbered))
            if new:
                numbers[name] = new
            spans = had.spans
            if begins >= 0:
                spans = _joined((*spans, (begins, max(begins, head))))
            elif spans and (not self.taken or mine > self.taken[-1]):
                spans = _joined((*spans, (head, head)))
            if had.spans:
                former = _holes(had.spans)
                holes = (hole for hole in _holes(spans) if not any(low <= hole[0] and hole[1] <= high for low, high in former))
                gaps += [Gap(manifest.node, manifest.store_id, name, *hole, before, manifest.id, manifest.at_ms) for hole in holes]
            keeps = begins >= 0 or spans == had.spans
            known[name] = Had(_few(RangeSet((*had.numbers, *new)).ranges()), _few(spans) if keeps else ())
        return News(manifest, numbers, tuple(gaps)), replace(self, taken=tuple(sorted({*self.taken, mine})), had=known)

    def _went_back(self, mine: Made, stood: Mapping[str, tuple[tuple[int, int], tuple[int, int]]]) -> bool:
        """Whether a later life of the store has fewer settlements than were had of an earlier one."""
        if not self.taken or mine[0] <= self.taken[-1][0]:
            return False
        had = ((name, known.numbers[-1][1]) for name, known in self.had.items() if known.numbers)
        return any(name in stood and stood[name][0][1] < stop for name, stop in had)

    def without_older(self, there: Collection[Made]) -> StoreProgress:
        """The progress that remembers nothing older than what is ``there`` of the store, but the last ones."""
        gone = [each for each in self.taken[:-REMEMBERED] if there and each < min(there)]
        return replace(self, taken=self.taken[len(gone) :], floor=gone[-1]) if gone else self


@dataclass(frozen=True, slots=True)
class ArrivalProgress:
    """How far a stream is: what it had of each store, and the snapshots of its last batch, in order. As JSON, Spark's offset."""

    stores: Mapping[str, StoreProgress] = field(default_factory=dict)
    batch: tuple[Key, ...] = ()

    def next(self, manifests: Iterable[Manifest], limit: int | None, only: Collection[Key] | None = None) -> ArrivalProgress:
        """The progress with the next batch: of ``manifests`` those not taken, oldest first, ``limit`` at most; self for none.

        only: those that may be taken; None: all.
        """
        there: dict[str, dict[Made, Manifest]] = {}
        for manifest in manifests:
            there.setdefault(manifest.store_id, {})[made(manifest)] = manifest
        waiting = (
            [each for _, each in sorted(of.items()) if self._of(each).is_new(each) and (only is None or key(each) in only)]
            for of in there.values()
        )
        batch = list(islice(merge(*waiting, key=lambda each: (each.at_ms, key(each))), limit))
        if not batch:
            return self
        _, behind = self._take(batch)
        stores = {name: store.without_older(there.get(name, ())) for name, store in behind.stores.items()}
        return ArrivalProgress(stores, tuple(map(key, batch)))

    def news(self, batch: Iterable[Manifest]) -> list[News]:
        """The new parts of each snapshot of the ``batch`` that follows this progress."""
        return self._take(batch)[0]

    def _take(self, batch: Iterable[Manifest]) -> tuple[list[News], ArrivalProgress]:
        every, progress = [], self
        for manifest in batch:
            news, store = progress._of(manifest).take(manifest)
            every.append(news)
            progress = ArrivalProgress({**progress.stores, manifest.store_id: store})
        return every, progress

    def _of(self, manifest: Manifest) -> StoreProgress:
        known = self.stores.get(manifest.store_id)
        if known is not None:
            return known
        return StoreProgress(manifest.node, follows=any(store.node == manifest.node for store in self.stores.values()))

    def to_json(self) -> dict[str, Any]:
        """The progress as plain values."""
        stores = {
            name: {"node": store.node, "taken": store.taken, "floor": store.floor, "had": store.had}
            for name, store in self.stores.items()
        }
        return {"format": 1, "stores": stores, "batch": self.batch}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> ArrivalProgress:
        """The progress that ``to_json`` wrote.

        Raises:
            ValueError: a newer version wrote it.
        """
        if fields["format"] != 1:
            raise ValueError(f"the stream's offset has format {fields['format']}; this version of Bascule knows 1")
        stores = {
            name: StoreProgress(
                store["node"],
                _pairs(store["taken"]),
                (store["floor"][0], store["floor"][1]),
                {queue: Had(_pairs(numbers), _pairs(spans)) for queue, (numbers, spans) in store["had"].items()},
            )
            for name, store in fields["stores"].items()
        }
        return cls(stores, tuple((store, name) for store, name in fields["batch"]))


def made(manifest: Manifest) -> Made:
    """The order of a snapshot among those of its store: a clock may be set back, the lives of a store are not."""
    return manifest.epoch, manifest.at_ms


def key(manifest: Manifest) -> Key:
    """The key that tells a snapshot from all others."""
    return manifest.store_id, manifest.id


def gaps_between(manifests: Iterable[Manifest]) -> list[Gap]:
    """The gaps between ``manifests``, in the order in which they were made."""
    there = {key(manifest): manifest for manifest in manifests}
    batch = ArrivalProgress().next(there.values(), None).batch
    return [gap for news in ArrivalProgress().news(there[each] for each in batch) for gap in news.gaps]


def _stood(manifest: Manifest) -> Iterator[tuple[str, tuple[int, int], tuple[int, int]]]:
    """Of each bridge's queue, and of the events: the numbers ``[first, next)``; where its history begins, or -1; its head."""
    for queue in manifest.queues:
        if queue.bridge is not None and not queue.damaged:
            yield queue.name, queue.settlements, (queue.history_from, queue.head)
    yield EVENTS, manifest.events, manifest.events


def _joined(spans: Iterable[tuple[int, int]]) -> Ranges:
    """The spans in order; those that touch are one, though one is empty."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], high)
        else:
            joined.append((low, high))
    return tuple(joined)


def _holes(spans: Ranges) -> Ranges:
    return tuple((below[1], above[0]) for below, above in pairwise(spans))


def _few(ranges: Ranges) -> Ranges:
    """At most ``RANGES_MAX`` of them: the lowest become one."""
    return ranges if len(ranges) <= RANGES_MAX else ((ranges[0][0], ranges[-RANGES_MAX][1]), *ranges[1 - RANGES_MAX :])


def _pairs(values: Iterable[Any]) -> tuple[tuple[int, int], ...]:
    return tuple((first, second) for first, second in values)
