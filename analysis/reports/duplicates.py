"""Duplicates: messages that may have reached a remote twice, and gaps in the records themselves.

A message that was sent again after a broken connection is a *possible* duplicate at QoS 1 (none at QoS 2: the remote knows its
identifier). Numbers of settlements and of events have no gaps; one that is missing within a snapshot is damage, one missing
between two
snapshots was cut before the newer one was made.
"""

from __future__ import annotations

from analysis.engines.engine import Frame
from analysis.reports.context import Context
from analysis.reports.report_model import Column, Section
from analysis.reports.report_parts import WORST_FIRST, Made, Mark, plural, table

NAME = "duplicates"
_COLUMNS = (
    Column(name="verdict", title="Verdict", kind="state"),
    Column(name="node", title="Node", kind="text"),
    Column(name="queue", title="Queue", kind="text"),
    Column(name="what", title="What", kind="text"),
    Column(name="first", title="First number", kind="count"),
    Column(name="last", title="Last number", kind="count"),
    Column(name="count", title="How many", kind="count"),
    Column(name="last_at", title="Last known", kind="time"),
)


def make(context: Context) -> Made:
    """Sendings beyond the first by queue, and gaps in the numbers of settlements and events."""
    findings = _findings(context)
    rows, rows_total = context.top(
        f"SELECT * FROM {{f}} f ORDER BY {WORST_FIRST}, f.count DESC, node, queue, what, f.first", f=findings
    )
    kinds = context.collect("SELECT what, sum(f.count) AS how_many FROM {f} f GROUP BY 1", f=findings)
    counts = {row["what"]: row["how_many"] for row in kinds}
    bridges = context.collect(
        "SELECT node, bridge, sum(if(what = 'settlements missing', f.count, 0)) AS missing FROM {f} f"
        " WHERE what <> 'events missing' GROUP BY 1, 2",
        f=findings,
    )
    missing = counts.get("settlements missing", 0)
    section = Section(
        name=NAME,
        title="Duplicates and gaps",
        question="What may have arrived twice, and is a part of the records missing?",
        verdict="problem" if missing else "attention" if counts.get("events missing") else "ok",
        summary=_summary(counts),
        columns=_COLUMNS,
        rows=table(_COLUMNS, rows),
        rows_total=rows_total,
        notes=(
            "Sendings beyond the first, by the ledgers: duplicates for remotes that had the first. At QoS 2 the remote tells"
            " them apart.",
            "A part of a gap between two snapshots may have been cut by retention before the newer one was made.",
        ),
    )
    marks = {}
    for row in bridges:
        note = f"{plural(row['missing'], 'settlement')} missing" if row["missing"] else ""
        marks[row["node"], row["bridge"]] = Mark(verdict="problem" if row["missing"] else "ok", note=note)
    return Made(sections=(section,), frames={NAME: findings}, marks=marks)


def _findings(context: Context) -> Frame:
    """Sendings beyond the first of each queue, and each gap in the numbers."""
    return context.found(
        f"""
        WITH sent_again AS (
          SELECT node, queue, max(settled_at) AS last_at FROM {{settlements}}
          WHERE outcome = 'redelivered' AND {context.period.sql("settled_at")} GROUP BY 1, 2),
        numbers AS (
          SELECT DISTINCT node, coalesce(bridge, '') AS bridge, queue, number, settled_at FROM {{settlements}}),
        settlement_gaps AS (
          SELECT node, bridge, queue, number, settled_at, lag(number) OVER (PARTITION BY node, queue ORDER BY number) AS before
          FROM numbers),
        event_gaps AS (
          SELECT node, number, e.at AS told_at, lag(number) OVER (PARTITION BY node ORDER BY number) AS before FROM {{events}} e),
        nodes AS (SELECT node, max(snapshot_at) AS snapshot_at FROM {{queues}} GROUP BY 1),
        found AS (
          SELECT 'ok' AS verdict, q.node, coalesce(q.bridge, '') AS bridge, q.queue, 'sent again' AS what,
                 CAST(NULL AS bigint) AS first, CAST(NULL AS bigint) AS last, q.redelivered AS count, s.last_at
          FROM {{queues}} q LEFT JOIN sent_again s ON q.node = s.node AND q.queue = s.queue WHERE q.redelivered > 0
          UNION ALL
          SELECT 'problem', node, bridge, queue, 'settlements missing', before + 1, number - 1, number - before - 1, settled_at
          FROM settlement_gaps WHERE number > before + 1
          UNION ALL
          SELECT 'attention', node, '', '', 'events missing', before + 1, number - 1, number - before - 1, told_at
          FROM event_gaps WHERE number > before + 1)
        SELECT to_date(n.snapshot_at) AS date, f.* FROM found f JOIN nodes n ON f.node = n.node
        """
    )


def _summary(counts: dict[str, int]) -> str:
    again = counts.get("sent again", 0)
    parts = [f"{plural(again, 'sending')} beyond the first" if again else "Nothing was sent twice"]
    for what, one in (("settlements missing", "settlement"), ("events missing", "event")):
        parts.append(f"{plural(counts[what], one)} missing" if counts.get(what) else f"no {one} missing")
    return "; ".join(parts) + "."
