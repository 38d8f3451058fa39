"""The remote broker as a sender: what others publish there goes to the session that subscribed, as the standard demands.

``RemotePublisher`` is those others, ``Outgoing`` what a session keeps, ``Delivery`` one connection of it. They publish only while
somebody is subscribed, so everything reaches the node in the end unless a session is lost with it. An answer of the node is
reported when the Connection *writes* it; the broker acts on what has arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from tests.simulation import mqtt, rings
from tests.simulation.echoes import FILTER as OWN
from tests.simulation.echoes import TO_OTHERS, SentBack, as_sent_back
from tests.simulation.incoming import FILTER, GROUP, Incoming, IncomingShape
from tests.simulation.mqtt import LEVEL_5, Ack, Publish, Subscription
from tests.simulation.publisher import Client, Exchange, Message, SendersHalf, Sending
from tests.simulation.tcp import Link
from tests.simulation.world import Violation, World
from tests.support import mqtt_packets

NOT_FOUND = 0x92
_ONLY_WHEN_NEW = 1
_CLIENT = "edge"  # the identifier of the first lane, with which those of the others begin


class SendingBroker(Protocol):
    """The broker, as far as its sender's half needs it. stalled_until_s: it sends nothing until then."""

    stalled_until_s: float

    def outgoings(self) -> Iterable[Outgoing]: ...
    def left_outgoings(self) -> Iterable[Outgoing]: ...
    def all_outgoings(self) -> Iterable[Outgoing]: ...
    def answer_delay_s(self) -> float: ...


class RemotePublisherWatcher(Protocol):
    """The observer of the node's answers."""

    def published(self, message: Message) -> None: ...
    def acknowledged(self, publisher: Client, message: Message, packet_id: int) -> None: ...
    def completed(self, publisher: Client, packet_id: int) -> None: ...
    def incoming_sent(self, message: Message, broker: object, *, retain: bool) -> None: ...
    def sent_back(self, payload: bytes) -> None: ...
    def comes_beside(self, message: Message) -> None: ...
    def received_ids(self, session: str) -> set[int]: ...

    relaxed: bool


class Outgoing(SendersHalf):
    """The broker's record of one session as its sender."""

    def __init__(self) -> None:
        super().__init__()
        self.subscription: Subscription | None = None
        self.queue: deque[tuple[Message, bool]] = deque()
        self.connections = 0
        self.delivery: Delivery | None = None
        self.client_id = ""  # of whom has subscribed
        # Identifiers of the session before that the node still has on record, because it crashed between the CONNACK that said that
        # it is lost and its commit. A message that comes under one, until its PUBREL, is taken for a repeat (known weaknesses of
        # P2).
        self.stale: set[int] = set()

    @property
    def idle(self) -> bool:
        return not self.queue and not self.exchanges


class RemotePublisher:
    """Those who publish at the remote."""

    def __init__(self, world: World, shape: IncomingShape | None, watcher: RemotePublisherWatcher) -> None:
        self.world = world
        self.shape = shape
        self.watcher = watcher
        self.brokers: list[SendingBroker] = []
        self.releases_held_until_s = 0.0  # PUBREC is answered later, while PUBLISHes go on
        self.rng = world.chance("remote publisher")
        self.dup_chance = world.chance("remote publisher's DUP")
        self._waiting: deque[Incoming] = deque()
        self._retained: list[Incoming] = []

    def publish(self, incoming: Incoming) -> None:
        """Publish ``incoming``, or let it wait for a SUBSCRIBE."""
        self.watcher.comes_beside(incoming.message)
        if incoming.waits:
            self._retained.append(incoming)
        else:
            self._waiting.append(incoming)
            self.route()

    @property
    def idle(self) -> bool:
        """Whether everything was delivered."""
        shares = self.shape is not None and self.shape.shared and not self.watcher.relaxed
        sessions = self._sharing() if shares else (*self._outgoings(), *self._left())
        return not self._waiting and all(session.idle for session in sessions)

    def _sharing(self) -> list[Outgoing]:
        """Sessions of lanes, also of those that are gone: they come back for what is kept for them, and give up their share."""
        return [session for broker in self.brokers for session in broker.all_outgoings()]

    @property
    def members(self) -> list[Outgoing]:
        """Those of them that have a share."""
        return [session for session in self._sharing() if session.subscription is not None]

    def _deal(self, keeps_qos0: bool) -> None:
        """Give what is published to one member each, whether or not its client is connected."""
        members = self.members
        while self._waiting and members:
            incoming, session = self._waiting.popleft(), self.rng.choice(members)
            if incoming.message.qos or session.delivery is not None or keeps_qos0:
                session.queue.append((incoming.message, False))
        for session in members:
            if session.delivery is not None:
                session.delivery.pump()

    def _left(self) -> list[Outgoing]:
        """Sessions of which the client will be back: what is published there meanwhile waits for it."""
        return [session for broker in self.brokers for session in broker.left_outgoings() if session.subscription is not None]

    def _outgoings(self) -> list[Outgoing]:
        return [session for broker in self.brokers for session in broker.outgoings()]

    def route(self) -> None:
        """Put what is published into the queue of a session that subscribed; one that was left gets its share."""
        if self.shape is not None and self.shape.shared:
            self._deal(self.shape.keeps_qos0)
            return
        for session in self._left():
            while self._waiting and self.rng.random() < 0.4:
                incoming = self._waiting.popleft()
                if incoming.message.qos:
                    assert session.subscription is not None
                    session.queue.append((incoming.message, incoming.retain and session.subscription.retain_as_published))
                else:
                    self._waiting.append(incoming)
                    break
        for session in self._outgoings():
            subscription = session.subscription
            if subscription is None:
                continue
            delivery = session.delivery
            for incoming in self._taken_by(session):
                if incoming.message.qos or delivery is not None or (self.shape is not None and self.shape.keeps_qos0):
                    session.queue.append((incoming.message, incoming.retain and subscription.retain_as_published))
            if delivery is not None:
                delivery.pump()

    def _taken_by(self, session: Outgoing) -> list[Incoming]:
        """What waits for ``session``: all, or what comes by its way."""
        if self.shape is None or not self.shape.rings_window_s:
            taken = list(self._waiting)
            self._waiting.clear()
            return taken
        taken = [each for each in self._waiting if _way_of(each.message) == session.client_id]
        self._waiting = deque(each for each in self._waiting if _way_of(each.message) != session.client_id)
        return taken

    def send_back(self, packet: Publish, sender: Outgoing) -> None:
        """``packet`` was accepted from the client of ``sender``: who has subscribed to its topic gets it, that one perhaps not."""
        shape = self.shape
        if shape is None or not shape.echoes or not packet.topic.startswith(OWN[:-1]):
            return
        for session in self._outgoings():
            subscription = session.subscription
            if subscription is None or (session is sender and (subscription.no_local or shape.echoes == TO_OTHERS)):
                continue
            qos = min(packet.qos, subscription.qos)
            message = as_sent_back(packet.payload, packet.topic.removeprefix("up/"), qos, self.world.now_s)
            if qos or session.delivery is not None:
                self.watcher.sent_back(packet.payload)
                session.queue.append((message, False))
            if session.delivery is not None:
                session.delivery.pump()

    def subscribed(self, session: Outgoing, subscription: Subscription, level: int) -> None:
        """A SUBSCRIBE came: retained messages follow it [MQTT-3.3.1-9, MQTT-3.3.1-10]."""
        new = session.subscription is None
        session.subscription = subscription
        if session.client_id == rings.BESIDE:
            return
        if level < 5 or not subscription.retain_handling or (subscription.retain_handling == _ONLY_WHEN_NEW and new):
            session.queue.extend((incoming.message, True) for incoming in self._retained)
            self._retained.clear()


def _way_of(message: Message) -> str:
    return message.way if isinstance(message, rings.RingCopy) else _CLIENT


class Delivery(Sending):
    """One connection of a session. The duties of its peer, beside those of ``Sending``:

    - nothing is answered with a failure; a PUBCOMP may say that its identifier is not known (any more).
    - SUBSCRIBE comes once, with the filter of the configuration.
    - it comes to a new session only when the identifiers of the one before are forgotten on the disk.
    """

    def __init__(
        self,
        publisher: RemotePublisher,
        broker: SendingBroker,
        session: Outgoing,
        client_id: str,
        level: int,
        receive_maximum: int,
    ) -> None:
        super().__init__(session, level, publisher.watcher.published, partial(publisher.world.note, "remote publishes"))
        self._publisher = publisher
        self._broker = broker
        self._session = session
        self._client_id = client_id
        self.client_id = ""  # Connection, client identifier and address: what the node knows the session by, but for its number
        self._window = receive_maximum
        self._link: Link | None = None
        self._closed = False
        self._subscribes = 0
        self._releasable: list[int] = []  # PUBREC has come
        session.connections += 1
        session.delivery = self

    def resume(self, link: Link) -> None:
        """CONNACK has left: send what is open again, in order [MQTT-4.4.0-1], then what waited."""
        if self._publisher.shape is None or self._closed:
            return
        if self._stalled(self.resume, link):
            return
        self._link = link
        self._window = min(self._window, self._publisher.shape.remote_window, self._publisher.shape.identifiers)
        # Mosquitto 2.1 with a database sends again without DUP after it was killed [MQTT-3.3.1-1]
        data = self.again(dup=self._publisher.dup_chance.random() < 0.8)
        if data:
            link.send(data)
        self.pump()

    def closed(self) -> None:
        """The connection is gone."""
        self._closed = True
        if self._session.delivery is self:
            self._session.delivery = None

    # --- sending ---

    def pump(self) -> None:
        """Send what the window allows."""
        session, link = self._session, self._link
        if self._closed or link is None or not session.queue or self._stalled(self.pump):
            return
        shape = self._publisher.shape
        assert shape is not None
        data = b""
        while session.queue and (not session.queue[0][0].qos or len(session.exchanges) < self._window):
            message, retain = session.queue.popleft()
            self._publisher.watcher.incoming_sent(message, (self._broker, self._client_id), retain=retain)
            data += self.first(message, shape.identifiers, retain=retain)
        if data:
            link.send(data)

    def _release(self) -> None:
        """Send the PUBRELs that are due, in the order of the PUBRECs [MQTT-4.6.0-4]."""
        if self._closed or self._link is None or not self._releasable or self._stalled(self._release):
            return
        world, until_s = self._publisher.world, self._publisher.releases_held_until_s
        if world.now_s < until_s:
            world.at(until_s, self._release)
            return
        self._link.send(b"".join(self.release(packet_id) for packet_id in self._releasable))
        self._releasable.clear()

    def _stalled(self, do: Callable[..., None], *arguments: Link) -> bool:
        """Whether the broker is stalled; then ``do`` is done when it no longer is."""
        world, until_s = self._publisher.world, self._broker.stalled_until_s
        if world.now_s >= until_s:
            return False
        world.at(until_s, do, *arguments)
        return True

    def release(self, packet_id: int) -> bytes:
        self._note(f"PUBREL {packet_id}")
        return super().release(packet_id)

    def publish(self, exchange: Exchange, *, dup: bool) -> bytes:
        if exchange.sent:
            self._publisher.watcher.comes_beside(exchange.message)
        return super().publish(exchange, dup=dup)

    def topic(self, message: Message) -> str:
        return f"up/{message.topic}" if isinstance(message, SentBack) else message.topic.removeprefix("plant/")

    # --- answers ---

    def written(self, packet: Ack) -> None:
        """The Connection has written an answer: from here on it counts as promised."""
        if self._closed:
            return
        exchange = self.answered(packet, "the remote")
        if packet.reason and not (packet.kind == mqtt_packets.PUBCOMP and packet.reason == NOT_FOUND):
            raise Violation("exchange.remote-never-refused", f"{packet} makes the remote throw the message away")
        if packet.kind == mqtt_packets.PUBCOMP:
            self._publisher.watcher.completed(self, packet.packet_id)
        elif packet.packet_id not in self._session.stale:
            self._publisher.watcher.acknowledged(self, exchange.message, packet.packet_id)

    def arrived(self, packet: Ack) -> None:
        """An answer has reached the broker."""
        session = self._session
        exchange = session.exchanges[packet.packet_id]
        if packet.kind == mqtt_packets.PUBREC:
            exchange.released = True
            self._releasable.append(packet.packet_id)
            self._publisher.world.after(self._broker.answer_delay_s(), self._release)
            return
        if packet.kind == mqtt_packets.PUBCOMP:
            session.stale.discard(packet.packet_id)
        del session.exchanges[packet.packet_id]
        self.pump()

    def _wanted(self) -> list[tuple[str, int]]:
        """What this client is to subscribe to: the first lane to all, each other one to what is shared."""
        shape = self._publisher.shape
        if shape is not None and shape.shared and self._client_id.startswith(_CLIENT):
            return [(f"$share/{GROUP}/{FILTER}", shape.max_qos)]
        if shape is not None and shape.rings_window_s and self._client_id in (rings.FIRST, rings.BESIDE):
            return [(each, shape.max_qos) for each in (FILTER, rings.FILTER)][self._client_id == rings.BESIDE :]
        if shape is None or self._client_id != _CLIENT:
            return []
        return [(topic_filter, shape.max_qos) for topic_filter in (FILTER, OWN)][: 1 + bool(shape.echoes)]

    def unsubscribe(self, body: bytes) -> bytes:
        """Take an UNSUBSCRIBE; its UNSUBACK. What is kept for the session still comes."""
        packet_id = int.from_bytes(body[:2], "big")
        self._session.subscription = None
        return mqtt.unsuback(packet_id, self._level)

    def _first_of_session(self) -> None:
        session, watcher = self._session, self._publisher.watcher
        known = watcher.received_ids(self.client_id)
        if session.connections > 1:
            session.stale = known
        elif known and not watcher.relaxed:
            raise Violation("store.row-of-known-session-only", f"SUBSCRIBE on a new session, and {known} are on record")

    def subscribe(self, body: bytes) -> bytes:
        """Take a SUBSCRIBE; its SUBACK."""
        packet_id, subscriptions = mqtt.subscriptions_of(body, self._level)
        self._subscribes += 1
        shape = self._publisher.shape
        asked = [(subscription.topic_filter, subscription.qos) for subscription in subscriptions]
        if self._subscribes > 1 or asked != self._wanted():
            raise Violation("exchange.filter-asked-once", f"SUBSCRIBE number {self._subscribes} of {self._client_id} for {asked}")
        if shape is not None and shape.echoes and not all(each.no_local for each in subscriptions) and self._level == LEVEL_5:
            raise Violation("exchange.filter-asked-once", f"{subscriptions}, and what the bridge sends is to stay there")
        session = self._session
        if session.subscription is None:
            self._first_of_session()
        session.client_id = self._client_id
        self._publisher.subscribed(session, subscriptions[0], self._level)
        self._publisher.world.after(self._publisher.rng.random() * 0.005, self._publisher.route)
        return mqtt_packets.suback_bytes(self._level, packet_id, [subscription.qos for subscription in subscriptions])
