"""Troubles that a status and the events since the last look show, each by its kind and by whom it is about. Pure.

What lasts stands as long as it is found. A single event is found once. A count that only grows, such as of refused clients, is a
trouble while it grows: it is over once it has stood still for ``CALM_S``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from supervisor.notify.growth import Growth
from supervisor.terminal.queue_room import fullness
from supervisor.units import counted, write_duration, write_size
from wire.config_settings import NoticeSettings
from wire.status.answers import Event
from wire.status.bridges import BridgeLane
from wire.status.client_figures import ListenerFigures
from wire.status.event_kinds import EventKind
from wire.status.loss_reasons import INTENDED, OF_QUEUES, cure_of_loss
from wire.status.node_status import Status
from wire.status.states import NO_TROUBLE, ChildState, StoreState
from wire.trouble_kinds import TroubleKind

CLOCK_STEP_MS = 5_000  # a smaller one is a correction
NODE = "node"


_EVENTS = {
    EventKind.PROCESS_ENDED: TroubleKind.PROCESS_ENDED,
    EventKind.CLOCK_JUMPED: TroubleKind.CLOCK_STEP,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One trouble. about: ``bridge cloud:0``, ``node`` ...; text: what is the matter, cure: what to do, in words.

    since_s: how long it lasts already, where the status says so. at_ms: when a single event happened. known: whether the status
    tells; if not, what stood goes on standing.
    """

    kind: TroubleKind
    about: str
    text: str
    cure: str = ""
    bridge: str = ""
    since_s: float = 0.0
    at_ms: int | None = None
    known: bool = True


def troubles_of(
    rule: NoticeSettings, status: Status, certificates: Mapping[str, float], growth: Growth, now_s: float
) -> Iterator[Trouble]:
    """Those that last, of the kinds that ``rule`` is for. certificates: of listeners and HTTP, in how many seconds each ends."""
    for kind in rule.when:
        if (found := _OF_KIND.get(TroubleKind(kind))) is not None:
            yield from found(rule, status, growth, now_s)
    if TroubleKind.CERTIFICATE in rule.when and not rule.bridges:
        for path, ends_in_s in certificates.items():
            if ends_in_s < rule.within_s:
                yield _ending(
                    TroubleKind.CERTIFICATE, path, "the certificate", ends_in_s, "put another there; it is read when it changes"
                )


def troubles_of_events(rule: NoticeSettings, events: Sequence[Event]) -> Iterator[Trouble]:
    """Single events of the kinds that ``rule`` is for."""
    for event in events:
        kind = next((kind for known, kind in _EVENTS.items() if event.kind == known), None)
        if kind not in rule.when:
            continue
        match kind:
            case TroubleKind.CLOCK_STEP if abs(event.details.get("by_ms", 0)) >= CLOCK_STEP_MS:
                text, cure = (
                    f"the clock was set by {event.details['by_ms'] / 1000:+.0f} s",
                    "timedatectl set-ntp true keeps it right",
                )
                yield Trouble(kind=kind, about=NODE, text=text, cure=cure, at_ms=event.at_ms)
            case TroubleKind.PROCESS_ENDED if event.reason != "ordered":
                text, cure = f"its process has ended: {event.reason}", "it starts again by itself; the log says why it ended"
                yield Trouble(kind=kind, about=event.actor, text=text, cure=cure, at_ms=event.at_ms)


def take_over(rule: NoticeSettings, former_role: str, status: Status) -> Iterator[Trouble]:
    """That the node's role in its cluster is another than the ``former_role``, empty where none is known.

    It is seen in the status, since no event tells of it: a leader whose lease has ended may write none, and the events of the
    store that a new leader opens are those of the whole cluster.
    """
    now = status.replication
    if TroubleKind.TAKE_OVER in rule.when and now is not None and former_role not in ("", now.role):
        if now.role == "leader":
            text = f"{now.member} leads now"
        else:
            text = "this node leads no more" + (f"; {now.leader} does" if now.leader not in ("", now.member) else "")
        yield Trouble(kind=TroubleKind.TAKE_OVER, about=NODE, text=text, cure="bascule cluster show CONFIG says how all are")


# --- bridges ---


def _lanes(rule: NoticeSettings, status: Status) -> Iterator[BridgeLane]:
    return (row for row in status.bridges if not rule.bridges or row.name in rule.bridges)


def _first_lanes(rule: NoticeSettings, status: Status) -> Iterator[BridgeLane]:
    """One row a bridge, for what is told of the whole bridge."""
    seen: set[str] = set()
    for row in _lanes(rule, status):
        if row.name not in seen:
            seen.add(row.name)
            yield row


def _of(row: BridgeLane, kind: TroubleKind, text: str, cure: str = "", *, since_s: float = 0.0, whole: bool = False) -> Trouble:
    about = f"bridge {row.name}" if whole else f"bridge {row.name}:{row.lane}"
    return Trouble(kind=kind, about=about, text=text, cure=cure, bridge=row.name, since_s=since_s)


def _unknown(row: BridgeLane, kind: TroubleKind, *, whole: bool = False) -> Trouble:
    """The store, or its process, says nothing of it now."""
    return replace(_of(row, kind, "", whole=whole), known=False)


def _links(rule: NoticeSettings, status: Status, _growth: Growth, _now_s: float) -> Iterator[Trouble]:
    """Links that do not stand, but for those that an operator has paused."""
    for row in _lanes(rule, status):
        if row.state in NO_TROUBLE or row.paused_since_ms is not None:
            continue
        why = row.last_error or row.reason or row.state
        waits = f"; {counted(row.depth, 'message')} waiting" if row.depth else ""
        yield _of(row, TroubleKind.LINK_DOWN, f"the link is down: {why}{waits}", row.cure, since_s=row.down_s or row.since_s or 0.0)


def _old(rule: NoticeSettings, status: Status, _growth: Growth, _now_s: float) -> Iterator[Trouble]:
    for row in _lanes(rule, status):
        if row.depth is None:
            yield _unknown(row, TroubleKind.QUEUE_AGE)
        elif (age_s := row.oldest_age_s or 0.0) > rule.age_s:
            text = f"the oldest of {counted(row.depth or 0, 'message')} has waited for more than {write_duration(rule.age_s)}"
            yield _of(
                row,
                TroubleKind.QUEUE_AGE,
                text,
                "let the link come up; else more comes than the remote takes",
                since_s=age_s - rule.age_s,
            )


def _full(rule: NoticeSettings, status: Status, _growth: Growth, _now_s: float) -> Iterator[Trouble]:
    """Queues near their limit: once a bridge, and once a class with limits of its own."""
    named: set[str] = set()
    for row in _lanes(rule, status):
        if row.full is None:
            yield _unknown(row, TroubleKind.QUEUE_FULL, whole=isinstance(row.lane, int))
            continue
        room = row.room
        queue = row.name if room is None else room.name
        if row.full * 100 >= rule.full_percent and queue not in named:
            named.add(queue)
            text = "its queue is nearly full" if room is None else f"its queue is {fullness(room)}"
            yield _of(row, TroubleKind.QUEUE_FULL, text, "" if room is None else room.cure, whole=queue == row.name)


def _dead(rule: NoticeSettings, status: Status, _growth: Growth, _now_s: float) -> Iterator[Trouble]:
    for row in _first_lanes(rule, status):
        letters = row.dead_letters
        if row.depth is None:
            yield _unknown(row, TroubleKind.DEAD_LETTERS, whole=True)
        elif letters is not None and letters.held:
            reasons = ", ".join(f"{reason} {count}" for reason, count in letters.reasons.items())
            cure = f"bascule queue peek CONFIG {row.name} --dead shows them"
            yield _of(row, TroubleKind.DEAD_LETTERS, f"there are dead letters: {reasons}", cure, whole=True)


def _lost(rule: NoticeSettings, status: Status, growth: Growth, now_s: float) -> Iterator[Trouble]:
    """Messages that are dropped, or refused for want of room. What operators purge, or rules leave out, is none."""
    for row in _lanes(rule, status):
        if row.depth is None:
            yield _unknown(row, TroubleKind.MESSAGES_LOST)
            continue
        counts = dict.fromkeys(OF_QUEUES, 0) | row.dropped | {"refused": row.refused or 0}  # what was never lost counts from 0
        about = f"{rule.name} {row.name}:{row.lane}"
        grown = {
            reason: growth.within(TroubleKind.MESSAGES_LOST, f"{about} {reason}", count, now_s)
            for reason, count in counts.items()
            if reason not in INTENDED
        }
        lost = {reason: count for reason, count in grown.items() if count}
        if lost:
            text = ", ".join(f"{'refused for want of room' if reason == 'refused' else f'dropped: {reason}'}" for reason in lost)
            cure = "let the link come up, or raise limits of the bridge" if "refused" in lost else cure_of_loss(next(iter(lost)))
            yield _of(row, TroubleKind.MESSAGES_LOST, f"messages are {text}", cure)


def _certificates(rule: NoticeSettings, status: Status, _growth: Growth, _now_s: float) -> Iterator[Trouble]:
    for row in _lanes(rule, status):
        ends_in_s = None if row.link is None else row.link.certificate_ends_in_s
        if row.link is None:
            yield _unknown(row, TroubleKind.CERTIFICATE)
        elif ends_in_s is not None and ends_in_s < rule.within_s:
            yield _ending(
                TroubleKind.CERTIFICATE,
                f"bridge {row.name}:{row.lane}",
                "its certificate",
                ends_in_s,
                "put another there",
                row.name,
            )


def _credentials(rule: NoticeSettings, status: Status, _growth: Growth, _now_s: float) -> Iterator[Trouble]:
    for row in _lanes(rule, status):
        ends_in_s = None if row.link is None else row.link.credential_ends_in_s
        if row.link is None:
            yield _unknown(row, TroubleKind.CREDENTIAL)
        elif ends_in_s is not None and ends_in_s < rule.within_s:
            cure = "see that whoever makes it makes another"
            yield _ending(
                TroubleKind.CREDENTIAL, f"bridge {row.name}:{row.lane}", "its password or token", ends_in_s, cure, row.name
            )


def _ending(kind: TroubleKind, about: str, what: str, ends_in_s: float, cure: str, bridge: str = "") -> Trouble:
    when = f"ends within {write_duration(max(1.0, float(round(ends_in_s))))}" if ends_in_s > 0 else "has ended"
    return Trouble(kind=kind, about=about, text=f"{what} {when}", cure=cure, bridge=bridge)


# --- the node ---


def _disk(rule: NoticeSettings, status: Status, _growth: Growth, _now_s: float) -> Iterator[Trouble]:
    store = status.store
    if store is None or store.state is None:
        yield Trouble(kind=TroubleKind.DISK, about="store", text="", known=False)
        return
    state = StoreState(store.state)
    free = store.disk_free_bytes
    if state not in (StoreState.RUNNING, StoreState.OPENING):
        why = f": {store.error}" if store.error else ""
        yield Trouble(kind=TroubleKind.DISK, about="store", text=f"nothing is taken ({state}){why}", cure=state.cure)
    elif rule.free_bytes is not None and free is not None and free < rule.free_bytes:
        text = f"less than {write_size(rule.free_bytes)} is free on the disk of data_dir"
        yield Trouble(kind=TroubleKind.DISK, about="store", text=text, cure=StoreState.DISK_LOW.cure)


def _refused(rule: NoticeSettings, status: Status, growth: Growth, now_s: float) -> Iterator[Trouble]:
    if status.listener is None:
        yield Trouble(kind=TroubleKind.REFUSED_CLIENTS, about="listener", text="", known=False)
        return
    grown = growth.within(TroubleKind.REFUSED_CLIENTS, rule.name, _refusals(status.listener), now_s)
    if grown >= rule.per_minute:
        text = f"clients are refused, at least {rule.per_minute} times within a minute"
        yield Trouble(
            kind=TroubleKind.REFUSED_CLIENTS, about="listener", text=text, cure="bascule doctor CONFIG says what is refused"
        )


def _refusals(listener: ListenerFigures) -> int:
    access = listener.access
    logins = access.logins_failed + access.logins_refused + access.takeovers_forbidden
    forbidden = access.publishes_forbidden + access.subscriptions_forbidden
    return logins + forbidden + listener.handshakes_failed + sum(listener.limited.values())


def _processes(_rule: NoticeSettings, status: Status, _growth: Growth, _now_s: float) -> Iterator[Trouble]:
    """Processes that do not work. A node that stops is in no trouble."""
    if status.stop_left_s is not None:
        return
    for row in status.processes:
        if row.state not in (ChildState.READY, ChildState.STOPPED):
            why = f": {row.last_cause}" if row.last_cause else ""
            yield Trouble(
                kind=TroubleKind.PROCESS_DOWN, about=row.name, text=f"the process is {row.state}{why}", cure="see the log"
            )


_OF_KIND: dict[TroubleKind, Callable[[NoticeSettings, Status, Growth, float], Iterator[Trouble]]] = {
    TroubleKind.LINK_DOWN: _links,
    TroubleKind.QUEUE_AGE: _old,
    TroubleKind.QUEUE_FULL: _full,
    TroubleKind.DEAD_LETTERS: _dead,
    TroubleKind.MESSAGES_LOST: _lost,
    TroubleKind.CERTIFICATE: _certificates,
    TroubleKind.CREDENTIAL: _credentials,
    TroubleKind.DISK: _disk,
    TroubleKind.REFUSED_CLIENTS: _refused,
    TroubleKind.PROCESS_DOWN: _processes,
}
