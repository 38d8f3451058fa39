"""Batches of messages from a remote on their way to the store: their numbers, and what is wanted back with each commit. Pure.

An answer leaves only after the commit of its batch, on the connection that its packet came by, in order
(exchange.answer-after-commit, exchange.answers-in-order).
"""

from __future__ import annotations

from array import array
from collections.abc import Collection
from dataclasses import dataclass

from wire.exchange.receiver import AnswerBurst
from wire.exchange.refused_by_store import Held
from wire.exchange.refused_messages import refused_messages
from wire.frames.batch import QOS_MASK, Batch, pack_column, unpack_column
from wire.frames.codec import encode
from wire.frames.intake import Publishes
from wire.frames.sending_link import SendingLink
from wire.mqtt.publish_stream import BatchBuilder
from wire.routing.form_from_remote import LocalForm


@dataclass(frozen=True, slots=True)
class Owed:
    """What is wanted back when a batch is committed; ``rows`` says which rows of ``came`` it has (None: all).

    again: what was held before and is the batch's rows now; empty for what has just come.
    """

    source: int
    burst: AnswerBurst | None
    came: Batch
    sources: bytes
    received: dict[str, tuple[bytes, bytes]]
    rows: list[int] | None
    again: tuple[Held, ...]

    def held(self, refused: bytes) -> list[Held]:
        """The messages of ``refused`` rows (u16 column of the batch)."""
        rows = self._rows_that_came(refused)
        if self.again:
            return [self.again[row] for row in unpack_column("H", rows)]
        pubacks = {self.source: self.burst.pubacks} if self.burst is not None else {}
        messages = refused_messages(self.came, self.sources, pubacks, self.received, rows)
        return [Held(message, self.came.accepted_ms) for message in messages]

    def qos0(self, refused: bytes) -> int:
        """How many of them are QoS 0."""
        return sum(1 for row in unpack_column("H", self._rows_that_came(refused)) if not self.came.flags[row] & QOS_MASK)

    def _rows_that_came(self, rows: bytes) -> bytes:
        return rows if self.rows is None else pack_column(array("H", [self.rows[row] for row in unpack_column("H", rows)]))


class RemoteBatches:
    """Those of one lane. ``sender`` and ``epoch`` number them; ``listener`` is the epoch of the Listener that is known."""

    def __init__(self, form: LocalForm, *, sender: str, epoch: int) -> None:
        self.listener = 0
        self.link: SendingLink[list[bytes], Owed] = SendingLink()
        self._form = form
        self._sender = sender
        self._epoch = epoch

    def send(
        self,
        builder: BatchBuilder,
        burst: AnswerBurst | None,
        released: list[int],
        now_s: float,
        wall_ms: int,
        expired: Collection[int] = (),
        *,
        source: int,
        session: str,
        again: tuple[Held, ...] = (),
    ) -> list[bytes]:
        """The parts of the next ``Publishes``, with what ``builder`` has but for ``expired`` rows; it counts as sent.

        burst: the answers that its commit releases. released: identifiers of ``session``. source: the connection, if there are no
        rows. again: what was held before.
        """
        came, sources, received = builder.build(accepted_ms=wall_ms), builder.sources_column(), builder.received
        batch, rows = self._form.transform(came, expired)
        parts = encode(
            Publishes(
                sender=self._sender,
                epoch=self._epoch,
                number=self.link.next_number,
                sources=sources if rows is None else sources[: 4 * len(rows)],  # a builder's rows are of one connection
                received=received if rows is None else _renumbered(received, rows),
                released={session: pack_column(array("H", released))} if released else {},
                listener=self.listener,
                bodies=(batch.encode(),),
            )
        )
        source = builder.sources[0] if len(builder) else source
        self.link.sent(parts, Owed(source, burst, came, sources, received, rows, again), now_s)
        return parts


def _renumbered(received: dict[str, tuple[bytes, bytes]], rows: list[int]) -> dict[str, tuple[bytes, bytes]]:
    """The identifiers of the rows that are left, ``rows``, with the numbers that those have now."""
    place = {row: at for at, row in enumerate(rows)}
    renumbered = {}
    for session, (ids, at_rows) in received.items():
        kept = [
            (packet_id, place[row])
            for packet_id, row in zip(unpack_column("H", ids), unpack_column("H", at_rows), strict=True)
            if row in place
        ]
        if kept:
            renumbered[session] = (
                pack_column(array("H", [packet_id for packet_id, _ in kept])),
                pack_column(array("H", [row for _, row in kept])),
            )
    return renumbered
