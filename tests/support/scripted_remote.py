"""A remote broker of which a test plays every packet: a listening socket and raw connections, nothing by itself."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

from tests.support.mqtt_client import CONNACK, CONNECT, PUBLISH, SUBACK, SUBSCRIBE, Closed, Packet, decode, string, variable
from tests.support.waiting import PATIENCE_S


class RemoteEnd:
    """One accepted connection, after its CONNECT was read."""

    def __init__(self, sock: socket.socket, version: int) -> None:
        self._socket = sock
        self._version = version
        self.connect_body = b""
        self._received = bytearray()
        sock.settimeout(PATIENCE_S)

    def raw(self, data: bytes) -> None:
        """Send bytes as given."""
        self._socket.sendall(data)

    def connack(self, *, session_present: bool, session_expiry_s: int | None = None, packet_max_bytes: int | None = None) -> None:
        """Let the client in. session_expiry_s: what the session has instead of what was asked for, at MQTT 5."""
        properties = b"" if session_expiry_s is None else b"\x11" + session_expiry_s.to_bytes(4, "big")
        properties += b"" if packet_max_bytes is None else b"\x27" + packet_max_bytes.to_bytes(4, "big")
        self._send(CONNACK, 0, bytes([session_present, 0]) + (bytes([len(properties)]) + properties if self._version == 5 else b""))

    def publish(self, topic: str, payload: str, *, qos: int, packet_id: int = 0, dup: bool = False) -> None:
        """Send a PUBLISH."""
        body = string(topic) + (packet_id.to_bytes(2, "big") if qos else b"") + (b"\x00" if self._version == 5 else b"")
        self._send(PUBLISH, (8 if dup else 0) | qos << 1, body + payload.encode())

    def acknowledge(self, kind: int, packet_id: int) -> None:
        """Send a PUBREL or the like."""
        self._send(kind, 2 if kind == 6 else 0, packet_id.to_bytes(2, "big"))

    def answer_subscribe(self, *codes: int) -> bytes:
        """Wait for SUBSCRIBE and send a SUBACK with ``codes``; the SUBSCRIBE's body."""
        kind, body = self.read_raw()
        assert kind >> 4 == SUBSCRIBE, f"expected SUBSCRIBE, got {kind:#x} {body!r}"
        self._send(SUBACK, 0, body[:2] + (b"\x00" if self._version == 5 else b"") + bytes(codes))
        return body

    def read(self) -> Packet:
        """The next packet."""
        head, body = self.read_raw()
        return decode(self._version, head, body)

    def read_raw(self) -> tuple[int, bytes]:
        """The next packet's first byte and body."""
        head = self.exactly(1)[0]
        length = shift = 0
        while True:
            byte = self.exactly(1)[0]
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return head, self.exactly(length)

    def exactly(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        while len(self._received) < count:
            data = self._socket.recv(65_536)
            if not data:
                raise Closed("closed by the client")
            self._received += data
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    def is_silent_for(self, period_s: float) -> bool:
        """Whether nothing comes within ``period_s``."""
        self._socket.settimeout(period_s)
        try:
            self._received += self.exactly(1)
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(PATIENCE_S)
        return False

    def close(self) -> None:
        """Close without a word."""
        self._socket.close()

    def _send(self, kind: int, flags: int, body: bytes) -> None:
        self.raw(bytes([kind << 4 | flags]) + variable(len(body)) + body)


class ScriptedRemote:
    """Listens on ``port``, any for 0; ``accept`` gives the next connection."""

    def __init__(self, version: int = 5, port: int = 0) -> None:
        self._version = version
        self._server = socket.create_server(("127.0.0.1", port))
        self._server.settimeout(PATIENCE_S)
        self.port: int = self._server.getsockname()[1]
        self._ends: list[RemoteEnd] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection, and listen no more."""
        for end in self._ends:
            end.close()
        self._server.close()

    def accept(
        self, *, session_present: bool = False, session_expiry_s: int | None = None, packet_max_bytes: int | None = None
    ) -> RemoteEnd:
        """The next connection, its CONNECT read and answered."""
        sock, _ = self._server.accept()
        end = RemoteEnd(sock, self._version)
        self._ends.append(end)
        head, end.connect_body = end.read_raw()
        assert head >> 4 == CONNECT, f"expected CONNECT, got {head:#x}"
        end.connack(session_present=session_present, session_expiry_s=session_expiry_s, packet_max_bytes=packet_max_bytes)
        return end
