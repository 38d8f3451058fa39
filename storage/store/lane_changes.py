"""Messages that wait because the number of a bridge's lanes has changed. Pure over the engine's protocol.

A topic takes one lane of a bridge, by a hash over the number of lanes, so another number brings a topic to another lane, where it
would overtake what waits in its former one. The number changes between two lives of the store, which notices when it opens; or
while it runs, between two batches: each tells by which number it was routed. One that is sent again after the change may have been
routed before it, so the number may change back, and on again. Lanes with names have no part in this: a topic is in the lane of a
class because its rule says so, and no number has a say.

store.former-lanes-drain-first [P3, P4, alive]: what was accepted while the number of lanes was one number is handed out only when
    everything from before has left its queue, in whatever lane that is; if the number changes again meanwhile, so for each change
    in turn. A lane that has nothing, or whose files are damaged so that it stands still, keeps nobody waiting.
    The number of lanes, and where the queues stood when it changed, are on record in or before the commit of the first message that
    takes its lane by that number.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgpack

from storage.engine.engine import Engine, Write
from storage.engine.keys import lanes_key
from storage.queue.ledger import unpack_row
from storage.store.lane import Lane
from wire.config_settings import BridgeSettings, SettingsNow
from wire.errors import StorageDamaged
from wire.frames.names import LaneLabel, queue_name

log = logging.getLogger("bascule")

ROW_VERSION = 1

_Marks = dict[int, int]  # lane -> where its queue stood: what is below it goes first


class LaneChanges:
    """Which queues are handed out only in part, for every configured bridge.

    waiting: the changes of bridges where something waits, the oldest first; none if there is no such bridge.
    """

    def __init__(self, engine: Engine, settings: SettingsNow, lanes: Mapping[str, Lane]) -> None:
        """Read what is on record, and compare it with the configuration. lanes: every queue of a bridge that there is, by name.

        Raises:
            ConfigError: a newer build wrote the record.
        """
        self._engine = engine
        self._settings = settings
        self._lanes = lanes
        self._counts: dict[str, int] = {}  # by which the last batch was routed, or the next one is
        self.waiting: dict[str, list[_Marks]] = {}
        self.unwritten: set[str] = set()
        bridges = settings.now.bridges
        self.routed_by = tuple((bridge.name, bridge.lanes) for bridge in bridges if bridge.lanes > 1)  # as a batch has it
        self.settings_changed()

    def settings_changed(self) -> None:
        """Batches will be routed by others. The record of bridges that are new is compared with them.

        Raises:
            ConfigError: a newer build wrote the record.
        """
        for bridge in self._settings.now.bridges:
            if bridge.name not in self._counts:
                before, changes, on_record = self._read(self._engine, bridge)
                self._counts[bridge.name] = before
                if changes:
                    self.waiting[bridge.name] = changes
                if not on_record:
                    self.unwritten.add(bridge.name)
                self._route(bridge.name, bridge.lanes)

    def route(self, lanes: tuple[tuple[str, int], ...]) -> None:
        """The next batch was routed by these numbers, and by 1 where it has none; that before it was routed by others."""
        self.routed_by = lanes
        counts = dict(lanes)
        for bridge in self._settings.now.bridges:
            self._route(bridge.name, counts.get(bridge.name, 1))

    def _route(self, bridge: str, lanes: int) -> None:
        """Topics take their lanes by this number from here on."""
        before = self._counts[bridge]
        if lanes != before:
            self._counts[bridge] = lanes
            self.unwritten.add(bridge)
            log.info("lanes.changed", extra={"bridge": bridge, "lanes": lanes, "before": before, "first": self._wait(bridge)})

    def _wait(self, bridge: str) -> list[int]:
        """Messages in the queues of ``bridge`` go first; the lanes that have some."""
        marks = {number: lane.queue.appended.seq for number, lane in self._of(bridge).items() if lane.queue.depth}
        if marks:
            self.waiting.setdefault(bridge, []).append(marks)
            self.unwritten.add(bridge)
        return sorted(marks)

    def _read(self, engine: Engine, bridge: BridgeSettings) -> tuple[int, list[_Marks], bool]:
        """The number of lanes by which the messages in the queues took theirs, what is to go first, and whether that is on record.

        Without a record, the lanes that were used tell the number, or a smaller one.
        """
        value = engine.get("meta", lanes_key(bridge.name))
        if value is not None:
            try:
                count, changes = unpack_row(value, ROW_VERSION, what="bridge", name=bridge.name)
                return int(count), [{int(lane): int(mark) for lane, mark in marks.items()} for marks in changes], True
            except (StorageDamaged, ValueError, TypeError, AttributeError) as error:
                log.critical("bridge.row_damaged", extra={"bridge": bridge.name, "error": str(error)})
        used = [number for number, lane in self._of(bridge.name).items() if lane.queue.ledger.accepted]
        return max(used, default=bridge.lanes - 1) + 1, [], False

    def below(self, lane: Lane) -> int | None:
        """Up to which sequence the queue of ``lane`` may be handed out now; None: all of it."""
        changes = self.waiting.get(lane.bridge)
        return None if changes is None or isinstance(lane.label, str) else changes[0].get(lane.label, 0)

    def waits_for(self, lane: Lane) -> list[int]:
        """The lanes that have to send first what came before the change; none if ``lane`` itself has still to, or need not wait."""
        own = self.below(lane)
        if own is None or not lane.queue.depth or not self._is_through(lane.bridge, lane.label, own):
            return []
        marks = self.waiting[lane.bridge][0]
        return [number for number, mark in sorted(marks.items()) if not self._is_through(lane.bridge, number, mark)]

    def advance(self) -> list[str]:
        """Call it when messages have left their queues: the queues of which more may be handed out now than before."""
        freed: list[str] = []
        for bridge, changes in list(self.waiting.items()):
            before = len(changes)
            while changes and all(self._is_through(bridge, number, mark) for number, mark in changes[0].items()):
                del changes[0]
            if len(changes) < before:
                self.unwritten.add(bridge)
                freed += [queue_name(bridge, number) for number in self._of(bridge)]
            if not changes:
                del self.waiting[bridge]
                log.info("lanes.in_use", extra={"bridge": bridge, "lanes": self._counts[bridge]})
        return freed

    def write_rows(self, write: Write) -> None:
        """Put what has changed on record with ``write``."""
        for bridge in sorted(self.unwritten):
            write.put("meta", lanes_key(bridge), msgpack.packb((ROW_VERSION, self._counts[bridge], self.waiting.get(bridge, []))))
        self.unwritten.clear()

    def went_back(self) -> None:
        """Commits are missing: what they held of this is put on record again."""
        self.unwritten.update(self._counts)

    def _of(self, bridge: str) -> dict[int, Lane]:
        """Its lanes over which topics are spread, by number."""
        return {lane.label: lane for lane in self._lanes.values() if lane.bridge == bridge and isinstance(lane.label, int)}

    def _is_through(self, bridge: str, number: LaneLabel, mark: int) -> bool:
        lane = self._lanes.get(queue_name(bridge, number))
        if lane is None or lane.is_stopped:
            return True
        # Messages that were dropped or have expired have left only when that is on record: a crash would bring them back.
        return not lane.discarding and (not lane.queue.depth or lane.queue.head >= mark)
