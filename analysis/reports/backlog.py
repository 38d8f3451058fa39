"""Backlogs: where messages wait, and since when, by bridge, rule and age, and by topic. As of each node's newest snapshot."""

from __future__ import annotations

from analysis.engines.engine import Frame, Row
from analysis.reports.context import Context, utc
from analysis.reports.report_model import Chart, Column, Fact, Section, Series, Verdict, worst
from analysis.reports.report_parts import (
    BARS_SHOWN,
    Made,
    Mark,
    bridge_title,
    duration,
    lane_title,
    moment,
    plural,
    size,
    table,
)

NAME = "backlog"
# The ages, youngest first: column, what it is called, below how many seconds.
AGES = (
    ("age_1m", "under 1 min", 60),
    ("age_10m", "1 to 10 min", 600),
    ("age_1h", "10 min to 1 h", 3600),
    ("age_6h", "1 to 6 h", 21_600),
    ("age_1d", "6 to 24 h", 86_400),
    ("age_older", "older than a day", None),
)
_COLUMNS = (
    Column(name="verdict", title="Verdict", kind="state"),
    Column(name="node", title="Node", kind="text"),
    Column(name="bridge", title="Bridge", kind="text"),
    Column(name="rule", title="Rule", kind="text"),
    Column(name="messages", title="Waiting", kind="count"),
    Column(name="bytes", title="Payload", kind="bytes"),
    Column(name="oldest_at", title="Oldest accepted", kind="time"),
    Column(name="oldest_age_s", title="Oldest age", kind="duration_s"),
    *(Column(name=name, title=title.capitalize(), kind="count") for name, title, _ in AGES),
)
_TOPIC_COLUMNS = (
    Column(name="node", title="Node", kind="text"),
    Column(name="bridge", title="Bridge", kind="text"),
    Column(name="topic", title="Topic", kind="text"),
    Column(name="messages", title="Waiting", kind="count"),
    Column(name="bytes", title="Payload", kind="bytes"),
    Column(name="oldest_at", title="Oldest accepted", kind="time"),
    Column(name="oldest_age_s", title="Oldest age", kind="duration_s"),
)


def _ages_sql() -> str:
    """SQL that counts the messages of each age; their age in seconds is ``age_s``."""
    counts, low = [], None
    for name, _, below in AGES:
        conditions = ([f"age_s >= {low}"] if low is not None else []) + ([f"age_s < {below}"] if below is not None else [])
        counts.append(f"count_if({' AND '.join(conditions)}) AS {name}")
        low = below
    return ", ".join(counts)


def make(context: Context) -> Made:
    """The waiting messages, by bridge and rule, and the topics that most of them are of."""
    rules = context.found(
        "SELECT to_date(max(snapshot_at)) AS date, node, coalesce(bridge, '') AS bridge, rule, count(*) AS messages,"
        f" sum(payload_bytes) AS bytes, min(accepted_at) AS oldest_at, max(age_s) AS oldest_age_s, {_ages_sql()} FROM"
        " (SELECT *, (unix_micros(snapshot_at) - unix_micros(accepted_at)) / 1e6 AS age_s FROM {messages}"
        " WHERE state <> 'settled') GROUP BY node, coalesce(bridge, ''), rule"
    )
    topics = context.keep(
        "SELECT to_date(max(snapshot_at)) AS date, node, coalesce(bridge, '') AS bridge, topic, count(*) AS messages,"
        " sum(payload_bytes) AS bytes, min(accepted_at) AS oldest_at,"
        " max((unix_micros(snapshot_at) - unix_micros(accepted_at)) / 1e6) AS oldest_age_s FROM {messages}"
        " WHERE state <> 'settled' GROUP BY node, coalesce(bridge, ''), topic"
    )
    bridges = _bridges(context)
    return Made(
        sections=(_section(context, rules, bridges), _topics(context, topics)),
        frames={NAME: rules, "backlog_topics": topics},
        marks={(row["node"], row["bridge"]): _mark(context, row) for row in bridges},
    )


def _bridges(context: Context) -> list[Row]:
    """How much waits for each bridge, QoS 0 in memory included, by the rows of the queues."""
    return context.collect(
        "SELECT node, coalesce(bridge, '') AS bridge, sum(depth + depth_volatile) AS waiting, sum(depth_volatile) AS volatile,"
        " sum(bytes) AS bytes, min(oldest_at) AS oldest_at, max(snapshot_at) AS at FROM {queues} GROUP BY 1, 2"
        " ORDER BY waiting DESC, 1, 2"
    )


def _verdict(context: Context, age_s: float | None) -> Verdict:
    return "attention" if age_s is not None and age_s >= context.thresholds.backlog_age_s else "ok"


def _section(context: Context, rules: Frame, bridges: list[Row]) -> Section:
    rows, rows_total = context.top("SELECT * FROM {r} ORDER BY messages DESC, node, bridge, rule", r=rules)
    shown = [
        row | {"verdict": _verdict(context, row["oldest_age_s"]), "bridge": bridge_title(row["bridge"]), "rule": row["rule"]}
        for row in rows
    ]
    sums = ", ".join(f"sum({name}) AS {name}" for name, _, _ in AGES)
    ages = context.collect(
        f"SELECT node, bridge, {sums} FROM {{r}} GROUP BY 1, 2 ORDER BY sum(messages) DESC, 1, 2 LIMIT {BARS_SHOWN}", r=rules
    )
    charts: tuple[Chart, ...] = ()
    if ages:
        charts = (
            Chart(
                kind="stacked-bars",
                title="Waiting messages by bridge and age",
                x=tuple(lane_title(row["node"], row["bridge"]) for row in ages),
                series=tuple(Series(name=title, values=tuple(row[name] for row in ages)) for name, title, _ in AGES),
                unit_x="text",
            ),
        )
    volatile = sum(row["volatile"] for row in bridges)
    notes: tuple[str, ...] = ("Ages count up to the snapshot of the node; a local session's messages wait for its client.",)
    if volatile:
        notes += (f"{plural(volatile, 'QoS 0 message')} more are in the memory of the nodes only, and not in the table.",)
    return Section(
        name=NAME,
        title="Backlog",
        question="What is waiting where, and since when?",
        verdict=worst(*(_mark(context, row).verdict for row in bridges)),
        summary=_summary(bridges),
        columns=_COLUMNS,
        rows=table(_COLUMNS, shown),
        rows_total=rows_total,
        charts=charts,
        notes=notes,
    )


def _summary(bridges: list[Row]) -> str:
    waiting = [row for row in bridges if row["waiting"]]
    if not waiting:
        return "Nothing is waiting."
    first = min(waiting, key=lambda row: row["oldest_at"] if row["oldest_at"] is not None else row["at"])
    total = (
        f"{plural(sum(row['waiting'] for row in waiting), 'message')} ({size(sum(row['bytes'] for row in waiting))})"
        f" wait in {plural(len(waiting), 'place')}"
    )
    most = f"most for {_who(waiting[0])}: {waiting[0]['waiting']:,}"
    if first["oldest_at"] is None:
        return f"{total}; {most}."
    age_s = (first["at"] - first["oldest_at"]) / 1000
    return f"{total}; {most}; longest for {_who(first)}: since {utc(first['oldest_at'])}, {duration(age_s)}."


def _who(row: Row) -> str:
    return f"{bridge_title(row['bridge'])} of {row['node']}"


def _mark(context: Context, row: Row) -> Mark:
    age_s = None if row["oldest_at"] is None else (row["at"] - row["oldest_at"]) / 1000
    verdict = _verdict(context, age_s) if row["bridge"] else "ok"
    note = f"{row['waiting']:,} wait, the oldest since {moment(row['oldest_at'])}" if verdict == "attention" else ""
    facts = (
        Fact(name="waiting_bytes", title="Waiting bytes", kind="bytes", value=row["bytes"]),
        Fact(name="oldest_age_s", title="Oldest waits for", kind="duration_s", value=age_s),
    )
    return Mark(facts=facts, verdict=verdict, note=note)


def _topics(context: Context, topics: Frame) -> Section:
    rows, rows_total = context.top("SELECT * FROM {t} ORDER BY messages DESC, node, bridge, topic", t=topics)
    shown = [row | {"bridge": bridge_title(row["bridge"])} for row in rows]
    summary = "Nothing is waiting."
    if rows:
        summary = f"Most waits of {rows[0]['topic']} for {_who(rows[0])}: {plural(rows[0]['messages'], 'message')}."
    return Section(
        name="backlog-topics",
        title="Waiting topics",
        question="Of which topics is what waits?",
        verdict="none",
        summary=summary,
        columns=_TOPIC_COLUMNS,
        rows=table(_TOPIC_COLUMNS, shown),
        rows_total=rows_total,
    )
