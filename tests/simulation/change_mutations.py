"""Planted bugs in what a change of the configuration must keep."""

from __future__ import annotations

from typing import Any

from storage.engine import Write
from storage.keys import QueueNumbers
from storage.lane_changes import LaneChanges
from storage.tier1 import Tier1
from supervisor.supervisor import Supervisor
from wire.names import lane_of_queue, queue_name
from wire.outgoing import RemoteForm


def _unconfigured_forgotten(original: Any) -> Any:
    def open_all(self: Tier1, engine: Any, settings: Any, epoch: int) -> None:
        configured = {queue_name(bridge.name, lane) for bridge in settings.bridges for lane in range(bridge.lanes)}
        write = Write()
        for name in QueueNumbers(engine).names():
            if lane_of_queue(name) is not None and name not in configured:
                write.delete("meta", b"N" + name.encode())
        if write:
            engine.commit(write, sync=True)
        original(self, engine, settings, epoch)

    return open_all


def _unmapped(original: Any) -> Any:
    def mapped(self: RemoteForm, topic: bytes, rule_number: int) -> Any:
        found = original(self, topic, rule_number)
        return (topic, None) if rule_number in self.unknown_rules else found

    return mapped


def _never_held_back(original: Any) -> Any:
    return lambda self, lane: None


def _not_on_record(original: Any) -> Any:
    return lambda self, write: self._unwritten.clear()


def _not_run(original: Any) -> Any:
    return lambda self, queues: None


PLANTED: tuple[tuple[str, str, tuple[tuple[Any, str, Any], ...]], ...] = (
    ("P7-removed-bridge-forgotten", "a removed bridge's queue is forgotten", ((Tier1, "__init__", _unconfigured_forgotten),)),
    (
        "P7-renamed-rule-unmapped",
        "what a rule queued keeps its topic once the rule has another name",
        ((RemoteForm, "_map", _unmapped),),
    ),
    (
        "K1-not-held-back",
        "after another number of lanes all queues are handed out at once",
        ((LaneChanges, "below", _never_held_back),),
    ),
    ("K2-lanes-not-on-record", "the number of lanes is not written down", ((LaneChanges, "write_rows", _not_on_record),)),
    (
        "K1-former-lanes-not-run",
        "nobody empties a lane that is not configured any more",
        ((Supervisor, "_empty_former_lanes", _not_run),),
    ),
)
