"""Does everything add up? By the ledger of each queue, by a count of what is stored, and by sequence.

queue.ledger-adds-up: accepted = delivered + expired + dropped + dead + queued (durable and in memory), in every queue. The messages
    found in the snapshot are as many as the queue's row says.
reports.sequence-has-one-fate [P6, reports]: each sequence from where history begins (without history: from the head) up to the tail
    is exactly one of: settled once, queued, in memory (QoS 0). The rest above the head may be QoS 0 that went with the memory of a
    former life, if the ledger counts such and all that is stored was found; anything else is *lost*. Settled more than once,
    stored more than once, settled and queued, and queued outside of the queue are named as well.

Settlements are ranges and stay ranges: the ends of all ranges of a queue are put in order, and a running sum says of each stretch
between two ends how often it was settled and how often it is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from analysis.reports.context import Context, utc
from analysis.reports.report_model import Column, Fact, Section, Verdict, worst
from analysis.reports.report_parts import BridgeKey, Made, Mark, Row, collect, plural, table, top

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "reconciliation"
EXAMPLES = 500  # offending stretches that are looked up in the messages
OFFENCES = {
    "lost": "lost (neither settled nor queued)",
    "settled twice": "settled more than once",
    "settled and queued": "settled, and still queued",
    "stored twice": "stored more than once",
    "outside": "stored, but outside of the queue",
}

_COLUMNS = (
    Column(name="verdict", title="Verdict", kind="state"),
    Column(name="node", title="Node", kind="text"),
    Column(name="queue", title="Queue", kind="text"),
    Column(name="accepted", title="Accepted", kind="count"),
    Column(name="delivered", title="Delivered", kind="count"),
    Column(name="queued", title="Queued", kind="count"),
    Column(name="expired", title="Expired", kind="count"),
    Column(name="dropped", title="Dropped", kind="count"),
    Column(name="dead", title="Dead-lettered", kind="count"),
    Column(name="difference", title="Difference", kind="count"),
    Column(name="miscounted", title="Stored beyond the row", kind="count"),
    Column(name="seq_from", title="Sequences from", kind="count"),
    Column(name="seq_to", title="Sequences to", kind="count"),
    Column(name="lost", title="Lost", kind="count"),
    Column(name="settled_twice", title="Settled twice", kind="count"),
    Column(name="otherwise", title="Otherwise wrong", kind="count"),
    Column(name="gone", title="QoS 0 gone with memory", kind="count"),
)
_OFFENDING = (
    Column(name="what", title="What", kind="text"),
    Column(name="node", title="Node", kind="text"),
    Column(name="queue", title="Queue", kind="text"),
    Column(name="first_seq", title="First sequence", kind="count"),
    Column(name="last_seq", title="Last sequence", kind="count"),
    Column(name="messages", title="Messages", kind="count"),
    Column(name="settlements", title="Settled by number", kind="text"),
    Column(name="settled_at", title="Last settled", kind="time"),
    Column(name="topic", title="Topic of the first", kind="text"),
    Column(name="accepted_at", title="Accepted", kind="time"),
)

# One row for each end of a stretch: settled (s), queued (q), in memory (v), within what is to be judged (c), below the head (b).
_END = "struct({at} at, {s}L s, {q}L q, {v}L v, {c}L c, {b}L b)"


def _ends(start: str, stop: str, what: str) -> str:
    """SQL for the two ends of [``start``, ``stop``), which is ``what``."""
    none = dict.fromkeys("sqvcb", 0)
    return f"inline(array({_END.format(**(none | {'at': start, what: 1}))}, {_END.format(**(none | {'at': stop, what: -1}))}))"


_ENDS = f"""
  SELECT /*+ BROADCAST(j) */ s.node, s.queue, {_ends("s.first_seq", "s.last_seq + 1", "s")}
  FROM {{settlements}} s JOIN {{judged}} j ON s.node = j.node AND s.queue = j.queue WHERE s.outcome <> 'redelivered' AND
    j.has_history
  UNION ALL SELECT node, queue, {_ends("r[0]", "r[1]", "s")} FROM {{judged}}
  LATERAL VIEW explode(from_json(if(has_history, NULL, settled_above), 'array<array<bigint>>')) AS r
  UNION ALL SELECT node, queue, {_ends("first_seq", "last_seq + 1", "q")} FROM {{stored}}
  UNION ALL SELECT node, queue, {_ends("r[0]", "r[1]", "v")} FROM {{judged}}
  LATERAL VIEW explode(from_json(volatile_ranges, 'array<array<bigint>>')) AS r
  UNION ALL SELECT node, queue, {_ends("seq_from", "seq_to", "c")} FROM {{judged}}
  UNION ALL SELECT node, queue, {_ends("seq_from", "head", "b")} FROM {{judged}} WHERE head > seq_from
"""
_STRETCHES = """
  WITH ends AS (SELECT node, queue, at, sum(s) s, sum(q) q, sum(v) v, sum(c) c, sum(b) b FROM {ends} GROUP BY node, queue, at),
  moved AS (SELECT * FROM ends WHERE s <> 0 OR q <> 0 OR v <> 0 OR c <> 0 OR b <> 0),
  summed AS (SELECT node, queue, at, lead(at) OVER w stop, sum(s) OVER w s, sum(q) OVER w q, sum(v) OVER w v, sum(c) OVER w c,
    sum(b) OVER w b
             FROM moved WINDOW w AS (PARTITION BY node, queue ORDER BY at))
  SELECT node, queue, at first_seq, stop - 1 last_seq, stop - at messages,
         CASE WHEN c = 0 AND q > 0 THEN 'outside' WHEN c = 0 THEN 'beyond'
              WHEN s > 0 AND q + v > 0 THEN 'settled and queued' WHEN s > 1 THEN 'settled twice' WHEN q > 1 OR q > 0 AND v > 0
                THEN 'stored twice'
              WHEN s = 1 THEN 'settled' WHEN q = 1 THEN 'queued' WHEN v > 0 THEN 'in memory'
              WHEN b > 0 THEN 'lost' ELSE 'missing' END what
  FROM summed WHERE stop > at
"""


def make(context: Context) -> Made:
    """The reconciliation of each queue, and the sequences that do not add up."""
    stored = context.found(_stored(context))
    judged = context.found(_judged(context))
    found = context.found(stretches(context, judged, stored))
    queues = context.found(_queues(context, judged, stored, found))
    offending = context.found(_offending(context, queues, found))
    section, headline, marks = _section(context, queues)
    return Made(
        sections=(section, _sequences(offending, section.verdict)),
        frames={NAME: queues, "sequences": offending},
        marks=marks,
        headline=headline,
    )


def _stored(context: Context) -> DataFrame:
    """The sequences that are stored and not settled, as ranges; of 65,536 at most, so that a long queue is many tasks' work."""
    return context.sql(
        "SELECT node, queue, min(seq) first_seq, max(seq) last_seq, count(*) messages FROM (SELECT node, queue, seq, seq div"
        " 65536 part,"
        " seq - row_number() OVER (PARTITION BY node, queue, seq div 65536 ORDER BY seq) island FROM {messages} WHERE state"
        " <> 'settled')"
        " GROUP BY node, queue, part, island"
    )


def _judged(context: Context) -> DataFrame:
    """[seq_from, seq_to) of each queue, and whether settlements tell of what is settled there."""
    return context.sql(
        "SELECT q.node, q.queue, q.history_from IS NOT NULL AND f.seq_from IS NOT NULL has_history, q.head, q.tail seq_to,"
        " if(q.history_from IS NULL, q.head, coalesce(f.seq_from, q.head)) seq_from, q.settled_above, q.volatile_ranges"
        " FROM {queues} q LEFT JOIN {seqs_from} f ON q.node = f.node AND q.queue = f.queue"
    )


def stretches(context: Context, judged: DataFrame, stored: DataFrame) -> DataFrame:
    """All stretches of sequences, each with what it is (reports.sequence-has-one-fate)."""
    ends = context.sql(_ENDS, judged=judged, stored=stored)
    return context.sql(_STRETCHES, ends=ends)


def _queues(context: Context, judged: DataFrame, stored: DataFrame, found: DataFrame) -> DataFrame:
    return context.sql(
        """
        WITH ledger AS (
          SELECT node, snapshot_at, queue, bridge, lane, head, tail, depth, accepted, delivered, expired, depth + depth_volatile
            queued,
                 aggregate(map_values(dropped), 0L, (a, b) -> a + b) dropped, aggregate(map_values(dead), 0L, (a, b) -> a + b) dead,
                 coalesce(try_element_at(dropped, 'restart'), 0L) + coalesce(try_element_at(dropped, 'qos0_memory'), 0L) +
                 coalesce(try_element_at(dropped, 'actor_restart'), 0L) forgotten
          FROM {queues}),
        counted AS (SELECT node, queue, sum(messages) messages FROM {stored} GROUP BY node, queue),
        kinds AS (
          SELECT node, queue, sum(if(what = 'lost', messages, 0)) lost, sum(if(what = 'missing', messages, 0)) missing,
                 sum(if(what = 'settled twice', messages, 0)) settled_twice,
                 sum(if(what IN ('settled and queued', 'stored twice', 'outside'), messages, 0)) otherwise
          FROM {found} GROUP BY node, queue),
        joined AS (
          SELECT l.*, j.seq_from, j.seq_to, l.accepted - l.delivered - l.expired - l.dropped - l.dead - l.queued difference,
                 coalesce(c.messages, 0) - l.depth miscounted, coalesce(k.lost, 0) surely_lost, coalesce(k.missing, 0) missing,
                 coalesce(k.settled_twice, 0) settled_twice, coalesce(k.otherwise, 0) otherwise
          FROM ledger l JOIN {judged} j ON l.node = j.node AND l.queue = j.queue
          LEFT JOIN counted c ON l.node = c.node AND l.queue = c.queue LEFT JOIN kinds k ON l.node = k.node AND l.queue = k.queue),
        explained AS (SELECT *, missing > 0 AND missing <= forgotten AND miscounted = 0 AS harmless FROM joined)
        SELECT CASE WHEN difference <> 0 OR miscounted <> 0 OR surely_lost + if(harmless, 0, missing) + settled_twice + otherwise
          > 0
                    THEN 'problem' ELSE 'ok' END verdict,
               to_date(snapshot_at) date, node, snapshot_at, queue, bridge, lane, accepted, delivered, queued, expired, dropped,
               dead,
               difference, miscounted, seq_from, seq_to, surely_lost + if(harmless, 0, missing) lost, settled_twice, otherwise,
               if(harmless, missing, 0) gone
        FROM explained
        """,
        judged=judged,
        stored=stored,
        found=found,
    )


def _offending(context: Context, queues: DataFrame, found: DataFrame) -> DataFrame:
    """The stretches that are wrong, with the settlements that claim them and, where it is kept, their first message."""
    wrong = context.found(
        context.sql(
            "SELECT q.date, q.node, q.snapshot_at, f.queue, q.bridge, if(f.what = 'missing', 'lost', f.what) what, f.first_seq,"
            " f.last_seq, f.messages FROM {found} f JOIN {checked} q ON f.node = q.node AND f.queue = q.queue"
            " WHERE f.what IN ('lost', 'settled twice', 'settled and queued', 'stored twice', 'outside') OR f.what ="
            " 'missing' AND q.lost > 0",
            found=found,
            checked=queues,
        )
    )
    if not wrong.take(1):
        return context.sql(
            "SELECT *, CAST(NULL AS string) settlements, CAST(NULL AS timestamp) settled_at, CAST(NULL AS string) topic,"
            " CAST(NULL AS timestamp) accepted_at FROM {wrong}",
            wrong=wrong,
        )
    few = context.sql(
        f"SELECT * FROM {{wrong}} ORDER BY what = 'outside', messages DESC, node, queue, first_seq LIMIT {EXAMPLES}", wrong=wrong
    )
    return context.sql(
        """
        WITH claims AS (
          SELECT /*+ BROADCAST(w) */ w.node, w.queue, w.first_seq, max(s.settled_at) settled_at,
                 array_join(slice(array_sort(collect_set(s.number)), 1, 10), ', ') settlements
          FROM {settlements} s JOIN {few} w ON s.node = w.node AND s.queue = w.queue AND s.first_seq <= w.last_seq AND s.last_seq
            >= w.first_seq
          WHERE s.outcome <> 'redelivered' GROUP BY 1, 2, 3),
        firsts AS (
          SELECT /*+ BROADCAST(w) */ w.node, w.queue, w.first_seq, min_by(m.topic, m.seq) topic, min_by(m.accepted_at, m.seq)
            accepted_at
          FROM {messages} m JOIN {few} w ON m.node = w.node AND m.queue = w.queue AND m.seq >= w.first_seq AND m.seq <= w.last_seq
          GROUP BY 1, 2, 3)
        SELECT w.*, c.settlements, c.settled_at, f.topic, f.accepted_at FROM {wrong} w
        LEFT JOIN claims c ON w.node = c.node AND w.queue = c.queue AND w.first_seq = c.first_seq
        LEFT JOIN firsts f ON w.node = f.node AND w.queue = f.queue AND w.first_seq = f.first_seq
        """,
        wrong=wrong,
        few=few,
    )


def _section(context: Context, queues: DataFrame) -> tuple[Section, str, dict[BridgeKey, Mark]]:
    sums = (
        "sum(accepted) accepted, sum(delivered) delivered, sum(queued) queued, sum(expired) expired, sum(dropped) dropped,"
        " sum(dead) dead,"
        " sum(difference) difference, sum(miscounted) miscounted, sum(lost) lost, sum(settled_twice) settled_twice,"
        " sum(otherwise) otherwise,"
        " sum(gone) gone, count_if(verdict = 'problem') wrong, count(*) queues, max(verdict) verdict"
    )
    shown = context.sql(
        "SELECT verdict, node, queue, accepted, delivered, queued, expired, dropped, dead, difference, miscounted, seq_from,"
        " seq_to, lost,"
        " settled_twice, otherwise, gone FROM {q} WHERE bridge IS NOT NULL OR verdict = 'problem' UNION ALL"
        " SELECT verdict, node, 'local sessions (' || queues || ' in order)', accepted, delivered, queued, expired,"
        " dropped, dead, difference,"
        " miscounted, NULL, NULL, lost, settled_twice, otherwise, gone FROM"
        f" (SELECT node, {sums} FROM {{q}} WHERE bridge IS NULL AND verdict = 'ok' GROUP BY node)"
        " ORDER BY verdict DESC, node, queue",
        q=queues,
    )
    rows, rows_total = top(shown)
    bridges = collect(context.sql(f"SELECT node, coalesce(bridge, '') bridge, {sums} FROM {{q}} GROUP BY 1, 2", q=queues))
    summary, headline = _summary(bridges)
    verdict = worst(*("problem" if row["wrong"] else "ok" for row in bridges))
    section = Section(
        name=NAME,
        title="Reconciliation",
        question="Is every accepted message delivered, queued, expired, dropped or dead-lettered, and each exactly once?",
        verdict=verdict,
        summary=summary,
        columns=_COLUMNS,
        rows=table(_COLUMNS, rows),
        rows_total=rows_total,
        notes=_notes(context, bridges),
    )
    return section, headline, {(row["node"], row["bridge"]): _mark(row) for row in bridges}


def _summary(bridges: list[Row]) -> tuple[str, str]:
    """The answer with the figures, and without them."""
    if not bridges:
        return "There is no queue.", ""
    total = {name: sum(row[name] for row in bridges) for name in bridges[0] if name not in ("node", "bridge", "verdict")}
    figures = (
        f"{plural(total['accepted'], 'message')} accepted = {total['delivered']:,} delivered + {total['queued']:,} queued"
        f" + {total['expired']:,} expired + {total['dropped']:,} dropped + {total['dead']:,} dead-lettered"
    )
    if not total["wrong"]:
        text = f"{figures}; by sequence, too, each exactly once, in {plural(total['queues'], 'queue')}."
        return text, "Everything adds up."
    faults = [
        f"{what} {total[name]:,}"
        for name, what in (
            ("lost", "lost"),
            ("settled_twice", "settled twice"),
            ("otherwise", "otherwise wrong"),
        )
        if total[name]
    ]
    odd = [row for row in bridges if row["difference"] or row["miscounted"]]
    if odd:
        faults.append(f"the ledger or the count is off in {plural(len(odd), 'bridge')}")
    where = sorted({row["node"] for row in bridges if row["wrong"]})
    text = (
        f"It does not add up in {plural(total['wrong'], 'queue')} of {plural(len(where), 'node')} ({', '.join(where[:5])}"
        f"{', ...' if len(where) > 5 else ''}): {'; '.join(faults)}."
    )
    return f"{text} In all, {figures}.", text


def _notes(context: Context, bridges: list[Row]) -> tuple[str, ...]:
    oldest = min((row["snapshot_at"] for row in context.newest_rows), default=None)
    notes = [
        f"Counted as of each node's newest snapshot; the oldest of these is of {utc(oldest)}.",
        "Sequences are checked as far back as settlements are kept (retention of the bridge); without them from the head of"
        " the queue.",
        *context.notes,
    ]
    if gone := sum(row["gone"] for row in bridges):
        notes.append(
            f"{plural(gone, 'sequence')} above the heads were QoS 0 in memory when a node or an actor ended; the ledgers"
            f" count them as dropped."
        )
    return tuple(notes)


def _mark(row: Row) -> Mark:
    verdict: Verdict = "problem" if row["wrong"] else "ok"
    note = ""
    if row["wrong"]:
        parts = [
            f"{row[name]:,} {what}"
            for name, what in (("lost", "lost"), ("settled_twice", "settled twice"), ("otherwise", "otherwise wrong"))
            if row[name]
        ]
        if row["difference"]:
            parts.append(f"the ledger is off by {row['difference']:,}")
        if row["miscounted"]:
            parts.append(f"{row['miscounted']:+,} messages stored against the row")
        note = f"does not add up: {', '.join(parts)}"
    facts = (
        Fact(name="accepted", title="Accepted", kind="count", value=row["accepted"]),
        Fact(name="delivered", title="Delivered", kind="count", value=row["delivered"]),
        Fact(name="queued", title="Waiting", kind="count", value=row["queued"]),
        Fact(
            name="ended_otherwise",
            title="Ended otherwise",
            kind="count",
            value=row["expired"] + row["dropped"] + row["dead"],
        ),
    )
    return Mark(facts=facts, verdict=verdict, note=note)


def _sequences(offending: DataFrame, verdict: Verdict) -> Section:
    rows, rows_total = top(offending.orderBy("what", "node", "queue", "first_seq"))
    shown = [row | {"what": OFFENCES[row["what"]]} for row in rows]
    parts = [f"{row['queue']} of {row['node']}: {_seqs(row)} {OFFENCES[row['what']]}" for row in rows[:3]]
    more = f", and {plural(rows_total - 3, 'more stretch', 'more stretches')}" if rows_total > 3 else ""
    return Section(
        name="sequences",
        title="Offending sequences",
        question="Which sequences do not add up?",
        verdict="problem" if rows else "none" if verdict == "none" else "ok",
        summary=f"{'; '.join(parts)}{more}." if rows else "None.",
        columns=_OFFENDING,
        rows=table(_OFFENDING, shown),
        rows_total=rows_total,
    )


def _seqs(row: Row) -> str:
    if row["first_seq"] == row["last_seq"]:
        return f"sequence {row['first_seq']}"
    return f"sequences {row['first_seq']} to {row['last_seq']}"
