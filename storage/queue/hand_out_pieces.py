"""How chunks become hand-outs: chunks again. Pure functions over encoded batches; only the rare cases decode one.

One that is whole passes as it is. Rows are picked out of it where some are settled already, where QoS 0 rows were kept apart,
or where it is too large; and many tiny chunks are joined, so that a backlog of single messages is not handed out one frame each.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import groupby

from storage.queue.chunk import Chunk
from wire.frames.batch import Batch, concat
from wire.ranges import RangeSet
from wire.routing.message_route import tells_provenance

JOINED_ROWS_MAX = 1000
JOINED_BYTES_MAX = 256 << 10
TINY_ROWS = 100
TINY_BYTES = 32 << 10


def pick(chunks: Sequence[Chunk], start: int, settled: RangeSet, rows_max: int | None) -> tuple[Chunk | None, list[list[int]]]:
    """The unsettled rows of ``chunks`` (which share one span) from ``start`` on, in order, and the sequences taken of each.

    At most ``rows_max`` of them; None if there are none.
    """
    rows: list[tuple[int, int, int]] = []  # sequence, row in the joined batch, which chunk
    base = 0
    for index, chunk in enumerate(chunks):
        for row, seq in enumerate(chunk.seqs()):
            if seq >= start and seq not in settled:
                rows.append((seq, base + row, index))
        base += chunk.count
    rows.sort()
    rows = rows[:rows_max]
    taken: list[list[int]] = [[seq for seq, _, of in rows if of == index] for index in range(len(chunks))]
    if not rows:
        return None, taken
    batches = [Batch.decode(chunk.body) for chunk in chunks]
    joined = batches[0] if len(batches) == 1 else concat(batches)
    batch = joined.select([row for _, row, _ in rows])
    first_seq = rows[0][0]
    offsets = array("I", [seq - first_seq for seq, _, _ in rows])
    dense = offsets[-1] == len(offsets) - 1
    piece = Chunk(
        first_seq=first_seq,
        span=offsets[-1] + 1,
        count=len(batch),
        size_bytes=batch.size_bytes(),
        accepted_ms=batch.accepted_ms,
        offsets=None if dense else offsets,
        body=batch.encode(),
    )
    return piece, taken


def join_tiny(pieces: list[Chunk]) -> list[Chunk]:
    """``pieces``, runs of tiny neighbours joined."""
    if len(pieces) < 2:
        return pieces
    joined: list[Chunk] = []
    run: list[Chunk] = []
    rows = size_bytes = 0
    for piece in pieces:
        follows = bool(run) and piece.offsets is None and piece.first_seq == run[-1].first_seq + run[-1].count
        fits = rows + piece.count <= JOINED_ROWS_MAX and size_bytes + piece.size_bytes <= JOINED_BYTES_MAX
        if not (follows and fits and _is_tiny(piece) and _is_tiny(run[-1])):
            joined.extend(_join(run))
            run, rows, size_bytes = [], 0, 0
        run.append(piece)
        rows += piece.count
        size_bytes += piece.size_bytes
    joined.extend(_join(run))
    return joined


def _is_tiny(piece: Chunk) -> bool:
    return piece.count <= TINY_ROWS and piece.size_bytes <= TINY_BYTES and piece.offsets is None


def _join(run: list[Chunk]) -> list[Chunk]:
    if len(run) < 2:
        return run
    batches = [Batch.decode(piece.body) for piece in run]
    # What is joined was accepted when the first of it was. Some messages tell that time; expiry counts whole seconds from it.
    told = any(map(tells_provenance, {route for batch in batches for route in batch.routes}))
    unit_ms = 1 if told else 1000 if any(batch.properties for batch in batches) else 0
    pieces = []
    for _, group in groupby(zip(run, batches, strict=True), key=lambda pair: pair[1].accepted_ms // unit_ms if unit_ms else 0):
        members = list(group)
        if len(members) == 1:
            pieces.append(members[0][0])
            continue
        batch = concat([batch for _, batch in members])
        pieces.append(
            Chunk(
                first_seq=members[0][0].first_seq,
                span=len(batch),
                count=len(batch),
                size_bytes=sum(piece.size_bytes for piece, _ in members),
                accepted_ms=batch.accepted_ms,
                body=batch.encode(),
            )
        )
    return pieces
