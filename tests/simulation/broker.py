"""The remote broker: an MQTT 3.1.1 and 5.0 server written for the test, which judges what it gets by the standard.

A session outlives its connections unless the broker is told to lose it. Accepted packets are reported to the ``BrokerWatcher``. The
rules it holds its peer to are in ``_Judge``. Faults are switches: refusing CONNECT, stalling, rejecting PUBLISHes by reason code,
or by closing the connection on some or on all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol
from zlib import crc32

from tests.simulation import mqtt
from tests.simulation.mqtt import LEVEL_5, Ack, Other, Packet, PacketReader, Publish
from tests.simulation.process import current
from tests.simulation.remote_publisher import Delivery, Outgoing, RemotePublisher, RemotePublisherWatcher
from tests.simulation.rings import BESIDE
from tests.simulation.tcp import Far, Link
from tests.simulation.world import Violation, World
from tests.support import mqtt_packets
from tests.support.mqtt_packets import Sender
from wire.exchange.announcements import Announcement

if TYPE_CHECKING:
    from tests.simulation.tokens import Tokens

NO_SUBSCRIBERS = 0x10
_NO_MAXIMUM = 65_535
_WITH_WILL = b"\x04"  # reason code of a DISCONNECT that does not take the Will back
REJECTIONS = (0x80, 0x83, 0x97, 0x99)


# A QoS 1 message that its publisher sent twice is in the queue twice; each of these is a message of its own to the remote.
# Identifiers
# may come round again, and then both may even have the same one, the second when the exchange of the first has ended.
Sending = tuple[bytes, int]  # payload, packet identifier
Entry = tuple[bytes, int, int]  # and how many with these came before


class BrokerWatcher(RemotePublisherWatcher, Protocol):
    """The observer of what the broker got."""

    def remote_delivered(self, client_id: str, packet: Publish, session: int) -> None: ...
    def remote_refused(self, client_id: str, packet: Publish) -> None: ...
    def remote_closed_on(self, packet: Publish, *, always: bool, of_class: str) -> None: ...
    def remote_swallowed(self, packet: Publish) -> None: ...
    def may_be_passed(self, payload: bytes) -> bool: ...
    def remote_written(self, client_id: str, connection: object, packet: Publish, now_s: float, at_most_s: float) -> None: ...
    def remote_publish_written(self, client_id: str, packet: Publish, session: int) -> None: ...
    def remote_release_written(self, client_id: str, payload: bytes, packet_id: int, place: str) -> None: ...
    def has_left(self, client_id: str, place: str) -> bool: ...
    def remote_settled(self, payload: bytes, now_s: float) -> None: ...
    def remote_session_ended(self, client_id: str, place: str, *, subscribed: bool) -> None: ...

    amnesia: bool

    def times_entered(self, payload: bytes) -> int: ...
    def times_entered_as(self, client_id: str, payload: bytes, packet_id: int) -> int: ...


class Session:
    """The broker's record of a client, and what it has seen of it in this session."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.received: dict[int, bytes] = {}  # QoS 2 identifiers between PUBREC and PUBREL -> payload
        self.orders: dict[Entry, int] = {}  # place of the first PUBLISH
        self.entries: dict[Sending, int] = {}  # which of those with the same payload and identifier came last
        self.ids: dict[bytes, set[int]] = {}  # payload -> packet identifiers
        self.unanswered: dict[int, bytes] = {}  # identifiers of which no final answer has left
        self.answered: set[Sending] = set()  # of which one has
        self.released: set[bytes] = set()
        self.refused: set[Sending] = set()  # answered with a failure: they may come again, as new, and behind others
        self.recs: dict[int, int] = {}  # identifiers for which a PUBREC has ever left -> the place of the last
        self.recs_sent = 0
        self.earlier_recs: set[int] = set()  # and in sessions before
        self.connections = 0
        self.successor = False  # the client had another session before
        self.used = False  # a PUBLISH or PUBREL has come
        # The peer may not know that this session is not the one before: it crashed between CONNACK and its commit, and no
        # CONNACK will ever tell it. Then it resumes here what it began there.
        self.mistakable = False
        self.outgoing = Outgoing()
        self.closed_on: set[int] = set()  # identifiers of PUBLISHes on which the connection was closed
        self.unlimited: set[int] = set()  # identifiers that came last at MQTT 5, where QoS 2 has no maximum of its own
        self.came_late: set[bytes] = set()  # their payloads: another may have been tried before them
        self.place = ""  # the address at which the client came in last
        self.left = False  # the client has had a session at another broker since, or has purged what it had sent

    def leave(self) -> None:
        """A message that is not settled by an exchange does not come again at QoS 1, and there is nothing of it here."""
        self.left = True
        self.unanswered = {packet_id: payload for packet_id, payload in self.unanswered.items() if packet_id in self.received}


class _Judge:
    """The rules that hold within one connection.

    exchange.nothing-twice-live: a message is sent once on a connection, and again only if it was refused.
    exchange.identifier-never-twice: its packet identifier stays with it, and no other message has it while its exchange is open. (A
        crash may lose that an exchange has ended. So many messages later that identifiers have come round, its identifier may be
        another's.)
    exchange.dup-on-repeats: DUP is set on what this session has seen before, and not on the very first sending there can be.
    exchange.publish-in-order: the order is that of the first sendings.
    exchange.no-publish-after-pubrec: after PUBREL a message is never published again in that session.
    exchange.left-identifiers-released: to a session that was left and is come back to, nothing is published under an identifier
        that it holds for another message.
    exchange.announced-in-window: a bridge's word about itself counts for the receive maximum, and has an identifier of its own.
    exchange.receive-maximum-kept: the receive maximum holds; at level 4 the limit on unreleased QoS 2 messages. (Others may be
        tried before a message for which connections were closed: what that left behind comes on top of it, and after a crash what
        they did. So does what came at MQTT 5.)
    exchange.pubrels-in-pubrec-order: PUBREL comes only for what was answered with PUBREC, in the order of the PUBRECs
        [MQTT-4.6.0-4], also when it comes again. (Where a lost session's releases are assumed delivered, a PUBREL may still come
        for them.)
    """

    def __init__(self, session: Session, broker: Broker, client_id: str, level: int) -> None:
        self._session = session
        self._watcher = broker.watcher
        self._client_id = client_id
        self._level = level
        self._assumes_delivered = broker.assumes_delivered
        self._receive_maximum = broker.receive_maximum
        self._qos2_maximum = broker.qos2_maximum
        self._here: set[Entry] = set()
        self._last_order = -1
        self._last_release = -1
        self.open: set[int] = set()
        self.words: set[int] = set()  # of the bridge about itself, which it has an identifier of its own for
        self._told_maximum = broker.told_maximum if level == LEVEL_5 else _NO_MAXIMUM

    def publish(self, packet: Publish, *, first_ever: bool) -> None:
        session, payload = self._session, packet.payload
        sending = (payload, packet.packet_id)
        if self._watcher.amnesia:
            return
        facts = f"{packet} on session {session.number}"
        again = sending in session.refused
        session.refused.discard(sending)
        entry = self._entry(sending, new=not packet.dup and not again)
        if entry in self._here and not again:
            raise Violation("exchange.nothing-twice-live", f"sent twice on one connection: {facts}")
        self._here.add(entry)
        if payload in session.released and self._watcher.times_entered(payload) < 2:
            raise Violation("exchange.no-publish-after-pubrec", f"PUBLISH after PUBREL: {facts}")
        known = session.ids.setdefault(payload, set())
        known.add(packet.packet_id)
        if len(known) > self._watcher.times_entered(payload):
            raise Violation("exchange.identifier-never-twice", f"its identifiers were {known}: {facts}")
        other = session.unanswered.get(packet.packet_id)
        if other is not None and other != payload and not (packet.dup and sending in session.answered):
            raise Violation("exchange.identifier-never-twice", f"the identifier is in use for {other!r}: {facts}")
        if entry in session.orders and not packet.dup and not again:
            raise Violation("exchange.dup-on-repeats", f"sent before, without DUP: {facts}")
        if packet.dup and entry not in session.orders and first_ever:
            raise Violation("exchange.dup-on-repeats", f"DUP on a first sending: {facts}")
        order = session.orders.setdefault(entry, len(session.orders))
        if not again and payload not in session.came_late:
            if order <= self._last_order:
                raise Violation("exchange.publish-in-order", f"out of order: {facts}")
            self._last_order = order
        session.unanswered[packet.packet_id] = payload
        self.open.add(packet.packet_id)
        (session.unlimited.add if self._level == LEVEL_5 else session.unlimited.discard)(packet.packet_id)
        if len(self.open) > self._receive_maximum:
            raise Violation("exchange.receive-maximum-kept", f"receive maximum {self._receive_maximum} exceeded: {facts}")
        if self.words:
            self._all_in_window(packet)
        if self._level < 5 and packet.qos == 2 and len(self._unreleased(packet.packet_id)) > self._qos2_maximum:
            raise Violation("exchange.qos2-maximum-kept", f"more than {self._qos2_maximum} unreleased QoS 2 messages: {facts}")

    def announced(self, packet: Publish) -> None:
        """A bridge's word about itself."""
        if not packet.qos:
            return
        if packet.packet_id in self._session.unanswered or packet.qos > 1:
            raise Violation("exchange.announced-in-window", f"{packet}, and its identifier is in use")
        self.words.add(packet.packet_id)
        self._all_in_window(packet)

    def _all_in_window(self, packet: Publish) -> None:
        if len(self.open) + len(self.words) > self._told_maximum:
            raise Violation("exchange.announced-in-window", f"the remote allows {self._told_maximum}, and got {packet}")

    def _unreleased(self, packet_id: int) -> set[int]:
        """The identifiers that the peer can know to be unreleased, with that of its newest PUBLISH."""
        session = self._session
        unreleased = {sent for sent, payload in session.received.items() if payload not in session.came_late}
        unreleased = (unreleased - session.unlimited) | {packet_id}
        if session.came_late.intersection(session.unanswered.get(sent, b"") for sent in self.open):
            unreleased &= self.open
        return unreleased

    def _entry(self, sending: Sending, *, new: bool) -> Entry:
        """Which of those with this payload and identifier it is.

        Not the last one if that has been here, or if it is ``new``, or if that was answered and would be out of order: a message
        that was published twice may have the identifier of its first copy when identifiers have come round.
        """
        session, (payload, packet_id) = self._session, sending
        number = session.entries.get(sending, 0)
        last = (payload, packet_id, number)
        open_still = session.unanswered.get(packet_id) == payload
        answered = sending in session.answered and session.orders.get(last, self._last_order + 1) <= self._last_order
        if (last in self._here or (new and last in session.orders) or answered) and not open_still:
            number = min(number + 1, self._watcher.times_entered_as(self._client_id, payload, packet_id) - 1)
        session.entries[sending] = number
        return payload, packet_id, number

    def pubrel(self, packet: Ack) -> None:
        session = self._session
        if packet.reason == 0x92 or self._watcher.amnesia:
            return
        known = packet.packet_id in session.recs or (packet.packet_id in session.earlier_recs and self._assumes_delivered)
        known |= packet.packet_id in session.closed_on  # it was given up; that its identifier is free may be made sure of
        if not known and not session.mistakable and not session.left:
            raise Violation("exchange.release-after-record", f"{packet} without a PUBREC on session {session.number}")
        payload = session.received.get(packet.packet_id)
        if payload is not None:
            session.released.add(payload)
        order = session.recs.get(packet.packet_id)
        if order is not None and packet.packet_id not in session.closed_on:  # else its PUBREC was to a message long before
            if order <= self._last_release and not session.left:
                raise Violation("exchange.pubrels-in-pubrec-order", f"{packet} out of order")
            self._last_release = order


class BrokerConnection(Far):
    """One connection of one client."""

    def __init__(self, broker: Broker, client_id: str, level: int, session: Session, receive_maximum: int) -> None:
        self.client_id = client_id
        self.session = session
        self.level = level
        self.link: Link | None = None
        self.delivery = Delivery(broker.publisher, broker, session.outgoing, client_id, level, receive_maximum)
        self.place = ""  # the address at which it came in
        self.will: Announcement | None = None
        self._broker = broker
        self._judge = _Judge(session, broker, client_id, level)
        self._reader = PacketReader(Sender.CLIENT, level)
        self._packets: deque[tuple[int, Packet]] = deque()
        self._arrived = 0
        self._answers: list[tuple[int, bytes, Ack]] = []
        self._flushing = False
        self._closed = False

    def came_in_at(self, place: str) -> None:
        """``place``: the address."""
        self.place = self.session.place = place
        if self._broker.watcher.has_left(self.client_id, place):
            self.session.leave()
        lane = self.client_id.partition("-")[2] or "0"
        bridge = BESIDE if self.client_id == BESIDE else "cloud"
        self.delivery.client_id = f"\0connection:{bridge}:{lane}\0{self.client_id}@{place}"

    @property
    def open_exchanges(self) -> int:
        """How many PUBLISHes of this connection have no last answer yet."""
        return len(self._judge.open)

    # --- bytes ---

    def written(self, data: bytes) -> None:
        try:
            packets = self._reader.feed(data)
        except mqtt.Malformed as error:
            raise Violation("malformed", f"towards the remote: {error}") from error
        for _, packet in packets:
            if isinstance(packet, Publish) and packet.announces:
                continue
            if isinstance(packet, Publish):
                now_s = self._broker.world.now_s
                self._broker.watcher.remote_written(self.client_id, self, packet, now_s, now_s + current().lag_s)
            if isinstance(packet, Publish) and packet.qos and not self.session.mistakable:
                self._broker.watcher.remote_publish_written(self.client_id, packet, self.session.number)
            if isinstance(packet, Ack) and packet.kind == mqtt_packets.PUBREL:
                payload = self.session.received.get(packet.packet_id)
                if payload is not None:
                    self._broker.watcher.remote_release_written(self.client_id, payload, packet.packet_id, self.place)
            elif isinstance(packet, Ack):
                self.delivery.written(packet)
        self._packets += packets

    def arrived(self, count: int) -> None:
        self._arrived += count
        while self._packets and self._packets[0][0] <= self._arrived and not self._closed:
            self._take(self._packets.popleft()[1])

    def gone(self) -> None:
        self._end()
        self._broker.gone(self)

    def close(self) -> None:
        """The broker closes the connection, and the client is no longer there."""
        self._end()
        self._broker.gone(self)
        if self.link is not None:
            self.link.hang_up()

    def _end(self) -> None:
        if self.will is not None and not self._closed:
            self._broker.states[self.will.topic] = self.will.payload
        self._closed = True
        if self._broker.tokens is not None:
            self._broker.tokens.on_ended(self)
        self._answers = []
        self.delivery.closed()

    # --- packets ---

    def _take(self, packet: Packet) -> None:
        self.session.used |= (isinstance(packet, Publish) and not packet.announces) or (
            isinstance(packet, Ack) and packet.kind == mqtt_packets.PUBREL
        )
        self._broker.world.note("remote <-", self.client_id, packet)
        match packet:
            case Publish() if packet.announces:
                self._announced(packet)
            case Publish():
                self._publish(packet)
            case Ack(kind=mqtt_packets.PUBREL):
                self._judge.pubrel(packet)
                self.session.received.pop(packet.packet_id, None)
                self._answer(Ack(mqtt_packets.PUBCOMP, packet.packet_id))
            case Ack():
                self.delivery.arrived(packet)
            case Other(kind=mqtt_packets.SUBSCRIBE, body=body):
                self._answer_raw(self.delivery.subscribe(body))
            case Other(kind=mqtt_packets.UNSUBSCRIBE, body=body):
                self._answer_raw(self.delivery.unsubscribe(body))
            case Other(kind=mqtt_packets.AUTH, body=body) if self._broker.tokens is not None:
                self._answer_raw(self._broker.tokens.answer(self, body))
            case Other(kind=mqtt_packets.PINGREQ):
                self._answer_raw(mqtt_packets.packet_bytes(mqtt_packets.PINGRESP))
            case Other(kind=mqtt_packets.DISCONNECT, body=body):
                if body[:1] != _WITH_WILL:
                    self.will = None  # [MQTT-3.14.4-3]
                if self._broker.on_left is not None:
                    self._broker.on_left(self, self._broker)
                self.close()
            case _:
                raise Violation("protocol", f"the remote got {packet}")

    def _announced(self, packet: Publish) -> None:
        self._judge.announced(packet)
        self._broker.states[packet.topic] = packet.payload
        if packet.qos:
            self._answer(Ack(mqtt_packets.PUBACK, packet.packet_id))

    def _publish(self, packet: Publish) -> None:
        broker = self._broker
        every = broker.disliked_one_in == 1 and not broker.disliked_class
        if broker.dislikes(packet) and (every or broker.disliked_class or packet.payload not in self.session.ids):
            broker.watcher.remote_closed_on(packet, always=not every, of_class=broker.disliked_class)
            self.session.closed_on.add(packet.packet_id)
            self.session.came_late.add(packet.payload)
            self.close()
            return
        if packet.qos:
            if broker.watcher.may_be_passed(packet.payload):
                self.session.came_late.add(packet.payload)
            self._judge.publish(packet, first_ever=self.session.connections == 1 and broker.first_lives)
        known = self.session.received.get(packet.packet_id) if packet.qos else None
        if self.session.left and known not in (None, packet.payload) and not broker.watcher.amnesia:
            raise Violation("exchange.left-identifiers-released", f"{packet}, and the identifier is held for {known!r}")
        if packet.qos == 1:  # it was lowered since, and as Mosquitto does, the remote releases what it held under that identifier
            self.session.received.pop(packet.packet_id, None)
        known = known if packet.qos == 2 else None
        reason = broker.reason(self.level) if packet.qos and known is None else 0
        if reason >= 0x80:
            broker.watcher.remote_refused(self.client_id, packet)
            self.session.refused.add((packet.payload, packet.packet_id))
        elif known is None:
            broker.watcher.remote_delivered(self.client_id, packet, self.session.number)
            broker.publisher.send_back(packet, self.session.outgoing)
        elif known != packet.payload:
            broker.watcher.remote_swallowed(packet)
        if packet.qos == 1:
            self._answer(Ack(mqtt_packets.PUBACK, packet.packet_id, reason))
        elif packet.qos == 2:
            if reason < 0x80:
                self.session.received[packet.packet_id] = packet.payload
            self._answer(Ack(mqtt_packets.PUBREC, packet.packet_id, reason))

    def _answer(self, ack: Ack) -> None:
        self._answers.append((0, mqtt.ack(ack.kind, ack.packet_id, ack.reason), ack))
        self._flush_soon()

    def _answer_raw(self, data: bytes) -> None:
        self._answers.append((0, data, Ack(0, 0)))
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._broker.world.after(self._broker.answer_delay_s(), self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._closed or self.link is None:
            return
        if self._broker.world.now_s < self._broker.stalled_until_s:
            self._flushing = True
            self._broker.world.at(self._broker.stalled_until_s, self._flush)
            return
        data = b""
        for _, encoded, ack in self._answers:
            data += encoded
            if ack.kind == mqtt_packets.PUBREC:
                self.session.recs_sent += 1
                self.session.recs[ack.packet_id] = self.session.recs_sent
                self._broker.released(self.client_id, ack.packet_id)
            if ack.kind in (mqtt_packets.PUBACK, mqtt_packets.PUBCOMP) or ack.reason >= 0x80:
                payload = self.session.unanswered.pop(ack.packet_id, None)
                if payload is not None:
                    self.session.answered.add((payload, ack.packet_id))
                    self._broker.watcher.remote_settled(payload, self._broker.world.now_s)
                self._judge.open.discard(ack.packet_id)
                self._judge.words.discard(ack.packet_id)
            self._broker.world.note("remote ->", self.client_id, ack)
        self._answers = []
        self.link.send(data)


class Broker:
    """receive_maximum: of what the bridge is to have in flight. told_maximum: what level 5 clients are told.

    first_lives: no process of the bridge has died, no lane was opened twice.
    """

    def __init__(
        self,
        world: World,
        watcher: BrokerWatcher,
        *,
        receive_maximum: int,
        told_maximum: int,
        qos2_maximum: int,
        assumes_delivered: bool,
        publisher: RemotePublisher,
    ) -> None:
        self.assumes_delivered = assumes_delivered
        self.world = world
        self.watcher = watcher
        self.receive_maximum = receive_maximum
        self.told_maximum = told_maximum
        self.qos2_maximum = qos2_maximum
        self.first_lives = True
        self.stalled_until_s = 0.0
        self.refusing_until_s = 0.0
        self.slow_until_s = 0.0
        self.rejections = 0
        self.disliked_one_in = 0  # 1: the connection is closed on every PUBLISH; 0: on none
        self.disliked_class = ""  # qos, retain: on each of QoS 2, or with RETAIN
        self.sessions_lost = 0
        self.tokens: Tokens | None = None  # by which clients are let in
        self.states: dict[str, bytes] = {}  # what bridges have said of their links last, by topic
        self.on_new_session: Callable[[str], None] | None = None  # told once, when a client finds its session lost
        self.on_left: Callable[[BrokerConnection, Broker], None] | None = None  # told of each DISCONNECT
        self.may_be_left = False  # the client may go to another address or name, and what is open here stays open
        self.is_come_back_to = False  # the first of two brokers
        self._rng = world.chance("broker")
        self._sessions: dict[str, Session] = {}
        self._connections: dict[str, BrokerConnection] = {}
        self._had_session: set[str] = set()
        self._recs: dict[str, set[int]] = {}
        self._numbers = 0
        self.publisher = publisher
        publisher.brokers.append(self)

    def another(self, first_number: int) -> Broker:
        """A broker like this one; its sessions are numbered from ``first_number`` on."""
        other = Broker(
            self.world,
            self.watcher,
            receive_maximum=self.receive_maximum,
            told_maximum=self.told_maximum,
            qos2_maximum=self.qos2_maximum,
            assumes_delivered=self.assumes_delivered,
            publisher=self.publisher,
        )
        other._numbers = first_number
        return other

    def accepts(self) -> bool:
        """Whether a CONNECT is let in now."""
        return self.world.now_s >= self.refusing_until_s

    def accept(self, client_id: str, level: int, *, clean: bool, receive_maximum: int) -> tuple[BrokerConnection, bool]:
        """Let a client in: its connection, and whether its session is present. ``receive_maximum``: what it says in CONNECT."""
        older = self._connections.pop(client_id, None)
        if older is not None:
            older.close()
        if clean:
            self._clean(client_id)
        session = self._sessions.get(client_id)
        present = session is not None
        if session is not None and session.successor and not session.used:
            session.mistakable = True
        if session is None:
            self._numbers += 1
            session = self._sessions[client_id] = Session(self._numbers)
            session.earlier_recs = self._recs.setdefault(client_id, set())
            session.successor = client_id in self._had_session
            if session.successor and self.on_new_session is not None:
                self.on_new_session(client_id)
            self._had_session.add(client_id)
        session.connections += 1
        connection = self._connections[client_id] = BrokerConnection(self, client_id, level, session, receive_maximum)
        self.world.note("remote accepts", client_id, f"session {session.number} present={present}")
        return connection, present

    def end_session(self, client_id: str) -> None:
        """A level 4 client connected with a clean session and left again."""
        older = self._connections.pop(client_id, None)
        if older is not None:
            older.close()
        self._clean(client_id)

    def _clean(self, client_id: str) -> None:
        session = self._sessions.pop(client_id, None)
        if session is not None:
            subscribed = session.outgoing.subscription is not None
            self.watcher.remote_session_ended(client_id, session.place, subscribed=subscribed)
        self._forget_had_session(client_id)

    def leave(self, client_id: str) -> None:
        """The client was let in at another broker."""
        session = self._sessions.get(client_id)
        if session is not None:
            session.leave()

    def left_outgoings(self) -> list[Outgoing]:
        """The sessions as this broker's own to which their clients will come back."""
        if not self.is_come_back_to:
            return []
        return [session.outgoing for name, session in self._sessions.items() if name not in self._connections]

    def _forget_had_session(self, client_id: str) -> None:
        """The next session cannot be mistaken for this one; save where the record may be of here again, before another address."""
        if not self.may_be_left:
            self._had_session.discard(client_id)

    def all_outgoings(self) -> list[Outgoing]:
        """All sessions as this broker's own, whoever comes back to them."""
        return [session.outgoing for session in self._sessions.values()]

    def outgoings(self) -> list[Outgoing]:
        """The sessions as this broker's own; where the client may be elsewhere instead, those that are connected."""
        return [session.outgoing for session in self._kept()]

    def links(self) -> list[Link]:
        """The connections that are up."""
        return [connection.link for connection in self._connections.values() if connection.link is not None]

    def drop_all(self) -> None:
        """Close every connection, as a broker that starts anew does."""
        for connection in list(self._connections.values()):
            connection.close()
        self._connections.clear()

    def drop_place(self, place: str) -> None:
        """Close the connections that came in at ``place``."""
        for connection in [connection for connection in self._connections.values() if connection.place == place]:
            connection.close()

    def lose_sessions(self) -> None:
        """Forget every session, connections included."""
        self.drop_all()
        self._sessions.clear()
        self.sessions_lost += 1

    def released(self, client_id: str, packet_id: int) -> None:
        """A PUBREC has left."""
        self._recs[client_id].add(packet_id)

    def gone(self, connection: BrokerConnection) -> None:
        if self._connections.get(connection.client_id) is connection:
            del self._connections[connection.client_id]

    def connection_of(self, client_id: str) -> BrokerConnection | None:
        """That of the client, if it is there."""
        return self._connections.get(client_id)

    def is_heard(self, client_id: str) -> bool:
        """Whether a client of that name is connected, and not half open."""
        connection = self._connections.get(client_id)
        return connection is not None and connection.link is not None and not connection.link.silent

    def quiet(self) -> bool:
        """Whether no exchange is open on the broker's side."""
        return not any(session.received or session.unanswered for session in self._kept())

    def _kept(self) -> list[Session]:
        """The sessions that their clients are sure to come back to."""
        if not self.may_be_left:
            return list(self._sessions.values())
        links = {name: connection.link for name, connection in self._connections.items()}
        heard = {name for name, link in links.items() if link is not None and not link.silent}  # half open, it would time out
        return [session for name, session in self._sessions.items() if name in heard]

    def dislikes(self, packet: Publish) -> bool:
        """Whether the connection is closed on that message."""
        if self.disliked_one_in and self.disliked_class:
            return packet.qos == 2 if self.disliked_class == "qos" else packet.retain
        return self.disliked_one_in > 0 and crc32(packet.payload) % self.disliked_one_in == 0

    def reason(self, level: int) -> int:
        """The reason code for the next PUBLISH."""
        if level < 5:
            return 0
        if self.rejections:
            self.rejections -= 1
            return self._rng.choice(REJECTIONS)
        return NO_SUBSCRIBERS if self._rng.random() < 0.1 else 0

    def answer_delay_s(self) -> float:
        chance = self._rng.random()
        if self.world.now_s < self.slow_until_s:
            return chance * 0.5
        return chance * 0.002 if chance < 0.85 else chance * 0.05
