"""A sender's half of the exchange, and local clients that have it: they resend as the standard demands, and judge their answers.

``Sending`` is one connection of any sender, of the remote's too. An acknowledgement to local clients is reported when the Listener
*writes* it; they act on what has arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from actors.broker.session_openings import UNANSWERED_S
from tests.simulation import mqtt
from tests.simulation.mqtt import LEVEL_5, Ack, Connack, Other, Packet, PacketReader, Publish
from tests.simulation.tcp import Far, Link
from tests.simulation.world import Violation, World
from tests.support import mqtt_packets
from tests.support.mqtt_packets import Sender

KEEP_ALIVE_S = 30
ANSWER_TIMEOUT_S = 9.0
_IDENTIFIERS = 30


@dataclass(frozen=True, slots=True)
class Message:
    """One message to publish: number, which publisher, when, and what."""

    number: int
    publisher: int
    at_s: float
    topic: str
    qos: int
    size: int
    retain: bool = False

    @property
    def payload(self) -> bytes:
        return f"m{self.number:05d}".encode() + b"." * self.size


def number_of(payload: bytes) -> int:
    """The number of the message that has it."""
    return int(payload[1:6])


class Client(Protocol):
    """A publisher; ``client_id`` names the session that the node keeps of it."""

    client_id: str


class PublisherWatcher(Protocol):
    """The observer of answers to a publisher. amnesia: commits are lost, so an identifier may be on record again."""

    amnesia: bool

    def published(self, message: Message) -> None: ...
    def acknowledged(self, publisher: Client, message: Message, packet_id: int) -> None: ...
    def completed(self, publisher: Client, packet_id: int) -> None: ...
    def refused(self, message: Message) -> None: ...
    def publisher_session_lost(self, publisher: Publisher) -> None: ...


class Doors(Protocol):
    """The place to connect."""

    def dial(self, far: Far, name: str = "clients") -> Link | None: ...


@dataclass(slots=True)
class Exchange:
    """A QoS 1 or 2 message that is not ended."""

    message: Message
    packet_id: int
    retain: bool
    sent: int = 0  # connections on which it was sent
    released: bool = False
    refused: bool = False


class SendersHalf:
    """The sender's record of its session: the open exchanges, in the order of the first sending."""

    def __init__(self) -> None:
        self.exchanges: dict[int, Exchange] = {}
        self._packet_id = 0

    def begin(self, message: Message, identifiers: int, *, retain: bool) -> Exchange:
        """A new exchange under the next of so many packet identifiers that is free."""
        self._packet_id = self._packet_id % identifiers + 1
        while self._packet_id in self.exchanges:
            self._packet_id = self._packet_id % identifiers + 1
        exchange = self.exchanges[self._packet_id] = Exchange(message, self._packet_id, retain)
        return exchange


class Sending:
    """One connection of a sender: what it sends, and the answers to it. The duties of its peer:

    - an answer is for a packet that was sent on this connection, of the kind that its QoS has, and comes once.
    - answers of a kind come in the order of their packets [MQTT-4.6.0-2, MQTT-4.6.0-3].
    """

    def __init__(self, half: SendersHalf, level: int, published: Callable[[Message], None], note: Callable[[str], None]) -> None:
        """published: told of each PUBLISH. note: takes the trace."""
        self._half = half
        self._level = level
        self._published = published
        self._note = note
        self._owed: dict[int, list[int]] = {mqtt_packets.PUBACK: [], mqtt_packets.PUBREC: [], mqtt_packets.PUBCOMP: []}

    def topic(self, message: Message) -> str:
        """The topics that it is published to."""
        return message.topic

    def first(self, message: Message, identifiers: int, *, retain: bool = False) -> bytes:
        """The first PUBLISH of ``message``, under one of so many packet identifiers if it has one."""
        if message.qos:
            return self.publish(self._half.begin(message, identifiers, retain=retain), dup=False)
        self._published(message)
        self._note(f"m{message.number} QoS 0")
        return mqtt.publish(Publish(self.topic(message), message.payload, 0, 0, retain=retain), self._level)

    def again(self, *, dup: bool) -> bytes:
        """The open exchanges, once more and in order [MQTT-4.4.0-1]."""
        data = b""
        for packet_id, exchange in self._half.exchanges.items():
            data += self.release(packet_id) if exchange.released else self.publish(exchange, dup=dup)
        return data

    def publish(self, exchange: Exchange, *, dup: bool) -> bytes:
        """A PUBLISH of QoS 1 or 2."""
        message, packet_id = exchange.message, exchange.packet_id
        exchange.sent += 1
        exchange.refused = False
        self._published(message)
        self._owed[mqtt_packets.PUBACK if message.qos == 1 else mqtt_packets.PUBREC].append(packet_id)
        self._note(f"m{message.number} QoS {message.qos} id {packet_id} dup={dup}")
        return mqtt.publish(
            Publish(self.topic(message), message.payload, message.qos, packet_id, dup, exchange.retain), self._level
        )

    def release(self, packet_id: int) -> bytes:
        """A PUBREL."""
        self._owed[mqtt_packets.PUBCOMP].append(packet_id)
        return mqtt.ack(mqtt_packets.PUBREL, packet_id)

    def answered(self, packet: Ack, to: str, *, amnesia: bool = False) -> Exchange:
        """An answer is written: its exchange. amnesia: commits are lost, and with them the order."""
        owed, exchange = self._owed[packet.kind], self._half.exchanges.get(packet.packet_id)
        if packet.packet_id not in owed or exchange is None:
            raise Violation("protocol", f"{packet} to {to}: answered twice, or not sent on this connection")
        for packet_id in owed[: owed.index(packet.packet_id)]:
            if packet_id in self._half.exchanges and not amnesia:
                raise Violation("exchange.answers-in-order", f"{packet} to {to} before the answer for {packet_id}")
        owed.remove(packet.packet_id)
        return exchange


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
        self._half = SendersHalf()
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

    def sending(self) -> Sending:
        """The first packets of a new connection."""
        return Sending(self._half, self.level, self._watcher.published, partial(self.world.note, "publisher", self.number))

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._half.exchanges

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
            connection.link.send(mqtt_packets.packet_bytes(mqtt_packets.PINGREQ))

    # --- packets ---

    def welcomed(self, connack: Connack) -> None:
        """CONNACK: resend what is open, in order [MQTT-4.4.0-1]."""
        self._progress_s = self.world.now_s
        self._quota = connack.receive_maximum
        connection, exchanges = self._connection, self._half.exchanges
        assert connection is not None
        assert connection.link is not None
        self.world.note("publisher", self.number, f"connected, session present={connack.present}")
        if connack.present and self._dialled == 1:
            raise Violation("session", f"{self.client_id} had no session, and it is said to be present")
        if not connack.present and self._expects_session:
            self._watcher.publisher_session_lost(self)
            for exchange in [exchange for exchange in exchanges.values() if exchange.released]:
                del exchanges[exchange.packet_id]
        self._expects_session = True
        connection.link.send(connection.sending.again(dup=connack.present))
        self._pump()

    def _pump(self) -> None:
        connection = self._connection
        if connection is None or connection.link is None or not connection.welcome:
            return
        data = b""
        while self._waiting and len(self._half.exchanges) < min(self._window, self._quota):
            data += connection.sending.first((message := self._waiting.popleft()), _IDENTIFIERS, retain=message.retain)
        if data:
            connection.link.send(data)

    @property
    def exchanges(self) -> dict[int, Exchange]:
        """What is open, by packet identifier."""
        return self._half.exchanges

    def written(self, connection: _Connection, packet: Packet) -> None:
        """The Listener has written ``packet``: from here on it counts as promised."""
        if not isinstance(packet, Ack) or connection is not self._connection:
            return
        exchange = connection.sending.answered(packet, self.client_id, amnesia=self._watcher.amnesia)
        if packet.kind == mqtt_packets.PUBCOMP:
            self._watcher.completed(self, packet.packet_id)
        elif packet.reason >= 0x80:
            exchange.refused = True
            self._watcher.refused(exchange.message)
        else:
            self._watcher.acknowledged(self, exchange.message, packet.packet_id)

    def arrived(self, connection: _Connection, packet: Packet) -> None:
        """``packet`` has reached the client."""
        if connection is not self._connection or connection.link is None:
            return
        self._progress_s = self.world.now_s
        self.world.note("publisher", self.number, f"<- {packet}")
        exchanges = self._half.exchanges
        match packet:
            case Connack() if packet.reason:
                judge_refusal(self.client_id, packet, self.level, self.world.now_s - connection.dialled_s)
                self.hang_up()
            case Connack():
                connection.welcome = True
                self.welcomed(packet)
            case Ack(kind=mqtt_packets.PUBREC):
                exchange = exchanges[packet.packet_id]
                if exchange.refused:
                    del exchanges[packet.packet_id]
                    self._pump()
                else:
                    exchange.released = True
                    connection.link.send(connection.sending.release(packet.packet_id))
            case Ack():
                del exchanges[packet.packet_id]
                self._pump()
            case Other(kind=mqtt_packets.DISCONNECT):
                reason = packet.body[0] if packet.body else 0
                if reason == 0x83:  # the store has forgotten the session while its client was connected
                    self._watcher.publisher_session_lost(self)
                elif reason not in (0x8B, 0x8E, 0x8D):  # shutting down, taken over, keep alive
                    raise Violation("protocol", f"{self.client_id} was thrown out with 0x{reason:02x}")
            case Other(kind=mqtt_packets.PINGRESP):
                pass
            case _:
                raise Violation("protocol", f"{self.client_id} got {packet}")


class _Connection(Far):
    def __init__(self, publisher: Publisher) -> None:
        self.link: Link | None = None
        self.dialled_s = publisher.world.now_s
        self.welcome = False
        self.sending = publisher.sending()
        self._publisher = publisher
        self._reader = PacketReader(Sender.SERVER, publisher.level)
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
