"""Intake from a bridge's remote, between its packets and the store's commits: the receiver's half of one lane. Pure.

It gathers PUBLISHes into numbered batches (``wire/exchange/remote_batches.py``, exchange.answer-after-commit), as the
Listener does for local clients, and gives the answers that a commit releases. A batch for which a queue has no room waits at the
store, unanswered, and what comes behind it gathers here. Sockets, timers and the frames around it are the business of
``actors/bridge/remote_intake.py``, topics and flags of ``wire/routing/form_from_remote.py``.

exchange.session-asked-when-idle [P2, P3]: the store is asked for the session only when no batch of an earlier connection is on its
    way, so all identifiers are on record.
exchange.remote-never-refused [P2, P6]: a PUBLISH is never answered with a failure, because the remote would throw the message away.
exchange.inbox-bounded [P5]: what is gathered has a limit. Beyond it the remote is not read. Where nothing was committed for long,
    acknowledgements of ours may stand behind what is not read: then QoS 0 is dropped, and QoS 1 and 2 are left unanswered and
    unrecorded, with all that follow them; when batches are committed again, a new connection makes the remote send them again. The
    socket stays unread for a remote that would not send again. Nobody is held to the receive maximum: Mosquitto 2.0 exceeds it when
    it sends a session's messages again, and to disconnect for that would never end.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from wire.exchange.receiver import ReceiverHalf
from wire.exchange.remote_batches import RemoteBatches
from wire.frames.batch import unpack_column
from wire.frames.intake import Committed, Publishes
from wire.frames.sending_link import BATCH_BYTES_MAX, BATCH_ROWS_MAX
from wire.mqtt.codec import split
from wire.mqtt.packets import MQTT_5_0
from wire.mqtt.publish_batch_parser import PACKET_BYTES_LIMIT, BatchBuilder, parse_publishes
from wire.routing.form_from_remote import LocalForm

RECEIVE_MAXIMUM = 65_535  # not checked (exchange.inbox-bounded)
PUBLISH, PUBREL = 0x30, 0x60
_KIND = 0xF0


@dataclass(slots=True)
class InboxCounts:
    """Counters since the process began."""

    received: int = 0
    duplicates: int = 0
    dropped: int = 0
    skipped: int = 0


class RemoteInbox:
    """One lane's messages from its remote. ``sender`` and ``epoch`` number the batches.

    blocked: the next packet cannot be taken now.
    """

    def __init__(
        self,
        form: LocalForm,
        *,
        sender: str,
        epoch: int,
        packet_max_bytes: int,
        topic_alias_maximum: int = 0,
        rows_max: int = BATCH_ROWS_MAX,
        bytes_max: int = BATCH_BYTES_MAX,
    ) -> None:
        """packet_max_bytes: of a packet from a remote that was told so; one of MQTT 3.1.1 cannot be."""
        self.batches = RemoteBatches(form, sender=sender, epoch=epoch)
        self._session = ""  # names the QoS 2 identifiers
        self._level = MQTT_5_0
        self._topic_alias_maximum = topic_alias_maximum
        self._packet_max_bytes = packet_max_bytes
        self._remote_keeps = False
        self._builder = BatchBuilder(rows_max=rows_max, bytes_max=bytes_max, packet_max_bytes=packet_max_bytes)
        self._source = 0
        self._flow: ReceiverHalf | None = None
        self._stands_still = False  # nothing was committed for long
        self._skipping = False
        self.blocked = False
        self.counts = InboxCounts()

    # --- connections ---

    def on_connected(self, session: str, *, level: int, remote_keeps: bool) -> None:
        """A connection of that protocol ``level`` is up, in ``session``; its packets wait for ``on_opened``. remote_keeps: what is
        not answered comes again on the next one.
        """
        assert self._flow is None, "connected twice"
        self._session = session
        self._level, self._remote_keeps = level, remote_keeps
        builder = self._builder
        builder.limit_packets(self._largest_packet_bytes, builder.topic_limits, forbidden_take_room=builder.forbidden_take_room)
        self._source += 1

    def on_opened(self, received: bytes) -> None:
        """The store has told the session's identifiers (u16 column); packets are taken from now on."""
        self._flow = ReceiverHalf(
            number=self._source,
            session=self._session,
            level=self._level,
            receive_maximum=RECEIVE_MAXIMUM,
            topic_alias_maximum=self._topic_alias_maximum,
        )
        self._flow.carry(unpack_column("H", received))

    def on_disconnected(self) -> None:
        """The connection is gone. What was not answered comes again."""
        self._flow = None
        self.blocked = self._skipping = False

    @property
    def _largest_packet_bytes(self) -> int:
        return self._packet_max_bytes if self._level == MQTT_5_0 else PACKET_BYTES_LIMIT

    @property
    def idle(self) -> bool:
        """Whether nothing of an earlier connection is on its way any more (exchange.session-asked-when-idle)."""
        return not self.batches.link.outstanding and not len(self._builder)

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
            if self._leaves_out:
                return self._skip(buffer, position, (PUBLISH, PUBREL))
            self.blocked = True
        elif buffer[position] & _KIND == PUBLISH:
            if not self._skipping and not self._builder.full:
                position = self._parse(self._flow, buffer, position)
            if self._skipping or (self._builder.full and self._leaves_out):
                return self._skip(buffer, position, (PUBLISH,))
            self.blocked = self._builder.full and position < len(buffer) and buffer[position] & _KIND == PUBLISH
        return position

    @property
    def is_open(self) -> bool:
        """Whether packets of the live connection are taken."""
        return self._flow is not None

    @property
    def takes(self) -> bool:
        """Whether what was blocked can be taken now, or left out (exchange.inbox-bounded)."""
        return (self.is_open and not self._builder.full) or self._leaves_out

    @property
    def _leaves_out(self) -> bool:
        return self._stands_still and self._remote_keeps

    def _parse(self, flow: ReceiverHalf, buffer: bytes, position: int) -> int:
        builder = self._builder
        rows, answers, taken = len(builder), len(flow.pubrec_ids), self._received_ids()
        try:
            position = parse_publishes(buffer, position, self._level, flow, builder)
        finally:
            self.counts.received += len(builder) - rows
            self.counts.duplicates += len(flow.pubrec_ids) - answers - (self._received_ids() - taken)
        return position

    def _received_ids(self) -> int:
        return len(self._builder.received_ids.get(self._session, ()))

    def _skip(self, buffer: bytes, position: int, kinds: Collection[int]) -> int:
        """Leave packets of these ``kinds`` out (exchange.inbox-bounded)."""
        while position < len(buffer) and buffer[position] & _KIND in kinds:
            packet = split(buffer, position, self._largest_packet_bytes)
            if packet is None:
                break
            if packet[0] & _KIND == PUBREL or packet[0] >> 1 & 3:
                self._skipping = True
                self.counts.skipped += packet[0] & _KIND == PUBLISH
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
    def gathered(self) -> int:
        """Messages that have come, and are not on their way."""
        return len(self._builder)

    @property
    def remake(self) -> bool:
        """Whether what was left out can be taken, so that a new connection is due (exchange.inbox-bounded)."""
        return self._skipping and not self._stands_still and self.idle

    @property
    def outstanding(self) -> int:
        """Batches on their way."""
        return len(self.batches.link.outstanding)

    @property
    def next_number(self) -> int:
        """The number of the first batch that the store has not committed."""
        return self.batches.link.committed + 1

    def next_batch(self, now_s: float, wall_ms: int) -> Publishes | None:
        """The next batch, if one is due; it counts as sent."""
        link, builder, flow = self.batches.link, self._builder, self._flow
        if not link.worth_sending(len(builder), full=builder.full):
            return None
        sealed = flow.seal() if flow is not None else None
        if sealed is None and not len(builder):
            return None
        burst, released = sealed if sealed is not None else (None, [])
        frame = self.batches.send(builder, burst, released, now_s, wall_ms, session=self._session)
        builder.clear()
        return frame

    def on_committed(self, frame: Committed, now_s: float) -> bytes:
        """Everything up to ``frame.number`` is committed: the answers that leave now."""
        answers = []
        for batch in self.batches.link.acknowledge(frame.number, now_s):
            self._stands_still = False
            burst = batch.kept
            if burst is not None and self._flow is not None:  # which is of the same connection (exchange.session-asked-when-idle)
                self._flow.on_answered(burst)
                answers.append(burst.encode())
        return b"".join(answers)

    @property
    def overdue_at_s(self) -> float:
        """When to ``poll_stalled``, if nothing is committed before."""
        return self.batches.link.overdue_at_s

    def poll_stalled(self, now_s: float) -> bool:
        """Whether something is outstanding and nothing was committed for long; then what cannot be taken may be left out."""
        overdue = self.batches.link.overdue(now_s)
        self._stands_still = self._stands_still or overdue
        return overdue

    def resend(self, now_s: float) -> list[Publishes]:
        """Everything outstanding, in order, because an actor on the way started anew."""
        return self.batches.link.resend(now_s)
