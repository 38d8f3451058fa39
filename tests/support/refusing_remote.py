"""A remote broker in the test's own hands: it takes MQTT 5 bridges, keeps their sessions, and refuses or withholds as it is told.

It shares no code with the product. As a receiver of QoS 2 it swallows a PUBLISH whose packet identifier it still holds, so that a
bridge which takes an identifier twice loses a message here.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.support.mqtt_client import (
    CONNACK,
    CONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    Packet,
    decode,
    variable,
)

_VERSION = 5


class FakeRemote:
    """Serves on a free port, each connection in a thread of its own.

    refuse: the reason code for a topic, 0 to accept. withhold: record PUBLISHes and do not answer them.
    """

    def __init__(self, refuse: Callable[[str], int] = lambda _: 0) -> None:
        self.refuse = refuse
        self.withhold = False
        self.cleans: list[bool] = []  # Clean Start of each CONNECT
        self._sessions: dict[str, set[int]] = {}
        self._arrived: list[Packet] = []
        self._seen = 0
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name="fake-remote", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._listener.close()
        self.cut()

    @property
    def payloads(self) -> list[str]:
        """What was accepted so far, in order."""
        with self._lock:
            return [packet.payload.decode() for packet in self._arrived]

    @property
    def seen(self) -> int:
        """How many PUBLISHes came, whatever became of them."""
        with self._lock:
            return self._seen

    def cut(self) -> None:
        """Close every connection; the sessions stay."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it ended meanwhile

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        held: set[int] = set()
        buffer = b""
        try:
            with connection:
                while data := connection.recv(65_536):
                    buffer += data
                    while (cut := _split(buffer)) is not None:
                        head, body, buffer = cut
                        if head >> 4 == CONNECT:
                            held = self._connected(connection, body)
                        else:
                            self._answer(connection, held, decode(_VERSION, head, body))
        except OSError:
            return
        finally:
            with self._lock:
                self._connections.discard(connection)

    def _connected(self, connection: socket.socket, body: bytes) -> set[int]:
        clean = bool(body[7] & 0b10)
        length, client_id = body[10], body[11 + body[10] :]
        assert length < 128, "few properties"
        name = client_id[2 : 2 + struct.unpack("!H", client_id[:2])[0]].decode()
        with self._lock:
            self.cleans.append(clean)
            present = name in self._sessions and not clean
            if not present:
                self._sessions[name] = set()
            held = self._sessions[name]
        connection.sendall(bytes([CONNACK << 4, 3, present, 0, 0]))
        return held

    def _answer(self, connection: socket.socket, held: set[int], packet: Packet) -> None:
        if packet.kind == PUBLISH:
            code = self.refuse(packet.topic)
            with self._lock:
                self._seen += 1
                known = packet.qos == 2 and packet.packet_id in held
                if not known and code < 0x80:
                    self._arrived.append(packet)
                    if packet.qos == 2:
                        held.add(packet.packet_id)
            if packet.qos and not self.withhold:
                _send(connection, PUBACK if packet.qos == 1 else PUBREC, packet.packet_id, code)
        elif packet.kind == PUBREL:
            with self._lock:
                held.discard(packet.packet_id)
            _send(connection, PUBCOMP, packet.packet_id, 0)
        elif packet.kind == PINGREQ:
            connection.sendall(bytes([PINGRESP << 4, 0]))


def _send(connection: socket.socket, kind: int, packet_id: int, code: int) -> None:
    connection.sendall(bytes([kind << 4, 3]) + struct.pack("!HB", packet_id, code))


def _split(buffer: bytes) -> tuple[int, bytes, bytes] | None:
    """The first packet's head and body and what is behind it; None while it is not whole."""
    length = shift = 0
    for at in range(1, min(len(buffer), 5)):
        length |= (buffer[at] & 127) << shift
        shift += 7
        if not buffer[at] & 128:
            start = at + 1
            assert variable(length) == buffer[1:start], "the shortest form"
            return (buffer[0], buffer[start : start + length], buffer[start + length :]) if len(buffer) >= start + length else None
    return None
