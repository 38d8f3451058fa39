"""How fast the backlogs and the disk fill, and when they are full if it goes on like that: from successive snapshots.

The trend is the straight line that fits best (least squares) through the snapshots of the last day before the newest, or through
all of
them if there are fewer than three of these.
"""

from __future__ import annotations

from analysis.engines.engine import Frame, Row
from analysis.reports.context import Context
from analysis.reports.report_model import Chart, Column, Fact, Section, Series, worst
from analysis.reports.report_parts import SERIES_SHOWN, Made, Mark, duration, lane_title, plural, table

NAME = "growth"
RECENT_S = 86_400
POINTS_MIN = 3
DIGITS = 12  # of a slope in messages or bytes a second: what is beyond is how a sum was rounded, and no growth; + 0 turns -0 to 0
_COLUMNS = (
    Column(name="verdict", title="Verdict", kind="state"),
    Column(name="node", title="Node", kind="text"),
    Column(name="what", title="What", kind="text"),
    Column(name="snapshots", title="Snapshots", kind="count"),
    Column(name="messages", title="Waiting", kind="count"),
    Column(name="messages_per_h", title="Messages an hour", kind="count"),
    Column(name="max_messages", title="Limit", kind="count"),
    Column(name="bytes", title="Bytes", kind="bytes"),
    Column(name="bytes_per_h", title="Bytes an hour", kind="bytes"),
    Column(name="max_bytes", title="Limit in bytes", kind="bytes"),
    Column(name="full_percent", title="Full", kind="percent"),
    Column(name="full_in_s", title="Full in", kind="duration_s"),
    Column(name="full_at", title="Full at", kind="time"),
)


def make(context: Context) -> Made:
    """The forecast for each bridge, for each node and for its disk."""
    points = _points(context)
    forecasts = _forecasts(context, points)
    rows, rows_total = context.top(
        "SELECT * FROM {f} ORDER BY full_in_s ASC NULLS LAST, full_percent DESC NULLS LAST, node, what", f=forecasts
    )
    trends = [row for row in rows if row["snapshots"] > 1]
    section = Section(
        name=NAME,
        title="Growth",
        question="Which backlog grows, and when is it full?",
        verdict=worst(*(row["verdict"] for row in rows)) if trends else "none",
        summary=_summary(rows, trends),
        columns=_COLUMNS,
        rows=table(_COLUMNS, rows),
        rows_total=rows_total,
        charts=_charts(points, context, rows),
        notes=(
            "A straight line through the snapshots of the last day; what grows in bursts is full sooner or later than that.",
            *context.notes,
        ),
    )
    marks = {
        (row["node"], row["bridge"]): Mark(
            facts=(Fact(name="full_in_s", title="Full in", kind="duration_s", value=row["full_in_s"]),),
            verdict=row["verdict"],
            note=_note(row),
        )
        for row in rows
        if row["bridge"] is not None
    }
    return Made(sections=(section,), frames={NAME: forecasts, "depths": points}, marks=marks)


def _points(context: Context) -> Frame:
    """How much each bridge (``bridge``; null: the whole node), and the disk (``free``), had at each snapshot."""
    limits = context.rows(
        [
            (
                row["node"],
                row["snapshot_id"],
                row["max_messages"],
                row["max_bytes"],
                row["min_free_disk_bytes"],
                row["disk_free_bytes"],
            )
            for row in context.snapshot_rows
        ],
        {
            "node": "string",
            "snapshot_id": "string",
            **dict.fromkeys(("max_messages", "max_bytes", "min_free", "free"), "long"),
        },
    )
    return context.found(
        f"""
        SELECT to_date(snapshot_at) AS date, node, bridge, snapshot_id, snapshot_at, sum(depth + depth_volatile) AS messages,
               sum(bytes) AS bytes, max(max_messages) AS max_messages, max(max_bytes) AS max_bytes, CAST(NULL AS bigint) AS free,
               CAST(NULL AS bigint) AS min_free
        FROM {{queues_all}} WHERE bridge IS NOT NULL AND {context.period.sql("snapshot_at")}
        GROUP BY node, bridge, snapshot_id, snapshot_at
        UNION ALL
        SELECT to_date(q.snapshot_at), q.node, NULL, q.snapshot_id, q.snapshot_at, sum(q.depth + q.depth_volatile), sum(q.bytes),
               max(l.max_messages), max(l.max_bytes), max(l.free), max(l.min_free)
        FROM {{queues_all}} q JOIN {{limits}} l ON q.snapshot_id = l.snapshot_id WHERE {context.period.sql("q.snapshot_at")}
        GROUP BY q.node, q.snapshot_id, q.snapshot_at
        """,
        limits=limits,
    )


def _forecasts(context: Context, points: Frame) -> Frame:
    soon, least = context.thresholds.full_within_s, context.thresholds.trend_min_s
    return context.found(
        f"""
        WITH placed AS (
          SELECT *, unix_micros(snapshot_at) / 1e6 AS t, max(snapshot_at) OVER w AS newest,
                 count_if(snapshot_at >= last_day) OVER w AS recent
          FROM (SELECT *, max(snapshot_at) OVER (PARTITION BY node, bridge) - INTERVAL {RECENT_S} SECOND AS last_day
                FROM {{points}})
          WINDOW w AS (PARTITION BY node, bridge)),
        used AS (SELECT *, t - unix_micros(newest) / 1e6 AS x FROM placed WHERE snapshot_at >= last_day OR recent < {POINTS_MIN}),
        lines AS (
          SELECT node, bridge, max(newest) AS snapshot_at, count(*) AS snapshots, max_by(messages, x) AS messages,
                 max_by(bytes, x) AS bytes, max_by(max_messages, x) AS max_messages, max_by(max_bytes, x) AS max_bytes,
                 max_by(free - min_free, x) AS room,
                 if(max(x) - min(x) >= {least}, round(regr_slope(messages, x), {DIGITS}) + 0e0, NULL) AS per_s,
                 if(max(x) - min(x) >= {least}, round(regr_slope(bytes, x), {DIGITS}) + 0e0, NULL) AS bytes_per_s,
                 if(max(x) - min(x) >= {least}, round(regr_slope(free, x), {DIGITS}) + 0e0, NULL) AS free_per_s
          FROM used GROUP BY node, bridge),
        sorted AS (
          SELECT node, bridge, if(bridge IS NULL, 'the whole node', bridge) AS what, snapshot_at, snapshots, messages,
                 per_s * 3600 AS messages_per_h, max_messages, bytes, bytes_per_s * 3600 AS bytes_per_h, max_bytes,
                 greatest(try_divide(messages, max_messages), try_divide(bytes, max_bytes)) * 100 AS full_percent,
                 least(if(per_s > 0 AND max_messages IS NOT NULL, greatest(0, max_messages - messages) / per_s, NULL),
                       if(bytes_per_s > 0 AND max_bytes IS NOT NULL, greatest(0, max_bytes - bytes) / bytes_per_s, NULL))
                 AS full_in_s
          FROM lines
          UNION ALL
          SELECT node, NULL, 'free disk above its minimum', snapshot_at, snapshots, NULL, NULL, NULL, room, free_per_s * 3600,
                 NULL, NULL, if(free_per_s < 0, greatest(0, room) / -free_per_s, NULL)
          FROM lines WHERE room IS NOT NULL),
        foreseen AS (
          SELECT node, bridge, what, snapshot_at, snapshots, messages, messages_per_h, max_messages, bytes, bytes_per_h, max_bytes,
                 full_percent, if(full_in_s <= {context.thresholds.forecast_max_s}, full_in_s, NULL) AS full_in_s
          FROM sorted)
        SELECT CASE WHEN full_percent >= 100 OR full_in_s < {soon} THEN 'attention' ELSE 'ok' END AS verdict,
               to_date(snapshot_at) AS date, *,
               timestamp_micros(CAST(floor(unix_micros(snapshot_at) + full_in_s * 1e6) AS bigint)) AS full_at
        FROM foreseen
        """,
        points=points,
    )


def _note(row: Row) -> str:
    if row["verdict"] != "attention":
        return ""
    if row["full_percent"] is not None and row["full_percent"] >= 100:
        return "full"
    return f"full in {duration(row['full_in_s'])} if it goes on like that"


def _summary(rows: list[Row], trends: list[Row]) -> str:
    if not trends:
        return "A trend wants two snapshots of a node."
    growing = [
        row for row in trends if row["messages_per_h"] is not None and row["messages_per_h"] > 0 and row["bridge"] is not None
    ]
    filling = [row for row in rows if row["full_in_s"] is not None]
    text = f"{plural(len(growing), 'bridge')} of {len([row for row in trends if row['bridge'] is not None])} with a growing backlog"
    if not filling:
        return f"{text}; nothing is on its way to a limit."
    first = filling[0]
    return (
        f"{text}; first at a limit: {first['what']} of {first['node']}, in {duration(first['full_in_s'])} if it goes on like that."
    )


def _charts(points: Frame, context: Context, rows: list[Row]) -> tuple[Chart, ...]:
    """The backlogs of the bridges that have most, at the snapshots; those of different nodes are made at different times."""
    most = sorted((row for row in rows if row["bridge"] is not None and row["messages"]), key=lambda row: -row["messages"])[
        :SERIES_SHOWN
    ]
    if not most or max(row["snapshots"] for row in most) < 2:
        return ()
    lanes = [(row["node"], row["bridge"]) for row in most]
    found = context.collect(
        "SELECT /*+ BROADCAST(c) */ p.node, p.bridge, p.snapshot_at, p.messages FROM {p} p JOIN {c} c ON p.node = c.node"
        " AND p.bridge = c.bridge",
        p=points,
        c=context.rows(lanes, {"node": "string", "bridge": "string"}),
    )
    times = sorted({row["snapshot_at"] for row in found})
    known = {(row["node"], row["bridge"], row["snapshot_at"]): row["messages"] for row in found}
    series = tuple(Series(name=lane_title(*lane), values=tuple(known.get((*lane, at)) for at in times)) for lane in lanes)
    return (Chart(kind="lines", title="Waiting messages at the snapshots", x=tuple(times), series=series),)
