"""Keeps the events of the node, what the rows are is ``event_rows``'; and makes those that the store itself sees. Bounded.

An event goes with the next commit, and asks for no sync of its own. Losses of a queue are read off its ledger once a second, so
that counting costs nothing where messages pass. How much of it has been told is on record beside the events: what a store lost in
its last second, the next one tells.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgpack

from storage.engine.engine import Engine, Write
from storage.engine.keys import reported_key
from storage.queue.history import ROW_BYTES
from storage.queue.ledger import Ledger
from storage.store.event_rows import Detail, Event, event_key, event_number
from wire.clock_steps import elapsed_ms
from wire.config_settings import SettingsNow
from wire.errors import ConfigError, StorageDamaged
from wire.figure import joined
from wire.frames.names import LaneLabel
from wire.status.answers import Event as EventRow
from wire.status.event_kinds import EventKind
from wire.status.loss_reasons import THINNED
from wire.status.states import StoreState
from wire.status.store import EventFigures

log = logging.getLogger("bascule")

WAITING_MAX = 1000
REPORT_PERIOD_S = 10.0  # of what repeats, by bridge, lane and reason
CUT_TOLD_PERIOD_S = 3600.0  # of histories that are as long as they may be
TRIM_PERIOD_S = 60.0
TRIMMED_MAX = 1000  # events looked at for their age at once
CLOCK_JUMP_MS = 2000
OVERFLOW_ENDS_S = 10.0
_PAGE_BYTES = 256 << 10
_LAST = (1 << 64) - 1

_About = tuple[EventKind, str, LaneLabel, str]  # kind, bridge, lane, reason
_Losses = dict[tuple[EventKind, str], int]  # of each kind and reason: messages


class EventLog:
    """The events of a node. It does nothing if nothing is durable, or no events are wanted."""

    def __init__(self, engine: Engine, settings: SettingsNow) -> None:
        """Find where the rows begin and end.

        Raises:
            Unavailable: the disk refuses.
        """
        self._engine = engine
        self._settings = settings
        self._first = self._next = 0
        self.waiting: list[Event] = []  # for the next commit
        self._uncommitted: list[Event] = []  # in the open write, the last of the numbers given
        self._lost = 0
        self._trimmed_s = float("-inf")
        self._said_s: dict[_About, float] = {}
        self._counted: dict[_About, int] = {}
        self._told: dict[int, _Losses] = {}  # by the queue's number: kind, reason, how many
        self._newly_told: set[int] = set()  # not on record yet
        self._overflows: dict[str, _Overflow] = {}
        self._disk: tuple[str, int] | None = None  # why it is full, since when
        self._skew_ms: float | None = None
        self._damaged = False
        try:
            last = engine.seek_before("history", event_key(_LAST), event_key(0)) if engine.durable else None
            if last is not None:
                self._next = event_number(last[0]) + 1
                first = next(engine.scan("history", event_key(0), event_key(_LAST)), last)
                self._first = event_number(first[0])
        except StorageDamaged as error:
            self._forget(error)

    # --- what happens ---

    @property
    def kept(self) -> bool:
        """Whether any are."""
        return self._engine.durable and self._settings.now.persistence.events.max > 0

    def add(self, event: Event) -> None:
        """Keep ``event``, with the next commit."""
        if not self.kept:
            return
        if len(self.waiting) >= WAITING_MAX:
            self._lost += 1
        else:
            self.waiting.append(event)

    def note(
        self,
        at_ms: int,
        kind: EventKind,
        *,
        actor: str,
        bridge: str = "",
        lane: LaneLabel = -1,
        reason: str = "",
        count: int = 0,
        **details: Detail,
    ) -> None:
        """Keep what happened ``at_ms``, with the next commit."""
        self.add(Event(at_ms=at_ms, kind=kind, bridge=bridge, lane=lane, actor=actor, reason=reason, count=count, details=details))

    def count(self, kind: EventKind, bridge: str, lane: LaneLabel, reason: str, count: int) -> None:
        """Count what happens again and again; it is told now and then."""
        if count > 0 and self.kept:
            about = (kind, bridge, lane, reason)
            self._counted[about] = self._counted.get(about, 0) + count

    def ledger(self, number: int, bridge: str, lane: LaneLabel, ledger: Ledger, now_s: float, wall_ms: int) -> None:
        """Tell what queue ``number`` has lost since that was told the last time.

        Raises:
            Unavailable: the disk refuses to say what has been told.
        """
        losses = _losses(ledger) if self.kept else {}
        if not losses:
            return
        told = self._told.get(number)
        if told is None:
            told = self._told[number] = self._read_reported(number, losses)
        for (kind, reason), total in losses.items():
            count = total - told.get((kind, reason), 0)
            if count > 0 and self._start_report((kind, bridge, lane, reason), now_s, REPORT_PERIOD_S):
                told[kind, reason] = total
                self._newly_told.add(number)
                self._report(wall_ms, kind, bridge, lane, reason, count, total=total)

    def _read_reported(self, number: int, losses: _Losses) -> _Losses:
        """The reported losses of queue ``number`` on record. If that is damaged, ``losses`` pass for reported."""
        try:
            row = self._engine.get("meta", reported_key(number))
            return {} if row is None else {(EventKind(kind), reason): total for kind, reason, total in msgpack.unpackb(row)}
        except (StorageDamaged, ValueError, TypeError, msgpack.UnpackException) as error:
            log.error("events.damaged", extra={"error": str(error), "queue": number})
            return losses

    def on_overflowed(self, room: str, policy: str, count: int, now_s: float, wall_ms: int) -> None:
        """A limit of a bridge, a class or the node, as ``Lane.room`` tells of them, refused or dropped ``count`` messages."""
        if not self.kept:
            return
        overflow = self._overflows.get(room)
        if overflow is None:
            overflow = self._overflows[room] = _Overflow(policy, wall_ms)
            self._report(wall_ms, EventKind.OVERFLOW_BEGAN, *_whose(room), policy, 0)
        overflow.count += count
        overflow.met_s, overflow.met_ms = now_s, wall_ms

    def disk(self, reason: str, wall_ms: int, free_bytes: int | None) -> None:
        """The disk, or the replicated log, takes nothing for ``reason``, or with an empty one: it takes what there is."""
        if bool(reason) == (self._disk is not None):
            return
        free: dict[str, Detail] = {} if free_bytes is None else {"free_bytes": free_bytes}
        if reason:
            self._disk = reason, wall_ms
            kind, facts = (EventKind.LOG_AWAY, {}) if reason == StoreState.LOG_AWAY else (EventKind.DISK_FULL, free)
            self._report(wall_ms, kind, "", -1, reason, 0, **facts)
        elif self._disk is not None:
            (was, since_ms), self._disk = self._disk, None
            kind, facts = (EventKind.LOG_AVAILABLE, {}) if was == StoreState.LOG_AWAY else (EventKind.DISK_AVAILABLE, free)
            self._report(wall_ms, kind, "", -1, was, 0, lasted_ms=wall_ms - since_ms, **facts)

    def clock(self, now_s: float, wall_ms: int) -> None:
        """The clocks' readings; call it about once a second."""
        skew_ms = wall_ms - now_s * 1000
        if self._skew_ms is not None and abs(skew_ms - self._skew_ms) > CLOCK_JUMP_MS:
            self._report(wall_ms, EventKind.CLOCK_JUMPED, "", -1, "", 0, by_ms=int(skew_ms - self._skew_ms))
        self._skew_ms = skew_ms

    # --- keeping ---

    @property
    def numbers(self) -> tuple[int, int]:
        """Of the first event that is kept and of the next one, once the open write is committed."""
        return self._first, self._next

    def tick(self, write: Write, now_s: float, wall_ms: int) -> None:
        """Housekeeping: events that are too old or too many are deleted with ``write``; call it about once a second."""
        if not self.kept:
            if self._next > self._first:  # none are wanted any more
                write.delete_range("history", event_key(self._first), event_key(self._next - 1))
                self._first = self._next
            return
        for room, overflow in tuple(self._overflows.items()):
            if now_s - overflow.met_s >= OVERFLOW_ENDS_S:
                del self._overflows[room]
                lasted_ms = overflow.met_ms - overflow.since_ms
                about = EventKind.OVERFLOW_ENDED, *_whose(room), overflow.policy
                self._report(overflow.met_ms, *about, overflow.count, lasted_ms=lasted_ms)
        for about, count in tuple(self._counted.items()):
            period_s = CUT_TOLD_PERIOD_S if about[0] == EventKind.HISTORY_CUT else REPORT_PERIOD_S
            if self._start_report(about, now_s, period_s):
                del self._counted[about]
                self._report(wall_ms, *about, count)
        if now_s - self._trimmed_s >= TRIM_PERIOD_S:
            self._trimmed_s = now_s
            self._trim(write, wall_ms)

    @property
    def kept_bytes(self) -> int:
        """About what the disk keeps of them; an event takes about what a settlement does."""
        return (self._next - self._first) * ROW_BYTES

    def put(self, write: Write, wall_ms: int) -> None:
        """Put what waits into ``write``; call it before a commit."""
        if self._damaged:  # which numbers were given is not known: none of these
            self._damaged = False
            write.delete_range("history", event_key(0), event_key(_LAST))
            self._first = self._next = wall_ms * 1000
            self._uncommitted.clear()
        if self._lost:
            self.waiting.append(Event(at_ms=wall_ms, kind=EventKind.EVENTS_LOST, count=self._lost))
            self._lost = 0
        if self.waiting and not self._uncommitted:
            write.on_commit(self._uncommitted.clear)
        for event in self.waiting:
            write.put("history", event_key(self._next), event.encode())
            self._next += 1
        self._uncommitted += self.waiting
        self.waiting.clear()
        for number in self._newly_told:
            write.put("meta", reported_key(number), msgpack.packb([(*about, total) for about, total in self._told[number].items()]))
        self._newly_told.clear()

    def _trim(self, write: Write, wall_ms: int) -> None:
        """The newest always stays, so that its number is known."""
        kept = self._settings.now.persistence.events
        first = max(self._first, self._next - kept.max)
        try:
            for key, value in self._engine.scan("history", event_key(first), event_key(max(first, self._next - 1))):
                young = elapsed_ms(Event.decode(value).at_ms, wall_ms) <= kept.max_age_s * 1000
                if young or event_number(key) - first >= TRIMMED_MAX:
                    break
                first = event_number(key) + 1
        except (StorageDamaged, ConfigError) as error:
            self._forget(error)
            return
        if first > self._first:
            write.delete_range("history", event_key(self._first), event_key(first))
            self._first = first

    def _forget(self, error: Exception) -> None:
        log.error("events.damaged", extra={"error": str(error)})
        self._damaged = True

    # --- showing ---

    def read(self, start: int, count: int) -> tuple[tuple[EventRow, ...], int]:
        """At most ``count`` events from number ``start`` on, as ``bascule events`` shows them; and where the next page begins.

        Those that wait for the disk are among them, under the numbers that they will have.

        Raises:
            StorageDamaged, ConfigError, Unavailable: they cannot be read.
        """
        rows: list[EventRow] = []
        following, size_bytes = max(start, self._first), 0
        committed = self._next - len(self._uncommitted)
        for key, value in self._engine.scan("history", event_key(following), event_key(max(following, committed))):
            following, size_bytes = event_number(key) + 1, size_bytes + len(value)
            rows.append(joined(EventRow, Event.decode(value), number=event_number(key)))
            if len(rows) >= count or size_bytes >= _PAGE_BYTES:
                return tuple(rows), following
        for number, event in enumerate((*self._uncommitted, *self.waiting), committed):
            if number >= following and len(rows) < count:
                following = number + 1
                rows.append(joined(EventRow, event, number=number))
        return tuple(rows), following

    @property
    def next(self) -> int:
        """The number of the next event."""
        return self._next + len(self.waiting)

    def figures(self) -> EventFigures:
        """For ``bascule status``."""
        return EventFigures(kept=self._next - self._first, next=self._next)

    # --- inside ---

    def _start_report(self, about: _About, now_s: float, period_s: float) -> bool:
        if now_s - self._said_s.get(about, float("-inf")) < period_s:
            return False
        self._said_s[about] = now_s
        return True

    def _report(
        self, at_ms: int, kind: EventKind, bridge: str, lane: LaneLabel, reason: str, count: int, **details: Detail
    ) -> None:
        self.add(Event(at_ms=at_ms, kind=kind, bridge=bridge, lane=lane, reason=reason, count=count, details=details))


class _Overflow:
    """One that lasts."""

    __slots__ = ("count", "met_ms", "met_s", "policy", "since_ms")

    def __init__(self, policy: str, since_ms: int) -> None:
        self.policy = policy
        self.since_ms = self.met_ms = since_ms
        self.met_s = 0.0
        self.count = 0


def _whose(room: str) -> tuple[str, LaneLabel]:
    """Of which bridge, and of which class of it, ``room`` is."""
    bridge, _, name = room.partition(":")
    return bridge, name or -1


def _losses(ledger: Ledger) -> _Losses:
    """Kind and reason of every loss in ``ledger``, and how many messages."""
    losses = {(EventKind.MESSAGES_EXPIRED, ""): ledger.expired} if ledger.expired else {}
    losses.update(
        {(EventKind.MESSAGES_DROPPED, reason): count for reason, count in ledger.dropped.items() if reason not in THINNED}
    )
    losses.update({(EventKind.MESSAGES_DEAD, reason): count for reason, count in ledger.dead.items()})
    return losses


def event_of(values: tuple[int, str, str, LaneLabel, str, str, int, Mapping[str, Detail]]) -> Event:
    """The event that a frame ``NodeEvents`` carries."""
    at_ms, kind, bridge, lane, actor, reason, count, details = values
    return Event(at_ms=at_ms, kind=kind, bridge=bridge, lane=lane, actor=actor, reason=reason, count=count, details=details)
