"""The hottest topics: of which there were most messages and bytes, over all nodes, among what is queued or still kept."""

from __future__ import annotations

from analysis.reports.context import Context
from analysis.reports.report_model import Chart, Column, Section, Series
from analysis.reports.report_parts import BARS_SHOWN, Made, collect, plural, size, table, top

NAME = "topics"
_COLUMNS = (
    Column(name="topic", title="Topic", kind="text"),
    Column(name="messages", title="Messages", kind="count"),
    Column(name="share", title="Share", kind="percent"),
    Column(name="bytes", title="Payload", kind="bytes"),
    Column(name="mean_bytes", title="Mean payload", kind="bytes"),
    Column(name="waiting", title="Of these waiting", kind="count"),
    Column(name="nodes", title="Nodes", kind="count"),
    Column(name="last_at", title="Last accepted", kind="time"),
)


def make(context: Context) -> Made:
    """Topics by messages; per node in Parquet."""
    topics = context.keep(
        context.sql(
            "SELECT to_date(max(snapshot_at)) date, node, topic, count(*) messages, sum(payload_bytes) bytes, count_if(state"
            " <> 'settled')"
            f" waiting, max(accepted_at) last_at FROM {{messages}} WHERE {context.period.sql('accepted_at')} GROUP BY node, topic"
        )
    )
    totals = collect(
        context.sql("SELECT sum(messages) messages, sum(bytes) bytes, count(DISTINCT topic) topics FROM {t}", t=topics)
    )[0]
    hottest = context.sql(
        f"SELECT topic, sum(messages) messages, sum(messages) * 100D / {max(1, totals['messages'] or 0)} share, sum(bytes) bytes,"
        " sum(bytes) / sum(messages) mean_bytes, sum(waiting) waiting, count(*) nodes, max(last_at) last_at FROM {t} GROUP BY topic"
        " ORDER BY messages DESC, topic",
        t=topics,
    )
    rows, rows_total = top(hottest)
    shown = rows[:BARS_SHOWN]
    charts: tuple[Chart, ...] = ()
    if shown:
        charts = (
            Chart(
                kind="bars",
                title="Messages by topic",
                x=tuple(row["topic"] for row in shown),
                series=(Series(name="Messages", values=tuple(row["messages"] for row in shown)),),
                unit_x="text",
            ),
        )
    summary = "No message is kept."
    if rows:
        largest = max(rows, key=lambda row: row["bytes"])
        summary = (
            f"{plural(totals['messages'], 'message')} ({size(totals['bytes'])}) of {plural(totals['topics'], 'topic')}; most"
            f" of {rows[0]['topic']}"
            f" ({rows[0]['share']:.1f} %), most bytes of {largest['topic']} ({size(largest['bytes'])})."
        )
    section = Section(
        name=NAME,
        title="Hottest topics",
        question="Which topics made the most traffic?",
        verdict="none",
        summary=summary,
        columns=_COLUMNS,
        rows=table(_COLUMNS, rows),
        rows_total=rows_total,
        charts=charts,
        notes=("Counted in each queue: a message for two bridges counts twice.",),
    )
    return Made(sections=(section,), frames={NAME: topics})
