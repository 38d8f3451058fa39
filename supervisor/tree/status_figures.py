"""The status, put together from the table of children and the figures in their heartbeats.

Pure. Children report what they own (the store its queues, a Connection its link); this module joins them to one row a lane. A
figure that nobody has reported yet is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from supervisor.tree.queue_rates import Rates
from wire.frames.names import QUEUE_STORE, connection_name, forwarder_name, queue_name
from wire.settings import LimitSettings
from wire.status.actors import Reports, reported
from wire.status.bridges import BridgeLane, ConnectionFigures, QueueFigures, Tier2Figures, Unserved
from wire.status.link_faults import cure_of
from wire.status.node import ActorRow
from wire.status.states import ChildState
from wire.status.store import StoreFigures, StoreReport

_OF_QUEUE = tuple(each.name for each in fields(QueueFigures))
_OF_STORE = tuple(each.name for each in fields(StoreFigures))


def lane_row(
    bridge: str,
    lane: int,
    *,
    actors: Mapping[str, ActorRow],
    reports: Reports,
    rates: Rates,
    full: float | None,
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
        full=None if full is None else round(full, 4),
        full_s=full_s,
        in_flight=None if link is None else link.in_flight,  # sent; what the store has handed out may not have left
        paused_since_ms=paused_since_ms,
        dead_letters=store.dead_letters.get(bridge),
        link=link,
        exchange=told.exchange,
        remote_subscriptions=told.remote_subscriptions,
        tier2=reported(reports, forwarder_name(bridge, lane), Tier2Figures),
    )


def store_part(report: StoreReport) -> StoreFigures:
    """The store's report of itself."""
    return StoreFigures(**{each: getattr(report, each) for each in _OF_STORE})


def unserved_rows(lanes: Iterable[tuple[str, int]], queues: Mapping[str, QueueFigures]) -> tuple[Unserved, ...]:
    """The messages in ``queues`` of bridges and lanes that are not configured any more; they stay until those are again (P7)."""
    served = {queue_name(bridge, lane) for bridge, lane in lanes}
    return tuple(
        Unserved(queue=name, depth=queue.depth, bytes=queue.bytes, oldest_age_s=queue.oldest_age_s)
        for name, queue in sorted(queues.items())
        if name not in served and queue.depth
    )


def fullness(queues: Sequence[QueueFigures | None], limits: LimitSettings) -> float | None:
    """How much of their bridge's ``limits`` the lanes with ``queues`` take up together, of 1; None: unlimited, or nobody knows."""
    told = [
        (queue.depth, queue.bytes) for queue in queues if queue is not None and queue.depth is not None and queue.bytes is not None
    ]
    if len(told) < len(queues):
        return None
    pairs = ((sum(depth for depth, _ in told), limits.max_messages), (sum(size for _, size in told), limits.max_bytes))
    return max((used / most for used, most in pairs if most), default=None)


def full_s(depth: int, rates: Iterable[Rates], full: float | None) -> float | None:
    """How long until ``depth`` messages have become as many as fit, at these rates; None: they do not grow, or nobody knows."""
    growth = 0.0
    for each in rates:
        if each.rate_in is None or each.rate_out is None:
            return None
        growth += each.rate_in - each.rate_out
    return round(depth * max(0.0, 1 / full - 1) / growth, 1) if full and growth > 0 else None
