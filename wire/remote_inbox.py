"""What comes from a bridge's remote, between its packets and the store's commits: the receiver's half of one lane. Pure.

It gathers PUBLISHes into numbered batches, as the Listener does for local clients, and gives the answers that a commit releases.
Sockets, timers and the frames around it are the business of ``actors/remote_intake.py``, topics and flags of ``wire/incoming.py``.

N1  an answer leaves only after the commit of its batch, on the connection that its packet came by, in order (I1, I2).
N2  rows that the store refuses are never answered with a failure, because the remote would throw the message away: they are held,
    and offered again in order, before anything that came later. Their message expiry intervals run on meanwhile; what has
    expired is answered and left out [MQTT-3.3.2-5, MQTT-3.3.2-6].
N3  the session is asked for only when no batch of an earlier connection is on its way, so its identifiers are all there.
N4  what is held and gathered has a limit. Beyond it QoS 0 is dropped, and QoS 1 and 2 are left unanswered and unrecorded, all that
    follow them too; when there is room again a new connection makes the remote send them again. A remote that would not keep them
    for a new connection is not read instead. So nobody is held to the receive maximum, which Mosquitto 2.0 exceeds when it sends
    a session's messages again: to disconnect for that would never end.
N5  a message that is dropped before it was sent to the store, or was not even taken, comes again with DUP. It is no repeat, though
    its identifier may be on record: of a session that the remote has lost (I4). What was sent and refused, the store has forgotten
    (``storage/tier1.py``).
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from wire.batch import QOS_MASK, Batch, pack_column, unpack_column
from wire.errors import PeerViolation
from wire.frames import Committed, Publishes, encode
from wire.inbound import AnswerBurst, InboundFlow
from wire.incoming import LocalForm
from wire.link import BATCH_BYTES_MAX, BATCH_ROWS_MAX, SendingLink
from wire.mqtt.codec import split
from wire.mqtt.publish_properties import message_expiry_s
from wire.mqtt.publish_stream import DUP, BatchBuilder, parse_publishes, qos2_packet_id
from wire.publish_expiry import aged, waited_s
from wire.refusals import OFFER_ROWS_MAX, OFFER_ROWS_MIN, RefusedMessage, refused_messages

RECEIVE_MAXIMUM = 65_535  # not checked (N4)
PUBLISH, PUBREL = 0x30, 0x60
_KIND = 0xF0


@dataclass(slots=True)
class InboxCounts:
    """Counters since the process began."""

    received: int = 0
    duplicates: int = 0
    refused: int = 0
    dropped: int = 0
    expired: int = 0
    skipped: int = 0


class Resumed(NamedTuple):
    """A source that the store is to take again; ``held`` and ``given_up`` as in ``SourceResumed``."""

    source: int
    held: int
    given_up: int


class _Held(NamedTuple):
    """A message that the store refused. since_ms: when it came from the remote (UTC epoch)."""

    message: RefusedMessage
    since_ms: int


@dataclass(frozen=True, slots=True)
class _Owed:
    """What is wanted back when a batch is committed; ``rows`` says which rows of ``came`` it has (None: all).

    again: what was held before and is the batch's rows now; empty for what has just come.
    """

    source: int
    burst: AnswerBurst | None
    came: Batch
    sources: bytes
    received: dict[str, tuple[bytes, bytes]]
    rows: list[int] | None
    again: tuple[_Held, ...]


class RemoteInbox:
    """One lane's messages from its remote. ``sender`` and ``epoch`` number the batches."""

    def __init__(
        self,
        form: LocalForm,
        *,
        sender: str,
        epoch: int,
        level: int,
        packet_max_bytes: int,
        remote_keeps: bool,
        rows_max: int = BATCH_ROWS_MAX,
        bytes_max: int = BATCH_BYTES_MAX,
    ) -> None:
        """``remote_keeps``: what is not answered comes again on the next connection, unless the remote then says otherwise."""
        self._form = form
        self._sender = sender
        self._epoch = epoch
        self._session = ""  # names the QoS 2 identifiers
        self._level = level
        self._packet_max_bytes = packet_max_bytes
        self._asks_to_keep = self._remote_keeps = remote_keeps
        self._builder = BatchBuilder(rows_max=rows_max, bytes_max=bytes_max, packet_max_bytes=packet_max_bytes)
        self._link: SendingLink[list[bytes], _Owed] = SendingLink()
        self._source = 0
        self._flow: InboundFlow | None = None
        self._held: deque[_Held] = deque()
        self._stalled = False  # the store refuses what comes by this connection
        self._refusing: set[int] = set()  # connections that the store refuses until it is told
        self._given_up: Counter[int] = Counter()  # by connection, what the store is to be told of
        self._offer_rows = OFFER_ROWS_MIN
        self._skipping = False
        self._not_recorded: set[int] = set()  # whatever is on record under these is of others (N5)
        self.blocked = False  # the next packet cannot be taken now
        self.listener = 0  # epoch of the Listener that is known
        self.counts = InboxCounts()

    # --- connections ---

    def connected(self, session: str, *, forgotten: bool = False) -> None:
        """A connection is up, in ``session``; its packets wait for ``opened``. forgotten: that ends with the connection."""
        assert self._flow is None, "connected twice"
        if session != self._session:
            self._session = session
            self._not_recorded.clear()
        self._remote_keeps = self._asks_to_keep and not forgotten
        self._source += 1

    def opened(self, received: bytes) -> None:
        """The store has told the session's identifiers (u16 column); packets are taken from now on."""
        self._flow = InboundFlow(
            number=self._source,
            session=self._session,
            level=self._level,
            receive_maximum=RECEIVE_MAXIMUM,
            topic_alias_maximum=0,
            dup_tells=True,
        )
        self._flow.carry(packet_id for packet_id in unpack_column("H", received) if packet_id not in self._not_recorded)

    def disconnected(self, untaken: bytes = b"") -> None:
        """The connection is gone. What was not answered comes again; what is behind refused rows must not overtake them.

        untaken: what had been received by then and not been taken.
        """
        self._note_untaken(untaken)
        self._flow = None
        self.blocked = self._skipping = False
        if self._stalled:
            self._stalled = False
            self._give_up(self._source, sum(1 for message, _ in self._held if not message.qos))
            self._held.clear()
            self._drop_gathered()

    def _give_up(self, source: int, messages: int) -> None:
        """So many refused ``messages`` of QoS 0 do not come again, since their connection has ended."""
        self.counts.dropped += messages
        self._given_up[source] += messages

    def _note_untaken(self, untaken: bytes) -> None:
        """Packets that nobody has looked at: whether they are new as well (N5)."""
        position = 0
        try:
            while (packet := split(untaken, position, self._packet_max_bytes)) is not None:
                self._note_left_out(untaken, *packet[:2])
                position = packet[2]
        except PeerViolation:
            pass  # it has no more packets

    def _drop_gathered(self) -> None:
        self.counts.dropped += sum(1 for flags in self._builder.flags if not flags & QOS_MASK)
        self._not_recorded.update(self._builder.received_rows.get(self._session, ((), ()))[0])
        self._builder.clear()

    @property
    def idle(self) -> bool:
        """Whether nothing of an earlier connection is on its way any more (N3)."""
        return not len(self._link) and not len(self._builder)

    @property
    def refusing(self) -> tuple[int, ...]:
        """The sources that the store refuses until it is told."""
        return tuple(sorted(self._refusing))

    def resumes(self) -> list[Resumed]:
        """What the store is told of refused sources; ask where ``offer_again`` was the first to send something, or nobody has."""
        held = {self._source: len(self._held)} if self._held or self._stalled else {}
        sources = sorted({*self._refusing, *self._given_up, *held})
        given_up, self._given_up = self._given_up, Counter()
        self._refusing.clear()
        return [Resumed(source, held.get(source, 0), given_up[source]) for source in sources]

    # --- packets ---

    def take(self, buffer: bytes, position: int) -> int:
        """Take the PUBLISHes that stand at ``position``; the position after them. ``blocked``: what stands there has to wait.

        Raises:
            PeerViolation: one is malformed or too large.
        """
        self.blocked = False
        if position >= len(buffer) or buffer[position] & _KIND not in (PUBLISH, PUBREL):
            return position
        if self._flow is None:
            self.blocked = True
            return position
        if buffer[position] & _KIND == PUBREL:
            return position
        if not self._skipping and not self._builder.full:
            position = self._parse(self._flow, buffer, position)
        if self._skipping or self._builder.full:
            if self._skipping or (self._stalled and self._remote_keeps):
                return self._skip(buffer, position)
            self.blocked = position < len(buffer) and buffer[position] & _KIND == PUBLISH
        return position

    @property
    def takes(self) -> bool:
        """Whether what was blocked can be taken now, or left out (N4): acknowledgements of ours may stand behind it."""
        return self._flow is not None and (not self._builder.full or (self._stalled and self._remote_keeps))

    def _parse(self, flow: InboundFlow, buffer: bytes, position: int) -> int:
        builder = self._builder
        rows, answers, taken = len(builder), len(flow.pubrec_ids), self._received_rows()
        try:
            position = parse_publishes(buffer, position, self._level, flow, builder)
        finally:
            self.counts.received += len(builder) - rows
            self.counts.duplicates += len(flow.pubrec_ids) - answers - (self._received_rows() - taken)
        return position

    def _received_rows(self) -> int:
        found = self._builder.received_rows.get(self._session)
        return len(found[0]) if found else 0

    def _skip(self, buffer: bytes, position: int) -> int:
        """Leave PUBLISHes out (N4)."""
        while position < len(buffer) and buffer[position] & _KIND == PUBLISH:
            packet = split(buffer, position, self._packet_max_bytes)
            if packet is None:
                break
            if packet[0] >> 1 & 3:
                self._skipping = True
                self.counts.skipped += 1
                self._note_left_out(buffer, *packet[:2])
            else:
                self.counts.dropped += 1
            position = packet[2]
        return position

    def _note_left_out(self, buffer: bytes, first_byte: int, start: int) -> None:
        """A packet was left out: a PUBLISH without DUP it is new, whatever its identifier is on record for (I4, N5)."""
        packet_id = qos2_packet_id(buffer, first_byte, start)
        if packet_id is not None and not first_byte & DUP:
            if self._flow is None:  # what is on record has not been told yet
                self._not_recorded.add(packet_id)
            elif packet_id in self._flow.carried:
                self._flow.carried.discard(packet_id)
                self._not_recorded.add(packet_id)

    def pubrel(self, packet_id: int) -> None:
        """The remote released ``packet_id``."""
        assert self._flow is not None, "a PUBREL that had to wait"
        self._flow.pubrel(packet_id)

    # --- batches ---

    @property
    def waiting(self) -> int:
        """Messages that wait for room."""
        return len(self._held) + (len(self._builder) if self._stalled else 0)

    @property
    def held(self) -> int:
        """How many messages are to be offered again."""
        return len(self._held)

    @property
    def eager(self) -> bool:
        """Whether the last offer was taken whole, so that the next one need not wait."""
        return self._offer_rows > OFFER_ROWS_MIN

    @property
    def remake(self) -> bool:
        """Whether there is room again for what was left out, so that a new connection is due (N4)."""
        return self._skipping and not self._stalled and self.idle

    @property
    def outstanding(self) -> int:
        """Batches on their way."""
        return len(self._link)

    @property
    def next_number(self) -> int:
        """The number of the first batch that the store has not committed."""
        return self._link.committed + 1

    def next_batch(self, now_s: float, wall_ms: int) -> list[bytes] | None:
        """The parts of the next ``Publishes``, if one is due; it counts as sent."""
        link, builder, flow = self._link, self._builder, self._flow
        if self._stalled or not link.worth_sending(len(builder), full=builder.full):
            return None
        sealed = flow.seal() if flow is not None else None
        if sealed is None and not len(builder):
            return None
        burst, released = sealed if sealed is not None else (None, [])
        parts = self._send(builder, burst, released, now_s, wall_ms)
        builder.clear()
        return parts

    def offer_again(self, now_s: float, wall_ms: int) -> list[bytes] | None:
        """The parts of a ``Publishes`` with the first of what is held, when nothing is on its way; act on ``resumes`` before."""
        flow = self._flow
        if not self._held or len(self._link) or flow is None:
            return None
        builder = BatchBuilder(rows_max=OFFER_ROWS_MAX, bytes_max=BATCH_BYTES_MAX)
        again = InboundFlow(
            number=flow.number, session=self._session, level=self._level, receive_maximum=RECEIVE_MAXIMUM, topic_alias_maximum=0
        )
        expired: list[int] = []
        for message, since_ms in islice(self._held, self._offer_rows):
            if builder.full:
                break
            interval_s, waited = message_expiry_s(message.properties), waited_s(since_ms, wall_ms)
            if interval_s is not None:
                if interval_s <= waited:
                    expired.append(len(builder))
                message = replace(message, properties=aged(message.properties, waited))
            builder.add_again(again, message)
        held = tuple(self._held.popleft() for _ in range(len(builder)))
        self.counts.expired += len(expired)
        sealed = again.seal()
        return self._send(builder, sealed[0] if sealed else None, [], now_s, wall_ms, expired, again=held)

    def _send(
        self,
        builder: BatchBuilder,
        burst: AnswerBurst | None,
        released: list[int],
        now_s: float,
        wall_ms: int,
        expired: Collection[int] = (),
        *,
        again: tuple[_Held, ...] = (),
    ) -> list[bytes]:
        came, sources, received = builder.build(accepted_ms=wall_ms), builder.sources_column(), builder.received
        batch, rows = self._form.transform(came, expired)
        parts = encode(
            Publishes(
                sender=self._sender,
                epoch=self._epoch,
                number=self._link.next_number,
                sources=sources if rows is None else sources[: 4 * len(rows)],  # a builder's rows are of one connection
                received=received if rows is None else _renumbered(received, rows),
                released={self._session: pack_column(array("H", released))} if released else {},
                listener=self.listener,
                bodies=(batch.encode(),),
            )
        )
        source = builder.sources[0] if len(builder) else self._source
        self._link.sent(parts, _Owed(source, burst, came, sources, received, rows, again), now_s)
        return parts

    def committed(self, frame: Committed, now_s: float) -> bytes:
        """Everything up to ``frame.number`` is committed: the answers that leave now."""
        answers = []
        for batch in self._link.acknowledge(frame.number, now_s):
            owed = batch.kept
            if self._not_recorded:
                packet_ids, _ = owed.received.get(self._session, (b"", b""))
                self._not_recorded.difference_update(unpack_column("H", packet_ids))
            rows = frame.refused.get(batch.number)
            burst = owed.burst
            if rows is not None:
                burst = self._refused(owed, rows)
            elif owed.again:
                self._offer_rows = min(OFFER_ROWS_MAX, self._offer_rows * 4)
            if burst is not None and self._flow is not None:  # which is of the same connection (N3)
                self._flow.answered(burst)
                answers.append(burst.encode())
        if not self._held and not len(self._link):
            self._stalled = False  # everything that was held is in
            self._offer_rows = OFFER_ROWS_MIN
        return b"".join(answers)

    def _refused(self, owed: _Owed, rows: bytes) -> AnswerBurst | None:
        """Hold the messages of refused ``rows``; the burst without their answers."""
        self._refusing.add(owed.source)
        self._offer_rows = OFFER_ROWS_MIN
        if owed.rows is not None:
            rows = pack_column(array("H", [owed.rows[row] for row in unpack_column("H", rows)]))
        if self._flow is None:
            self._give_up(owed.source, sum(1 for row in unpack_column("H", rows) if not owed.came.flags[row] & QOS_MASK))
            self._drop_gathered()  # of that connection too, and behind what was refused
            return None
        assert owed.source == self._flow.number, "a batch of an earlier connection (N3)"
        self._stalled = True
        if owed.again:
            held = [owed.again[row] for row in unpack_column("H", rows)]
            self._held.extendleft(reversed(held))
        else:
            pubacks = {owed.source: owed.burst.pubacks} if owed.burst is not None else {}
            messages = refused_messages(owed.came, owed.sources, pubacks, owed.received, rows)
            held = [_Held(message, owed.came.accepted_ms) for message in messages]
            self._held.extend(held)
        self.counts.refused += len(held)
        return owed.burst.without(frozenset(message.packet_id for message, _ in held)) if owed.burst is not None else None

    def resend(self, now_s: float) -> list[list[bytes]]:
        """Everything outstanding, in order, because an actor on the way started anew."""
        return self._link.resend(now_s)

    def overdue(self, now_s: float) -> bool:
        """Whether something is outstanding and nothing was committed for long."""
        return self._link.overdue(now_s)


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
