"""The demo's two MQTT clients: a publisher that accounts for each acknowledgement, and a subscriber that counts arrivals.

Each is a thread around a socket and the packet codec, so that the demo depends on no other client. The payload of a message is its
number; what was published, acknowledged and received is compared by number.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Self, TypeVar

from wire.errors import Unavailable
from wire.mqtt.codec import decode, encode, split
from wire.mqtt.packets import (
    MQTT_3_1_1,
    Connack,
    Connect,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
)

Answer = TypeVar("Answer", Connack, Suback)

PACKET_MAX_BYTES = 65_536
PACKET_IDS = 65_535
CONNECT_TIMEOUT_S = 5.0
_POLL_S = 0.05


class ClientSocket:
    """A connected MQTT 3.1.1 client: packets out, packets in."""

    def __init__(self, port: int, client_id: str, *, clean: bool = True) -> None:
        """Connect to 127.0.0.1:``port``; with the session that is there, unless it is to be ``clean``. Raises: Unavailable."""
        self._buffer = b""
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), CONNECT_TIMEOUT_S)
        except OSError as error:
            raise Unavailable("the demo cannot connect to its node", port=port, error=str(error)) from error
        self.send(Connect(level=MQTT_3_1_1, client_id=client_id, clean_start=clean, keep_alive_s=0))
        answer = self.wait_for(Connack)
        if answer.reason_code != 0:
            raise Unavailable("the node refuses the demo's client", port=port, reason_code=int(answer.reason_code))

    def send(self, *packets: Packet) -> None:
        """Send ``packets`` in one piece."""
        self._socket.sendall(b"".join(encode(packet, MQTT_3_1_1) for packet in packets))

    def receive(self, timeout_s: float) -> list[Packet]:
        """The packets that have come; waits for at most ``timeout_s``. Raises: Unavailable, when the node hangs up."""
        if not select.select([self._socket], [], [], timeout_s)[0]:
            return []
        data = self._socket.recv(65_536)
        if not data:
            raise Unavailable("the node closed the connection of the demo's client")
        self._buffer += data
        packets, position = [], 0
        while (found := split(self._buffer, position, PACKET_MAX_BYTES)) is not None:
            first_byte, start, position = found
            packets.append(decode(first_byte, self._buffer[start:position], MQTT_3_1_1))
        self._buffer = self._buffer[position:]
        return packets

    def wait_for(self, kind: type[Answer]) -> Answer:
        """The next packet that is a ``kind``; others are passed over. Raises: Unavailable."""
        deadline_s = time.monotonic() + CONNECT_TIMEOUT_S
        while time.monotonic() < deadline_s:
            for packet in self.receive(_POLL_S):
                if isinstance(packet, kind):
                    return packet
        raise Unavailable(f"the node sent no {kind.__name__.upper()}")

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class _Worker(threading.Thread):
    """A thread that ends when told; what broke it is kept in ``failure``."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.failure: Exception | None = None
        self.ending = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self.join(5.0)

    def run(self) -> None:
        try:
            self.work()
        except (Unavailable, OSError) as error:
            self.failure = error

    def work(self) -> None:
        raise NotImplementedError


class Publisher(_Worker):
    """Publishes messages 0, 1, 2, ... at a steady rate, QoS 0, 1 and 2 in turn, at most ``window`` unacknowledged."""

    def __init__(self, port: int, *, messages: int, rate_per_s: float, window: int = 100) -> None:
        super().__init__("publisher")
        self._socket = self._connect(port)
        self._messages = messages
        self._period_s = 1.0 / rate_per_s
        self._window = window
        self._in_flight: dict[int, int] = {}  # packet_id -> number
        self._releasing: set[int] = set()
        self.published = 0
        self.acknowledged: set[int] = set()

    def work(self) -> None:
        next_s = time.monotonic()
        while not self.ending.is_set() and (self.published < self._messages or self._in_flight or self._releasing):
            now_s = time.monotonic()
            may_publish = self.published < self._messages and len(self._in_flight) + len(self._releasing) < self._window
            if may_publish and now_s >= next_s:
                self._publish(self.published)
                next_s += self._period_s
            for packet in self._socket.receive(min(_POLL_S, max(0.0, next_s - now_s)) if may_publish else _POLL_S):
                self._on_answered(packet)
        self._socket.close()

    def _connect(self, port: int) -> ClientSocket:
        return ClientSocket(port, "demo-publisher")

    def _publish(self, number: int) -> None:
        self.published += 1  # before it is sent: whoever connects anew sends what has no answer
        if qos_of(number):
            self._in_flight[number % PACKET_IDS + 1] = number
        self._socket.send(_message(number))

    def _on_answered(self, packet: Packet) -> None:
        match packet:
            case Puback() | Pubrec():
                self.acknowledged.add(self._in_flight.pop(packet.packet_id))
                if isinstance(packet, Pubrec):
                    self._releasing.add(packet.packet_id)
                    self._socket.send(Pubrel(packet_id=packet.packet_id))
            case Pubcomp():
                self._releasing.discard(packet.packet_id)


class RoamingPublisher(Publisher):
    """A publisher that keeps its session, and goes to whichever of ``ports`` lets it in; it repeats what has no answer there."""

    def __init__(self, ports: Sequence[int], *, messages: int, rate_per_s: float) -> None:
        self._ports = ports
        self.moves = 0
        super().__init__(ports[0], messages=messages, rate_per_s=rate_per_s)

    def work(self) -> None:
        while True:
            try:
                super().work()
            except (Unavailable, OSError):
                self._socket.close()
                self._move()
                continue
            return

    def _connect(self, port: int) -> ClientSocket:
        for other in (port, *self._ports):
            try:
                return ClientSocket(other, "demo-publisher", clean=False)
            except (Unavailable, OSError) as error:
                refusal = error
        raise refusal

    def _move(self) -> None:
        while not self.ending.is_set():
            try:
                self._socket = self._connect(self._ports[0])
                self._socket.send(*(_message(number, dup=True) for number in sorted(self._in_flight.values())))
                self._socket.send(*(Pubrel(packet_id=packet_id) for packet_id in sorted(self._releasing)))
            except (Unavailable, OSError):
                self.ending.wait(_POLL_S)
                continue
            self.moves += 1
            return


class Subscriber(_Worker):
    """Counts the arrivals of each number."""

    def __init__(self, port: int) -> None:
        super().__init__("subscriber")
        self._socket = ClientSocket(port, "demo-subscriber")
        self._socket.send(Subscribe(packet_id=1, subscriptions=(Subscription(topic_filter="demo/#", qos=2),)))
        self._socket.wait_for(Suback)
        self.arrivals: Counter[int] = Counter()

    def work(self) -> None:
        while not self.ending.is_set():
            for packet in self._socket.receive(_POLL_S):
                if isinstance(packet, Publish):
                    self._on_arrived(packet)
                elif isinstance(packet, Pubrel):
                    self._socket.send(Pubcomp(packet_id=packet.packet_id))
        self._socket.close()

    def _on_arrived(self, packet: Publish) -> None:
        self.arrivals[int(packet.payload)] += 1
        if packet.qos == 1:
            self._socket.send(Puback(packet_id=packet.packet_id))
        elif packet.qos == 2:
            self._socket.send(Pubrec(packet_id=packet.packet_id))


def _message(number: int, *, dup: bool = False) -> Publish:
    qos = qos_of(number)
    packet_id = number % PACKET_IDS + 1 if qos else 0
    return Publish(topic=f"demo/qos{qos}", payload=str(number).encode(), qos=qos, packet_id=packet_id, dup=dup)


def qos_of(number: int) -> int:
    """The QoS of the message ``number``: 0, 1 and 2 in turn."""
    return number % 3
