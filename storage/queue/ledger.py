"""The ledger and the row of a queue: what came in, what became of it, and where the queue stands.

P6: accepted = delivered + depth + expired + dropped + dead-lettered, for every queue, at any time. The row is written in the same
commit as what changed it, so the sum closes after any crash. A message that a full queue refused was never accepted: it is counted
beside the sum, in the same row.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgpack

from wire.errors import ConfigError, StorageDamaged
from wire.exchange.former_sessions import LeftRows, LeftSession, left_rows
from wire.exchange.packet_identifiers import PACKET_IDS
from wire.frames.frame import Ranges
from wire.status.loss_reasons import Loss
from wire.status.outcomes import DEAD, DELIVERED, DROPPED, EXPIRED, REDELIVERED, kind_and_reason

RoutesRow = tuple[tuple[bytes, int], ...]  # see ``tail``

ROW_VERSION = 1
_pack = msgpack.Packer().pack  # one that is kept costs half of one that is made each time


@dataclass(slots=True)
class Ledger:
    """Counts of messages. ``dropped`` and ``dead`` go by reason; ``redelivered`` counts sendings, not messages.

    refused: for want of room in this queue, and for good: the publisher was told (MQTT 5), or the message was of QoS 0 and is gone.
    One that is held back and offered again is not among them: it will be accepted, or its publisher still has it. raised: those
    of ``accepted`` whose QoS a rule has raised. from_retained: those that were retained before, and that a rule has brought.
    """

    accepted: int = 0
    delivered: int = 0
    expired: int = 0
    redelivered: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    dead: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    raised: int = 0
    from_retained: int = 0

    def count(self, outcome: str, messages: int) -> None:
        """Count ``messages`` under ``outcome``: delivered, expired, redelivered, ``dropped:<reason>`` or ``dead:<reason>``.

        Raises:
            ValueError: there is no such outcome.
        """
        if not messages:
            return
        if outcome == DELIVERED:
            self.delivered += messages
        elif outcome == EXPIRED:
            self.expired += messages
        elif outcome == REDELIVERED:
            self.redelivered += messages
        else:
            kind, reason = kind_and_reason(outcome)
            if kind not in (DROPPED, DEAD) or not reason:
                raise ValueError(f"no such outcome: {outcome}")
            reasons = self.dropped if kind == DROPPED else self.dead
            reasons[reason] = reasons.get(reason, 0) + messages

    def accept(self, messages: int) -> None:
        """Count ``messages`` as accepted."""
        self.accepted += messages

    def refuse(self, messages: int) -> None:
        """Count ``messages`` as refused."""
        self.refused += messages

    def count_raised(self, messages: int) -> None:
        """Count ``messages`` as raised by a rule."""
        self.raised += messages

    def count_from_retained(self, messages: int) -> None:
        """Count ``messages`` as brought by a rule of what was retained."""
        self.from_retained += messages

    def put_right(self, messages: int) -> None:
        """Count so many more as damaged, or fewer when negative."""
        self.dropped[Loss.DAMAGED.value] = self.dropped.get(Loss.DAMAGED, 0) + messages

    def copy(self) -> Ledger:
        """The counts as they are."""
        return replace(self, dropped=dict(self.dropped), dead=dict(self.dead))

    def ended(self) -> int:
        """How many messages have left the queue, whatever became of them."""
        return self.delivered + self.expired + sum(self.dropped.values()) + sum(self.dead.values())

    def closes(self, depth: int) -> bool:
        """Whether the sum holds with ``depth`` messages in the queue."""
        return self.accepted == self.ended() + depth


class HistoryRow(NamedTuple):
    """The history of the messages that have left the queue; see ``history``.

    begins: the history is complete from this sequence on (``history_from`` where it is told); -1 if none is kept. chunks_from:
    chunks below it are deleted; it is at or below ``begins`` and the row's ``trimmed``. chunks_bytes: durable bytes of the queue
    before ``chunks_from``. first, next: the numbers of the first settlement that is kept, and of the next that is written.
    """

    begins: int = -1
    chunks_from: int = 0
    chunks_bytes: int = 0
    first: int = 0
    next: int = 0


NO_HISTORY = HistoryRow()


@dataclass(slots=True)
class LedgerRow:
    """The durable row of a queue beside its chunks.

    handed: sequences below it may have been handed out. trimmed: chunks below it have nothing live in them; without history they
    are deleted. depth: durable messages in the queue. released: in the order of the PUBRECs. tail_bytes: bytes of all durable
    messages ever appended. purged: above the head, where chunks are rightly missing. ways: see ``tail``. left: sessions
    that the remote may still have at other addresses.
    """

    head: int
    tail: int
    handed: int
    trimmed: int
    tail_bytes: int = 0
    depth: int = 0
    settled: Ranges = ()
    released: Ranges = ()
    generation: int = 0
    session: str = ""
    ledger: Ledger = field(default_factory=Ledger)
    purged: Ranges = ()
    history: HistoryRow = NO_HISTORY
    routes: RoutesRow = ()
    left: LeftRows = ()

    @classmethod
    def begin(cls, first_seq: int, session: str = "") -> LedgerRow:
        """Of a queue that was never written."""
        return cls(head=first_seq, tail=first_seq, handed=first_seq, trimmed=first_seq, session=session)

    def restart_exchange(self, *, leaves: bool) -> None:
        """No exchange goes on where the row says it stood: all that is in the queue may have been sent.

        leaves: the session that was used is left, and may hold every identifier; one without QoS 2 holds nothing that matters.
        """
        if leaves:
            known = {left.session: left.generation for left in self.left}
            if self.session:
                known[self.session] = self.generation
            every = ((self.head, self.head + PACKET_IDS),)
            self.left = tuple(LeftSession(session, number, self.tail, (), every) for session, number in known.items())
            self.generation = 1 + max((self.generation, *known.values()))
            self.session = ""
        self.released = ()
        self.handed = self.tail

    def encode(self) -> bytes:
        """The row's value."""
        ledger = self.ledger
        packed: bytes = _pack(
            (
                ROW_VERSION,
                self.head,
                self.tail,
                self.handed,
                self.trimmed,
                self.tail_bytes,
                self.depth,
                self.settled,
                self.released,
                self.generation,
                self.session,
                (
                    *(ledger.accepted, ledger.delivered, ledger.expired, ledger.redelivered),
                    *(ledger.dropped, ledger.dead, ledger.refused, ledger.raised),
                    *((ledger.from_retained,) if ledger.from_retained else ()),  # as few have any
                ),
                self.purged,
                self.history,
                self.routes,
                self.left,
            )
        )
        return packed

    @classmethod
    def decode(cls, value: bytes, *, queue: str) -> LedgerRow:
        """The row that ``encode`` made.

        Raises:
            StorageDamaged: it is not a row, or contradicts itself.
            ConfigError: a newer build wrote it.
        """
        fields = unpack_row(value, ROW_VERSION, what="queue", name=queue)
        try:
            head, tail, handed, trimmed, tail_bytes, depth, settled, released, generation, session, counts, *rest = fields
            purged, history, routes, left = rest
            accepted, delivered, expired, redelivered, dropped, dead, refused, raised, *some = counts
            row = cls(
                head=head,
                tail=tail,
                handed=handed,
                trimmed=trimmed,
                tail_bytes=tail_bytes,
                depth=depth,
                settled=settled,
                released=released,
                generation=generation,
                session=session,
                ledger=Ledger(accepted, delivered, expired, redelivered, dict(dropped), dict(dead), refused, raised, *some),
                purged=purged,
                history=HistoryRow(*history),
                routes=tuple(dict(routes).items()),
                left=left_rows(left),
            )
            sound = row.trimmed <= row.head <= row.tail and row.depth >= 0
        except (TypeError, ValueError) as error:
            raise StorageDamaged("a queue's row is damaged", queue=queue) from error
        if not sound:
            raise StorageDamaged("a queue's row contradicts itself", queue=queue, head=head, tail=tail, trimmed=trimmed)
        return row


def unpack_row(value: bytes, version_known: int, *, what: str, name: str) -> list[Any]:
    """The fields after the version of a row of the ``meta`` family.

    Raises:
        StorageDamaged: it is not a row.
        ConfigError: a newer build wrote it.
    """
    try:
        version, *rest = msgpack.unpackb(value, use_list=False, strict_map_key=False)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise StorageDamaged(f"the row of a {what} is damaged", name=name) from error
    if version != version_known:
        raise ConfigError(f"the row of a {what} was written by another version", name=name, version=version, known=version_known)
    fields: list[Any] = rest
    return fields
