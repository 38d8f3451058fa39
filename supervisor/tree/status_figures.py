"""The rows of lanes in the status, put together from the figures in their actors' heartbeats, with what is only seen over time: how
fast messages come into each queue and leave it, since when it is full, and since when each link is down.

Pure. Children report what they own (the store its queues, a Connection its link); this module joins them to one row a lane. A
figure that nobody has reported yet is None.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from wire.config_settings import BridgeSettings, LimitSettings
from wire.frames.names import QUEUE_STORE, LaneLabel, connection_name, forwarder_name, queue_name
from wire.status.actors import Reports, reported
from wire.status.bridges import BridgeLane, ConnectionFigures, LinkFigures, QueueFigures, RoomFigures, Tier2Figures, Unserved
from wire.status.link_faults import cure_of
from wire.status.loss_reasons import WHEN_FULL
from wire.status.node_status import ActorRow
from wire.status.states import ChildState
from wire.status.store import StoreFigures, StoreReport

_OF_QUEUE = tuple(each.name for each in fields(QueueFigures))
_OF_STORE = tuple(each.name for each in fields(StoreFigures))


WINDOW_S = 10.0  # a rate is over so long a time, or over as much of it as is known
_LEAST_S = 1.0  # two moments closer together say little
_FAR_S = 30 * 86_400.0  # a queue that is full after that is no news


@dataclass(frozen=True, slots=True)
class Rates:
    """Messages a second: accepted, and delivered; ``fastest``: the most that was delivered so far. None: not known yet."""

    rate_in: float | None = None
    rate_out: float | None = None
    fastest: float | None = None

    def drain_s(self, depth: int | None) -> float | None:
        """How long ``depth`` messages take to leave at these rates; None where they grow, stand still, or nobody knows."""
        return self._drain_s(depth, self.rate_out)

    def drain_at_best_s(self, depth: int | None) -> float | None:
        """How long they take once they leave as fast as ever so far; None where more comes, or nobody knows."""
        return self._drain_s(depth, self.fastest)

    def limited_to(self, messages_per_s: float) -> Rates:
        """The same, where no more than that may leave from now on."""
        return replace(self, fastest=None if self.fastest is None else min(self.fastest, messages_per_s))

    def _drain_s(self, depth: int | None, rate_out: float | None) -> float | None:
        if depth == 0:
            return 0.0
        if depth is None or self.rate_in is None or rate_out is None or rate_out <= self.rate_in:
            return None
        return round(depth / (rate_out - self.rate_in), 1)


class FigureRates:
    """Remembers what each queue had counted, for ``WINDOW_S``."""

    def __init__(self) -> None:
        self._samples: dict[str, deque[tuple[float, int, int]]] = {}
        self._fastest: dict[str, float] = {}

    def note(self, now_s: float, queues: Mapping[str, QueueFigures]) -> None:
        """``queues``: the figures of each, as the store tells them now. Queues that are not among them are forgotten."""
        self._samples = {name: samples for name, samples in self._samples.items() if name in queues}
        for name, figures in queues.items():
            counted = figures.accepted or 0, figures.delivered or 0
            samples = self._samples.setdefault(name, deque())
            if samples and (counted[0] < samples[-1][1] or counted[1] < samples[-1][2]):
                samples.clear()  # it counts anew
            if samples and now_s - samples[-1][0] < _LEAST_S and len(samples) > 1:
                samples.pop()
            samples.append((now_s, *counted))
            while len(samples) > 2 and samples[1][0] <= now_s - WINDOW_S:
                samples.popleft()
            if rate_out := self.rates(name).rate_out:
                self._fastest[name] = max(rate_out, self._fastest.get(name, 0.0))

    def rates(self, queue: str) -> Rates:
        """Those of ``queue``."""
        samples = self._samples.get(queue)
        if not samples or samples[-1][0] - samples[0][0] < _LEAST_S:
            return Rates()
        (then_s, accepted, delivered), (now_s, *counts) = samples[0], samples[-1]
        past_s = now_s - then_s
        rate_in, rate_out = ((now - then) / past_s for now, then in zip(counts, (accepted, delivered), strict=True))
        return Rates(round(rate_in, 1), round(rate_out, 1), self._fastest.get(queue))


class LinkDowns:
    """The times at which the links of lanes went down, by the name of their Connection; one that stands, or is paused, is not among
    them."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}
        self._former_s: dict[str, float] = {}

    def note(self, connection: str, link: LinkFigures, now_s: float) -> None:
        """``link``: what the Connection says of it now. A process that has not been connected yet goes on with what was before."""
        down_s = link.down_s
        self._former_s.setdefault(connection, 0.0)
        if down_s is None:
            if (since_s := self._since_s.pop(connection, None)) is not None:
                self._former_s[connection] += now_s - since_s
        elif link.connections:
            self._since_s[connection] = now_s - down_s
        else:
            self._since_s.setdefault(connection, now_s - down_s)

    def down_s(self, connection: str, now_s: float) -> float | None:
        """For how long it has been down; None if it is not, or nobody has said."""
        since_s = self._since_s.get(connection)
        return None if since_s is None else round(max(0.0, now_s - since_s), 3)

    def lasted_s(self, connection: str, now_s: float) -> float | None:
        """For how long it was down, of all that was seen; None before that."""
        former_s = self._former_s.get(connection)
        return None if former_s is None else former_s + (self.down_s(connection, now_s) or 0.0)


class FullQueues:
    """Since when queues are full, by what their ``RoomFigures`` is called. A queue that gives and takes is full all the time, until
    a good part of it is free."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}

    def note(self, rooms: Mapping[str, RoomFigures | None], now_s: float) -> None:
        """``rooms``: of all queues with a limit. One of which nobody knows now goes on as it was."""
        kept = {name: since_s for name, since_s in self._since_s.items() if name in rooms}
        for name, room in rooms.items():
            if room is not None and room.is_full:
                kept.setdefault(name, now_s)
            elif room is not None and not room.is_nearly_full:
                kept.pop(name, None)
        self._since_s = kept

    def lasts_s(self, name: str, now_s: float) -> float | None:
        """For how long it has been full; None if it is not, or nobody has said."""
        since_s = self._since_s.get(name)
        return None if since_s is None else round(max(0.0, now_s - since_s), 3)


def lane_row(
    bridge: str,
    lane: LaneLabel,
    *,
    actors: Mapping[str, ActorRow],
    reports: Reports,
    rates: Rates,
    room: RoomFigures | None,
    full_s: float | None,
    paused_since_ms: int | None,
    down_s: float | None,
) -> BridgeLane:
    """The row of one lane: its queue from the store, link, exchange and intake from the Connection, Tier 2 from the Forwarder."""
    name = connection_name(bridge, lane)
    actor, store = actors[name], reported(reports, QUEUE_STORE, StoreReport) or StoreReport()
    told = reported(reports, name, ConnectionFigures) or ConnectionFigures()
    link, works = told.link, actor.state == ChildState.READY
    state = (link.state if link is not None else ChildState.STARTING) if works else actor.state
    reason = (link.reason if link is not None else "") if works else actor.last_cause
    last_error = "" if link is None else link.error
    queue = store.queues.get(queue_name(bridge, lane)) or QueueFigures()
    if told.rate is not None and told.rate.messages is not None:
        rates = rates.limited_to(told.rate.messages)
    return BridgeLane(
        **{each: getattr(queue, each) for each in _OF_QUEUE},
        name=bridge,
        lane=lane,
        state=state,
        reason=reason,
        since=None if link is None else link.since,
        since_s=None if link is None else link.since_s,
        last_error=last_error,
        cure="" if link is None else cure_of(link.fault),
        down_s=down_s,
        next_attempt_s=None if link is None else link.next_attempt_s,
        attempts=None if link is None else link.attempts,
        rate_in=rates.rate_in,
        rate_out=rates.rate_out,
        drain_s=rates.drain_s(queue.depth),
        drain_at_best_s=rates.drain_at_best_s(queue.depth),
        full=None if room is None else round(room.used / room.most, 4),
        full_s=full_s,
        room=room,
        in_flight=None if link is None else link.in_flight,  # sent; what the store has handed out may not have left
        paused_since_ms=paused_since_ms,
        dead_letters=store.dead_letters.get(bridge),
        link=link,
        exchange=told.exchange,
        rate=told.rate,
        remote_subscriptions=told.remote_subscriptions,
        tier2=reported(reports, forwarder_name(bridge, lane), Tier2Figures),
    )


def store_part(report: StoreReport) -> StoreFigures:
    """The store's report of itself."""
    return StoreFigures(**{each: getattr(report, each) for each in _OF_STORE})


def unserved_rows(lanes: Iterable[tuple[str, LaneLabel]], queues: Mapping[str, QueueFigures]) -> tuple[Unserved, ...]:
    """The messages in ``queues`` of bridges and lanes that are not configured any more; they stay until those are again (P7)."""
    served = {queue_name(bridge, lane) for bridge, lane in lanes}
    return tuple(
        Unserved(queue=name, depth=queue.depth, bytes=queue.bytes, oldest_age_s=queue.oldest_age_s)
        for name, queue in sorted(queues.items())
        if name not in served and queue.depth
    )


def room_of(name: str, queues: Sequence[QueueFigures | None], limits: LimitSettings) -> RoomFigures | None:
    """The one of ``limits`` that the lanes with ``queues`` take up most of together; None: unlimited, or nobody knows.

    name: the bridge, or the class, whose limits they are.
    """
    told = [
        (queue.depth, queue.bytes) for queue in queues if queue is not None and queue.depth is not None and queue.bytes is not None
    ]
    if len(told) < len(queues):
        return None
    used = {"max_messages": sum(depth for depth, _ in told), "max_bytes": sum(size for _, size in told)}
    most = {key: value for key in used if (value := getattr(limits, key))}
    if not most:
        return None
    nearest = max(most, key=lambda key: used[key] / most[key])
    return RoomFigures(
        name=name,
        limit=nearest,
        used=used[nearest],
        most=most[nearest],
        when_full=WHEN_FULL[limits.overflow],
        cure=f"cure what keeps its messages from leaving, or raise limits.{nearest} and reload: that applies at once, and what "
        "waits stays",
    )


def rooms_of(
    bridge: BridgeSettings, lanes: Sequence[LaneLabel], queues: Mapping[str, QueueFigures]
) -> dict[str, tuple[RoomFigures | None, list[str]]]:
    """What each of the limits of ``bridge`` leaves to its ``lanes``, and the queues that share it, by what it is called."""
    sharing: dict[str, list[str]] = {}
    limits: dict[str, LimitSettings] = {}
    for lane in lanes:
        whose, limits_of_it = bridge.limits_of(lane)
        limits[whose] = limits_of_it
        sharing.setdefault(whose, []).append(queue_name(bridge.name, lane))
    return {whose: (room_of(whose, [queues.get(name) for name in names], limits[whose]), names) for whose, names in sharing.items()}


def full_s(depth: int, rates: Iterable[Rates], room: RoomFigures | None) -> float | None:
    """How long until ``depth`` messages have become as many as fit, at these rates; None: they do not grow, it is far away, or
    nobody knows.
    """
    growth = 0.0
    for each in rates:
        if each.rate_in is None or each.rate_out is None:
            return None
        growth += each.rate_in - each.rate_out
    growth = round(growth, 1)  # as the rates are: less than that is none
    if room is None or not room.used or growth <= 0:
        return None
    left_s = round(depth * max(0.0, room.most / room.used - 1) / growth, 1)
    return left_s if left_s <= _FAR_S else None
