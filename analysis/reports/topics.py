"""The hottest topics: of which there were most messages and bytes, over all nodes, among what is queued or still kept."""

from __future__ import annotations

from analysis.reports.context import Context
from analysis.reports.report_model import Chart, Column, Section, Series
from analysis.reports.report_parts import BARS_SHOWN, Made, plural, size, table

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
        "SELECT to_date(max(snapshot_at)) AS date, node, topic, count(*) AS messages, sum(payload_bytes) AS bytes,"
        " count_if(state <> 'settled') AS waiting, max(accepted_at) AS last_at FROM {messages}"
        f" WHERE {context.period.sql('accepted_at')} GROUP BY node, topic"
    )
    totals = context.collect(
        "SELECT sum(messages) AS messages, sum(bytes) AS bytes, count(DISTINCT topic) AS topics FROM {t}", t=topics
    )[0]
    rows, rows_total = context.top(
        f"SELECT topic, sum(t.messages) AS messages, sum(t.messages) * 1e2 / {max(1, totals['messages'] or 0)} AS share,"
        " sum(t.bytes) AS bytes, sum(t.bytes) / sum(t.messages) AS mean_bytes, sum(waiting) AS waiting, count(*) AS nodes,"
        " max(t.last_at) AS last_at FROM {t} t GROUP BY topic ORDER BY sum(t.messages) DESC, topic",
        t=topics,
    )
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
