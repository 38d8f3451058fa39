"""Reads what a store keeps of one queue, live and settled, and says whether the two add up (queue.history-without-gap)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from storage.engine.engine import Engine
from storage.engine.keys import chunk_key, first_seq_of, lane_key
from storage.queue.chunk import Chunk
from storage.queue.history import Settlement, settlement_key, settlement_of
from storage.queue.ledger import LedgerRow
from wire.ranges import RangeSet
from wire.status.outcomes import REDELIVERED


@dataclass
class Kept:
    """Kind of the fault. problems: sentences, one for each contradiction."""

    row: LedgerRow
    settlements: list[tuple[int, Settlement]] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def settled(self, outcome: str) -> list[int]:
        """The sequences that left by ``outcome``, from where the history begins."""
        return sorted(
            seq
            for _, settlement in self.settlements
            for name, ranges in settlement.outcomes
            if name == outcome
            for low, high in ranges
            for seq in range(max(low, self.row.history.begins), high)
        )


def audit(engine: Engine, number: int, *, all_durable: bool = False) -> Kept | None:
    """Look at queue ``number``; None if it has no row. all_durable: nothing in it was QoS 0, purged or damaged."""
    value = engine.get("meta", lane_key(number))
    if value is None:
        return None
    kept = Kept(LedgerRow.decode(value, queue=str(number)))
    kept.chunks = [
        Chunk.decode(value, queue=str(number), seq=first_seq_of(key))
        for key, value in engine.scan("msg", chunk_key(number, 0), chunk_key(number + 1, 0))
    ]
    for key, value in engine.scan("history", settlement_key(number, 0), settlement_key(number + 1, 0)):
        kept.settlements.append((settlement_of(key)[1], Settlement.decode(value)))
    kept.problems.extend(problems_of(kept, all_durable=all_durable))
    return kept


def problems_of(kept: Kept, *, all_durable: bool) -> Iterator[str]:
    """The contradictions of ``kept`` to queue.history-without-gap, one sentence each."""
    row, history = kept.row, kept.row.history
    if history.begins < 0:
        if kept.settlements:
            yield "settlements are kept though there is no history"
        if any(chunk.stop <= row.trimmed for chunk in kept.chunks):
            yield f"chunks below {row.trimmed} are kept though there is no history"
        return
    numbers = [number for number, _ in kept.settlements]
    if numbers != list(range(history.first, history.next)):
        yield f"settlements {history.first}..{history.next} are to be there, and there are {numbers}"
    if not history.chunks_from <= min(history.begins, row.trimmed):
        yield f"chunks from {history.chunks_from}, history from {history.begins}, live from {row.trimmed}"
    yield from _bounds_of(kept)
    settled = RangeSet()
    for number, settlement in kept.settlements:
        for outcome, ranges in settlement.outcomes:
            if outcome == REDELIVERED:
                continue
            for low, high in ranges:
                if not low < high <= row.tail:
                    yield f"settlement {number} has [{low}, {high}), and the tail is {row.tail}"
                low = max(low, history.begins)
                if low < high and settled.add(low, high) != high - low:
                    yield f"settlement {number} settles something of [{low}, {high}) a second time"
    gone = RangeSet((max(low, history.begins), high) for low, high in ((0, row.head), *row.settled) if high > history.begins)
    if settled.ranges() != gone.ranges():
        yield f"settled by the history: {settled.ranges()}, by the row: {gone.ranges()}"
    if any(chunk.first_seq < history.chunks_from for chunk in kept.chunks):
        yield f"a chunk below {history.chunks_from} is kept"
    if all_durable:
        there = RangeSet(
            (chunk.first_seq + offset, chunk.first_seq + offset + 1) for chunk in kept.chunks for offset in chunk_offsets(chunk)
        )
        if missing := there.missing(history.begins, row.tail):
            yield f"chunks are missing: {missing}"


def _bounds_of(kept: Kept) -> Iterator[str]:
    head = reach = 0
    for number, settlement in kept.settlements:
        if settlement.reach < 0:
            if reach:
                yield f"settlement {number} does not tell its bounds, and one before it does"
            continue
        if settlement.head < head or settlement.reach < reach or settlement.reach > kept.row.tail:
            yield f"settlement {number} has the bounds {settlement.head}, {settlement.reach} after {head}, {reach}"
        head, reach = settlement.head, settlement.reach
        for outcome, ranges in settlement.outcomes:
            if outcome != REDELIVERED and any(low < head or high > reach for low, high in ranges):
                yield f"settlement {number} has {ranges} outside of its bounds {head}, {reach}"


def chunk_offsets(chunk: Chunk) -> range | list[int]:
    """The places of the rows of ``chunk``, from its first sequence on."""
    return range(chunk.span) if chunk.offsets is None else list(chunk.offsets)
