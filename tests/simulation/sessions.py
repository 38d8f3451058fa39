"""The node's duties to its local subscribers, judged by their queues on the disk and by the bytes on their wires.

Every PUBLISH of QoS 1 and 2 is traced back to its sequence in the session's queue, by payload and packet identifier; then

store.answer-after-commit: a CONNACK and a SUBACK leave after the session, and its subscriptions, are on record; a session is not
    lost, and not made up.
routing.one-copy-per-session: nothing leaves that nobody published, nothing under another topic, nothing that no filter matches, and
    not before it is on record; QoS is the lower of published and granted; RETAIN is on copies of what was retained, one for a
    SUBSCRIBE and filter.
exchange.identifier-never-twice: the packet identifier stays with its message, and no other has it while that exchange is open.
exchange.publish-in-order: within a connection sequences rise, each is sent once, and none is passed over [MQTT-4.4.0-1,
    MQTT-4.6.0-1].
exchange.dup-on-repeats: what the session was sent before has DUP; what came into the queue after the lane was opened for this
    connection has not.
exchange.release-after-record: no PUBLISH after a PUBREL, nor after a PUBREC that is on record; PUBREL leaves after that record
    (commit point 5), only for what was answered with PUBREC, in the order of the PUBRECs [MQTT-4.3.3-1, MQTT-4.6.0-4].
exchange.receive-maximum-kept: no more is in flight than the client's receive maximum, or the node's own limit, allows
    [MQTT-3.3.4-9].
exchange.settled-by-last-answer: a message leaves the queue when its client has sent the last acknowledgement, and not before
    (commit points 4 and 6).
P1: a PUBACK or PUBREC to a publisher leaves after the message is in the queue of each session that has its SUBACK for it (P1), and
    in the end each of those was delivered (P2): at QoS 2 once.
P4: first arrivals of a topic and QoS come in the order in which they were published (P4) [MQTT-4.6.0-5, MQTT-4.6.0-6].
broker.live-copy-once: a copy of QoS 0 comes at most as often as its publisher has sent it, at QoS 0 once.
broker.unsuback-ends-delivery: when an UNSUBACK leaves, the session's record has no subscription; and nothing that is published from
    then on comes into the queue, or live to the client [MQTT-3.10.4-2].

Weaker promises:
- ``in-memory``: the store's death ends every session. The rest of one (``void``) is not judged, and it may be said to be lost; the
  next one is judged in full, but for publishers that lost their sessions as well and publish again (P1 twice, P4).
- ``acknowledge: fast``: P1 is not judged at the moment of the answer; and once the store has died (``Oracle.relaxed``) neither is
  the rest of P1, nor P4. Everything between the queue and the client holds all the same: it waits for commits in any
  configuration.
- ``sync: os``: once a loss of power took commits back (``Oracle.amnesia``), only routing.one-copy-per-session's first half and
  exchange.receive-maximum-kept are judged: sequences may begin again, and clients hold identifiers that the node has forgotten.
  With ``sync: full`` nothing is relaxed.
- A session's queue with a limit: ``drop-newest`` drops what never had a sequence, ``drop-oldest`` takes out what was not handed
  out. So many may be missing (exchange.settled-by-last-answer, P1) as the queue's row counts, and gaps are allowed
  (exchange.publish-in-order); an acknowledgement says nothing of this queue (P1), and what was dropped and published again is
  behind others (P4). Of what was dropped from ``drop-oldest`` since the lane was opened, a new store does not know that it was
  never sent: it is released as if it were lost by damage (exchange.release-after-record).
- The bridge's limits, its QoS and its absence are no excuse: they concern its own queue. A message that a bridge *refuses* is not
  acknowledged.
- QoS 0, published or granted, is sent live and to those who are connected; it may be lost, and a publisher that resends a message
  of QoS 1 or 2 gives it another copy.
- A clean start ends what was before it, from the CONNECT on. Of a message that was published before SUBACK, and again, the session
  may have the later copy alone (P4).
- A message that is not acknowledged when UNSUBSCRIBE is sent may be routed behind it; with ``acknowledge: fast`` also one that is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from storage.engine.keys import part_key
from storage.queue.chunk import Chunk
from storage.queue.ledger import LedgerRow
from storage.store.session_rows import Session as SessionRow
from storage.store.session_rows import filter_part
from tests.simulation.mqtt import LEVEL_5, Ack, Other, Packet, Publish
from tests.simulation.publisher import Message
from tests.simulation.subscribing import SubscriberShape, SubscribersShape
from tests.simulation.world import Violation
from tests.support import mqtt_packets
from tests.support.arrivals import Order
from wire.frames.batch import QOS_MASK, RETAIN, Batch
from wire.frames.frame import Frame
from wire.frames.lanes import LaneOpen, LaneOpened
from wire.frames.names import session_of_queue

if TYPE_CHECKING:
    from tests.simulation.oracle import Oracle

_FAILURE = 0x80
_NO_SUBSCRIPTION = 0x11
_NEVER = 1 << 60


class SubscribingClient(Protocol):
    """A subscriber.

    dials: since the last CONNACK was written. overtaken: a CONNECT of before that may be read behind later ones.
    """

    client_id: str
    number: int
    shape: SubscriberShape
    dials: int

    @property
    def overtaken(self) -> bool: ...


class _Rows:
    """The messages that ever were in one queue, since the disk was read last."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[bytes, int]] = {}  # sequence -> payload and flags
        self.places: dict[bytes, list[int]] = {}
        self.entered: dict[int, int] = {}  # sequence -> when
        self.synced: set[int] = set()
        self.low = _NEVER


class _Ever:
    """The payloads that ever were in one queue."""

    def __init__(self) -> None:
        self.written: set[bytes] = set()
        self.synced: set[bytes] = set()


@dataclass(slots=True)
class Session:
    """One session. lasting: it outlives its connection. subscribes: SUBSCRIBEs sent; subscribed: SUBACK is written, and no
    UNSUBSCRIBE was sent after it.
    """

    client: SubscribingClient
    queue: str
    lasting: bool
    void: bool = False
    ending: bool = False  # its client has asked for a clean start
    subscribes: int = 0
    subscribed: bool = False
    was_subscribed: bool = False  # when UNSUBSCRIBE was sent last
    left_at: int | None = None  # how many messages had been published when UNSUBACK was written; None again when SUBSCRIBE is sent
    sent: set[int] = field(default_factory=set)
    finished: set[int] = field(default_factory=set)  # the client has sent its last acknowledgement
    released: set[int] = field(default_factory=set)  # PUBREL was written
    exchanges: dict[int, int] = field(default_factory=dict)  # open packet identifiers -> sequence
    recs: dict[int, tuple[int, int]] = field(default_factory=dict)  # packet identifier -> place of the last PUBREC, sequence
    recs_sent: int = 0
    received: dict[int, bytes] = field(default_factory=dict)  # at the client: between PUBREC and PUBREL -> payload
    twice: set[int] = field(default_factory=set)  # sequences of QoS 2 that were delivered
    delivered: Counter[bytes] = field(default_factory=Counter)  # without copies of what was retained
    retained: Counter[bytes] = field(default_factory=Counter)
    owed: dict[bytes, Message] = field(default_factory=dict)  # published first when SUBACK was written
    arrivals: Order = field(default_factory=Order)
    suspects: set[int] = field(default_factory=set)  # left the queue, and were not acknowledged


class SessionsJudge:
    """Knows every subscriber's session, and raises ``Violation``."""

    def __init__(self, oracle: Oracle, shape: SubscribersShape) -> None:
        self.shape = shape
        self.oracle = oracle
        self.sendings: Counter[bytes] = Counter()
        self._published_at: dict[bytes, int] = {}  # payload -> how many messages had been published before it
        self.clock = 0
        self.store_opened_at = 0
        self.opened_at: dict[str, int] = {}  # queue -> when its lane was opened last
        self._epochs: dict[str, int] = {}
        self._rows: dict[str, _Rows] = {}
        self._ever: defaultdict[str, _Ever] = defaultdict(_Ever)
        self._sessions: dict[str, Session] = {}  # client identifier -> the newest
        self._by_queue: dict[str, Session] = {}

    # --- what the configuration does not promise ---

    def strict(self, session: Session) -> bool:
        """Whether the exchange with the client is judged."""
        return not session.void and not self.oracle.amnesia

    @property
    def drops(self) -> bool:
        """Whether messages may be dropped for want of room in a session's queue."""
        return self.shape.queue_max is not None

    def may_be_lost(self, client: SubscribingClient) -> bool:
        """Whether the client may be told that there is no session."""
        session = self._sessions.get(client.client_id)
        return session is None or session.void or self.oracle.amnesia

    # --- the disk ---

    def rows(self, queue: str) -> _Rows:
        """The messages that were ever written to the queue."""
        return self._rows.setdefault(queue, _Rows())

    def chunk_written(self, queue: str, chunk: Chunk) -> None:
        """Messages came into a session's queue."""
        kept, ever, oracle = self.rows(queue), self._ever[queue].written, self.oracle
        batch = Batch.decode(chunk.body)
        self.clock += 1
        for seq, payload, flags in zip(chunk.seqs(), batch.rows_payloads(), batch.flags, strict=True):
            if seq in kept.rows:
                continue
            kept.rows[seq] = payload, flags
            kept.entered[seq] = self.clock
            ever.add(payload)
            kept.low = min(kept.low, seq)
            places = kept.places.setdefault(payload, [])
            places.append(seq)
            message = oracle.messages[payload]
            self.not_wanted(self._by_queue.get(queue), message)
            if message.qos == 2 and not flags & RETAIN and not oracle.relaxed:
                copies = [place for place in places if not kept.rows[place][1] & RETAIN]
                if len(copies) > 1:
                    raise Violation("entered twice", f"m{message.number} (QoS 2) is in {queue} at {copies}")

    def chunk_synced(self, queue: str, chunk: Chunk) -> None:
        """They are on the disk."""
        self.rows(queue).synced.update(chunk.seqs())
        self._ever[queue].synced.update(Batch.decode(chunk.body).rows_payloads())

    def ended(self, queue: str, seqs: set[int], row: LedgerRow) -> None:
        """exchange.settled-by-last-answer: these left the queue, as its row says."""
        if self.oracle.amnesia:
            return  # the session that is resumed may be a later one, whose beginning its client has not heard of
        session = self._by_queue.get(queue)
        finished = session.finished if session is not None else set()
        suspects = seqs - finished
        if session is not None:
            if not self.strict(session):
                return
            session.suspects |= suspects
            suspects = session.suspects
        counted = row.ledger.dropped.get("overflow", 0) if self.shape.overflow == "drop-oldest" else 0
        if len(suspects) > counted:
            left = [(seq, self.rows(queue).rows.get(seq)) for seq in sorted(suspects)]
            raise Violation(
                "exchange.settled-by-last-answer", f"{queue}: {left} left, were not acknowledged, and {counted} are accounted for"
            )

    def rebuilding(self) -> None:
        """The disk is read anew: some of what was written may not be there any more."""
        self._rows.clear()
        for session in self._sessions.values():
            session.suspects.clear()

    def store_died(self, *, durable: bool) -> None:
        if not durable:
            for session in self._sessions.values():
                session.void = True

    def store_opened(self) -> None:
        """Messages that are in a queue now may have been sent, for all that the new store knows."""
        self.clock += 1
        self.store_opened_at = self.clock

    def seen(self, frame: Frame) -> None:
        """A lane of a session is opened, and was opened."""
        if not isinstance(frame, LaneOpen | LaneOpened) or session_of_queue(frame.queue) is None:
            return
        self.clock += 1
        if isinstance(frame, LaneOpen):
            self._epochs[frame.queue] = frame.epoch
            self.opened_at[frame.queue] = _NEVER
        elif self._epochs.get(frame.queue) == frame.epoch:
            self.opened_at[frame.queue] = self.clock

    # --- publishers ---

    def published(self, message: Message) -> None:
        """A publisher sends ``message``; those who are subscribed now are to get it."""
        payload = message.payload
        self.sendings[payload] += 1
        self._published_at.setdefault(payload, len(self._published_at))
        if self.sendings[payload] > 1 or not message.qos:
            return
        for session in self._sessions.values():
            if session.subscribed and session.lasting and any(session.client.shape.granted(message.topic)):
                session.owed[payload] = message

    def not_wanted(self, session: Session | None, message: Message) -> None:
        """broker.unsuback-ends-delivery: ``message`` comes to ``session``, which may have UNSUBACK."""
        if session is None or session.left_at is None or not self.strict(session):
            return
        if self._published_at[message.payload] >= session.left_at:
            raise Violation(
                "broker.unsuback-ends-delivery", f"m{message.number} was published after the UNSUBACK of {session.client.client_id}"
            )

    def acknowledged(self, message: Message) -> None:
        """P1: a PUBACK or PUBREC is written, and the configuration promises that this follows the commit."""
        if self.drops:
            return
        for session in self._sessions.values():
            if message.payload in session.owed and not session.ending and self.strict(session):
                ever = self._ever[session.queue]
                if message.payload not in (ever.synced if self.oracle.strong else ever.written):
                    raise Violation("P1", f"m{message.number} is acknowledged and not committed for {session.queue}")

    # --- sessions ---

    def ends(self, client: SubscribingClient) -> None:
        """The client asks for a clean start: from now on its session may end at any moment."""
        session = self._sessions.get(client.client_id)
        if session is not None:
            session.ending = True

    def welcomed(self, client: SubscribingClient, *, present: bool, clean: bool) -> OnConnection:
        """store.answer-after-commit: a CONNACK is written."""
        dials, client.dials = client.dials, 0
        session = self._sessions.get(client.client_id)
        had = session is not None and session.lasting
        if present and (clean or (not had and dials == 1 and not client.overtaken and not self.oracle.amnesia)):
            raise Violation("session", f"{client.client_id} had no session, and it is said to be present")
        if not present and had and not clean and not self.may_be_lost(client):
            raise Violation("session", f"the session of {client.client_id} is lost")
        if session is None or not present or not had or session.void:
            session = self._sessions[client.client_id] = self._begun(client, lasting=not clean or client.shape.level == LEVEL_5)
        elif self.strict(session):
            row = self._row(client.client_id)
            if row is None or row.queue != session.queue:
                raise Violation("session", f"{client.client_id} is resumed with {row}, and its queue was {session.queue}")
        return OnConnection(self, session)

    def _begun(self, client: SubscribingClient, *, lasting: bool) -> Session:
        row = self._row(client.client_id) if lasting else None
        session = Session(client, row.queue if row is not None else "", lasting)
        if lasting and not session.queue:
            session.void = True
            if self.oracle.durable and not self.oracle.amnesia:
                raise Violation(
                    "store.answer-after-commit", f"{client.client_id} has its CONNACK, and its session is not on record: {row}"
                )
        self._by_queue[session.queue] = session
        return session

    def _row(self, client_id: str, filters: Iterable[str] = ()) -> SessionRow | None:
        value = self.oracle.on_record(b"S" + client_id.encode())
        row = None if value is None else SessionRow.decode(client_id, value)
        for part in map(filter_part, filters):
            value = self.oracle.on_record(part_key(client_id, part))
            if row is not None and value is not None:
                row.take(part, value)
        return row

    def subscribed(self, session: Session, body: bytes) -> None:
        """store.answer-after-commit: a SUBACK is written."""
        client = session.client
        codes = list(body[3 if client.shape.level == LEVEL_5 else 2 :])
        if codes != [qos for _, qos in client.shape.filters]:
            raise Violation("SUBACK", f"{client.client_id} asked for {client.shape.filters} and got {codes}")
        self._on_record(session, dict(client.shape.filters), "store.answer-after-commit", "SUBACK")
        session.subscribed = True

    def unsubscribes(self, session: Session) -> None:
        """An UNSUBSCRIBE from all filters is sent: what is not acknowledged may be routed behind it."""
        session.was_subscribed, session.subscribed = session.subscribed, False
        done = self.oracle.acknowledged_payloads if self.oracle.shape.acknowledge == "after-commit" else ()
        session.owed = {payload: message for payload, message in session.owed.items() if payload in done}

    def unsubscribed(self, session: Session, body: bytes) -> None:
        """broker.unsuback-ends-delivery: an UNSUBACK is written."""
        client = session.client
        if client.shape.level == LEVEL_5:
            codes = set(body[3:])
            known = {0} if session.was_subscribed and self.strict(session) else {0, _NO_SUBSCRIPTION}
            if len(body) - 3 != len(client.shape.filters) or not codes <= known:
                raise Violation("UNSUBACK", f"{client.client_id} got {list(body[3:])}")
        self._on_record(session, {}, "broker.unsuback-ends-delivery", "UNSUBACK")
        session.left_at = len(self._published_at)

    def _on_record(self, session: Session, filters: dict[str, int], kind: str, answer: str) -> None:
        """The record of the session has these subscriptions, each with its QoS."""
        if not self.strict(session) or not session.lasting:
            return
        row = self._row(session.client.client_id, dict(session.client.shape.filters))
        kept = {} if row is None else {topic_filter: options & QOS_MASK for topic_filter, (options, _) in row.subscriptions.items()}
        if kept != filters:
            raise Violation(kind, f"{session.client.client_id} has its {answer}, and on record is {kept}")

    def outboxes(self, outboxes: Iterable[Any]) -> None:
        """P5: what the Listener has in hand for a client is limited."""
        for outbox in outboxes:
            most = max(self.shape.in_hand, 2 * outbox.window) + self.oracle.chunk_rows_max
            if outbox.waiting.messages > most:
                raise Violation("P5", f"{outbox.waiting.messages} messages wait for {outbox.queue}, {most} are allowed")

    # --- the end ---

    def empty(self) -> bool:
        """Whether every session's queue is, by its row."""
        for session in self._sessions.values():
            if session.lasting and session.queue and not session.void:
                row = self.oracle.queue_row(session.queue)
                if row is not None and (row.depth or row.ledger.accepted != row.ledger.ended()):
                    return False
        return True

    def judge_the_whole(self) -> None:
        """P1: all is healed and quiet."""
        oracle = self.oracle
        if oracle.durable and oracle.relaxed:
            return
        for session in self._sessions.values():
            if not self.strict(session) or not session.lasting:
                continue
            missing = [
                f"m{message.number}"
                for payload, message in session.owed.items()
                if payload in oracle.acknowledged_payloads
                and payload not in oracle.refused_payloads
                and not session.delivered[payload]
                and self.granted(session, message)
            ]
            row = oracle.queue_row(session.queue)
            counted = row.ledger.dropped.get("overflow", 0) if row is not None else 0
            if len(missing) > counted and not (self.drops and oracle.lost_power):  # counts of drops are not synced
                raise Violation("P2", f"{session.queue}: acknowledged and never delivered: {missing}; {counted} are accounted for")

    @staticmethod
    def granted(session: Session, message: Message) -> int:
        """The QoS at which the session gets ``message``."""
        return min(message.qos, max(session.client.shape.granted(message.topic), default=0))


class OnConnection:
    """One connection of a session, from its CONNACK on."""

    def __init__(self, judge: SessionsJudge, session: Session) -> None:
        self.session = session
        self._judge = judge
        self._shape = session.client.shape
        self._last = -1  # the newest sequence that was PUBLISHed on this connection
        self._last_release = -1
        self._open: set[int] = set()  # packet identifiers
        self._seqs: dict[int, int] = {}  # packet identifier -> the sequence that it was for last

    @property
    def quiet(self) -> bool:
        """Whether nothing is open on the client's side."""
        return not (self.session.received or self._open) or self._judge.oracle.amnesia

    # --- the Listener writes ---

    def written(self, packet: Packet) -> int | None:
        """Judge what is written; the sequence of a PUBLISH, if it has one."""
        match packet:
            case Publish():
                return self._publish(packet)
            case Ack(kind=mqtt_packets.PUBREL):
                self._release(packet)
            case Other(kind=mqtt_packets.SUBACK, body=body):
                self._judge.subscribed(self.session, body)
            case Other(kind=mqtt_packets.UNSUBACK, body=body):
                self._judge.unsubscribed(self.session, body)
        return None

    # --- the client asks ---

    def subscribes(self) -> None:
        """SUBSCRIBE is sent."""
        self.session.subscribes += 1
        self.session.left_at = None

    def unsubscribes(self) -> None:
        """UNSUBSCRIBE is sent."""
        self._judge.unsubscribes(self.session)

    def _publish(self, packet: Publish) -> int | None:
        judge, session = self._judge, self.session
        message = judge.oracle.messages.get(packet.payload)
        facts = f"{packet} for {session.queue}"
        if message is None or packet.topic != message.topic:
            raise Violation("corruption", f"nobody published {facts}")
        granted = self._shape.granted(message.topic) if session.subscribes or not judge.strict(session) else []
        if not granted:
            raise Violation("routing.one-copy-per-session", f"no filter matches {facts}")
        if packet.qos not in {min(message.qos, qos) for qos in (granted if packet.retain else [max(granted)])}:
            raise Violation("QoS", f"published at {message.qos}, granted {granted}: {facts}")
        if packet.retain and not judge.oracle.is_retained(packet.payload):
            raise Violation("RETAIN", facts)
        if not packet.qos:
            judge.not_wanted(session, message)
            return None
        self._open.add(packet.packet_id)
        if len(self._open) > judge.shape.window(self._shape):
            raise Violation(
                "exchange.receive-maximum-kept",
                f"{len(self._open)} in flight, {judge.shape.window(self._shape)} are allowed: {facts}",
            )
        if not judge.strict(session):
            return None
        seq = self._seq_of(packet, facts)
        self._once_and_in_order(packet, seq, facts)
        self._last = seq
        self._seqs[packet.packet_id] = seq
        if session.recs.get(packet.packet_id, (0, seq))[1] != seq:
            del session.recs[packet.packet_id]
        session.sent.add(seq)
        session.exchanges[packet.packet_id] = seq
        return seq

    def _seq_of(self, packet: Publish, facts: str) -> int:
        """Which message of the queue it is; if its publisher sent it twice, the first that may be and has not left it."""
        judge, session = self._judge, self.session
        kept = judge.rows(session.queue)
        places = kept.places.get(packet.payload, [])
        alike = [
            seq for seq in places if (kept.rows[seq][1] & QOS_MASK, bool(kept.rows[seq][1] & RETAIN)) == (packet.qos, packet.retain)
        ]
        if not alike:
            raise Violation("store.answer-after-commit", f"not in the queue, but at {places}: {facts}")
        mine = [seq for seq in alike if judge.oracle.packet_id(seq) == packet.packet_id]
        if not mine:
            raise Violation("exchange.identifier-never-twice", f"the identifiers of {alike} are others: {facts}")
        row = judge.oracle.lane_row(session.queue)
        head = 0 if row is None else row.head
        seq = next((seq for seq in sorted(mine, key=lambda seq: seq < head) if seq > self._last), None)
        if seq is None:
            raise Violation("exchange.publish-in-order", f"{mine} came after {self._last}: {facts}")
        return seq

    def _once_and_in_order(self, packet: Publish, seq: int, facts: str) -> None:
        judge, session = self._judge, self.session
        kept = judge.rows(session.queue)
        facts = f"sequence {seq}, {facts}"
        if judge.oracle.strong and seq not in kept.synced:
            raise Violation("store.answer-after-commit", f"handed out before it was committed: {facts}")
        other = session.exchanges.get(packet.packet_id, seq)
        if other != seq:
            raise Violation("exchange.identifier-never-twice", f"the identifier is in use for sequence {other}: {facts}")
        if packet.dup:
            if seq not in session.sent and kept.entered[seq] > max(
                judge.opened_at.get(session.queue, _NEVER), judge.store_opened_at
            ):
                raise Violation("exchange.dup-on-repeats", f"DUP on a first sending: {facts}")
        elif seq in session.sent:
            raise Violation("exchange.dup-on-repeats", f"sent before, without DUP: {facts}")
        row = judge.oracle.lane_row(session.queue)
        if seq in session.released or (row is not None and any(low <= seq < high for low, high in row.released)):
            raise Violation("exchange.no-publish-after-pubrec", f"PUBLISH after PUBREC: {facts}")
        if not judge.drops:
            self._none_passed_over(seq, row, facts)

    def _none_passed_over(self, seq: int, row: LedgerRow | None, facts: str) -> None:
        judge, session = self._judge, self.session
        kept = judge.rows(session.queue)
        start = max(self._last + 1, row.head if row is not None else 0, kept.low)
        recd = {place for _, place in session.recs.values()}
        passed = [
            between
            for between in range(start, seq)
            if between in kept.rows and between not in session.finished and between not in recd and between not in session.released
        ]
        if passed:
            raise Violation("exchange.publish-in-order", f"{passed} were passed over: {facts}")

    def _release(self, packet: Ack) -> None:
        judge, session = self._judge, self.session
        if not judge.strict(session):
            return
        facts = f"{packet} for {session.queue}"
        if packet.packet_id not in {*session.recs, *session.exchanges} and judge.shape.overflow == "drop-oldest":
            return  # it was in the queue when the lane was opened, and was dropped before it could be sent
        if packet.packet_id not in session.recs or packet.reason >= _FAILURE:
            raise Violation("exchange.release-after-record", f"without a PUBREC: {facts}")
        place, seq = session.recs[packet.packet_id]
        if place <= self._last_release:
            raise Violation("exchange.pubrels-in-pubrec-order", f"out of order: {facts}")
        self._last_release = place
        row = judge.oracle.lane_row(session.queue)
        ranges = () if row is None else (*row.settled, *row.released)
        if row is None or (seq >= row.head and not any(low <= seq < high for low, high in ranges)):
            raise Violation("exchange.release-after-record", f"before its PUBREC, of sequence {seq}, is committed: {facts}")
        session.released.add(seq)

    # --- at the client ---

    def arrived(self, packet: Publish, seq: int | None) -> None:
        """A PUBLISH has reached the client, and is delivered unless it is a repeat [MQTT-4.3.3-10]."""
        session, payload = self.session, packet.payload
        if packet.qos == 2:
            held = session.received.get(packet.packet_id)
            if held is not None:
                if held != payload and self._judge.strict(session):
                    raise Violation(
                        "exchange.identifier-never-twice",
                        f"the client holds {packet.packet_id} for {held!r}, so it is swallowed: {packet}",
                    )
                return
            session.received[packet.packet_id] = payload
        message = self._judge.oracle.messages[payload]
        if packet.retain:
            self._retained(message, packet.qos)
            return
        session.delivered[payload] += 1
        if session.delivered[payload] == 1:
            self._first_arrival(message, packet.qos)
        if not packet.qos:
            if session.delivered[payload] > self._judge.sendings[payload] or (session.delivered[payload] > 1 and not message.qos):
                raise Violation(
                    "broker.live-copy-once",
                    f"m{message.number} came {session.delivered[payload]} times to {session.client.client_id}",
                )
        elif packet.qos == 2 and seq is not None and self._judge.strict(session):
            if seq in session.twice or (session.delivered[payload] > 1 and not self._judge.oracle.relaxed):
                raise Violation("P2", f"m{message.number}, sequence {seq} of {session.queue}")
            session.twice.add(seq)

    def _retained(self, message: Message, qos: int) -> None:
        session = self.session
        session.retained[message.payload] += 1
        most = session.subscribes * len(self._shape.granted(message.topic))
        if qos != 1 and session.retained[message.payload] > most and self._judge.strict(session):
            raise Violation(
                "routing.one-copy-per-session",
                f"m{message.number} was retained, and came {session.retained[message.payload]} times",
            )

    def _first_arrival(self, message: Message, qos: int) -> None:
        """P4."""
        session, judge, oracle = self.session, self._judge, self._judge.oracle
        again = judge.sendings[message.payload] > 1
        if oracle.was_refused(message.payload) or not judge.strict(session) or (judge.drops and qos):
            return  # its place was when it was refused, or dropped
        if again and (oracle.relaxed or (message.qos and not qos)):
            return  # lost with the store, or on its way as QoS 0, and published again
        if again and message.payload not in session.owed:
            return  # its first copy may have come before the session was subscribed
        if oracle.relaxed and oracle.shape.acknowledge == "fast":
            return
        place = oracle.place_of(message.payload)
        key = (message.topic, message.qos, oracle.source_of(message.payload))
        if session.arrivals.is_late(place, *key):
            raise Violation("P4", f"m{message.number} came to {session.client.client_id} after a later one of {key}")
        session.arrivals.came(place, *key)

    def released(self, packet_id: int) -> bool:
        """PUBREL has reached the client: whether it holds the identifier."""
        return self.session.received.pop(packet_id, None) is not None

    def answered(self, ack: Ack) -> None:
        """The client sends an acknowledgement."""
        session = self.session
        seq = self._seqs.get(ack.packet_id)
        if ack.kind == mqtt_packets.PUBREC:
            session.recs_sent += 1
            if seq is not None:
                session.recs[ack.packet_id] = session.recs_sent, seq
            return
        self._open.discard(ack.packet_id)
        if ack.kind == mqtt_packets.PUBCOMP:
            seq = session.recs.get(ack.packet_id, (0, seq))[1]
        if seq is not None:
            session.finished.add(seq)
            if session.exchanges.get(ack.packet_id) == seq:
                del session.exchanges[ack.packet_id]
