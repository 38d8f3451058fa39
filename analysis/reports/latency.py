"""How long messages took from their acceptance to their settlement as delivered, over time.

Both times are readings of one node's wall clock. Messages that were under way when that clock was set (an event ``clock.jumped``)
have no latency that anybody knows, and are counted apart; negative ones without such an event are counted apart as well.
Percentiles are exact, to the millisecond that the store keeps, with linear interpolation: first equal latencies are counted, then
those few are ranked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.reports.context import Context
from analysis.reports.report_model import Chart, Column, Fact, Section, Series, worst
from analysis.reports.report_parts import (
    SERIES_SHOWN,
    Made,
    Mark,
    Row,
    bridge_title,
    collect,
    duration,
    lane_title,
    plural,
    table,
    top,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
_FIGURES = ", ".join(f"percentile(if(good, ms, NULL), {q}, messages) / 1000 {name}" for name, _, q in QUANTILES)

# A jump from t to t + by_ms makes the readings between both doubtful: whatever touches them has no known latency.
_COUNTED = """
  WITH jumps AS (
    SELECT node, collect_list(struct(least(at_ms, at_ms - by_ms) low, greatest(at_ms, at_ms - by_ms) high)) windows
    FROM (SELECT node, unix_millis(at) at_ms, coalesce(try_cast(get_json_object(details, '$.by_ms') AS bigint), 0) by_ms
          FROM {events} WHERE kind = 'clock.jumped')
    GROUP BY node),
  spans AS (
    SELECT node, coalesce(bridge, '') bridge, {start} start, unix_millis(accepted_at) a, unix_millis(settled_at) b
    FROM {messages} WHERE state = 'settled' AND outcome = 'delivered' AND settled_at IS NOT NULL AND {period})
  SELECT /*+ BROADCAST(j) */ s.node, s.bridge, s.start, b - a ms, count(*) messages,
         coalesce(exists(j.windows, w -> least(a, b) <= w.high AND greatest(a, b) >= w.low), false) jumped
  FROM spans s LEFT JOIN jumps j ON s.node = j.node GROUP BY ALL
"""


def make(context: Context) -> Made:
    """Percentiles for each bridge, over time and in all."""
    counted = context.keep(
        context.sql(_COUNTED.replace("{start}", context.bucket("settled_at")).replace("{period}", context.period.sql("settled_at")))
    )
    figures = context.found(
        context.sql(
            f"""
            SELECT grouping_id() level, node, bridge, start, sum(if(good, messages, 0)) messages, {_FIGURES},
                   max(if(good, ms, NULL)) / 1000 max_s, sum(if(jumped, messages, 0)) clock_jumps,
                   sum(if(NOT jumped AND ms < 0, messages, 0)) negative
            FROM (SELECT *, NOT jumped AND ms >= 0 good FROM {{counted}})
            GROUP BY node, bridge, start GROUPING SETS ((node, bridge, start), (node, bridge), (start), ())
            """,
            counted=counted,
        )
    )
    by_time = context.sql("SELECT to_date(start) date, * EXCEPT (level) FROM {f} WHERE level = 0", f=figures)
    bridges = context.sql(
        "SELECT b.*, w.worst_p99_s, w.worst_at FROM {f} b LEFT JOIN (SELECT node, bridge, max(p99_s) worst_p99_s,"
        " max_by(start, p99_s) worst_at"
        " FROM {f} WHERE level = 0 GROUP BY 1, 2) w ON b.node = w.node AND b.bridge = w.bridge WHERE b.level = 1 ORDER BY"
        " b.p99_s DESC, b.node, b.bridge",
        f=figures,
    )
    rows, rows_total = top(bridges)
    whole = collect(context.sql("SELECT * FROM {f} WHERE level = 7", f=figures))
    fleet = collect(context.sql("SELECT * FROM {f} WHERE level = 6 ORDER BY start", f=figures))
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


def _charts(context: Context, by_time: DataFrame, fleet: list[Row], bridges: list[Row]) -> tuple[Chart, ...]:
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
    chosen = context.rows("chosen", slowest, "node string, bridge string")
    points = collect(
        context.sql(
            "SELECT /*+ BROADCAST(c) */ t.node, t.bridge, start, p99_s FROM {t} t JOIN {c} c ON t.node = c.node AND t.bridge"
            " = c.bridge",
            t=by_time,
            c=chosen,
        )
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
