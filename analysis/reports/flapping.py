"""Which links flapped, how long each was up, and what restarted: from the events of the nodes.

A link flaps where, in some ``flapping_period_s``, it went down at least ``flapping_downs`` times; the windows in which it did
are merged
where they overlap. A link is taken for down from the start of its node until it comes up, and unknown before its first event.
"""

from __future__ import annotations

from analysis.engines.engine import Frame, Row
from analysis.reports.context import Context, utc
from analysis.reports.report_model import Chart, Column, Fact, Section, Series, Span, Verdict, worst
from analysis.reports.report_parts import WORST_FIRST, BridgeKey, Made, Mark, duration, lane_title, moment, plural, table

NAME = "flapping"
LANES_DRAWN = 40
SPANS_DRAWN = 4000
_COLUMNS = (
    Column(name="verdict", title="Verdict", kind="state"),
    Column(name="node", title="Node", kind="text"),
    Column(name="bridge", title="Bridge", kind="text"),
    Column(name="lane", title="Lane", kind="text"),
    Column(name="state", title="Link", kind="text"),
    Column(name="since", title="Since", kind="time"),
    Column(name="up_percent", title="Up", kind="percent"),
    Column(name="watched_s", title="Watched for", kind="duration_s"),
    Column(name="downs", title="Times down", kind="count"),
    Column(name="longest_down_s", title="Longest down", kind="duration_s"),
    Column(name="reason", title="Most frequent reason", kind="text"),
    Column(name="windows", title="Flapping windows", kind="count"),
    Column(name="worst_from", title="Worst from", kind="time"),
    Column(name="worst_to", title="Worst to", kind="time"),
    Column(name="worst_downs", title="Times down in it", kind="count"),
)
_RESTART_COLUMNS = (
    Column(name="verdict", title="Verdict", kind="state"),
    Column(name="node", title="Node", kind="text"),
    Column(name="what", title="What", kind="text"),
    Column(name="actor", title="Actor", kind="text"),
    Column(name="reason", title="Latest reason", kind="text"),
    Column(name="count", title="How often", kind="count"),
    Column(name="first_at", title="First", kind="time"),
    Column(name="last_at", title="Last", kind="time"),
)
# Restarts that deserve a row of their own; a start and an end in good order do not make anything bad.
TOLD: dict[str, tuple[Verdict, str]] = {
    "process.ended": ("attention", "a process ended"),
    "node.started": ("ok", "the node started"),
    "node.stopped": ("ok", "the node stopped"),
    "node.reloaded": ("ok", "a new configuration was applied while the node ran"),
    "node.reload_refused": ("ok", "a new configuration was refused while the node ran"),
    "overflow.began": ("attention", "a queue overflowed"),
    "disk.full": ("attention", "the disk was full"),
    "clock.jumped": ("attention", "the clock jumped"),
    "history.cut": ("attention", "history was cut"),
    "events.lost": ("attention", "events were lost"),
    "queue.purged": ("ok", "a queue was purged"),
    "queue.imported": ("ok", "a file was put into a queue"),
    "queue.resent": ("ok", "messages of before were sent again"),
}


def make(context: Context) -> Made:
    """The links, then what restarted or stood in the way."""
    spans = _spans(context)
    windows = _windows(context)
    links = _links(context, spans, windows)
    rows, rows_total = context.top(f"SELECT * FROM {{l}} ORDER BY {WORST_FIRST}, state, downs DESC, node, bridge, lane", l=links)
    section = Section(
        name=NAME,
        title="Links",
        question="Which links were down or flapped, when and why?",
        verdict=worst(*(row["verdict"] for row in rows)),
        summary=_summary(rows, rows_total),
        columns=_COLUMNS,
        rows=table(_COLUMNS, rows),
        rows_total=rows_total,
        charts=_charts(context, spans, rows),
        notes=(
            f"Flapping: {context.thresholds.flapping_downs} times down within {duration(context.thresholds.flapping_period_s)}.",
            "From the events that the nodes still have; the last second before a crash may be missing.",
        ),
    )
    restarts, restarts_frame = _restarts(context)
    return Made(
        sections=(section, restarts),
        frames={NAME: links, "flapping_windows": windows, "restarts": restarts_frame},
        marks=_marks(rows),
    )


def _spans(context: Context) -> Frame:
    """Each lane's link as stretches of up and down, up to the newest snapshot."""
    return context.found(
        f"""
        WITH lanes AS (SELECT DISTINCT node, bridge, coalesce(lane, '0') AS lane FROM {{events}} WHERE kind LIKE 'link.%'),
        ends AS (SELECT node, max(snapshot_at) AS snapshot_at FROM {{queues}} GROUP BY 1),
        changes AS (
          SELECT node, bridge, coalesce(lane, '0') AS lane, number, e.at AS start,
                 if(kind = 'link.up', 'up', 'down') AS state, reason
          FROM {{events}} e WHERE kind IN ('link.up', 'link.down')
          UNION ALL
          SELECT e.node, l.bridge, l.lane, number, e.at, if(kind = 'node.started', 'down', 'stopped'), kind
          FROM {{events}} e JOIN lanes l ON e.node = l.node WHERE kind IN ('node.started', 'node.stopped')),
        turns AS (
          SELECT *, lag(state) OVER w AS before FROM changes WINDOW w AS (PARTITION BY node, bridge, lane ORDER BY number))
        SELECT to_date(t.start) AS date, t.node, t.bridge, t.lane, t.number, t.start, t.state, t.reason,
               coalesce(lead(t.start) OVER (PARTITION BY t.node, t.bridge, t.lane ORDER BY t.number),
                        greatest(e.snapshot_at, t.start)) AS stop
        FROM turns t JOIN ends e ON t.node = e.node WHERE (before IS NULL OR before <> state) AND {context.period.sql("t.start")}
        """
    )


def _windows(context: Context) -> Frame:
    """The stretches of time in which a lane's link flapped."""
    period_us = round(context.thresholds.flapping_period_s * 1e6)
    return context.found(
        f"""
        WITH downs AS (
          SELECT node, bridge, coalesce(lane, '0') AS lane, e.at AS down_at, number, unix_micros(e.at) AS us,
                 count(*) OVER (PARTITION BY node, bridge, coalesce(lane, '0') ORDER BY unix_micros(e.at)
                                RANGE BETWEEN {period_us} PRECEDING AND CURRENT ROW) AS behind
          FROM {{events}} e WHERE kind = 'link.down' AND {context.period.sql("e.at")}),
        judged AS (
          SELECT *, max(behind) OVER (PARTITION BY node, bridge, lane ORDER BY us
                                      RANGE BETWEEN CURRENT ROW AND {period_us} FOLLOWING)
                    >= {context.thresholds.flapping_downs} AS flaps
          FROM downs),
        flapping AS (
          SELECT *, us - lag(us) OVER w > {period_us} AS begins FROM judged WHERE flaps
          WINDOW w AS (PARTITION BY node, bridge, lane ORDER BY us, number)),
        grouped AS (
          SELECT *, count_if(coalesce(begins, true)) OVER (PARTITION BY node, bridge, lane ORDER BY us, number) AS place
          FROM flapping)
        SELECT to_date(min(down_at)) AS date, node, bridge, lane, min(down_at) AS start, max(down_at) AS stop, count(*) AS downs
        FROM grouped GROUP BY node, bridge, lane, place
        """
    )


def _links(context: Context, spans: Frame, windows: Frame) -> Frame:
    return context.found(
        f"""
        WITH seconds AS (SELECT *, (unix_micros(stop) - unix_micros(start)) / 1e6 AS s FROM {{spans}}),
        lanes AS (
          SELECT node, bridge, lane, max(stop) AS stop, max_by(state, number) AS state, max_by(start, number) AS since,
                 sum(s) AS watched_s, sum(if(state = 'up', s, 0)) AS up_s, max(if(state = 'down', s, NULL)) AS longest_down_s
          FROM seconds GROUP BY 1, 2, 3),
        reasons AS (
          SELECT node, bridge, coalesce(lane, '0') AS lane, reason, count(*) AS downs FROM {{events}} e
          WHERE kind = 'link.down' AND {context.period.sql("e.at")} GROUP BY 1, 2, 3, 4),
        downs AS (
          SELECT node, bridge, lane, sum(downs) AS downs, min(if(place = 1, reason, NULL)) AS reason
          FROM (SELECT *, row_number() OVER (PARTITION BY node, bridge, lane ORDER BY reason IS NULL, downs DESC, reason) AS place
                FROM reasons)
          GROUP BY 1, 2, 3),
        flapped AS (
          SELECT *, row_number() OVER (PARTITION BY node, bridge, lane ORDER BY downs DESC, start) AS place,
                 count(*) OVER (PARTITION BY node, bridge, lane) AS windows FROM {{windows}})
        SELECT CASE WHEN l.state = 'down' OR f.windows > 0 THEN 'attention' ELSE 'ok' END AS verdict, to_date(l.stop) AS date,
               l.node, l.bridge, l.lane, l.state, l.since, coalesce(try_divide(l.up_s, l.watched_s) * 100, 0) AS up_percent,
               l.watched_s, coalesce(d.downs, 0) AS downs, l.longest_down_s, d.reason, coalesce(f.windows, 0) AS windows,
               f.start AS worst_from, f.stop AS worst_to, f.downs AS worst_downs
        FROM lanes l LEFT JOIN downs d ON l.node = d.node AND l.bridge = d.bridge AND l.lane = d.lane
        LEFT JOIN flapped f ON l.node = f.node AND l.bridge = f.bridge AND l.lane = f.lane AND f.place = 1
        """,
        spans=spans,
        windows=windows,
    )


def _summary(rows: list[Row], rows_total: int) -> str:
    if not rows:
        return "No event tells of a link."
    down = [row for row in rows if row["state"] == "down"]
    flapped = [row for row in rows if row["windows"]]
    parts = [f"{plural(rows_total, 'link')} watched, {plural(sum(row['downs'] for row in rows), 'time')} down"]
    if flapped:
        row = max(flapped, key=lambda each: each["worst_downs"])
        parts.append(
            f"{len(flapped)} flapped, worst {lane_title(row['node'], row['bridge'], row['lane'])}: {row['worst_downs']}"
            f" times down from"
            f" {utc(row['worst_from'])} to {utc(row['worst_to'])}"
        )
    if down:
        row = min(down, key=lambda each: each["since"])
        parts.append(
            f"{len(down)} down at the snapshot, longest {lane_title(row['node'], row['bridge'], row['lane'])} since"
            f" {utc(row['since'])}"
        )
    return "; ".join(parts) + "."


def _charts(context: Context, spans: Frame, rows: list[Row]) -> tuple[Chart, ...]:
    lanes = [(row["node"], row["bridge"], row["lane"]) for row in rows[:LANES_DRAWN]]
    if not lanes:
        return ()
    found = context.collect(
        "SELECT /*+ BROADCAST(c) */ s.node, s.bridge, s.lane, s.start, s.stop, s.state, s.reason FROM {s} s JOIN {c} c"
        " ON s.node = c.node AND s.bridge = c.bridge AND s.lane = c.lane"
        f" ORDER BY s.start DESC, s.number DESC, s.node, s.bridge, s.lane LIMIT {SPANS_DRAWN}",
        s=spans,
        c=context.rows(lanes, dict.fromkeys(("node", "bridge", "lane"), "string")),
    )
    drawn: dict[tuple[str, str, str], list[Span]] = {lane: [] for lane in lanes}
    for row in reversed(found):
        if row["stop"] <= row["start"]:
            continue
        verdict: Verdict = {"up": "ok", "down": "problem"}.get(row["state"], "none")  # type: ignore[assignment]
        why = f": {row['reason']}" if row["reason"] and row["state"] != "up" else ""
        label = f"{row['state']}{why}, {duration((row['stop'] - row['start']) / 1000)}"
        drawn[row["node"], row["bridge"], row["lane"]].append(
            Span(start_ms=row["start"], stop_ms=row["stop"], label=label, verdict=verdict)
        )
    series = tuple(Series(name=lane_title(*lane), spans=tuple(found_spans)) for lane, found_spans in drawn.items())
    return (Chart(kind="timeline", title="Links, the most troubled first", series=series, unit_y="text"),)


def _marks(rows: list[Row]) -> dict[BridgeKey, Mark]:
    marks: dict[BridgeKey, Mark] = {}
    for row in rows:
        key = (row["node"], row["bridge"])
        if key in marks:  # the rows come worst first: the other lanes are no worse
            continue
        notes = []
        if row["state"] == "down":
            notes.append(f"link down since {moment(row['since'])}")
        if row["windows"]:
            notes.append(f"the link flapped ({row['worst_downs']} times down from {moment(row['worst_from'])})")
        facts = (Fact(name="up_percent", title="Link up", kind="percent", value=row["up_percent"]),)
        marks[key] = Mark(facts=facts, verdict=row["verdict"], note=", ".join(notes))
    return marks


def _restarts(context: Context) -> tuple[Section, Frame]:
    kinds = ", ".join(f"'{kind}'" for kind in TOLD)
    bad = ", ".join(f"'{kind}'" for kind, (verdict, _) in TOLD.items() if verdict == "attention")
    told = context.found(
        f"SELECT if(kind IN ({bad}), 'attention', 'ok') AS verdict, to_date(max(e.at)) AS date, node, kind AS what,"
        " coalesce(actor, bridge, '') AS actor, max_by(reason, number) AS reason, count(*) AS count, min(e.at) AS first_at,"
        f" max(e.at) AS last_at FROM {{events}} e WHERE kind IN ({kinds}) AND NOT (kind = 'process.ended' AND reason = 'ordered')"
        f" AND {context.period.sql('e.at')} GROUP BY node, kind, coalesce(actor, bridge, '')"
    )
    rows, rows_total = context.top(f"SELECT * FROM {{t}} t ORDER BY {WORST_FIRST}, t.count DESC, node, what, actor", t=told)
    ended = sum(row["count"] for row in rows if row["what"] == "process.ended")
    starts = sum(row["count"] for row in rows if row["what"] == "node.started")
    other = sorted({TOLD[row["what"]][1] for row in rows if row["verdict"] == "attention" and row["what"] != "process.ended"})
    parts = [f"{plural(ended, 'process', 'processes')} ended", f"nodes started {plural(starts, 'time')}", *other]
    section = Section(
        name="restarts",
        title="Restarts and trouble",
        question="What restarted, and what else stood in the way?",
        verdict=worst(*(row["verdict"] for row in rows)),
        summary=f"{', '.join(parts)}." if rows else "No event tells of any.",
        columns=_RESTART_COLUMNS,
        rows=table(_RESTART_COLUMNS, [row | {"what": TOLD[row["what"]][1]} for row in rows]),
        rows_total=rows_total,
    )
    return section, told
