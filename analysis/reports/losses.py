"""Losses on purpose: expired, dropped and dead-lettered messages by cause, and the dead letters that are held.

Messages that operators removed stand beside it: purges are their will, and a dead letter that was replayed was accepted again.
"""

from __future__ import annotations

from analysis.engines.engine import Frame, Row
from analysis.reports.context import Context, utc
from analysis.reports.report_model import Chart, Column, Section, Series, worst
from analysis.reports.report_parts import (
    BARS_SHOWN,
    BridgeKey,
    Made,
    Mark,
    bridge_title,
    lane_title,
    moment,
    plural,
    table,
)

NAME = "losses"
LOSSES = ("expired", "dropped", "dead")
BY_OPERATORS = {"purged": "purged from queues", "replayed": "replayed from dead letters"}
_COLUMNS = (
    Column(name="node", title="Node", kind="text"),
    Column(name="bridge", title="Bridge", kind="text"),
    Column(name="cause", title="Cause", kind="text"),
    Column(name="reason", title="Reason", kind="text"),
    Column(name="messages", title="Messages ever", kind="count"),
    Column(name="recent", title="Of these in history", kind="count"),
    Column(name="first_at", title="First known", kind="time"),
    Column(name="last_at", title="Last known", kind="time"),
)
_LETTER_COLUMNS = (
    Column(name="node", title="Node", kind="text"),
    Column(name="bridge", title="Bridge", kind="text"),
    Column(name="reason", title="Reason", kind="text"),
    Column(name="held", title="Held", kind="count"),
    Column(name="bytes", title="Payload", kind="bytes"),
    Column(name="oldest_at", title="Oldest", kind="time"),
    Column(name="newest_at", title="Newest", kind="time"),
    Column(name="remote", title="Latest refused by", kind="text"),
    Column(name="topic", title="Latest topic", kind="text"),
)


def make(context: Context) -> Made:
    """Losses by cause of each bridge; and dead letters."""
    causes = _causes(context)
    letters = context.found(
        "SELECT to_date(max(snapshot_at)) AS date, node, bridge, reason, count(*) AS held, sum(payload_bytes) AS bytes,"
        " min(d.at) AS oldest_at, max(d.at) AS newest_at, max_by(remote, letter) AS remote, max_by(topic, letter) AS topic"
        " FROM {dead_letters} d GROUP BY node, bridge, reason"
    )
    bridges = context.collect(
        "SELECT c.node, c.bridge, c.messages, c.last_at, q.accepted, q.at FROM"
        f" (SELECT node, bridge, {_LOST} AS messages, max(if(cause IN {LOSSES}, last_at, NULL)) AS last_at FROM {{c}}"
        " GROUP BY 1, 2) c JOIN"
        " (SELECT node, coalesce(bridge, '') AS bridge, sum(accepted) AS accepted, max(snapshot_at) AS at FROM {queues}"
        " GROUP BY 1, 2) q ON c.node = q.node AND c.bridge = q.bridge",
        c=causes,
    )
    held = context.collect("SELECT node, bridge, sum(held) AS held FROM {l} GROUP BY 1, 2", l=letters)
    rows, rows_total = context.top("SELECT * FROM {c} ORDER BY messages DESC, node, bridge, cause, reason", c=causes)
    marks = _marks(context, bridges, held)
    section = Section(
        name=NAME,
        title="Losses",
        question="What was dropped, expired or dead-lettered, and why?",
        verdict=worst("ok", *(mark.verdict for mark in marks.values())),
        summary=_summary(context, causes, rows),
        columns=_COLUMNS,
        rows=table(_COLUMNS, [row | {"bridge": bridge_title(row["bridge"])} for row in rows]),
        rows_total=rows_total,
        charts=_charts(rows),
        notes=(
            "Counts are the ledgers', since each queue began. Times come from settlements and events, as far back as these"
            " are kept.",
            "Worth a look is what was lost in the last hour before the snapshot, or 0.1 % of what was accepted.",
            "Purged messages are no loss. A dead letter that was replayed was accepted again, and counts as lost no more.",
        ),
    )
    letter_rows, letters_total = context.top("SELECT * FROM {l} ORDER BY held DESC, node, bridge, reason", l=letters)
    held_total = sum(row["held"] for row in held)
    second = Section(
        name="dead-letters",
        title="Dead letters",
        question="What did the remotes refuse, and is kept?",
        verdict="attention" if held_total else "ok",
        summary=f"{plural(held_total, 'dead letter')} held, on {plural(len(held), 'bridge')}." if held_total else "None is held.",
        columns=_LETTER_COLUMNS,
        rows=table(_LETTER_COLUMNS, letter_rows),
        rows_total=letters_total,
        notes=("`bascule queue replay CONFIG BRIDGE` sends them again, `bascule queue purge CONFIG BRIDGE --dead` lets them go.",),
    )
    return Made(sections=(section, second), frames={NAME: causes, "dead_letters": letters}, marks=marks)


_LOST = f"sum(CASE WHEN cause IN {LOSSES} THEN messages WHEN cause = 'replayed' THEN -messages ELSE 0 END)"


def _causes(context: Context) -> Frame:
    return context.found(
        f"""
        WITH ledger AS (
          SELECT node, snapshot_at, bridge, 'expired' AS cause, '' AS reason, expired AS messages FROM {{queues}}
          UNION ALL SELECT node, snapshot_at, bridge, ledger, reason, messages FROM {{endings}} WHERE ledger IN ('dropped', 'dead')
          UNION ALL SELECT node, snapshot_at, bridge, 'replayed', '', messages FROM {{endings}}
          WHERE ledger = 'dead_letters' AND reason = 'replayed'),
        counted AS (
          SELECT to_date(max(snapshot_at)) AS date, node, coalesce(bridge, '') AS bridge, cause, reason, sum(l.messages) AS messages
          FROM ledger l GROUP BY node, coalesce(bridge, ''), cause, reason HAVING sum(l.messages) > 0),
        told AS (
          SELECT node, coalesce(bridge, '') AS bridge, outcome AS cause, coalesce(reason, '') AS reason, messages,
                 settled_at AS told_at FROM {{settlements}}
          WHERE outcome IN ('expired', 'dropped', 'dead') AND {context.period.sql("settled_at")}
          UNION ALL
          SELECT node, coalesce(bridge, ''), substring(kind, 10), coalesce(reason, ''), NULL, e.at FROM {{events}} e
          WHERE kind IN ('messages.dropped', 'messages.expired', 'messages.dead') AND {context.period.sql("e.at")}),
        seen AS (
          SELECT node, bridge, cause, reason, sum(messages) AS recent, min(told_at) AS first_at, max(told_at) AS last_at
          FROM told GROUP BY 1, 2, 3, 4)
        SELECT c.date, c.node, c.bridge, if(c.reason = 'purged', 'purged', c.cause) AS cause,
          if(c.reason = 'purged', '', c.reason) AS reason, c.messages, s.recent, s.first_at, s.last_at FROM counted c
        LEFT JOIN seen s ON c.node = s.node AND c.bridge = s.bridge AND c.cause = s.cause AND c.reason = s.reason
        """
    )


def _summary(context: Context, causes: Frame, rows: list[Row]) -> str:
    found = context.collect(
        "SELECT cause, reason, sum(c.messages) AS messages FROM {c} c GROUP BY 1, 2 ORDER BY sum(c.messages) DESC, 1, 2", c=causes
    )
    kinds = [row for row in found if row["cause"] in LOSSES]
    done = {row["cause"]: row["messages"] for row in found if row["cause"] in BY_OPERATORS}
    told = ", ".join(f"{messages:,} {BY_OPERATORS[cause]}" for cause, messages in done.items())
    by_operators = f" By operators: {told}." if told else ""
    lost = sum(row["messages"] for row in kinds) - done.get("replayed", 0)
    if not lost:
        return f"Nothing was dropped, nothing expired, nothing was refused{' for good' if kinds else ''}.{by_operators}"
    named = ", ".join(f"{row['messages']:,} {row['cause']}{': ' + row['reason'] if row['reason'] else ''}" for row in kinds[:4])
    more = f" and {plural(len(kinds) - 4, 'more cause')}" if len(kinds) > 4 else ""
    again = f", less {done['replayed']:,} that were replayed" if "replayed" in done else ""
    times = [row["last_at"] for row in rows if row["last_at"] is not None and row["cause"] in LOSSES]
    last = f"; the last known {utc(max(times))}" if times else ""
    return f"{plural(lost, 'message')} ended without delivery: {named}{more}{again}{last}.{by_operators}"


def _charts(rows: list[Row]) -> tuple[Chart, ...]:
    rows = [row for row in rows if row["cause"] in LOSSES]
    if not rows:
        return ()
    bridges = list(dict.fromkeys((row["node"], row["bridge"]) for row in rows))[:BARS_SHOWN]
    reasons = list(dict.fromkeys((row["cause"], row["reason"]) for row in rows))[:8]
    counts = {(row["node"], row["bridge"], row["cause"], row["reason"]): row["messages"] for row in rows}
    series = tuple(
        Series(
            name=f"{cause}: {reason}" if reason else cause,
            values=tuple(counts.get((*bridge, cause, reason), 0) for bridge in bridges),
        )
        for cause, reason in reasons
    )
    return (
        Chart(
            kind="stacked-bars",
            title="Losses by bridge and cause",
            x=tuple(lane_title(*bridge) for bridge in bridges),
            series=series,
            unit_x="text",
        ),
    )


def _marks(context: Context, bridges: list[Row], held: list[Row]) -> dict[BridgeKey, Mark]:
    letters = {(row["node"], row["bridge"]): row["held"] for row in held}
    marks = {}
    for row in bridges:
        key = (row["node"], row["bridge"])
        limits = context.thresholds
        recent = row["last_at"] is not None and (row["at"] - row["last_at"]) / 1000 <= limits.loss_recent_s
        if not row["messages"] or (not recent and row["messages"] < limits.loss_share * row["accepted"]):
            marks[key] = Mark(verdict="ok")
            continue
        last = f", the last {moment(row['last_at'])}" if row["last_at"] is not None else ""
        kept = f" ({plural(letters[key], 'dead letter')} held)" if letters.get(key) else ""
        marks[key] = Mark(verdict="attention", note=f"{row['messages']:,} ended without delivery{last}{kept}")
    return marks
