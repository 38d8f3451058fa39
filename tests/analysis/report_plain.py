"""The figures of the reports reckoned another way: plain Python, row by row, over what the reader gives of the same snapshots."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import linear_regression
from typing import Any

Row = dict[str, Any]
Lane = tuple[str, str, str]  # (node, bridge, lane)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def us(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def ms(moment: datetime) -> int:
    return us(moment) // 1000


@dataclass(frozen=True)
class Facts:
    """Rows of all snapshots, what several of them have taken from the newest that has it."""

    newest_ids: frozenset[str]
    snapshots: list[Row]
    queues_all: list[Row]
    messages: list[Row]  # those of the newest, and the settled ones of older snapshots
    settlements: list[Row]
    events: list[Row]

    @property
    def queues(self) -> list[Row]:
        return [row for row in self.queues_all if row["snapshot_id"] in self.newest_ids]

    def newest_at(self, node: str) -> datetime:
        times: list[datetime] = [row["snapshot_at"] for row in self.queues_all if row["node"] == node]
        return max(times)


def facts(tables: dict[str, list[Row]]) -> Facts:
    """Sort out what overlapping snapshots say more than once."""
    order = sorted({(row["snapshot_at"], row["snapshot_id"], row["node"]) for row in tables["snapshots"]})
    newest = frozenset({node: snapshot for _, snapshot, node in order}.values())
    messages = [row for row in tables["messages"] if row["state"] == "settled" or row["snapshot_id"] in newest]
    return Facts(
        newest_ids=newest,
        snapshots=tables["snapshots"],
        queues_all=tables["queues"],
        messages=_once(messages, ("node", "queue", "seq")),
        settlements=_once(tables["settlements"], ("node", "queue", "number")),
        events=sorted(_once(tables["events"], ("node", "number")), key=lambda row: (row["node"], row["number"])),
    )


def _once(rows: Iterable[Row], key: Sequence[str]) -> list[Row]:
    found: dict[tuple[Any, ...], dict[tuple[datetime, str], list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[tuple(row[name] for name in key)][row["snapshot_at"], row["snapshot_id"]].append(row)
    return [row for versions in found.values() for row in versions[max(versions)]]


def gaps(numbers: Iterable[int]) -> set[tuple[int, int]]:
    """The first and the last number of each gap."""
    known = sorted(set(numbers))
    wanted = [number for number in range(known[0], known[-1]) if number not in set(known)] if known else []
    first = [number for number in wanted if number - 1 not in wanted]
    last = [number for number in wanted if number + 1 not in wanted]
    return set(zip(first, last, strict=True))


def percentile(values: Sequence[float], share: float) -> float:
    """Of sorted ``values``, between two of them along a straight line."""
    place = share * (len(values) - 1)
    low = int(place)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (place - low)


def latencies(known: Facts) -> list[tuple[str, str, int, int, bool]]:
    """Of each delivered message: node, bridge, when (s), how long (ms), and whether the clock jumped meanwhile."""
    jumps: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for event in known.events:
        if event["kind"] == "clock.jumped":
            by_ms = int(json.loads(event["details"] or "{}").get("by_ms", 0))
            jumps[event["node"]].append(
                (min(ms(event["at"]), ms(event["at"]) - by_ms), max(ms(event["at"]), ms(event["at"]) - by_ms))
            )
    found = []
    for row in known.messages:
        if row["state"] != "settled" or row["outcome"] != "delivered" or row["settled_at"] is None:
            continue
        low, high = sorted((ms(row["accepted_at"]), ms(row["settled_at"])))
        across = any(low <= last and high >= first for first, last in jumps[row["node"]])
        took = ms(row["settled_at"]) - ms(row["accepted_at"])
        found.append((row["node"], row["bridge"] or "", ms(row["settled_at"]) // 1000, took, across))
    return found


def traffic(known: Facts, width_s: int) -> dict[tuple[str, str, int], Counter[str]]:
    """(node, bridge, start of a stretch in s) -> what came and went in it."""
    with_history = {(row["node"], row["queue"]) for row in known.queues if row["history_from"] is not None}
    found: dict[tuple[str, str, int], Counter[str]] = defaultdict(Counter)

    def place(row: Row, column: str) -> Counter[str]:
        return found[row["node"], row["bridge"] or "", us(row[column]) // 1_000_000 // width_s * width_s]

    for row in known.messages:
        if (row["node"], row["queue"]) in with_history:
            place(row, "accepted_at").update(accepted=1, accepted_bytes=row["payload_bytes"])
        if row["state"] == "settled" and row["outcome"] == "delivered":
            place(row, "settled_at").update(delivered_bytes=row["payload_bytes"])
    for row in known.settlements:
        if row["outcome"] != "redelivered":
            place(row, "settled_at").update({row["outcome"]: row["messages"]})
    return found


def moves(known: Facts) -> dict[tuple[str, str], tuple[float, int, int]]:
    """(node, bridge) -> seconds from the first to the last snapshot, accepted and delivered meanwhile; all in one life."""
    by_queue: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in sorted(known.queues_all, key=lambda each: each["snapshot_at"]):
        by_queue[row["node"], row["bridge"] or "", row["queue"]].append(row)
    found: dict[tuple[str, str], tuple[float, int, int]] = {}
    for (node, bridge, _), rows in by_queue.items():
        if len(rows) > 1:
            _, accepted, delivered = found.get((node, bridge), (0.0, 0, 0))
            accepted += rows[-1]["accepted"] - rows[0]["accepted"]
            delivered += rows[-1]["delivered"] - rows[0]["delivered"]
            # Of several queues, the first of all snapshots that a queue has another one after.
            firsts = [each[0]["snapshot_at"] for key, each in by_queue.items() if key[:2] == (node, bridge) and len(each) > 1]
            found[node, bridge] = ((rows[-1]["snapshot_at"] - min(firsts)).total_seconds(), accepted, delivered)
    return found


def links(known: Facts) -> dict[Lane, list[tuple[int, int, str]]]:
    """Each lane's link as (from, to, state), in microseconds."""
    lanes = {(row["node"], row["bridge"], row["lane"]) for row in known.events if row["kind"].startswith("link.")}
    found = {}
    for lane in lanes:
        turns: list[tuple[int, str]] = []
        for event in known.events:
            state = _state(event, lane)
            if state and (not turns or turns[-1][1] != state):
                turns.append((us(event["at"]), state))
        ends = [at for at, _ in turns[1:]] + [max(us(known.newest_at(lane[0])), turns[-1][0])]
        found[lane] = [(start, stop, state) for (start, state), stop in zip(turns, ends, strict=True)]
    return found


def _state(event: Row, lane: Lane) -> str:
    if event["node"] != lane[0]:
        return ""
    if event["kind"] in ("node.started", "node.stopped"):
        return "down" if event["kind"] == "node.started" else "stopped"
    if event["kind"] in ("link.up", "link.down") and (event["bridge"], event["lane"]) == lane[1:]:
        return str(event["kind"]).removeprefix("link.")
    return ""


def downs(known: Facts) -> dict[Lane, list[Row]]:
    found: dict[Lane, list[Row]] = defaultdict(list)
    for row in known.events:
        if row["kind"] == "link.down":
            found[row["node"], row["bridge"], row["lane"]].append(row)
    return found


def flapping(known: Facts, least: int, period_s: float) -> set[tuple[str, str, str, int, int, int]]:
    """The windows in which a link flapped: node, bridge, lane, from, to (microseconds), and how often it went down."""
    period = round(period_s * 1e6)
    found = set()
    for lane, rows in downs(known).items():
        times = [us(row["at"]) for row in rows]
        # Each down for itself: is it in any period, ending at some down, that has enough of them?
        bad = [
            at
            for at in times
            if any(end - period <= at <= end and sum(end - period <= each <= end for each in times) >= least for end in times)
        ]
        window: list[int] = []
        for at in [*sorted(bad), None]:
            if window and (at is None or at - window[-1] > period):
                found.add((*lane, window[0], window[-1], len(window)))
                window = []
            if at is not None:
                window.append(at)
    return found


def forecasts(known: Facts) -> dict[tuple[str, str], tuple[int, float | None, float | None]]:
    """(node, what) -> snapshots used, messages (or free bytes) an hour, and the seconds until it is full."""
    limits = {row["snapshot_id"]: row for row in known.snapshots}
    points: dict[tuple[str, str], dict[int, tuple[int, int, int | None, int | None]]] = defaultdict(dict)
    for row in known.queues_all:
        limit = limits[row["snapshot_id"]]
        for what, most in (("the whole node", limit), (row["bridge"], row)):
            if what is not None:
                at = us(row["snapshot_at"])
                messages, size, *_ = points[row["node"], what].get(at, (0, 0))
                messages += row["depth"] + row["depth_volatile"]
                points[row["node"], what][at] = (messages, size + row["bytes"], most["max_messages"], most["max_bytes"])
    found: dict[tuple[str, str], tuple[int, float | None, float | None]] = {}
    for (node, what), every in points.items():
        used = _recent(every)
        per_s = [_slope(used, [every[at][0] for at in used]), _slope(used, [every[at][1] for at in used])]
        messages, size, max_messages, max_bytes = every[max(every)]
        full = [_until(max_messages, messages, per_s[0]), _until(max_bytes, size, per_s[1])]
        soonest = min((one for one in full if one is not None), default=None)
        found[node, what] = (len(used), None if per_s[0] is None else per_s[0] * 3600, soonest)
    for node in {row["node"] for row in known.snapshots}:
        rows = {us(row["snapshot_at"]): row for row in known.snapshots if row["node"] == node}
        last_row = rows[max(rows)]
        if last_row["disk_free_bytes"] is None or last_row["min_free_disk_bytes"] is None:
            continue
        used = _recent(rows)
        per_s_free = _slope(used, [rows[at]["disk_free_bytes"] for at in used])
        room = last_row["disk_free_bytes"] - last_row["min_free_disk_bytes"]
        full_in = room / -per_s_free if per_s_free is not None and per_s_free < 0 else None
        found[node, "free disk above its minimum"] = (len(used), None, full_in)
    return found


def _recent(every: Iterable[int]) -> list[int]:
    times = sorted(every)
    recent = [at for at in times if at >= times[-1] - 86_400_000_000]
    return recent if len(recent) >= 3 else times


def _slope(times: Sequence[int], values: Sequence[int]) -> float | None:
    return (
        None
        if len(times) < 2 or times[-1] - times[0] < 600_000_000
        else linear_regression([(at - times[-1]) / 1e6 for at in times], values).slope
    )


def _until(limit: int | None, now: int, per_s: float | None) -> float | None:
    return max(0, limit - now) / per_s if limit is not None and per_s is not None and per_s > 0 else None
