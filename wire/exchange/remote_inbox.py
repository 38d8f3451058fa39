"""What comes from a bridge's remote, between its packets and the store's commits: the receiver's half of one lane. Pure.

It gathers PUBLISHes into numbered batches (``wire/exchange/remote_batches.py``, exchange.answer-after-commit), as the
Listener does for local clients, and gives the answers that a commit releases. What the store refuses is kept by
``wire/exchange/refused_by_store.py`` (exchange.refused-rows-held). Sockets, timers and the frames around it are the
business of ``actors/bridge/remote_intake.py``, topics and flags of ``wire/routing/form_from_remote.py``.

exchange.session-asked-when-idle [P2, P3]: the store is asked for the session only when no batch of an earlier connection is on its
    way, so all identifiers are on record.
exchange.inbox-bounded [P5]: what is held and gathered has a limit. Beyond it QoS 0 is dropped, and QoS 1 and 2 are left unanswered
    and unrecorded, with all that follow them; when there is room again a new connection makes the remote send them again. The
    socket is not left unread for a remote that would not send again. Nobody is held to the receive maximum: Mosquitto 2.0 exceeds
    it when it sends a session's messages again, and to disconnect for that would never end.
"""

from __future__ import annotations

from dataclasses import dataclass

from wire.exchange.receiver import AnswerBurst, ReceiverHalf
from wire.exchange.refused_by_store import RefusedByStore, Resumed
from wire.exchange.refused_messages import OFFER_ROWS_MAX
from wire.exchange.remote_batches import Owed, RemoteBatches
from wire.frames.batch import QOS_MASK, unpack_column
from wire.frames.intake import Committed
from wire.frames.sending_link import BATCH_BYTES_MAX, BATCH_ROWS_MAX
from wire.mqtt.codec import split
from wire.mqtt.publish_stream import BatchBuilder, parse_publishes
from wire.routing.form_from_remote import LocalForm

RECEIVE_MAXIMUM = 65_535  # not checked (exchange.inbox-bounded)
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
        self.batches = RemoteBatches(form, sender=sender, epoch=epoch)
        self._session = ""  # names the QoS 2 identifiers
        self._level = level
        self._packet_max_bytes = packet_max_bytes
        self._asks_to_keep = self._remote_keeps = remote_keeps
        self._builder = BatchBuilder(rows_max=rows_max, bytes_max=bytes_max, packet_max_bytes=packet_max_bytes)
        self._source = 0
        self._flow: ReceiverHalf | None = None
        self._refused = RefusedByStore()
        self._skipping = False
        self.blocked = False  # the next packet cannot be taken now
        self.counts = InboxCounts()

    # --- connections ---

    def connected(self, session: str, *, forgotten: bool = False) -> None:
        """A connection is up, in ``session``; its packets wait for ``opened``. forgotten: that ends with the connection."""
        assert self._flow is None, "connected twice"
        self._session = session
        self._remote_keeps = self._asks_to_keep and not forgotten
        self._source += 1

    def opened(self, received: bytes) -> None:
        """The store has told the session's identifiers (u16 column); packets are taken from now on."""
        self._flow = ReceiverHalf(
            number=self._source,
            session=self._session,
            level=self._level,
            receive_maximum=RECEIVE_MAXIMUM,
            topic_alias_maximum=0,
        )
        self._flow.carry(unpack_column("H", received))

    def disconnected(self) -> None:
        """The connection is gone. What was not answered comes again; what is behind refused rows must not overtake them."""
        self._flow = None
        self.blocked = self._skipping = False
        if self._refused.stalled:
            self.counts.dropped += self._refused.disconnected(self._source)
            self._drop_gathered()

    def _drop_gathered(self) -> None:
        self.counts.dropped += sum(1 for flags in self._builder.flags if not flags & QOS_MASK)
        self._builder.clear()

    @property
    def idle(self) -> bool:
        """Whether nothing of an earlier connection is on its way any more (exchange.session-asked-when-idle)."""
        return not len(self.batches.link) and not len(self._builder)

    @property
    def refusing(self) -> tuple[int, ...]:
        """The sources that the store refuses until it is told."""
        return self._refused.refusing

    def resumes(self) -> list[Resumed]:
        """What the store is told of refused sources; ask where ``offer_again`` was the first to send something, or nobody has."""
        return self._refused.resumes(self._source)

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
            if self._skipping or (self._refused.stalled and self._remote_keeps):
                return self._skip(buffer, position)
            self.blocked = position < len(buffer) and buffer[position] & _KIND == PUBLISH
        return position

    @property
    def is_open(self) -> bool:
        """Whether packets of the live connection are taken."""
        return self._flow is not None

    @property
    def takes(self) -> bool:
        """Whether what was blocked can be taken now, or left out (exchange.inbox-bounded): acknowledgements of ours may stand
        behind it.
        """
        return self.is_open and (not self._builder.full or (self._refused.stalled and self._remote_keeps))

    def _parse(self, flow: ReceiverHalf, buffer: bytes, position: int) -> int:
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
        """Leave PUBLISHes out (exchange.inbox-bounded)."""
        while position < len(buffer) and buffer[position] & _KIND == PUBLISH:
            packet = split(buffer, position, self._packet_max_bytes)
            if packet is None:
                break
            if packet[0] >> 1 & 3:
                self._skipping = True
                self.counts.skipped += 1
            else:
                self.counts.dropped += 1
            position = packet[2]
        return position

    def pubrel(self, packet_id: int) -> None:
        """The remote released ``packet_id``."""
        assert self._flow is not None, "a PUBREL that had to wait"
        self._flow.pubrel(packet_id)

    # --- batches ---

    @property
    def waiting(self) -> int:
        """Messages that wait for room."""
        return len(self._refused) + (len(self._builder) if self._refused.stalled else 0)

    @property
    def held(self) -> int:
        """How many messages are to be offered again."""
        return len(self._refused)

    @property
    def eager(self) -> bool:
        """Whether the last offer was taken whole, so that the next one need not wait."""
        return self._refused.eager

    @property
    def remake(self) -> bool:
        """Whether there is room again for what was left out, so that a new connection is due (exchange.inbox-bounded)."""
        return self._skipping and not self._refused.stalled and self.idle

    @property
    def outstanding(self) -> int:
        """Batches on their way."""
        return len(self.batches.link)

    @property
    def next_number(self) -> int:
        """The number of the first batch that the store has not committed."""
        return self.batches.link.committed + 1

    def next_batch(self, now_s: float, wall_ms: int) -> list[bytes] | None:
        """The parts of the next ``Publishes``, if one is due; it counts as sent."""
        link, builder, flow = self.batches.link, self._builder, self._flow
        if self._refused.stalled or not link.worth_sending(len(builder), full=builder.full):
            return None
        sealed = flow.seal() if flow is not None else None
        if sealed is None and not len(builder):
            return None
        burst, released = sealed if sealed is not None else (None, [])
        parts = self.batches.send(builder, burst, released, now_s, wall_ms, source=self._source, session=self._session)
        builder.clear()
        return parts

    def offer_again(self, now_s: float, wall_ms: int) -> list[bytes] | None:
        """The parts of a ``Publishes`` with the first of what is held, when nothing is on its way; act on ``resumes`` before."""
        flow = self._flow
        if not len(self._refused) or len(self.batches.link) or flow is None:
            return None
        builder = BatchBuilder(rows_max=OFFER_ROWS_MAX, bytes_max=BATCH_BYTES_MAX)
        again = ReceiverHalf(
            number=flow.number, session=self._session, level=self._level, receive_maximum=RECEIVE_MAXIMUM, topic_alias_maximum=0
        )
        held, expired = self._refused.offer(builder, again, wall_ms)
        self.counts.expired += len(expired)
        sealed = again.seal()
        burst = sealed[0] if sealed else None
        return self.batches.send(
            builder, burst, [], now_s, wall_ms, expired, source=self._source, session=self._session, again=held
        )

    def committed(self, frame: Committed, now_s: float) -> bytes:
        """Everything up to ``frame.number`` is committed: the answers that leave now."""
        answers = []
        for batch in self.batches.link.acknowledge(frame.number, now_s):
            owed = batch.kept
            rows = frame.refused.get(batch.number)
            burst = owed.burst
            if rows is not None:
                burst = self._hold(owed, rows)
            elif owed.again:
                self._refused.taken()
            elif burst is not None:
                burst = self._refused.wait(burst)
            if burst is not None and self._flow is not None:  # which is of the same connection (exchange.session-asked-when-idle)
                self._flow.answered(burst)
                answers.append(burst.encode())
        if not len(self._refused) and not len(self.batches.link):
            self._refused.over()
        return b"".join(answers)

    def _hold(self, owed: Owed, rows: bytes) -> AnswerBurst | None:
        """Hold the messages of refused ``rows``; what of the burst leaves all the same."""
        if self._flow is None:
            dropped = owed.qos0(rows)
            self._refused.forgo(owed.source, dropped)
            self.counts.dropped += dropped
            self._drop_gathered()  # of that connection too, and behind what was refused
            return None
        assert owed.source == self._flow.number, "a batch of an earlier connection (exchange.session-asked-when-idle)"
        held = owed.held(rows)
        self.counts.refused += len(held)
        return self._refused.hold(owed.source, held, owed.burst, again=bool(owed.again))

    def resend(self, now_s: float) -> list[list[bytes]]:
        """Everything outstanding, in order, because an actor on the way started anew."""
        return self.batches.link.resend(now_s)

    def overdue(self, now_s: float) -> bool:
        """Whether something is outstanding and nothing was committed for long."""
        return self.batches.link.overdue(now_s)
