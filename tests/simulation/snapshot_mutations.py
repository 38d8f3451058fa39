"""Bugs planted in snapshots: the simulation has to find each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from storage.queue.queue import Queue
from storage.store import store
from storage.store.checkpoint import CheckpointStands, QueueStands
from storage.store.store import Store
from wire.frames.frame import Ranges


def _committed(now_s: float, wall_ms: int) -> bool:
    return True


def _before_the_commit(original: Any) -> Any:
    def checkpoint(self: Store, path: str, now_s: float, wall_ms: int) -> CheckpointStands:
        commit, self.commit_now = self.commit_now, _committed  # type: ignore[method-assign]
        try:
            standing: CheckpointStands = original(self, path, now_s, wall_ms)
        finally:
            self.commit_now = commit  # type: ignore[method-assign]
        return standing

    return checkpoint


def _in_the_middle(original: Any) -> Any:
    """The commit in front of a snapshot is left out, and with it that in front of a stop, which nobody misses."""

    def commit(self: Store, now_s: float, wall_ms: int, *, at_once: bool = False) -> Any:
        return [] if at_once else original(self, now_s, wall_ms)

    return commit


def _with_qos_0(original: Any) -> Any:
    def note(*arguments: Any, **keys: Any) -> QueueStands:
        stands: QueueStands = original(*arguments, **keys)
        facts = stands.facts
        return replace(stands, facts=replace(facts, depth=facts.depth + facts.volatile.messages))

    return note


def _settled_in_flight(original: Any) -> Any:
    def in_flight_ranges(self: Queue) -> Ranges:
        head, cursor = self.counts.head, self._cursor.seq
        return ((head, cursor),) if cursor > head else ()

    return in_flight_ranges


PLANTED: tuple[tuple[str, str, tuple[tuple[Any, str, Any], ...]], ...] = (
    (
        "store.snapshot-as-rows-say/before-the-commit",
        "the figures are ahead of the rows",
        ((Store, "checkpoint", _before_the_commit), (Store, "commit", _in_the_middle)),
    ),
    ("store.snapshot-as-rows-say/qos0-counted", "messages in memory count as durable", ((store, "note", _with_qos_0),)),
    (
        "store.snapshot-as-rows-say/settled-in-flight",
        "settled messages count as in flight",
        ((Queue, "in_flight_ranges", _settled_in_flight),),
    ),
)
