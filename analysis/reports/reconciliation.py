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

from analysis.engines.engine import Frame, Row
from analysis.reports.context import Context, utc
from analysis.reports.report_model import Column, Fact, Section, Verdict, worst
from analysis.reports.report_parts import BridgeKey, Made, Mark, plural, table

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
_KINDS = "sqvcb"


def _ends(table: str, start: str, stop: str, what: str) -> str:
    """SQL for the two ends of each [``start``, ``stop``) of ``table``, which is ``what``; it has one more end than it has begun."""
    counts = ", ".join(f"{'edge' if kind == what else '0'} AS {kind}" for kind in _KINDS)
    edges = "(SELECT 1 AS edge UNION ALL SELECT -1 AS edge)"
    return f"SELECT node, queue, if(edge = 1, {start}, {stop}) AS place, {counts} FROM ({table}) t CROSS JOIN {edges} e"


def _ranges(column: str) -> str:
    """SQL for the ranges that ``column`` of the judged queues has as JSON."""
    return f"SELECT node, queue, explode(from_json({column}, 'array<array<bigint>>')) AS r FROM {{judged}}"


_SETTLED = """
  SELECT /*+ BROADCAST(j) */ s.node, s.queue, s.first_seq, s.last_seq
  FROM {settlements} s JOIN {judged} j ON s.node = j.node AND s.queue = j.queue
  WHERE s.outcome <> 'redelivered' AND j.has_history
"""
_ENDS = " UNION ALL ".join(
    (
        _ends(_SETTLED, "first_seq", "last_seq + 1", "s"),
        _ends(_ranges("if(has_history, NULL, settled_above)"), "get(r, 0)", "get(r, 1)", "s"),
        _ends("SELECT * FROM {stored}", "first_seq", "last_seq + 1", "q"),
        _ends(_ranges("volatile_ranges"), "get(r, 0)", "get(r, 1)", "v"),
        _ends("SELECT * FROM {judged}", "seq_from", "seq_to", "c"),
        _ends("SELECT * FROM {judged} WHERE head > seq_from", "seq_from", "head", "b"),
    )
)
_STRETCHES = """
  WITH ends AS (
    SELECT node, queue, place, sum(s) AS s, sum(q) AS q, sum(v) AS v, sum(c) AS c, sum(b) AS b FROM {ends}
    GROUP BY node, queue, place),
  moved AS (SELECT * FROM ends WHERE s <> 0 OR q <> 0 OR v <> 0 OR c <> 0 OR b <> 0),
  summed AS (
    SELECT node, queue, place, lead(place) OVER w AS stop, sum(s) OVER w AS s, sum(q) OVER w AS q, sum(v) OVER w AS v,
           sum(c) OVER w AS c, sum(b) OVER w AS b
    FROM moved WINDOW w AS (PARTITION BY node, queue ORDER BY place))
  SELECT node, queue, place AS first_seq, stop - 1 AS last_seq, stop - place AS messages,
         CASE WHEN c = 0 AND q > 0 THEN 'outside' WHEN c = 0 THEN 'beyond'
              WHEN s > 0 AND q + v > 0 THEN 'settled and queued' WHEN s > 1 THEN 'settled twice'
              WHEN q > 1 OR q > 0 AND v > 0 THEN 'stored twice'
              WHEN s = 1 THEN 'settled' WHEN q = 1 THEN 'queued' WHEN v > 0 THEN 'in memory'
              WHEN b > 0 THEN 'lost' ELSE 'missing' END AS what
  FROM summed WHERE stop > place
"""


def make(context: Context) -> Made:
    """The reconciliation of each queue, and the sequences that do not add up."""
    stored = _stored(context)
    judged = _judged(context)
    found = stretches(context, judged, stored)
    queues = _queues(context, judged, stored, found)
    offending = _offending(context, queues, found)
    section, headline, marks = _section(context, queues)
    return Made(
        sections=(section, _sequences(context, offending, section.verdict)),
        frames={NAME: queues, "sequences": offending},
        marks=marks,
        headline=headline,
    )


def _stored(context: Context) -> Frame:
    """The sequences that are stored and not settled, as ranges; of 65,536 at most, so that a long queue is many tasks' work."""
    return context.found(
        "SELECT node, queue, min(seq) AS first_seq, max(seq) AS last_seq, count(*) AS messages FROM (SELECT node, queue, seq,"
        " seq - seq % 65536 AS part, seq - row_number() OVER (PARTITION BY node, queue, seq - seq % 65536 ORDER BY seq) AS island"
        " FROM {messages} WHERE state <> 'settled') GROUP BY node, queue, part, island"
    )


def _judged(context: Context) -> Frame:
    """[seq_from, seq_to) of each queue, and whether settlements tell of what is settled there."""
    return context.found(
        "SELECT q.node, q.queue, q.history_from IS NOT NULL AND f.seq_from IS NOT NULL AS has_history, q.head, q.tail AS seq_to,"
        " if(q.history_from IS NULL, q.head, coalesce(f.seq_from, q.head)) AS seq_from, q.settled_above, q.volatile_ranges"
        " FROM {queues} q LEFT JOIN {seqs_from} f ON q.node = f.node AND q.queue = f.queue"
    )


def stretches(context: Context, judged: Frame, stored: Frame) -> Frame:
    """All stretches of sequences, each with what it is (reports.sequence-has-one-fate)."""
    ends = context.frame(_ENDS, judged=judged, stored=stored)
    return context.found(_STRETCHES, ends=ends)


def _queues(context: Context, judged: Frame, stored: Frame, found: Frame) -> Frame:
    return context.found(
        """
        WITH ended AS (
          SELECT node, queue, sum(if(ledger = 'dropped', messages, 0)) AS dropped, sum(if(ledger = 'dead', messages, 0)) AS dead,
                 sum(if(ledger = 'dropped' AND reason IN ('restart', 'qos0_memory', 'actor_restart'), messages, 0)) AS forgotten
          FROM {endings} GROUP BY node, queue),
        ledger AS (
          SELECT q.node, q.snapshot_at, q.queue, q.bridge, q.lane, q.depth, q.accepted, q.delivered, q.expired,
                 q.depth + q.depth_volatile AS queued, coalesce(e.dropped, 0) AS dropped, coalesce(e.dead, 0) AS dead,
                 coalesce(e.forgotten, 0) AS forgotten, j.seq_from, j.seq_to
          FROM {queues} q JOIN {judged} j ON q.node = j.node AND q.queue = j.queue
          LEFT JOIN ended e ON q.node = e.node AND q.queue = e.queue),
        counted AS (SELECT node, queue, sum(messages) AS messages FROM {stored} GROUP BY node, queue),
        kinds AS (
          SELECT node, queue, sum(if(what = 'lost', messages, 0)) AS lost, sum(if(what = 'missing', messages, 0)) AS missing,
                 sum(if(what = 'settled twice', messages, 0)) AS settled_twice,
                 sum(if(what IN ('settled and queued', 'stored twice', 'outside'), messages, 0)) AS otherwise
          FROM {found} GROUP BY node, queue),
        joined AS (
          SELECT l.*, l.accepted - l.delivered - l.expired - l.dropped - l.dead - l.queued AS difference,
                 coalesce(c.messages, 0) - l.depth AS miscounted, coalesce(k.lost, 0) AS surely_lost,
                 coalesce(k.missing, 0) AS missing, coalesce(k.settled_twice, 0) AS settled_twice,
                 coalesce(k.otherwise, 0) AS otherwise
          FROM ledger l LEFT JOIN counted c ON l.node = c.node AND l.queue = c.queue
          LEFT JOIN kinds k ON l.node = k.node AND l.queue = k.queue),
        explained AS (SELECT *, missing > 0 AND missing <= forgotten AND miscounted = 0 AS harmless FROM joined)
        SELECT CASE WHEN difference <> 0 OR miscounted <> 0
                      OR surely_lost + if(harmless, 0, missing) + settled_twice + otherwise > 0
                    THEN 'problem' ELSE 'ok' END AS verdict,
               to_date(snapshot_at) AS date, node, snapshot_at, queue, bridge, lane, accepted, delivered, queued, expired, dropped,
               dead, difference, miscounted, seq_from, seq_to, surely_lost + if(harmless, 0, missing) AS lost, settled_twice,
               otherwise, if(harmless, missing, 0) AS gone
        FROM explained
        """,
        judged=judged,
        stored=stored,
        found=found,
    )


def _offending(context: Context, queues: Frame, found: Frame) -> Frame:
    """The stretches that are wrong, with the settlements that claim them and, where it is kept, their first message."""
    wrong = context.found(
        "SELECT q.date, q.node, q.snapshot_at, f.queue, q.bridge, if(f.what = 'missing', 'lost', f.what) AS what, f.first_seq,"
        " f.last_seq, f.messages FROM {found} f JOIN {checked} q ON f.node = q.node AND f.queue = q.queue"
        " WHERE f.what IN ('lost', 'settled twice', 'settled and queued', 'stored twice', 'outside')"
        " OR f.what = 'missing' AND q.lost > 0",
        found=found,
        checked=queues,
    )
    if not context.collect("SELECT 1 AS one FROM {wrong} LIMIT 1", wrong=wrong):
        return context.found(
            "SELECT *, CAST(NULL AS string) AS settlements, CAST(NULL AS timestamp) AS settled_at, CAST(NULL AS string) AS topic,"
            " CAST(NULL AS timestamp) AS accepted_at FROM {wrong}",
            wrong=wrong,
        )
    few = context.found(
        f"SELECT * FROM {{wrong}} ORDER BY what = 'outside', messages DESC, node, queue, first_seq LIMIT {EXAMPLES}", wrong=wrong
    )
    return context.found(
        """
        WITH claims AS (
          SELECT /*+ BROADCAST(w) */ w.node, w.queue, w.first_seq, max(s.settled_at) AS settled_at,
                 array_join(slice(array_sort(collect_set(s.number)), 1, 10), ', ') AS settlements
          FROM {settlements} s JOIN {few} w
          ON s.node = w.node AND s.queue = w.queue AND s.first_seq <= w.last_seq AND s.last_seq >= w.first_seq
          WHERE s.outcome <> 'redelivered' GROUP BY 1, 2, 3),
        firsts AS (
          SELECT /*+ BROADCAST(w) */ w.node, w.queue, w.first_seq, min_by(m.topic, m.seq) AS topic,
                 min_by(m.accepted_at, m.seq) AS accepted_at
          FROM {messages} m JOIN {few} w ON m.node = w.node AND m.queue = w.queue AND m.seq >= w.first_seq AND m.seq <= w.last_seq
          GROUP BY 1, 2, 3)
        SELECT w.*, c.settlements, c.settled_at, f.topic, f.accepted_at FROM {wrong} w
        LEFT JOIN claims c ON w.node = c.node AND w.queue = c.queue AND w.first_seq = c.first_seq
        LEFT JOIN firsts f ON w.node = f.node AND w.queue = f.queue AND w.first_seq = f.first_seq
        """,
        wrong=wrong,
        few=few,
    )


def _section(context: Context, queues: Frame) -> tuple[Section, str, dict[BridgeKey, Mark]]:
    counts = ("accepted", "delivered", "queued", "expired", "dropped", "dead", "difference", "miscounted", "lost", "settled_twice")
    sums = ", ".join(f"sum({name}) AS {name}" for name in (*counts, "otherwise", "gone"))
    every = f"{sums}, count_if(verdict = 'problem') AS wrong, count(*) AS queues"
    shown = ", ".join(column.name for column in _COLUMNS)
    in_order = f"SELECT node, {every} FROM {{q}} WHERE bridge IS NULL AND verdict = 'ok' GROUP BY node"
    rows, rows_total = context.top(
        f"SELECT {shown} FROM (SELECT {shown} FROM {{q}} WHERE bridge IS NOT NULL OR verdict = 'problem' UNION ALL"
        f" SELECT {shown} FROM (SELECT *, 'ok' AS verdict, 'local sessions (' || queues || ' in order)' AS queue,"
        f" CAST(NULL AS bigint) AS seq_from, CAST(NULL AS bigint) AS seq_to FROM ({in_order})))"
        " ORDER BY verdict DESC, node, queue",
        q=queues,
    )
    bridges = context.collect(
        f"SELECT node, coalesce(bridge, '') AS bridge, {every} FROM {{q}} GROUP BY 1, 2 ORDER BY 1, 2", q=queues
    )
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
    total = {name: sum(row[name] for row in bridges) for name in bridges[0] if name not in ("node", "bridge")}
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


def _sequences(context: Context, offending: Frame, verdict: Verdict) -> Section:
    rows, rows_total = context.top("SELECT * FROM {o} ORDER BY what, node, queue, first_seq", o=offending)
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
