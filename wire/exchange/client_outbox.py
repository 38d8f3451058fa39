"""Output to one local client at QoS 1 and 2: the exchange, and the messages that wait for their turn. Pure.

The exchange itself is ``wire/exchange/sender.py``'s. For a session that ends with its connection the messages come from the
Distributor and are numbered here; for one that lasts they are handed out by the store, which is told what became of them.

A message whose time is up is not sent (exchange.expired-not-sent). For a session that lasts, that is on record before anything
behind the message leaves (exchange.expiry-committed-first). Such a session goes on where the store says it stands, with the packet
identifiers that it had (exchange.resumed-in-order) [MQTT-4.4.0-1]. Of what was sent by a life that a restored store knows nothing
of, the client first lets go (``wire/exchange/identifier_release.py``): before that nothing is PUBLISHed, and the session is not on
record (exchange.left-identifiers-released).

exchange.unqueued-wait-bounded [P5, P6]: what waits for a session without a queue is limited; what comes beyond is dropped and
    counted.
exchange.nothing-twice-live: when the store is new and the connection is not, it is told again what may not be on record.
"""

from __future__ import annotations

from array import array

from wire.access.access_rules import ClientAccess
from wire.config_settings import SessionSettings
from wire.exchange.client_exchange import ClientExchange
from wire.exchange.former_sessions import LeftSession, left_rows
from wire.exchange.identifier_release import IdentifierRelease
from wire.exchange.subscriber_copies import Parcel
from wire.exchange.waiting_parcels import WaitingParcels
from wire.frames.batch import Batch, unpack_column
from wire.frames.credit import CreditGiver
from wire.frames.lanes import Credit, HandOut, LaneOpened, Settle
from wire.mqtt.aliases import OutgoingAliases
from wire.ranges import RangeSet
from wire.status.bridges import ExchangeFigures
from wire.status.loss_reasons import Loss

SETTLE_MESSAGES = 256
BYTES_IN_HAND = 1 << 20
MESSAGES_IN_HAND_MIN = 64

_NOTHING = ExchangeFigures()


class ClientOutbox:
    """One client's. ``dropped`` counts what found no room. exchange: is made when something is to be sent. used: something was,
    since ``rest`` was asked for.

    queue: the session's Tier-1 queue, empty for a session that ends with its connection.
    """

    __slots__ = (
        *("_credit", "_dup_below", "_gone", "_lane_open", "_left", "_level", "_next_seq", "_number", "_release", "_skip_below"),
        *("_settings", "dropped", "exchange", "lane_epoch", "queue", "used", "waiting", "window"),
    )

    def __init__(
        self,
        *,
        queue: str,
        level: int,
        receive_maximum: int,
        packet_max_bytes: int | None,
        settings: SessionSettings,
        aliases: OutgoingAliases | None = None,
    ):
        self.queue = queue
        self.dropped = 0
        self.lane_epoch = 0
        self.used = False
        self._level = level
        self._settings = settings
        self.window = window = min(settings.in_flight_max, receive_maximum)
        self.exchange = ClientExchange(level=level, window=window, packet_max_bytes=packet_max_bytes, aliases=aliases)
        self._credit = CreditGiver(
            messages_in_hand=max(MESSAGES_IN_HAND_MIN, 2 * window), bytes_in_hand=min(BYTES_IN_HAND, settings.queue_max_bytes)
        )
        self.waiting = WaitingParcels()
        self._next_seq = 0
        self._number = 0
        self._lane_open = False
        self._dup_below = 0  # what may have been sent on an earlier connection
        self._skip_below = 0  # what was sent on this one, before the store was new
        self._release: IdentifierRelease | None = None  # exchange.left-identifiers-released
        self._left: LeftSession | None = None  # what the session was left as
        self._gone: dict[str, RangeSet] = {}  # outcome -> what never reached the exchange

    def take_dropped(self) -> int:
        """How many found no room since the last call."""
        dropped, self.dropped = self.dropped, 0
        return dropped

    @property
    def sent_below(self) -> int:
        """As in ``LaneClose``: what the store has handed out from this sequence on was never sent."""
        return max(self.exchange.sent_stop, self._dup_below) if self._lane_open else -1

    def rest(self) -> ExchangeFigures | None:
        """Release the exchange if it was not used since this was asked for, and nothing is under way: what it has counted."""
        used, self.used = self.used, False
        if used or self.waiting or self._gone or self._release is not None:
            return None
        if not self.queue and self.exchange.made is not None:
            self._forget_facts()
        counts = self.counts
        return counts if self.exchange.rest() else None

    @property
    def live(self) -> bool:
        """Whether the exchange has begun; acknowledgements that come before answer nothing."""
        return self.exchange.live or self._release is not None

    @property
    def in_flight(self) -> int:
        """QoS 1 and 2 messages that the client has not acknowledged."""
        return self.exchange.in_flight

    @property
    def waits(self) -> bool:
        """Whether QoS 1 and 2 messages wait for room in the exchange, or for their turn in it."""
        return bool(self.waiting) or self.exchange.waits

    @property
    def held_back(self) -> bool:
        """Whether they wait because of what the client has not acknowledged: its window is full, or identifiers have come round."""
        flow = self.exchange.made
        return (
            flow is not None
            and flow.live
            and self.waits
            and (flow.in_flight.messages >= flow.in_flight.window or flow.messages.identifiers_used_up)
        )

    @property
    def owed(self) -> tuple[object, ...]:
        """As ``SenderHalf.owed``: the oldest PUBACK, PUBREC and PUBCOMP that the client owes."""
        return self.exchange.flow.owed if self._release is None else (None, None, self._release.owed)

    @property
    def depth(self) -> int:
        """QoS 1 and 2 messages that are here and not acknowledged; of a session that lasts, its queue has more."""
        flow = self.exchange.made
        return self.waiting.messages + (0 if flow is None else max(0, flow.handed_out.stop - flow.due.sent_stop) + self.in_flight)

    @property
    def sent(self) -> tuple[int, int]:
        """PUBLISHes and PUBRELs that have left."""
        flow = self.exchange.made
        return (0, 0) if flow is None else (flow.publishing.published, flow.held.pubrels_sent)

    @property
    def counts(self) -> ExchangeFigures:
        """Counters of the exchange since it was made."""
        flow = self.exchange.made
        return _NOTHING if flow is None else flow.counts

    # --- a session that ends with its connection ---

    def begin(self) -> None:
        """Take messages with ``put``."""
        self.exchange.begin(0, 0)

    def put(self, parcel: Parcel, *, beyond_limits: bool = False) -> None:
        """Send these as well; what there is no room for is dropped (exchange.unqueued-wait-bounded).

        beyond_limits: they were asked for while little waited, so they have a limit of their own.
        """
        room = self._settings.queue_max_messages - self.waiting.messages
        if self.waiting.size_bytes >= self._settings.queue_max_bytes:
            room = 0
        if len(parcel) > room and not beyond_limits:
            self.dropped += len(parcel) - max(0, room)
            if room <= 0:
                return
            parcel = Parcel(parcel.batch.select(range(room)))
        self.waiting.add(parcel, self._next_seq, None, parcel.size_bytes)
        self._next_seq += len(parcel)

    def _forget_facts(self) -> bool:
        """Nobody keeps a record of this session: everything is committed at once. Whether there was anything."""
        self._number += 1
        if self.exchange.flow.record.facts(self._number) is None:
            return False
        self.exchange.flow.record.on_committed(self._number)
        return True

    # --- a session that lasts ---

    def opening(self, epoch: int) -> None:
        """The lane is being opened under ``epoch``: what comes for an older one does not count."""
        self.lane_epoch = epoch
        self._lane_open = False
        self.waiting.clear()
        self._credit.clear()

    def on_opened(self, lane: LaneOpened) -> None:
        """The store has opened the lane: begin, or go on (exchange.resumed-in-order, exchange.nothing-twice-live)."""
        self._lane_open = True
        if self.exchange.live:
            self._skip_below = self.exchange.flow.carry_on(lane)
            return
        self._dup_below = lane.dup_below
        if lane.session and lane.dup_below <= lane.head and not (lane.left or lane.settled or lane.released):
            self.exchange.begin(lane.head, lane.generation)
            return
        self.exchange.flow.open(lane)
        self._left = next(iter(left_rows(lane.left)), None)
        if self._left is None:
            self.exchange.on_connected(session_present=bool(lane.session))
        else:
            lost = ((max(start, lane.tail), stop) for start, stop in self._left.sent)
            self._release = IdentifierRelease(tuple(lost), level=self._level, unexpected=self.exchange.flow.answers.on_unexpected)

    def hand_out(self, frame: HandOut, rights: ClientAccess | None = None, parcel: Parcel | None = None) -> int:
        """Send these, read before as ``parcel``, but for those that the client may not receive any more: how many that are."""
        batch = (parcel := parcel or Parcel(Batch.decode(frame.bodies[0]))).batch
        offsets = unpack_column("I", frame.offsets) if frame.offsets else None
        left_out = 0
        skip_below = self._skip_below
        if rights is not None or frame.first_seq < skip_below:
            offsets = offsets or array("I", range(len(batch)))
            seqs = [frame.first_seq + offset for offset in offsets]
            sent = {row for row, seq in enumerate(seqs) if seq < skip_below}
            forbidden = self._forbidden(batch, seqs, rights) - sent
            left_out = len(forbidden)
            for row in forbidden:
                self._note_gone(Loss.FORBIDDEN.dropped, seqs[row])
            rows = [row for row in range(len(batch)) if row not in sent and row not in forbidden]
            if len(rows) < len(batch):
                self.waiting.left_out(len(batch) - len(rows), 0 if rows else frame.size_bytes)
                if not rows:
                    return left_out
                offsets = array("I", [offsets[row] for row in rows])
                parcel = Parcel(batch.select(rows))
        self.waiting.add(parcel, frame.first_seq, offsets, frame.size_bytes)
        return left_out

    def _forbidden(self, batch: Batch, seqs: list[int], rights: ClientAccess | None) -> set[int]:
        """The rows that the client may not receive; what may have been sent before is seen through."""
        indexes = rights.forbidden(batch.topics, range(len(batch.topics))) if rights is not None else ()
        if not indexes:
            return set()
        return {row for row, index in enumerate(batch.topic_of) if index in indexes and seqs[row] >= self._dup_below}

    def on_settled(self, number: int) -> None:
        """Every ``Settle`` up to ``number`` is committed."""
        if self.exchange.made is not None:
            self.exchange.made.record.on_committed(number)

    @property
    def urgent(self) -> bool:
        """Whether ``settle`` is to be sent at once: something waits for its commit, or it has much to say."""
        flow = self.exchange.made
        if flow is None or not self._lane_open:
            return False
        return flow.record.urgent or flow.record.releases or flow.record.settled_messages >= SETTLE_MESSAGES

    @property
    def has_facts(self) -> bool:
        """Whether ``settle`` has something to say that no commit under way is to bring on."""
        flow = self.exchange.made
        return self._lane_open and bool(self._gone or (flow is not None and (flow.record.settled_messages or self.urgent)))

    def settle(self) -> Settle | None:
        """The settlements since the last time; None if there are none."""
        if not self._lane_open:
            return None
        self._number += 1
        flow = self.exchange.made
        facts = None if flow is None else flow.record.facts(self._number)
        if facts is None and not self._gone:
            return None
        settled = facts.settled if facts is not None else ()
        settled += tuple((outcome, ranges.ranges()) for outcome, ranges in self._gone.items())
        self._gone = {}
        return Settle(
            queue=self.queue,
            epoch=self.lane_epoch,
            number=self._number,
            settled=settled,
            released=facts.released if facts is not None else (),
            session=facts.session if facts is not None else None,
            generation=facts.generation if facts is not None else 0,
        )

    def grant(self) -> Credit | None:
        """How far the store may hand out, once that has changed enough."""
        granted = self._credit.grant(self.waiting.passed_messages, self.waiting.passed_bytes) if self._lane_open else None
        if granted is None:
            return None
        return Credit(queue=self.queue, epoch=self.lane_epoch, messages=granted[0], size_bytes=granted[1])

    # --- the exchange ---

    def on_received(self, buffer: bytes, position: int) -> int:
        """Take the acknowledgements in ``buffer`` from ``position`` on; the position after the last whole one of the run.

        Raises:
            PeerViolation: one is malformed.
        """
        if self._release is not None:
            position = self._release.on_received(buffer, position)
            if not self._release.done:
                return position
            self._release = None
            self.exchange.on_connected(session_present=False, left=self._left and self._left.on_record)
            self._left = None
        return self.exchange.flow.on_received(buffer, position)

    def on_stalled(self) -> None:
        """The client is about to be closed, because what it owes does not come."""
        if self._release is None:
            self.exchange.flow.on_stalled()

    def pump(self, bytes_max: int, now_s: float, wall_ms: int) -> bytes:
        """The bytes to write now, about ``bytes_max`` at most; empty when nothing may leave."""
        if not self.exchange.live:
            return b"" if self._release is None else self._release.pump()
        if self.exchange.made is None and not self.waiting:
            return b""
        self.used, flow = True, self.exchange.flow
        if not self.queue:
            self._forget_facts()
        bursts = []
        while bytes_max > 0:
            if self.waiting and not self._busy:
                flow.handed_out.add(self.waiting.take())
            burst = flow.pump(bytes_max, now_s, wall_ms)
            if not burst and not self.queue and self._forget_facts():
                continue  # what has expired held back what is behind it
            if not burst and (not self.waiting or self._busy):
                break  # else all that was fed was passed over, which made room for more
            bursts.append(burst)
            bytes_max -= len(burst)
        return b"".join(bursts)

    # --- inside ---

    def _note_gone(self, outcome: str, seq: int) -> None:
        self._gone.setdefault(outcome, RangeSet()).add(seq, seq + 1)

    @property
    def _busy(self) -> bool:
        """Whether the exchange has enough."""
        return (
            bool(self.exchange.flow.handed_out.waiting)
            or self.exchange.flow.in_flight.messages >= self.exchange.flow.in_flight.window
        )
