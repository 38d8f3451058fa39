"""The MQTT client of the tests, for 3.1.1 and 5.0 on a plain socket or over TLS.

It judges every packet that comes in (``mqtt_packets.judge``) and shares no code with the product. Every step is the caller's:
nothing is acknowledged, resent or reconnected by itself. ``Publisher`` and ``Subscriber`` build on it.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from tests.support import waiting
from tests.support.mqtt_packets import (
    CONNACK,
    DISCONNECT,
    MAXIMUM_PACKET_SIZE,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SESSION_EXPIRY,
    SUBACK,
    SUBSCRIPTION_IDENTIFIER,
    UNSUBACK,
    Packet,
    PacketReader,
    Sender,
    Value,
    Will,
    acknowledge_bytes,
    connect_bytes,
    encode_properties,
    packet_bytes,
    publish_bytes,
    subscribe_bytes,
    unsubscribe_bytes,
)

PATIENCE_S = waiting.PATIENCE_S


class Closed(ConnectionError):
    """The peer closed the connection."""


class Connection:
    """One end of an MQTT connection, which reads and judges what ``sender`` sends from the other."""

    def __init__(self, sender: Sender, version: int) -> None:
        self.version = version
        self.maximum_packet_size = 0xFFFFFFFF  # that a packet of the other end may have
        self._sender = sender
        self._socket: socket.socket | None = None
        self._reader = PacketReader(sender, version)
        self._held: deque[Packet] = deque()  # came between the packets of an exchange

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def take_socket(self, sock: socket.socket) -> None:
        """Speak over ``sock`` from now on; nothing of a connection before it is left."""
        self._reader = PacketReader(self._sender, self.version)
        self._held.clear()
        self._socket = sock

    # --- sending ---

    def send(self, *packets: bytes) -> None:
        """Send bytes as given, all of them in one write."""
        sock = self._connected()
        sock.settimeout(PATIENCE_S)
        sock.sendall(b"".join(packets))

    def acknowledge(self, kind: int, packet_id: int, reason_code: int | None = None) -> None:
        """Send a PUBACK, PUBREC, PUBREL or PUBCOMP."""
        self.send(acknowledge_bytes(kind, packet_id, reason_code))

    def close(self) -> None:
        """Close the socket without a word."""
        sock, self._socket = self._socket, None
        if sock is not None:
            sock.close()

    def vanish(self) -> None:
        """End the connection as a network failure does: with a reset."""
        self._connected().setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    # --- receiving ---

    def read(self, deadline_s: float | None = None) -> Packet:
        """The next packet.

        Raises:
            TimeoutError: there was none within ``deadline_s``.
            Closed: the peer closed the connection.
            ConnectionResetError: the peer reset it.
        """
        return self._held.popleft() if self._held else self._read_on(deadline_s)

    def expect(
        self, kind: int, packet_id: int | None = None, reason_code: int | None = None, *, deadline_s: float | None = None
    ) -> Packet:
        """The next packet, which must be of ``kind`` (and carry that packet identifier and reason code)."""
        return self._is(self.read(deadline_s), kind, packet_id, reason_code)

    def answer(self, kind: int, packet_id: int, reason_code: int | None = None) -> Packet:
        """The next packet that is no PUBLISH, which must be this; PUBLISH packets before it are held for ``read``."""
        while (found := self._read_on()).kind == PUBLISH:
            self._held.append(found)
        return self._is(found, kind, packet_id, reason_code)

    def is_silent_for(self, period_s: float) -> bool:
        """Whether not a byte comes within ``period_s``; a packet that comes is gone."""
        try:
            self.read(period_s)
        except TimeoutError:
            return not self._reader.data
        return False

    def exactly(self, count: int) -> bytes:
        """The next ``count`` bytes, whatever they mean."""
        while len(self._reader.data) < count:
            self._receive()
        taken = bytes(self._reader.data[:count])
        del self._reader.data[:count]
        return taken

    def rest(self) -> list[Packet]:
        """All packets until the peer closes, which it must; a reset will do."""
        found = []
        try:
            while True:
                found.append(self.read())
        except (Closed, ConnectionResetError):
            return found

    def ends_in_order(self) -> bool:
        """Whether the connection ends now, and is not reset."""
        sock = self._connected()
        sock.settimeout(PATIENCE_S)
        return not self._reader.data and sock.recv(1) == b""

    def rest_of_bytes(self) -> bytes:
        """All bytes until the peer closes, whatever they mean."""
        try:
            while True:
                self._receive()
        except (Closed, ConnectionResetError):
            return bytes(self._reader.data)

    def expect_end(self, *reason_codes: int) -> int | None:
        """The peer closes now; MQTT 5: after a DISCONNECT with one of ``reason_codes`` or without. That code."""
        return self._last(DISCONNECT, "the end", reason_codes)

    def expect_refusal(self, *reason_codes: int) -> int | None:
        """The peer closes now, after a CONNACK with one of ``reason_codes`` or without. That code."""
        return self._last(CONNACK, "a refusal", reason_codes)

    # --- inside ---

    def _connected(self) -> socket.socket:
        sock = self._socket
        if sock is None:
            raise Closed("not connected")
        return sock

    def _read_on(self, deadline_s: float | None = None) -> Packet:
        end_s = time.monotonic() + (PATIENCE_S if deadline_s is None else deadline_s)
        self._reader.maximum_packet_size = self.maximum_packet_size
        while (found := self._reader.next()) is None:
            self._receive(max(0.001, end_s - time.monotonic()))
        return found

    def _receive(self, deadline_s: float | None = None) -> None:
        """Take what comes next, within ``deadline_s``."""
        sock = self._connected()
        sock.settimeout(PATIENCE_S if deadline_s is None else deadline_s)
        data = sock.recv(65_536)
        if not data:
            raise Closed("closed by the peer")
        self._reader.feed(data)

    @staticmethod
    def _is(found: Packet, kind: int, packet_id: int | None, reason_code: int | None) -> Packet:
        assert found.kind == kind, f"expected a packet of kind {kind}, got {found}"
        assert packet_id is None or found.packet_id == packet_id, f"expected packet identifier {packet_id}, got {found}"
        assert reason_code is None or found.reason_code == reason_code, f"expected reason code {reason_code:#x}, got {found}"
        return found

    def _last(self, kind: int, what: str, reason_codes: tuple[int, ...]) -> int | None:
        found = self.rest()
        assert len(found) <= 1, f"expected {what}, got {found}"
        for last in found:
            assert last.kind == kind, f"expected {what}, got {last}"
            assert last.reason_code in reason_codes, f"expected one of {[hex(code) for code in reason_codes]}, got {last}"
        return found[0].reason_code if found else None


class MqttClient(Connection):
    """A client of the broker at ``port``. ``version`` is 4 (3.1.1) or 5; ``clean`` is clean session or clean start.

    The context, or ``connect``, makes the connection and sends CONNECT; behind ``dial`` that is the caller's. ``holds``: PUBLISH
    packets may come before a SUBACK or UNSUBACK, and are held for ``read``.
    """

    def __init__(
        self,
        port: int,
        client_id: str = "test",
        *,
        version: int = 4,
        clean: bool = True,
        session_expiry_s: int = 0,
        username: str | None = None,
        password: str | None = None,
        keep_alive_s: int = 0,
        will: Will | None = None,
        properties: Sequence[tuple[int, Value]] = (),
        tls: ssl.SSLContext | None = None,
        holds: bool = False,
        source: str = "",
    ) -> None:
        """source: the address that it comes from; empty: the system's choice."""
        super().__init__(Sender.SERVER, version)
        self._source = (source, 0) if source else None
        self.connack = Packet(kind=CONNACK)
        self._port = port
        self._tls = tls
        self._holds = holds
        self._greeting = connect_bytes(
            version,
            client_id,
            clean=clean,
            keep_alive_s=keep_alive_s,
            will=will,
            username=username,
            password=password,
            properties=[(SESSION_EXPIRY, session_expiry_s), *properties],
        )
        for identifier, value in properties:
            if identifier == MAXIMUM_PACKET_SIZE and isinstance(value, int):
                self.maximum_packet_size = value
        self._next_id = 0
        self._next_request_id = 65_001

    def __enter__(self) -> Self:
        self.connect()
        return self

    def dial(self, deadline_s: float | None = None) -> None:
        """Open the connection; CONNECT is the caller's."""
        self.close()
        timeout_s = PATIENCE_S if deadline_s is None else deadline_s
        sock = socket.create_connection(("127.0.0.1", self._port), timeout_s, self._source)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.take_socket(sock if self._tls is None else self._tls.wrap_socket(sock, server_hostname="localhost"))

    def connect_without_waiting(self, deadline_s: float | None = None) -> None:
        """Open the connection and send CONNECT."""
        self.dial(deadline_s)
        self.send(self._greeting)

    def connect(self, deadline_s: float | None = None) -> Packet:
        """Open the connection, send CONNECT, and return the CONNACK; the caller looks at its reason code."""
        self.connect_without_waiting(deadline_s)
        self.connack = self.expect(CONNACK, deadline_s=deadline_s)
        return self.connack

    def disconnect(self, reason_code: int | None = None, properties: Sequence[tuple[int, Value]] | None = None) -> None:
        """DISCONNECT, and wait until the broker closes, so that it knows before the next step."""
        body = b"" if reason_code is None else bytes((reason_code,))
        self.send(packet_bytes(DISCONNECT, 0, body + (b"" if properties is None else encode_properties(properties))))
        if self._tls is None:
            self._connected().shutdown(socket.SHUT_WR)
        self.rest()
        self.close()

    # --- publishing ---

    def take_id(self) -> int:
        """A packet identifier for a PUBLISH that was not used yet."""
        self._next_id = self._next_id % 65_535 + 1
        return self._next_id

    def encode_publish(
        self,
        topic: str,
        payload: bytes | str,
        qos: int,
        packet_id: int | None = None,
        *,
        retain: bool = False,
        dup: bool = False,
        properties: Sequence[tuple[int, Value]] = (),
    ) -> bytes:
        """The bytes of a PUBLISH; without ``packet_id`` the next free one is taken."""
        if packet_id is None:
            packet_id = self.take_id() if qos else 0
        return publish_bytes(self.version, topic, payload, qos, packet_id, retain=retain, dup=dup, properties=properties)

    def publish(
        self,
        topic: str,
        payload: bytes | str,
        *,
        qos: int = 0,
        packet_id: int | None = None,
        retain: bool = False,
        dup: bool = False,
        properties: Sequence[tuple[int, Value]] = (),
    ) -> int:
        """Send a PUBLISH, do not wait, and return its packet identifier (0 at QoS 0)."""
        if packet_id is None:
            packet_id = self.take_id() if qos else 0
        self.send(self.encode_publish(topic, payload, qos, packet_id, retain=retain, dup=dup, properties=properties))
        return packet_id

    def publish_burst(self, topic: str, payloads: Sequence[str], qos: int) -> None:
        """Publish ``payloads`` at QoS 1 or 2 in one burst, and return when the node has acknowledged all."""
        self.send(*(self.encode_publish(topic, payload, qos) for payload in payloads))
        for _ in payloads:
            found = self.expect(PUBACK if qos == 1 else PUBREC)
            if qos == 2:
                self.acknowledge(PUBREL, found.packet_id)
        for _ in payloads if qos == 2 else ():
            self.expect(PUBCOMP)

    def deliver(
        self,
        topic: str,
        payload: bytes | str,
        qos: int = 0,
        *,
        retain: bool = False,
        properties: Sequence[tuple[int, Value]] = (),
    ) -> Packet | None:
        """PUBLISH and the whole exchange of its QoS; its PUBACK or PUBREC. PUBLISH packets that come meanwhile are held."""
        packet_id = self.publish(topic, payload, qos=qos, retain=retain, properties=properties)
        if qos == 0:
            return None
        first = self.answer(PUBACK if qos == 1 else PUBREC, packet_id)
        if qos == 2 and first.reason_code < 0x80:
            self.acknowledge(PUBREL, packet_id)
            self.answer(PUBCOMP, packet_id, 0)
        return first

    # --- subscribing ---

    def subscribe(
        self,
        *filters: str,
        qos: int = 0,
        options: int = 0,
        identifier: int = 0,
        properties: Sequence[tuple[int, Value]] = (),
    ) -> Packet:
        """SUBSCRIBE to ``filters``; the SUBACK. ``options`` are further bits of MQTT 5 (0x08: retain as published)."""
        of_all = [*properties, *([(SUBSCRIPTION_IDENTIFIER, identifier)] if identifier else [])]
        packet_id = self._request_id()
        self.send(subscribe_bytes(self.version, packet_id, [(one, qos | options) for one in filters], of_all))
        return (self.answer if self._holds else self.expect)(SUBACK, packet_id)

    def unsubscribe(self, *filters: str) -> Packet:
        """UNSUBSCRIBE from ``filters``; the UNSUBACK."""
        packet_id = self._request_id()
        self.send(unsubscribe_bytes(self.version, packet_id, filters))
        return (self.answer if self._holds else self.expect)(UNSUBACK, packet_id)

    def _request_id(self) -> int:
        """A packet identifier that no PUBLISH of a test comes to."""
        self._next_request_id = self._next_request_id - 1 or 65_000
        return self._next_request_id

    # --- other exchanges ---

    def ping(self) -> None:
        """PINGREQ, PINGRESP: the peer has read everything before it, and nothing else came."""
        self.send(packet_bytes(PINGREQ))
        self.expect(PINGRESP)

    def drain(self) -> list[Packet]:
        """PINGREQ; what came before the PINGRESP."""
        self.send(packet_bytes(PINGREQ))
        before = []
        while (found := self.read()).kind != PINGRESP:
            before.append(found)
        return before

    def complete(self, message: Packet) -> None:
        """Finish the exchange of a PUBLISH that came."""
        if message.qos == 1:
            self.acknowledge(PUBACK, message.packet_id)
        elif message.qos == 2:
            self.acknowledge(PUBREC, message.packet_id)
            self.answer(PUBREL, message.packet_id, 0)
            self.acknowledge(PUBCOMP, message.packet_id)

    def receive(self) -> Packet:
        """The next packet, which is a PUBLISH; its exchange is finished."""
        message = self.expect(PUBLISH)
        self.complete(message)
        return message

    def receive_until(self, payload: bytes) -> list[Packet]:
        """All messages up to the one with ``payload``, which is not among them; their exchanges are finished."""
        found: list[Packet] = []
        while (message := self.receive()).payload != payload:
            found.append(message)
        return found


# --- both ends of an exchange at any QoS ---


def take(client: MqttClient, count: int) -> list[Packet]:
    """The next ``count`` messages, each acknowledged to the end; several exchanges may be open at once."""
    messages: list[Packet] = []
    released: deque[int] = deque()
    while len(messages) < count or released:
        packet = client.read()
        assert packet.kind in (PUBLISH, PUBREL), packet
        if packet.kind == PUBREL:
            assert packet.packet_id == released.popleft(), "PUBREL leaves in the order of PUBREC"
            client.acknowledge(PUBCOMP, packet.packet_id)
            continue
        messages.append(packet)
        if packet.qos == 1:
            client.acknowledge(PUBACK, packet.packet_id)
        elif packet.qos == 2:
            client.acknowledge(PUBREC, packet.packet_id)
            released.append(packet.packet_id)
    return messages


def take_one(client: MqttClient) -> Packet:
    """The next message, acknowledged to the end."""
    return take(client, 1)[0]


def publish(client: MqttClient, topic: str, *payloads: str, qos: int = 0, retain: bool = False) -> None:
    """Publish each of ``payloads``; on return the node has taken them all, for good where ``qos`` is 1 or 2."""
    for payload in payloads:
        packet_id = client.publish(topic, payload, qos=qos, retain=retain)
        if qos == 1:
            client.expect(PUBACK, packet_id=packet_id)
        elif qos == 2:
            client.expect(PUBREC, packet_id=packet_id)
            client.acknowledge(PUBREL, packet_id)
            client.expect(PUBCOMP, packet_id=packet_id)
    client.ping()


def publish_once(port: int, topic: str, *payloads: str, qos: int = 1, retain: bool = False) -> None:
    """The same from a connection of its own."""
    with MqttClient(port, "publisher") as client:
        publish(client, topic, *payloads, qos=qos, retain=retain)
        client.disconnect()
