"""How much came in and went out, on average between snapshots (by the ledgers) and over time (by what history is kept)."""

from __future__ import annotations

from analysis.engines.engine import Frame, Row
from analysis.reports.context import Context, utc
from analysis.reports.report_model import Chart, Column, Section, Series
from analysis.reports.report_parts import Made, bridge_title, duration, number, plural, table

NAME = "throughput"
ENDS = ("delivered", "expired", "dropped", "dead")
_COLUMNS = (
    Column(name="node", title="Node", kind="text"),
    Column(name="bridge", title="Bridge", kind="text"),
    Column(name="between_s", title="Between first and last snapshot", kind="duration_s"),
    Column(name="accepted", title="Accepted meanwhile", kind="count"),
    Column(name="delivered", title="Delivered meanwhile", kind="count"),
    Column(name="in_per_s", title="In per second", kind="count"),
    Column(name="out_per_s", title="Out per second", kind="count"),
    Column(name="kept", title="Delivered in history", kind="count"),
    Column(name="kept_bytes", title="Payload of these", kind="bytes"),
    Column(name="peak_in_per_s", title="Most in per second", kind="count"),
    Column(name="peak_in_at", title="Most in from", kind="time"),
    Column(name="peak_out_per_s", title="Most out per second", kind="count"),
    Column(name="peak_out_at", title="Most out from", kind="time"),
)


def make(context: Context) -> Made:
    """Totals of each bridge, and what came in and went out in each stretch of time."""
    by_time = _by_time(context)
    rows, rows_total = context.top(
        "SELECT * FROM {b} ORDER BY delivered DESC, kept DESC, accepted DESC, node, bridge", b=_bridges(context, by_time)
    )
    sums = ", ".join(f"sum({name}) AS {name}" for name in ("accepted", *ENDS))
    fleet = context.collect(f"SELECT start, {sums} FROM {{t}} GROUP BY start ORDER BY start", t=by_time)
    section = Section(
        name=NAME,
        title="Throughput",
        question="How much came in, how much went out, and when?",
        verdict="none",
        summary=_summary(rows, fleet, context.width_s),
        columns=_COLUMNS,
        rows=table(_COLUMNS, [row | {"bridge": bridge_title(row["bridge"])} for row in rows]),
        rows_total=rows_total,
        charts=_charts(fleet, context.width_s),
        notes=(
            f"Over time: messages that are queued, or settled and still kept (retention of the bridge); each point is"
            f" {duration(context.width_s)}.",
            "If nothing is kept of settled messages, only the ledgers of two snapshots tell how many there were.",
        ),
    )
    return Made(sections=(section,), frames={NAME: by_time})


def _by_time(context: Context) -> Frame:
    """Of each bridge with history: messages and bytes accepted, and how they ended, for each stretch of time."""
    ends = ", ".join(f"sum(if(outcome = '{name}', messages, 0)) AS {name}" for name in ENDS)
    return context.found(
        f"""
        WITH came AS (
          SELECT m.node, coalesce(m.bridge, '') AS bridge, {context.bucket("m.accepted_at")} AS start, count(*) AS accepted,
                 sum(m.payload_bytes) AS accepted_bytes
          FROM {{messages}} m JOIN {{queues}} q ON m.node = q.node AND m.queue = q.queue
          WHERE q.history_from IS NOT NULL AND {context.period.sql("m.accepted_at")} GROUP BY 1, 2, 3),
        went AS (
          SELECT node, coalesce(bridge, '') AS bridge, {context.bucket("settled_at")} AS start, {ends}
          FROM {{settlements}} WHERE outcome <> 'redelivered' AND {context.period.sql("settled_at")} GROUP BY 1, 2, 3),
        sent AS (
          SELECT node, coalesce(bridge, '') AS bridge, {context.bucket("settled_at")} AS start,
                 sum(payload_bytes) AS delivered_bytes
          FROM {{messages}} WHERE state = 'settled' AND outcome = 'delivered' AND {context.period.sql("settled_at")}
          GROUP BY 1, 2, 3)
        SELECT to_date(start) AS date, node, bridge, start, coalesce(accepted, 0) AS accepted,
               coalesce(accepted_bytes, 0) AS accepted_bytes, {", ".join(f"coalesce({name}, 0) AS {name}" for name in ENDS)},
               coalesce(delivered_bytes, 0) AS delivered_bytes
        FROM came FULL JOIN went USING (node, bridge, start) FULL JOIN sent USING (node, bridge, start)
        """
    )


def _bridges(context: Context, by_time: Frame) -> Frame:
    return context.found(
        f"""
        WITH steps AS (
          SELECT node, coalesce(bridge, '') AS bridge, snapshot_at, lag(snapshot_at) OVER w AS before,
                 accepted - lag(accepted) OVER w AS more, delivered - lag(delivered) OVER w AS more_delivered
          FROM {{queues_all}} WHERE {context.period.sql("snapshot_at")}
          WINDOW w AS (PARTITION BY node, queue ORDER BY snapshot_at, snapshot_id)),
        ledger AS (
          SELECT node, bridge, sum(more) AS accepted, sum(more_delivered) AS delivered,
                 (max(unix_micros(snapshot_at)) - min(unix_micros(before))) / 1e6 AS between_s
          FROM steps WHERE more >= 0 GROUP BY 1, 2),
        history AS (
          SELECT node, bridge, sum(delivered) AS kept, sum(delivered_bytes) AS kept_bytes,
                 max(accepted) / {context.width_s}e0 AS peak_in_per_s,
                 max_by(start, struct(accepted, -unix_micros(start))) AS peak_in_at,
                 max(delivered) / {context.width_s}e0 AS peak_out_per_s,
                 max_by(start, struct(delivered, -unix_micros(start))) AS peak_out_at
          FROM {{by_time}} GROUP BY 1, 2)
        SELECT node, bridge, between_s, accepted, delivered, try_divide(accepted, between_s) AS in_per_s,
               try_divide(delivered, between_s) AS out_per_s, kept, kept_bytes, peak_in_per_s, peak_in_at, peak_out_per_s,
               peak_out_at
        FROM ledger FULL JOIN history USING (node, bridge)
        """,
        by_time=by_time,
    )


def _summary(rows: list[Row], fleet: list[Row], width_s: int) -> str:
    parts = []
    if fleet:
        peak = max(fleet, key=lambda row: row["delivered"])
        delivered = sum(row["delivered"] for row in fleet)
        parts.append(
            f"History holds {plural(delivered, 'delivery', 'deliveries')} since {utc(fleet[0]['start'])}, at most"
            f" {peak['delivered'] / width_s:,.1f} a second from {utc(peak['start'])}"
        )
    known = [row for row in rows if row["between_s"]]
    if known:
        parts.append(
            f"between the first and the last snapshot {number(sum(row['accepted'] for row in known))} were accepted and"
            f" {number(sum(row['delivered'] for row in known))} delivered"
        )
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else "One snapshot, and no history: nothing is known of the past."


def _charts(fleet: list[Row], width_s: int) -> tuple[Chart, ...]:
    if not fleet:
        return ()
    times = tuple(row["start"] for row in fleet)
    rates = Chart(
        kind="lines",
        title="Messages a second, all bridges with history",
        x=times,
        series=tuple(
            Series(name=title, values=tuple(row[name] / width_s for row in fleet))
            for name, title in (("accepted", "Accepted"), ("delivered", "Delivered"))
        ),
        unit_y="per_s",
    )
    others = [name for name in ENDS[1:] if any(row[name] for row in fleet)]
    if not others:
        return (rates,)
    lost = Chart(
        kind="stacked-bars",
        title="Not delivered",
        x=times,
        series=tuple(Series(name=name.capitalize(), values=tuple(row[name] for row in fleet)) for name in others),
    )
    return (rates, lost)
