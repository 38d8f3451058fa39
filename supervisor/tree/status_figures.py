"""What ``bascule status`` says, put together from the table of children and the figures in their heartbeats.

Pure. Children report what they own (the store its queues, a Connection its link); this module joins them to one row a lane and
checks the ledger of each. A figure that nobody has reported yet is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from supervisor.link_cures import cure_of
from supervisor.tree.process_usage import Usage
from supervisor.tree.queue_rates import Rates
from supervisor.version import VERSION
from wire.frames.names import (
    DISTRIBUTOR,
    HTTP_SERVER,
    LISTENER,
    METRICS_EXPORTER,
    QUEUE_STORE,
    connection_name,
    forwarder_name,
    queue_name,
)
from wire.settings import LimitSettings

_UNKNOWN = Rates()
_ATTEMPTS = ("connecting", "backoff")
_COUNTS = ("depth", "bytes", "accepted", "delivered", "expired", "dead_lettered", "redelivered", "refused", "held_back")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorView:
    """One actor as the supervisor sees it; pid is None while its process does not run. last_cause: what went wrong, in words."""

    name: str
    pid: int | None
    state: str
    restarts: int
    heartbeat_age_s: float | None
    figures: Mapping[str, Any]
    last_cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessView:
    """One process as the supervisor sees it; pid is None while it does not run. last_cause: what went wrong, in words."""

    name: str
    pid: int | None
    state: str
    actors: tuple[str, ...] = ()
    restarts: int = 0
    last_cause: str = ""


def process_rows(views: Iterable[ProcessView], usage_of: Callable[[int | None], Usage]) -> list[dict[str, Any]]:
    """``processes`` of ``status``; ``usage_of`` tells what a pid has taken."""
    rows = []
    for view in views:
        usage = usage_of(view.pid)
        rows.append(
            {
                "name": view.name,
                "pid": view.pid,
                "actors": list(view.actors),
                "state": view.state,
                "pss_bytes": usage.pss_bytes,
                "cpu_s": usage.cpu_s,
                "restarts": view.restarts,
                "last_cause": view.last_cause,
            }
        )
    return rows


def ledger_closes(row: Mapping[str, Any]) -> bool:
    """P6: accepted = delivered + depth + expired + dropped (all reasons) + dead-lettered; ``refused`` is beside the sum."""
    gone = row["delivered"] + row["expired"] + sum(row["dropped"].values()) + row["dead_lettered"]
    return bool(row["accepted"] == row["depth"] + gone)


def bridge_row(bridge: str, lane: int, actors: Mapping[str, ActorView], rates: Rates = _UNKNOWN) -> dict[str, Any]:
    """The row of one lane: its queue from the store, link, exchange and intake from the Connection, Tier 2 from the Forwarder."""
    connection = actors[connection_name(bridge, lane)]
    link = connection.figures.get("link", {})
    queue = actors[QUEUE_STORE].figures.get("queues", {}).get(queue_name(bridge, lane))
    row: dict[str, Any] = {
        "name": bridge,
        "lane": lane,
        "state": link.get("state", "starting") if connection.state == "ready" else connection.state,
        "reason": link.get("reason", "") if connection.state == "ready" else connection.last_cause,
        "since": link.get("since"),
        "since_s": link.get("since_s"),
        "last_error": link.get("error", ""),
        "next_attempt_s": link.get("next_attempt_s"),
        "attempts": link.get("attempts"),
    }
    said = row["last_error"] or (row["reason"] if row["state"] in _ATTEMPTS else "")
    row["cure"] = cure_of(said, link.get("protocol", 5)) if said else ""
    for count in _COUNTS:
        row[count] = None if queue is None else queue.get(count, 0)
    row |= {"rate_in": rates.rate_in, "rate_out": rates.rate_out, "drain_s": rates.drain_s(row["depth"])}
    row["drain_at_best_s"] = rates.drain_at_best_s(row["depth"])
    row["in_flight"] = link.get("in_flight")  # sent and not settled; what the store has handed out may not have left
    row["end_to_end_seconds"] = None if queue is None else queue.get("end_to_end_seconds")
    row["oldest_age_s"] = None if queue is None else queue.get("oldest_age_s")
    row["waits_for_lanes"] = [] if queue is None else list(queue.get("waits_for_lanes", []))
    row["former_rules"] = [] if queue is None else list(queue.get("former_rules", []))
    row["retained"] = {} if queue is None else dict(queue.get("retained", {}))
    row["dropped"] = {} if queue is None else dict(queue.get("dropped", {}))
    row["dead_letters"] = dict(actors[QUEUE_STORE].figures.get("dead_letters", {}).get(bridge, {}))  # of all its lanes
    row["ledger_closes"] = None if queue is None else ledger_closes(row)
    row["link"] = dict(link)
    row["exchange"] = dict(connection.figures.get("exchange", {}))
    row["remote_subscriptions"] = dict(connection.figures.get("remote_subscriptions", {}))
    row["tier2"] = dict(actors[forwarder_name(bridge, lane)].figures.get("tier2", {}))
    return row


def unserved_rows(lanes: Iterable[tuple[str, int]], queues: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What waits in ``queues`` for bridges and lanes that are not configured any more; it stays until they are again (P7)."""
    served = {queue_name(bridge, lane) for bridge, lane in lanes}
    keys = ("depth", "bytes", "oldest_age_s")
    return [
        {"queue": name, **{key: queue.get(key) for key in keys}}
        for name, queue in sorted(queues.items())
        if name not in served and queue.get("depth")
    ]


def fullness(rows: Iterable[Mapping[str, Any]], limits: LimitSettings) -> float | None:
    """How much of its bridge's ``limits`` the lanes ``rows`` take up together, of 1; None: unlimited, or nobody knows."""
    rows = list(rows)
    if any(row["depth"] is None for row in rows):
        return None
    pairs = ((sum(row["depth"] for row in rows), limits.max_messages), (sum(row["bytes"] for row in rows), limits.max_bytes))
    return max((used / most for used, most in pairs if most), default=None)


def full_s(rows: Iterable[Mapping[str, Any]], full: float | None) -> float | None:
    """How long until the queue of the lanes ``rows`` is full, as fast as it grows; None: it does not grow, or nobody knows."""
    rows = list(rows)
    if not full or any(row["rate_in"] is None for row in rows):
        return None
    growth = sum(row["rate_in"] - row["rate_out"] for row in rows)
    return round(sum(row["depth"] for row in rows) * max(0.0, 1 / full - 1) / growth, 1) if growth > 0 else None


def _own(view: ActorView) -> dict[str, Any]:
    """The figures of what an actor does; what its process adds to them is told elsewhere."""
    return {key: value for key, value in view.figures.items() if key not in ("mailbox", "settings")}


def _actor_row(view: ActorView) -> dict[str, Any]:
    """The row of one actor."""
    return {
        "name": view.name,
        "pid": view.pid,
        "state": view.state,
        "restarts": view.restarts,
        "heartbeat_age_s": None if view.heartbeat_age_s is None else round(view.heartbeat_age_s, 3),
        "last_cause": view.last_cause,
        "mailbox": dict(view.figures.get("mailbox", {})),
    }


def status_map(
    *,
    node: str,
    pid: int,
    ready: bool,
    uptime_s: float,
    started_at_ms: int | None = None,
    traffic: Mapping[str, int] | None = None,
    actors: Iterable[ActorView],
    lanes: Iterable[tuple[str, int]],
    snapshots: Mapping[str, Any] | None = None,
    paused_since_ms: Mapping[str, int | None] | None = None,
    rates: Mapping[str, Rates] | None = None,
    down_s: Mapping[str, float | None] | None = None,
    limits: Mapping[str, LimitSettings] | None = None,
    stop_left_s: float | None = None,
) -> dict[str, Any]:
    """The answer to ``status`` but for its ``processes``; only values that msgpack and JSON know. rates: of queues, by name;
    down_s: of Connections.

    stop_left_s: how long it takes at most until the node has stopped; None while it goes on.
    """
    views = {view.name: view for view in actors}
    lanes = list(lanes)
    bridges = [
        bridge_row(bridge, lane, views, (rates or {}).get(queue_name(bridge, lane), _UNKNOWN))
        | {"paused_since_ms": (paused_since_ms or {}).get(bridge), "down_s": (down_s or {}).get(connection_name(bridge, lane))}
        for bridge, lane in lanes
    ]
    for row in bridges:
        own = (limits or {}).get(row["name"])
        lanes_of = [each for each in bridges if each["name"] == row["name"]]
        full = None if own is None else fullness(lanes_of, own)
        row |= {"full": None if full is None else round(full, 4), "full_s": full_s(lanes_of, full)}
    store = _own(views[QUEUE_STORE])
    queues = store.pop("queues", {})
    store.pop("dead_letters", None)
    replication = store.pop("replication", {})
    return {
        "node": node,
        "version": VERSION,
        "ready": ready,
        "stop_left_s": None if stop_left_s is None else round(stop_left_s, 3),
        "supervisor": {
            "pid": pid,
            "started_at_ms": started_at_ms,
            "uptime_s": round(uptime_s, 3),
            "mailbox": dict(traffic or {}),
        },
        "actors": [_actor_row(view) for view in views.values()],
        "bridges": bridges,
        "unserved": unserved_rows(lanes, queues),
        "store": store,
        "replication": replication,
        "listener": _own(views[LISTENER]) if LISTENER in views else {},
        "distributor": _own(views[DISTRIBUTOR]) if DISTRIBUTOR in views else {},
        "http": _own(views[HTTP_SERVER]) if HTTP_SERVER in views else {},
        "telemetry": _own(views[METRICS_EXPORTER]) if METRICS_EXPORTER in views else {},
        "snapshots": dict(snapshots or {}),
    }
