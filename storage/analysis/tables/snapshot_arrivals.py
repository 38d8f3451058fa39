"""Which snapshots a stream has had, and what in the next ones is new to it. Pure decisions over manifests.

Successive snapshots of a node overlap: each has all the settlements and events that its node still keeps. Their numbers never
repeat, so what a stream has had of a node is one number for each queue, and one for the node's events.

tables.snapshot-taken-once [reports]: a snapshot is taken once, and a batch names its snapshots: repeated, it reads the same,
    whatever has arrived since.
tables.settlement-taken-once [reports]: a settlement, a settled message and an event is taken once: in the first snapshot taken that
    has it.
tables.snapshots-in-order [reports]: the snapshots of a node are taken in the order in which they were made. One that arrives behind
    a newer one is still taken while it is younger than the last ``REMEMBERED``; of what is numbered it has nothing new, the newer
    one had it all. If it has, in the same life of the store, then the clock was set back in between, and what is new is taken.
tables.numbers-anew-all-new [reports]: numbers that begin again are those of another store under the same name: all of it is new.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from typing import Any

from storage.snapshots.manifest import Manifest

NUMBERED = ("settlements", "messages", "events")  # tables whose rows have numbers; of messages, the settled ones
EVENTS = ""  # stands for the node's events among the names of queues
REMEMBERED = 16

Made = tuple[int, int]  # the life of the store and the time (ms): the snapshots of a node in order


@dataclass(frozen=True, slots=True)
class NodeProgress:
    """What was had of a node: its last snapshots, in order, and the next numbers by queue."""

    taken: tuple[Made, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)

    def is_new(self, manifest: Manifest) -> bool:
        """Whether the snapshot was not taken, as far as is remembered, or has news though it seems older than all that is."""
        mine = made(manifest)
        return mine not in self.taken and (
            len(self.taken) < REMEMBERED or mine > self.taken[0] or bool(self.numbers_from(manifest))
        )

    def is_late(self, made: Made) -> bool:
        """Whether a newer one was taken."""
        return bool(self.taken) and made < self.taken[-1]

    def numbers_from(self, manifest: Manifest) -> dict[str, int]:
        """The first numbers in the snapshot that are new; nothing for a queue without any."""
        same_life = self._is_of_last_life(manifest)
        if self.is_late(made(manifest)) and not same_life:
            return {}
        new = {}
        for name, (first, stop) in _numbers(manifest):
            known = self.numbers.get(name, 0)
            start = first if stop < known and not same_life else max(first, known)
            if start < stop:
                new[name] = start
        return new

    def after(self, manifest: Manifest) -> NodeProgress:
        """The progress once the snapshot is taken."""
        taken = tuple(sorted({*self.taken, made(manifest)})[-REMEMBERED:])
        stops = {name: stop for name, (_, stop) in _numbers(manifest)}
        if self._is_of_last_life(manifest):
            return NodeProgress(taken, {**self.numbers, **{name: stops[name] for name in self.numbers_from(manifest)}})
        if self.is_late(made(manifest)):
            return NodeProgress(taken, self.numbers)
        unread = {queue.name for queue in manifest.queues if queue.damaged}
        numbers = {name: number for name, number in self.numbers.items() if name in unread}
        return NodeProgress(taken, numbers | stops)

    def _is_of_last_life(self, manifest: Manifest) -> bool:
        """Whether the newest that was taken is of the same life of the store: numbers only rise in it, whatever the clock does."""
        return bool(self.taken) and self.taken[-1][0] == manifest.epoch


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stream is: what it had of each node, and the snapshots of its last batch, in order. As JSON, Spark's offset."""

    nodes: Mapping[str, NodeProgress] = field(default_factory=dict)
    batch: tuple[str, ...] = ()

    def next(self, manifests: Iterable[Manifest], limit: int | None, only: Collection[str] | None = None) -> Progress:
        """The progress with the next batch: of ``manifests`` those not taken, oldest first, ``limit`` at most; self for none.

        only: the identifiers of those that may be taken; None: all.
        """
        waiting: dict[str, dict[Made, Manifest]] = {}
        for manifest in manifests:
            known = self.nodes.get(manifest.node, NodeProgress())
            if known.is_new(manifest) and (only is None or manifest.id in only):
                waiting.setdefault(manifest.node, {})[made(manifest)] = manifest
        in_order = ([snapshots[each] for each in sorted(snapshots)] for snapshots in waiting.values())
        batch = list(islice(merge(*in_order, key=_time_and_id), limit))
        if not batch:
            return self
        nodes = dict(self.nodes)
        for manifest in batch:
            nodes[manifest.node] = nodes.get(manifest.node, NodeProgress()).after(manifest)
        return Progress(nodes, tuple(manifest.id for manifest in batch))

    def news(self, batch: Iterable[Manifest]) -> list[tuple[Manifest, dict[str, int]]]:
        """For each snapshot of the ``batch`` that follows this progress, the first numbers in it that are new."""
        nodes = dict(self.nodes)
        news = []
        for manifest in batch:
            known = nodes.get(manifest.node, NodeProgress())
            news.append((manifest, known.numbers_from(manifest)))
            nodes[manifest.node] = known.after(manifest)
        return news

    def to_json(self) -> dict[str, Any]:
        """The progress as plain values."""
        nodes = {
            name: {"taken": [list(each) for each in node.taken], "numbers": dict(node.numbers)} for name, node in self.nodes.items()
        }
        return {"format": 1, "nodes": nodes, "batch": list(self.batch)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Progress:
        """The progress that ``to_json`` wrote.

        Raises:
            ValueError: a newer version wrote it.
        """
        if fields["format"] != 1:
            raise ValueError(f"the stream's offset has format {fields['format']}; this version of Bascule knows 1")
        nodes = {
            name: NodeProgress(tuple((epoch, at_ms) for epoch, at_ms in node["taken"]), dict(node["numbers"]))
            for name, node in fields["nodes"].items()
        }
        return cls(nodes, tuple(fields["batch"]))


def made(manifest: Manifest) -> Made:
    """Where a snapshot stands among those of its node: a clock may be set back, the lives of a store are not."""
    return manifest.epoch, manifest.at_ms


def _time_and_id(manifest: Manifest) -> tuple[int, str]:
    return manifest.at_ms, manifest.id


def _numbers(manifest: Manifest) -> list[tuple[str, tuple[int, int]]]:
    """By queue, and for the node's events, the numbers ``[first, next)`` that the snapshot has; not of those that never had one."""
    named = [(queue.name, queue.settlements) for queue in manifest.queues if not queue.damaged]
    return [(name, numbers) for name, numbers in [*named, (EVENTS, manifest.events)] if numbers[1] > 0]
