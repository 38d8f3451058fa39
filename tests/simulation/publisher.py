"""Local clients: publishers with a persistent session that resend as the standard demands, and judge what they are answered.

What they got an acknowledgement for is reported when the Listener *writes* it; what they act on is what has arrived.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from actors.broker.session_openings import UNANSWERED_S
from tests.simulation import mqtt
from tests.simulation.mqtt import LEVEL_5, Ack, Connack, Other, Packet, PacketReader, Publish
from tests.simulation.tcp import Far, Link
from tests.simulation.world import Violation, World

KEEP_ALIVE_S = 30
ANSWER_TIMEOUT_S = 9.0


@dataclass(frozen=True, slots=True)
class Message:
    """One message to publish: number, which publisher, when, and what."""

    number: int
    publisher: int
    at_s: float
    topic: str
    qos: int
    size: int

    @property
    def payload(self) -> bytes:
        return f"m{self.number:05d}".encode() + b"." * self.size


class Client(Protocol):
    """Who publishes; ``client_id`` names the session that the node keeps of it."""

    client_id: str


class PublisherWatcher(Protocol):
    """Who is told what a publisher is answered. amnesia: commits are lost, so an identifier may be on record again."""

    amnesia: bool

    def published(self, message: Message) -> None: ...
    def acknowledged(self, publisher: Client, message: Message, packet_id: int) -> None: ...
    def completed(self, publisher: Client, packet_id: int) -> None: ...
    def refused(self, message: Message) -> None: ...
    def publisher_session_lost(self, publisher: Publisher) -> None: ...


class Doors(Protocol):
    """Where a client connects."""

    def dial(self, far: Far, name: str = "clients") -> Link | None: ...


@dataclass(slots=True)
class _Exchange:
    message: Message
    packet_id: int
    released: bool = False
    refused: bool = False


def judge_refusal(client_id: str, connack: Connack, level: int, waited_s: float) -> None:
    """A client is refused for one reason only: the store has said nothing for long [MQTT-3.2.2-7].

    broker.refused-without-store
    """
    unavailable = 0x88 if level == LEVEL_5 else 0x03
    if connack.reason != unavailable or connack.present or waited_s < UNANSWERED_S:
        raise Violation("connack", f"{client_id} was refused with {connack} after {waited_s:.3f} s")


class Publisher:
    """One client. It never gives up; ``idle`` when all it was told to publish is done."""

    def __init__(self, world: World, number: int, level: int, window: int, doors: Doors, watcher: PublisherWatcher) -> None:
        self.world = world
        self.number = number
        self.level = level
        self.client_id = f"publisher-{number}"
        self._window = window
        self._doors = doors
        self._watcher = watcher
        self._rng = world.chance(f"publisher {number}")
        self._waiting: deque[Message] = deque()
        self._exchanges: dict[int, _Exchange] = {}  # in the order of the first sending
        self._packet_id = 0
        self._connection: _Connection | None = None
        self._quota = 65_535
        self._expects_session = False
        self._dialled = 0
        self._progress_s = world.now_s
        world.after(0.05 + self._rng.random() * 0.1, self._dial)
        world.after(1.0, self._look)

    def publish(self, message: Message) -> None:
        """Publish ``message`` as soon as the window allows."""
        self._waiting.append(message)
        self._pump()

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._exchanges

    @property
    def link(self) -> Link | None:
        return self._connection.link if self._connection is not None else None

    def hang_up(self) -> None:
        """Drop the connection, without a word."""
        if self._connection is not None and self._connection.link is not None:
            self._connection.link.hang_up()
            self.lost(self._connection)

    # --- connecting ---

    def _dial(self) -> None:
        if self._connection is not None:
            return
        connection = _Connection(self)
        link = self._doors.dial(connection)
        if link is None:
            self._dial_later()
            return
        connection.link = link
        self._dialled += 1
        self._connection = connection
        self._progress_s = self.world.now_s
        link.send(mqtt.connect(self.client_id, self.level, clean=False, keep_alive_s=KEEP_ALIVE_S))

    def _dial_later(self) -> None:
        self.world.after(0.02 + self._rng.random() * 0.3, self._dial)

    def lost(self, connection: _Connection) -> None:
        """The connection is gone."""
        if self._connection is connection:
            self._connection = None
            self._dial_later()

    def _look(self) -> None:
        """Ping, and give up on a connection that does not answer."""
        self.world.after(2.0, self._look)
        connection = self._connection
        if connection is None or connection.link is None:
            return
        if self.world.now_s - self._progress_s > ANSWER_TIMEOUT_S and not self.idle:
            self.hang_up()
        elif connection.welcome:
            connection.link.send(mqtt.plain(mqtt.PINGREQ))

    # --- packets ---

    def welcomed(self, connack: Connack) -> None:
        """CONNACK: resend what is open, in order [MQTT-4.4.0-1]."""
        self._progress_s = self.world.now_s
        self._quota = connack.receive_maximum
        assert self._connection is not None
        assert self._connection.link is not None
        self.world.note("publisher", self.number, f"connected, session present={connack.present}")
        if connack.present and self._dialled == 1:
            raise Violation("session", f"{self.client_id} had no session, and it is said to be present")
        if not connack.present and self._expects_session:
            self._watcher.publisher_session_lost(self)
            for exchange in [exchange for exchange in self._exchanges.values() if exchange.released]:
                del self._exchanges[exchange.packet_id]
        self._expects_session = True
        data = b""
        for exchange in self._exchanges.values():
            if exchange.released:
                data += mqtt.ack(mqtt.PUBREL, exchange.packet_id)
            else:
                data += self._encode(exchange, dup=connack.present)
        self._connection.open = set(self._exchanges)
        self._connection.link.send(data)
        self._pump()

    def _encode(self, exchange: _Exchange, *, dup: bool) -> bytes:
        message = exchange.message
        exchange.refused = False
        self._watcher.published(message)
        self.world.note("publisher", self.number, f"m{message.number} QoS {message.qos} id {exchange.packet_id} dup={dup}")
        packet = Publish(message.topic, message.payload, message.qos, exchange.packet_id, dup)
        assert self._connection is not None
        self._connection.published.append(exchange.packet_id)
        return mqtt.publish(packet, self.level)

    def _pump(self) -> None:
        connection = self._connection
        if connection is None or connection.link is None or not connection.welcome:
            return
        data = b""
        while self._waiting and len(self._exchanges) < min(self._window, self._quota):
            message = self._waiting.popleft()
            if message.qos == 0:
                self._watcher.published(message)
                self.world.note("publisher", self.number, f"m{message.number} QoS 0")
                data += mqtt.publish(Publish(message.topic, message.payload, 0, 0), self.level)
                continue
            self._packet_id = self._packet_id % 30 + 1
            while self._packet_id in self._exchanges:
                self._packet_id = self._packet_id % 30 + 1
            exchange = self._exchanges[self._packet_id] = _Exchange(message, self._packet_id)
            data += self._encode(exchange, dup=False)
        if data:
            connection.link.send(data)

    def written(self, connection: _Connection, packet: Packet) -> None:
        """The Listener has written ``packet``: from here on it counts as promised."""
        if not isinstance(packet, Ack) or connection is not self._connection:
            return
        exchange = self._exchanges.get(packet.packet_id)
        if exchange is None:
            raise Violation("protocol", f"{packet} for {self.client_id}, which waits for nothing under that identifier")
        self._in_order(connection, packet)
        if packet.kind == mqtt.PUBCOMP:
            self._watcher.completed(self, packet.packet_id)
        elif packet.reason >= 0x80:
            exchange.refused = True
            self._watcher.refused(exchange.message)
        else:
            self._watcher.acknowledged(self, exchange.message, packet.packet_id)

    def _in_order(self, connection: _Connection, packet: Ack) -> None:
        """PUBACKs come in the order of the PUBLISHes, and so do PUBRECs [MQTT-4.6.0-2, MQTT-4.6.0-3]."""
        if packet.kind not in (mqtt.PUBACK, mqtt.PUBREC):
            return
        kind = 1 if packet.kind == mqtt.PUBACK else 2
        for packet_id in connection.published:
            exchange = self._exchanges.get(packet_id)
            if packet_id == packet.packet_id:
                if exchange is not None and exchange.message.qos != kind:
                    raise Violation("protocol", f"{packet} for a message of QoS {exchange.message.qos}")
                connection.published.remove(packet_id)
                return
            if exchange is not None and exchange.message.qos == kind and not self._watcher.amnesia:
                raise Violation("exchange.answers-in-order", f"{packet} for {self.client_id} before the answer for {packet_id}")
        raise Violation("protocol", f"{packet} for {self.client_id}: answered twice, or not published on this connection")

    def arrived(self, connection: _Connection, packet: Packet) -> None:
        """``packet`` has reached the client."""
        if connection is not self._connection or connection.link is None:
            return
        self._progress_s = self.world.now_s
        self.world.note("publisher", self.number, f"<- {packet}")
        match packet:
            case Connack() if packet.reason:
                judge_refusal(self.client_id, packet, self.level, self.world.now_s - connection.dialled_s)
                self.hang_up()
            case Connack():
                connection.welcome = True
                self.welcomed(packet)
            case Ack(kind=mqtt.PUBREC):
                exchange = self._exchanges[packet.packet_id]
                if exchange.refused:
                    del self._exchanges[packet.packet_id]
                    self._pump()
                else:
                    exchange.released = True
                    connection.link.send(mqtt.ack(mqtt.PUBREL, packet.packet_id))
            case Ack():
                exchange = self._exchanges[packet.packet_id]
                if packet.kind == mqtt.PUBCOMP and not exchange.released:
                    raise Violation("protocol", f"{packet} before a PUBREL")
                del self._exchanges[packet.packet_id]
                self._pump()
            case Other(kind=mqtt.DISCONNECT):
                reason = packet.body[0] if packet.body else 0
                if reason == 0x83:  # the store has forgotten the session while its client was connected
                    self._watcher.publisher_session_lost(self)
                elif reason not in (0x8B, 0x8E, 0x8D):  # shutting down, taken over, keep alive
                    raise Violation("protocol", f"{self.client_id} was thrown out with 0x{reason:02x}")
            case Other(kind=mqtt.PINGRESP):
                pass
            case _:
                raise Violation("protocol", f"{self.client_id} got {packet}")


class _Connection(Far):
    def __init__(self, publisher: Publisher) -> None:
        self.link: Link | None = None
        self.dialled_s = publisher.world.now_s
        self.welcome = False
        self.published: list[int] = []
        self.open: set[int] = set()
        self._publisher = publisher
        self._reader = PacketReader(publisher.level)
        self._packets: deque[tuple[int, Packet]] = deque()
        self._arrived = 0

    def written(self, data: bytes) -> None:
        try:
            packets = self._reader.feed(data)
        except mqtt.Malformed as error:
            raise Violation("malformed", f"towards a local client: {error}") from error
        for _, packet in packets:
            self._publisher.written(self, packet)
        self._packets += packets

    def arrived(self, count: int) -> None:
        self._arrived += count
        while self._packets and self._packets[0][0] <= self._arrived:
            self._publisher.arrived(self, self._packets.popleft()[1])

    def gone(self) -> None:
        self._publisher.lost(self)
