"""Messages that were in flight when the newest snapshots were made, and whether that can be: an audit of the markers.

exchange.identifier-never-twice: no packet identifier is used twice in a lane, and what is in flight spans at most 65,000 sequences.
A message that is marked with a packet identifier is stored, and is not settled.
"""

from __future__ import annotations

from analysis.engines.engine import Row
from analysis.reports.context import Context, utc
from analysis.reports.report_model import Column, Section, Verdict, worst
from analysis.reports.report_parts import Made, Mark, bridge_title, duration, moment, plural, table

NAME = "inflight"
SPAN_MAX = 65_000
_COLUMNS = (
    Column(name="verdict", title="Verdict", kind="state"),
    Column(name="node", title="Node", kind="text"),
    Column(name="queue", title="Queue", kind="text"),
    Column(name="in_flight", title="In flight", kind="count"),
    Column(name="released", title="Of these released", kind="count"),
    Column(name="qos0", title="QoS 0", kind="count"),
    Column(name="oldest_at", title="Oldest accepted", kind="time"),
    Column(name="oldest_age_s", title="Oldest age", kind="duration_s"),
    Column(name="span", title="Span of sequences", kind="count"),
    Column(name="same_id", title="Identifiers used twice", kind="count"),
    Column(name="not_stored", title="Not stored", kind="count"),
    Column(name="link", title="Link", kind="text"),
    Column(name="link_since", title="Link since", kind="time"),
)


def make(context: Context) -> Made:
    """The audit of each queue that had something in flight."""
    audited = context.found(
        f"""
        WITH links AS (
          SELECT node, bridge, coalesce(lane, '0') AS lane, max_by(kind, number) AS kind, max_by(e.at, number) AS since
          FROM {{events}} e WHERE kind LIKE 'link.%' GROUP BY 1, 2, 3),
        sent AS (
          SELECT node, snapshot_at, queue, bridge, lane, count(*) AS in_flight, count_if(state = 'released') AS released,
                 count_if(packet_id IS NULL) AS qos0, min(accepted_at) AS oldest_at, max(seq) - min(seq) + 1 AS span,
                 count(packet_id) - count(DISTINCT packet_id) AS same_id,
                 count_if(packet_id IS NOT NULL AND topic IS NULL) AS not_stored,
                 (unix_micros(snapshot_at) - min(unix_micros(accepted_at))) / 1e6 AS oldest_age_s
          FROM {{inflight}} GROUP BY node, snapshot_at, queue, bridge, lane)
        SELECT CASE WHEN same_id > 0 OR not_stored > 0 OR span > {SPAN_MAX} THEN 'problem'
                    WHEN f.bridge IS NOT NULL AND oldest_age_s >= {context.thresholds.in_flight_age_s} THEN 'attention'
                    ELSE 'ok' END AS verdict,
               to_date(f.snapshot_at) AS date, f.*, l.kind AS link, l.since AS link_since
        FROM sent f LEFT JOIN links l ON f.node = l.node AND f.bridge = l.bridge AND f.lane = l.lane
        """
    )
    rows, rows_total = context.top("SELECT * FROM {a} ORDER BY oldest_age_s DESC, node, queue", a=audited)
    bridges = context.collect(
        "SELECT node, coalesce(bridge, '') AS bridge, sum(in_flight) AS in_flight, max(oldest_age_s) AS oldest_age_s,"
        " min(oldest_at) AS oldest_at, count_if(verdict = 'problem') AS wrong, count_if(verdict = 'attention') AS old"
        " FROM {a} GROUP BY 1, 2 ORDER BY 1, 2",
        a=audited,
    )
    section = Section(
        name=NAME,
        title="In flight",
        question="What had been sent and was not acknowledged yet, and can that be?",
        verdict=worst(*(_verdict(row) for row in bridges)),
        summary=_summary(bridges),
        columns=_COLUMNS,
        rows=table(_COLUMNS, [row | {"link": _link(row["link"])} for row in rows]),
        rows_total=rows_total,
        notes=(
            "QoS 0 has no identifier, and is not stored. A link that is down explains what is old: it leaves again with the"
            " next session.",
        ),
    )
    return Made(sections=(section,), frames={NAME: audited}, marks={(row["node"], row["bridge"]): _mark(row) for row in bridges})


def _link(kind: str | None) -> str | None:
    return None if kind is None else kind.removeprefix("link.")


def _verdict(row: Row) -> Verdict:
    return "problem" if row["wrong"] else "attention" if row["old"] else "ok"


def _summary(bridges: list[Row]) -> str:
    if not bridges:
        return "Nothing was in flight."
    total = f"{plural(sum(row['in_flight'] for row in bridges), 'message')} in flight on {plural(len(bridges), 'bridge')}"
    if wrong := [row for row in bridges if row["wrong"]]:
        return (
            f"{total}; the markers contradict the store on {plural(len(wrong), 'bridge')}, such as"
            f" {bridge_title(wrong[0]['bridge'])} of {wrong[0]['node']}."
        )
    known = [row for row in bridges if row["oldest_age_s"] is not None]
    if not known:
        return f"{total}; all of it QoS 0."
    oldest = max(known, key=lambda row: row["oldest_age_s"])
    who = f"{bridge_title(oldest['bridge'])} of {oldest['node']}"
    return (
        f"{total}; the oldest on {who}, accepted {utc(oldest['oldest_at'])}, {duration(oldest['oldest_age_s'])} before"
        " its snapshot."
    )


def _mark(row: Row) -> Mark:
    note = ""
    if row["wrong"]:
        note = "markers in flight contradict the store"
    elif row["old"]:
        note = f"in flight since {moment(row['oldest_at'])}"
    return Mark(verdict=_verdict(row), note=note)
