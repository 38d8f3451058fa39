"""How long messages took from their acceptance to their settlement as delivered, over time.

Both times are readings of one node's wall clock. Messages that were under way when that clock was set (an event ``clock.jumped``)
have no latency that anybody knows, and are counted apart; negative ones without such an event are counted apart as well.
Percentiles are exact, to the millisecond that the store keeps, with linear interpolation: first equal latencies are counted, then
those few are ranked, by a running sum of their counts.
"""

from __future__ import annotations

from analysis.engines.engine import Frame, Row
from analysis.reports.context import Context
from analysis.reports.report_model import Chart, Column, Fact, Section, Series, worst
from analysis.reports.report_parts import (
    SERIES_SHOWN,
    Made,
    Mark,
    bridge_title,
    duration,
    lane_title,
    plural,
    table,
)

NAME = "latency"
QUANTILES = (("p50_s", "Median", 0.5), ("p90_s", "p90", 0.9), ("p99_s", "p99", 0.99), ("p999_s", "p99.9", 0.999))
_COLUMNS = (
    Column(name="node", title="Node", kind="text"),
    Column(name="bridge", title="Bridge", kind="text"),
    Column(name="messages", title="Delivered", kind="count"),
    *(Column(name=name, title=title, kind="duration_s") for name, title, _ in QUANTILES),
    Column(name="max_s", title="Longest", kind="duration_s"),
    Column(name="worst_p99_s", title="Worst p99", kind="duration_s"),
    Column(name="worst_at", title="Worst p99 from", kind="time"),
    Column(name="clock_jumps", title="Across a clock jump", kind="count"),
    Column(name="negative", title="Negative", kind="count"),
)
# By how it is summed up: of each bridge and stretch of time, of each bridge, of each stretch, of all.
OF_BRIDGE_AND_TIME, OF_BRIDGE, OF_TIME, OF_ALL = 0, 1, 6, 7

_SPANS = """
  SELECT node, coalesce(bridge, '') AS bridge, {start} AS start, unix_millis(accepted_at) AS a, unix_millis(settled_at) AS b
  FROM {messages} WHERE state = 'settled' AND outcome = 'delivered' AND settled_at IS NOT NULL AND {period}
"""
# A jump from t to t + by_ms makes the readings between both doubtful: whatever touches them has no known latency.
_JUMPS = """
  SELECT node, least(at_ms, at_ms - by_ms) AS low, greatest(at_ms, at_ms - by_ms) AS high
  FROM (SELECT node, unix_millis(e.at) AS at_ms, coalesce(try_cast(get_json_object(details, '$.by_ms') AS bigint), 0) AS by_ms
        FROM {events} e WHERE kind = 'clock.jumped')
"""
_ACROSS = "EXISTS (SELECT 1 FROM {jumps} j WHERE j.node = s.node AND least(s.a, s.b) <= j.high AND greatest(s.a, s.b) >= j.low)"
_COUNTED = "SELECT node, bridge, start, b - a AS ms, {jumped} AS jumped, count(*) AS messages FROM {spans} s {where} GROUP BY ALL"

# Of n latencies in order, the share q lies at the place q * (n - 1), counted from 0: on one of them, or on a line between two.
_RANKED = """
  WITH levels AS (
    SELECT 4 * grouping(node) + 2 * grouping(bridge) + grouping(start) AS level, node, bridge, start, ms, sum(messages) AS same,
           sum(if(jumped, messages, 0)) AS clock_jumps, sum(if(NOT jumped AND ms < 0, messages, 0)) AS negative,
           NOT jumped AND ms >= 0 AS good
    FROM {counted}
    GROUP BY GROUPING SETS ((node, bridge, start, ms, jumped), (node, bridge, ms, jumped), (start, ms, jumped), (ms, jumped)))
  SELECT *, sum(if(good, same, 0)) OVER (PARTITION BY level, node, bridge, start ORDER BY ms, good) AS reached,
         sum(if(good, same, 0)) OVER (PARTITION BY level, node, bridge, start) AS n
  FROM levels
"""


def _figures_sql() -> str:
    """SQL of the figures of each level; ``low`` and ``high`` are the latencies on both sides of a place."""
    parts = []
    for name, _, share in QUANTILES:
        place = f"{share}e0 * (n - 1)"
        low, high = (f"min(if(good AND reached > {edge}({place}), ms, NULL))" for edge in ("floor", "ceil"))
        parts.append(f"({low} + ({high} - {low}) * max({place} - floor({place}))) / 1e3 AS {name}")
    return ", ".join(parts)


def _counted(context: Context) -> Frame:
    """How many messages of each bridge and stretch of time took how long, and whether the clock jumped meanwhile."""
    spans = context.frame(
        _SPANS.replace("{start}", context.bucket("settled_at")).replace("{period}", context.period.sql("settled_at"))
    )
    jumps = context.found(_JUMPS)
    if not context.collect("SELECT 1 AS one FROM {jumps} LIMIT 1", jumps=jumps):
        return context.keep(_COUNTED.replace("{jumped}", "false").replace("{where}", ""), spans=spans)
    both = (
        _COUNTED.replace("{jumped}", jumped).replace("{where}", f"WHERE {which}{_ACROSS}")
        for jumped, which in (("true", ""), ("false", "NOT "))
    )
    return context.keep(" UNION ALL ".join(both), spans=spans, jumps=jumps)


def make(context: Context) -> Made:
    """Percentiles for each bridge, over time and in all."""
    figures = context.found(
        f"""
        SELECT level, node, bridge, start, max(n) AS messages, {_figures_sql()}, max(if(good, ms, NULL)) / 1e3 AS max_s,
               sum(clock_jumps) AS clock_jumps, sum(negative) AS negative
        FROM {{ranked}} GROUP BY level, node, bridge, start
        """,
        ranked=context.frame(_RANKED, counted=_counted(context)),
    )
    shown = ", ".join(
        ("node", "bridge", "start", "messages", *(name for name, _, _ in QUANTILES), "max_s", "clock_jumps", "negative")
    )
    by_time = context.frame(f"SELECT to_date(start) AS date, {shown} FROM {{f}} WHERE level = {OF_BRIDGE_AND_TIME}", f=figures)
    rows, rows_total = context.top(
        "SELECT b.*, w.worst_p99_s, w.worst_at FROM {f} b LEFT JOIN (SELECT node, bridge, max(p99_s) AS worst_p99_s,"
        " max_by(start, struct(p99_s, -unix_micros(start))) AS worst_at FROM {t} WHERE p99_s IS NOT NULL GROUP BY 1, 2) w"
        f" ON b.node = w.node AND b.bridge = w.bridge WHERE b.level = {OF_BRIDGE} ORDER BY b.p99_s DESC, b.node, b.bridge",
        f=figures,
        t=by_time,
    )
    whole = context.collect(f"SELECT * FROM {{f}} WHERE level = {OF_ALL}", f=figures)
    fleet = context.collect(f"SELECT * FROM {{f}} WHERE level = {OF_TIME} ORDER BY start", f=figures)
    marks = {(row["node"], row["bridge"]): _mark(context, row) for row in rows}
    section = Section(
        name=NAME,
        title="Latency",
        question="How long did messages take from acceptance to delivery?",
        verdict="none"
        if not rows
        else worst("attention" if whole[0]["negative"] else "ok", *(mark.verdict for mark in marks.values())),
        summary=_summary(whole, rows),
        columns=_COLUMNS,
        rows=table(_COLUMNS, [row | {"bridge": bridge_title(row["bridge"])} for row in rows]),
        rows_total=rows_total,
        charts=_charts(context, by_time, fleet, rows),
        notes=(
            "Known of messages that are still kept after their delivery (retention of the bridge). QoS 0 ends when it is"
            " passed on.",
            f"Each point is {duration(context.width_s)} of settlements.",
        ),
    )
    return Made(sections=(section,), frames={NAME: by_time}, marks=marks)


def _mark(context: Context, row: Row) -> Mark:
    p99_s = row["p99_s"]
    slow = p99_s is not None and p99_s >= context.thresholds.latency_p99_s
    fact = Fact(name="p99_s", title="p99 latency", kind="duration_s", value=p99_s)
    note = f"1 % took {duration(p99_s)} or longer" if slow else ""
    return Mark(facts=(fact,), verdict="attention" if slow else "ok", note=note)


def _summary(whole: list[Row], bridges: list[Row]) -> str:
    if not bridges or not whole:
        return "No delivered message is kept: the bridges have no retention, or nothing was delivered."
    total = whole[0]
    if not total["messages"]:
        text = "No latency is known"
    else:
        slowest = bridges[0]
        text = (
            f"Of {plural(total['messages'], 'delivered message')} half took up to {duration(total['p50_s'])}, 99 % up to"
            f" {duration(total['p99_s'])}, the slowest {duration(total['max_s'])}; worst is {bridge_title(slowest['bridge'])} of"
            f" {slowest['node']} with a p99 of {duration(slowest['p99_s'])}"
        )
    if total["clock_jumps"]:
        text += f"; {plural(total['clock_jumps'], 'message')} across a jump of the clock left out"
    if total["negative"]:
        text += f"; {plural(total['negative'], 'message')} with a negative latency left out: look at the clock of the node"
    return text + "."


def _charts(context: Context, by_time: Frame, fleet: list[Row], bridges: list[Row]) -> tuple[Chart, ...]:
    if not fleet:
        return ()
    times = tuple(row["start"] for row in fleet)
    quantiles = Chart(
        kind="lines",
        title="Latency over all bridges",
        x=times,
        series=tuple(Series(name=title, values=tuple(row[name] for row in fleet)) for name, title, _ in QUANTILES),
        unit_y="duration_s",
        log_y=all(row[name] is None or row[name] > 0 for row in fleet for name, _, _ in QUANTILES),
    )
    slowest = [(row["node"], row["bridge"]) for row in bridges[:SERIES_SHOWN]]
    if len(bridges) < 2:
        return (quantiles,)
    points = context.collect(
        "SELECT /*+ BROADCAST(c) */ t.node, t.bridge, start, p99_s FROM {t} t JOIN {c} c ON t.node = c.node"
        " AND t.bridge = c.bridge",
        t=by_time,
        c=context.rows(slowest, {"node": "string", "bridge": "string"}),
    )
    known = {(row["node"], row["bridge"], row["start"]): row["p99_s"] for row in points}
    series = tuple(
        Series(name=lane_title(node, bridge), values=tuple(known.get((node, bridge, start)) for start in times))
        for node, bridge in slowest
    )
    log_y = all(value is None or value > 0 for one in series for value in one.values)
    return (
        quantiles,
        Chart(kind="lines", title="p99 of the slowest bridges", x=times, series=series, unit_y="duration_s", log_y=log_y),
    )
