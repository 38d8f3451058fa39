"""Planted bugs in what options of a bridge add: messages that are held or left out, sent again, or brought as what was retained; a
lane beside a backlog; the words of a bridge about itself.
"""

from __future__ import annotations

from typing import Any

from storage.engine.engine import Write
from storage.engine.keys import HELD, RULE_PASSES
from storage.queue.thinned_topics import HeldMessage, ThinnedTopics
from storage.store.history_resends import Resends
from storage.store.retained_pieces import RetainedPieces
from storage.store.thinned_messages import ThinnedMessages
from wire.exchange.announcements import Announcements
from wire.routing.live_lanes import LiveLanes
from wire.routing.node_topics import TopicsToTell
from wire.status.loss_reasons import Loss


def _without(write: Write, kind: bytes, operation: str) -> None:
    write.ops[:] = [op for op in write.ops if not (op[0] == operation and op[1] == "meta" and op[2][:1] == kind)]


def _held_in_memory(original: Any) -> Any:
    def take(self: ThinnedMessages, found: Any) -> None:
        original(self, found)
        _without(self._next.write, HELD, "put")

    return take


def _row_stays(original: Any) -> Any:
    def tick(self: ThinnedMessages, wall_ms: int) -> None:
        original(self, wall_ms)
        _without(self._next.write, HELD, "delete")

    return tick


def _stands_for_any(original: Any) -> Any:
    def gives_way_to(self: HeldMessage, newer: HeldMessage) -> str | None:
        return Loss.SUPERSEDED.dropped if self.thinning == newer.thinning else original(self, newer)

    return gives_way_to


def _behind_what_is_newer(original: Any) -> Any:
    def sift(self: ThinnedTopics, *arguments: Any, **named: Any) -> Any:
        found = original(self, *arguments, **named)
        stay = {message.topic: message for message in found.before}
        found.before = []
        found.gone -= stay.keys()
        return found

    return sift


def _run_not_on_record(original: Any) -> Any:
    def go_on(self: Resends, name: str, source: Any, stretch: Any, rooms: Any, write: Write, *, count: int) -> Any:
        return original(self, name, source, stretch, rooms, Write(), count=count)

    return go_on


def _file_not_on_record(original: Any) -> Any:
    def go_on(self: Resends, name: str, first: int, below: int, messages: Any, rooms: Any, write: Write) -> Any:
        return original(self, name, first, below, messages, rooms, Write())

    return go_on


def _pass_not_on_record(original: Any) -> Any:
    def serve(self: RetainedPieces, now_s: float, wall_ms: int) -> Any:
        effects = original(self, now_s, wall_ms)
        _without(self._next.write, RULE_PASSES, "put")
        return effects

    return serve


def _brought_at_each_start(original: Any) -> Any:
    def changed(self: RetainedPieces) -> None:
        self._rules.clear()
        original(self)

    return changed


def _back_into_the_backlog(original: Any) -> Any:
    def look(self: LiveLanes, *arguments: Any) -> None:
        original(self, *arguments)
        self.backlogs = {queue for queue in self.backlogs if self._lanes[queue].queue.depth}

    return look


def _one_way_only(original: Any) -> Any:
    return property(lambda self: 0)


def _told_from_the_start(original: Any) -> Any:
    def init(self: TopicsToTell) -> None:
        original(self)
        self.told = True

    return init


PLANTED: tuple[tuple[str, str, tuple[tuple[Any, str, Any], ...]], ...] = (
    ("store.held-enters-once/in-memory", "what is held has no row", ((ThinnedMessages, "take", _held_in_memory),)),
    ("store.held-enters-once/row-stays", "the row of what was held stays when it enters", ((ThinnedMessages, "tick", _row_stays),)),
    (
        "queue.never-thinned/any-stands-for-it",
        "QoS 0 stands for what was promised",
        ((HeldMessage, "gives_way_to", _stands_for_any),),
    ),
    (
        "queue.held-gives-way-in-order/stays-behind",
        "what is held stays while something newer of its topic enters",
        ((ThinnedTopics, "sift", _behind_what_is_newer),),
    ),
    ("store.resent-once/not-on-record", "a run is not on record", ((Resends, "go_on", _run_not_on_record),)),
    (
        "store.resent-once/file-not-on-record",
        "a run through a file is not on record",
        ((Resends, "go_on_with_lines", _file_not_on_record),),
    ),
    (
        "store.rule-brings-once/not-on-record",
        "how far a rule is goes with a crash",
        ((RetainedPieces, "serve", _pass_not_on_record),),
    ),
    (
        "store.rule-brings-once/at-each-start",
        "a rule brings all again at each start and reload",
        ((RetainedPieces, "settings_changed", _brought_at_each_start),),
    ),
    (
        "routing.live-beside-backlog/back-too-early",
        "a backlog ends with its own lane, whatever waits beside it",
        ((LiveLanes, "look", _back_into_the_backlog),),
    ),
    (
        "exchange.announced-in-window/not-counted",
        "a bridge's own words take no place of the window",
        ((Announcements, "in_flight_max", _one_way_only),),
    ),
    (
        "broker.link-states-before-clients/at-once",
        "clients are let in before anything is known of the links",
        ((TopicsToTell, "__init__", _told_from_the_start),),
    ),
)
