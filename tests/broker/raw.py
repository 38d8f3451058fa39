"""Byte for byte clients of a listener: plain, TLS and WebSocket, sharing no code with the product."""

from __future__ import annotations

import os
import socket
import ssl
import struct
from pathlib import Path
from typing import Self

from tests.support.mqtt_packets import connect_bytes, publish_bytes
from tests.support.waiting import PATIENCE_S

CONNECT_4 = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a"
CONNACK_4 = b"\x20\x02\x00\x00"
PINGREQ, PINGRESP = b"\xc0\x00", b"\xd0\x00"

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def connect_packet(client_id: str, level: int = 4, keep_alive_s: int = 0) -> bytes:
    """A CONNECT that starts clean."""
    return connect_bytes(level, client_id, keep_alive_s=keep_alive_s)


def publish_packet(topic: str, payload: bytes, packet_id: int, level: int = 4) -> bytes:
    """A PUBLISH at QoS 1."""
    return publish_bytes(level, topic, payload, 1, packet_id)


def client_context(ca_file: Path, pair: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """A client's TLS that trusts ``ca_file``."""
    context = ssl.create_default_context(cafile=str(ca_file))
    if pair is not None:
        context.load_cert_chain(*pair)
    return context


def dial(port: int, context: ssl.SSLContext | None = None) -> socket.socket:
    """A connection to ``port``, with TLS if there is a context."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock if context is None else context.wrap_socket(sock, server_hostname="localhost")


def read_exactly(sock: socket.socket, count: int) -> bytes:
    """The next ``count`` bytes; ConnectionError if there are fewer."""
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise ConnectionError(f"closed after {data!r}")
        data += more
    return data


def read_to_end(sock: socket.socket) -> bytes:
    """All that comes until the server closes."""
    data = b""
    try:
        while more := sock.recv(65_536):
            data += more
    except ConnectionResetError:
        pass
    return data


def upgrade_request(path: str = "/mqtt", protocol: str | None = "mqtt", *headers: str) -> bytes:
    """An HTTP request for a WebSocket."""
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
    lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", *headers]
    if protocol is not None:
        lines.append(f"Sec-WebSocket-Protocol: {protocol}")
    return "\r\n".join((*lines, "", "")).encode()


def frame(opcode: int, payload: bytes, *, final: bool = True, masked: bool = True, claimed: int | None = None) -> bytes:
    """One WebSocket frame of a client; ``claimed`` is another length than the payload's."""
    length = len(payload) if claimed is None else claimed
    head = bytes((opcode | (0x80 if final else 0),))
    mask_bit = 0x80 if masked else 0
    if length < 126:
        head += bytes((mask_bit | length,))
    elif length < 65_536:
        head += bytes((mask_bit | 126,)) + struct.pack("!H", length)
    else:
        head += bytes((mask_bit | 127,)) + struct.pack("!Q", length)
    if not masked:
        return head + payload
    key = os.urandom(4)
    return head + key + bytes(byte ^ key[index % 4] for index, byte in enumerate(payload))


class WebSocket:
    """An upgraded connection."""

    def __init__(self, sock: socket.socket, path: str = "/mqtt") -> None:
        self.sock = sock
        sock.sendall(upgrade_request(path))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += read_exactly(sock, 1)
        self.head = head.decode()
        assert self.head.startswith("HTTP/1.1 101 "), self.head

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.sock.close()

    def send(self, *frames: bytes) -> None:
        """Frames in one write."""
        self.sock.sendall(b"".join(frames))

    def read_frame(self) -> tuple[int, bytes]:
        """(opcode, payload) of the next frame, which is final and not masked."""
        first, length = read_exactly(self.sock, 2)
        assert first & 0xF0 == 0x80
        assert length < 128, "a server does not mask"
        if length == 126:
            (length,) = struct.unpack("!H", read_exactly(self.sock, 2))
        elif length == 127:
            (length,) = struct.unpack("!Q", read_exactly(self.sock, 8))
        return first & 0x0F, read_exactly(self.sock, length)

    def read_mqtt(self, count: int) -> bytes:
        """The next ``count`` bytes of MQTT."""
        data = b""
        while len(data) < count:
            opcode, payload = self.read_frame()
            assert opcode == BINARY
            data += payload
        assert len(data) == count
        return data

    def read_close(self) -> int:
        """The code of the close frame that comes now, and the end of the connection."""
        opcode, payload = self.read_frame()
        assert opcode == CLOSE, (opcode, payload)
        assert read_to_end(self.sock) == b""
        return int.from_bytes(payload[:2], "big")
