"""Planted bugs in what a change of the configuration must keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from actors.broker.distributor import Distributor
from storage.engine.engine import Write
from storage.engine.queue_numbers import QueueNumbers
from storage.store.lane_changes import LaneChanges
from storage.store.store import Store
from supervisor.tree.child_lives import Lives
from wire.config_settings import BridgeSettings, RuleSettings
from wire.frames.batch import Batch
from wire.frames.names import lane_of_queue, queue_name
from wire.routing.bridge_rules import BridgeRules
from wire.routing.form_for_remote import RemoteForm
from wire.routing.message_route import MessageRoute


def _unconfigured_forgotten(original: Any) -> Any:
    def open_all(self: Store, engine: Any, settings: Any, epoch: int) -> None:
        configured = {queue_name(bridge.name, lane) for bridge in settings.now.bridges for lane in range(bridge.lanes)}
        write = Write()
        for name in QueueNumbers(engine).names():
            if lane_of_queue(name) is not None and name not in configured:
                write.delete("meta", b"N" + name.encode())
        if write:
            engine.commit(write, sync=True)
        original(self, engine, settings, epoch)

    return open_all


def _keeps_rules(original: Any) -> Any:
    def init(self: Any, bridge: BridgeSettings, **named: Any) -> None:
        original(self, bridge, **named)
        self.rules_now = bridge.local_subscriptions

    return init


def _called_by_place(original: Any) -> Any:
    def init(self: BridgeRules, bridges: Sequence[BridgeSettings], **options: Any) -> None:
        def numbered(bridge: BridgeSettings) -> BridgeSettings:
            rules = [replace(rule, name=f"rule-{place}") for place, rule in enumerate(bridge.local_subscriptions)]
            return replace(bridge, local_subscriptions=tuple(rules))

        original(self, [numbered(bridge) for bridge in bridges], **options)

    return init


def _found_by(rule_now: Callable[[Any, MessageRoute], RuleSettings | None]) -> Any:
    """Each way of a batch is the one of a rule that is in the file now, where ``rule_now`` names one."""

    def planted(original: Any) -> Any:
        def transform(self: Any, batch: Batch, **named: Any) -> Any:
            known = [(encoded, rule_now(self, MessageRoute.decode(encoded))) for encoded in batch.routes]
            routes = [encoded if rule is None else MessageRoute.of(rule).encode() for encoded, rule in known]
            return original(self, replace(batch, routes=routes), **named)

        return transform

    return planted


def _by_place(form: Any, route: MessageRoute) -> RuleSettings | None:
    place = route.rule.removeprefix("rule-")
    return form.rules_now[int(place)] if place.isdecimal() and int(place) < len(form.rules_now) else None


def _by_name(form: Any, route: MessageRoute) -> RuleSettings | None:
    return next((rule for rule in form.rules_now if rule.name == route.rule), None)


def _never_held_back(original: Any) -> Any:
    return lambda self, lane: None


def _not_on_record(original: Any) -> Any:
    return lambda self, write: self.unwritten.clear()


def _first_rules_kept(original: Any) -> Any:
    return lambda self, settings: None if hasattr(self, "_router") else original(self, settings)


def _not_run(original: Any) -> Any:
    return lambda self: None


PLANTED: tuple[tuple[str, str, tuple[tuple[Any, str, Any], ...]], ...] = (
    ("P7/removed-bridge-forgotten", "a removed bridge's queue is forgotten", ((Store, "__init__", _unconfigured_forgotten),)),
    (
        "P7/rules-of-before",
        "the Distributor goes on by the rules that it began with",
        ((Distributor, "route_by", _first_rules_kept),),
    ),
    (
        "P7/rule-by-place",
        "what a rule took goes by the rule that has its place in the file now",
        (
            (RemoteForm, "__init__", _keeps_rules),
            (BridgeRules, "__init__", _called_by_place),
            (RemoteForm, "transform", _found_by(_by_place)),
        ),
    ),
    (
        "P7/rule-by-name",
        "what a rule took goes by what a rule of its name says now",
        ((RemoteForm, "__init__", _keeps_rules), (RemoteForm, "transform", _found_by(_by_name))),
    ),
    (
        "store.former-lanes-drain-first/not-held-back",
        "after another number of lanes all queues are handed out at once",
        ((LaneChanges, "below", _never_held_back),),
    ),
    (
        "store.former-lanes-drain-first/never-written",
        "the number of lanes is not written down",
        ((LaneChanges, "write_rows", _not_on_record),),
    ),
    (
        "store.former-lanes-drain-first/former-not-run",
        "nobody empties a lane that is not configured any more",
        ((Lives, "run_former_lanes", _not_run),),
    ),
)
