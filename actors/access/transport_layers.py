"""Transport layers between a local client's socket and MQTT, where that is not plain TCP: TLS below, WebSocket above.

A plain client is ``actors/access/client.py``'s ``Client`` and knows nothing of this. TLS is ``actors/system/tls.py``'s, WebSocket
``actors/access/websocket_layer.py``'s.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Protocol

from actors.access.client import Client
from actors.process.mailbox import PollGroup
from actors.system.receive_buffer import RECEIVE_BYTES

ANSWERS_MAX_BYTES = 256 * 1024  # unread output beyond which what asks for answers of a layer's own (PING, key update) is not borne


class Layer(Protocol):
    """One layer of one connection. It sees all bytes and no socket.

    established: its handshake is over. ended: why nothing more comes from it, empty while something may. failed: whether that
    was the client's fault. certificate_user: the user name that the client's certificate gives. held_bytes: what it was given and
    has not passed on, because it is not whole.
    """

    established: bool
    ended: str
    failed: bool
    certificate_user: str | None

    @property
    def held_bytes(self) -> int: ...

    def receive(self, data: bytes) -> bytes:
        """The bytes for the layer above that ``data`` from below carries; empty for nothing yet."""
        ...

    def send(self, data: bytes) -> bytes:
        """``data`` from above as the layer below is to carry it."""
        ...

    def answer(self) -> bytes:
        """The layer's own output, for the layer below."""
        ...

    def goodbye(self) -> bytes:
        """How the layer ends, for the layer below."""
        ...


class HandshakeTurn:
    """How many steps of handshakes are left in this turn: each costs up to a millisecond, in which nobody else is served."""

    STEPS = 16

    def __init__(self) -> None:
        self.left = self.STEPS

    def begin(self) -> None:
        """A new turn."""
        self.left = self.STEPS


class LayeredClient(Client):
    """A client over ``layers``, the lowest first. Input is read through all of them, so a silence holds for all."""

    __slots__ = ("_established", "_layers", "_turn", "failed")

    def __init__(
        self,
        sock: socket.socket,
        address: str,
        number: int,
        group: PollGroup,
        now_s: float,
        *,
        layers: Sequence[Layer],
        turn: HandshakeTurn,
    ) -> None:
        super().__init__(sock, address, number, group, now_s)
        self._layers = tuple(layers)
        self._turn = turn
        self._established = False
        self.failed = False

    def receive(self, bytes_max: int = RECEIVE_BYTES) -> bytes | None:
        """The client's bytes of MQTT; a handshake goes on inside and is empty. None when it is gone, ``fault`` says why."""
        if not self._established:
            if not self._turn.left:
                return b""
            self._turn.left -= 1
        data = super().receive(bytes_max)
        if not data:
            return data
        for depth, layer in enumerate(self._layers):
            data = layer.receive(data)
            answer = layer.answer()
            if answer and not self._answer(answer, depth):
                return None
            if layer.ended:
                self.fault, self.failed = layer.ended, layer.failed
                break
            if not data:
                break
        if self.fault:
            return self._last(data)
        if not self._established and all(layer.established for layer in self._layers):
            self._established = True
            self.certificate_user = self._layers[0].certificate_user or self.certificate_user
        return data

    def _last(self, data: bytes) -> bytes | None:
        """Bytes that came with the end are handled first; the socket then reads as ended."""
        if not data or not self._established or self.failed:
            return None
        try:
            self._sock.shutdown(socket.SHUT_RD)
        except OSError:  # the client has ended it itself
            pass
        return data

    def _answer(self, data: bytes, depth: int) -> bool:
        for layer in reversed(self._layers[:depth]):
            data = layer.send(data)
        if self.output_bytes > ANSWERS_MAX_BYTES:
            self.fault = "output_limit"
            return False
        return super().write(data)

    @property
    def under_way_bytes(self) -> int:
        """The bytes of a packet that is not whole, in MQTT or below."""
        return super().under_way_bytes + sum(layer.held_bytes for layer in self._layers)

    def write(self, data: bytes) -> bool:
        """Send ``data`` through the layers, as one message of each; False when the client is gone."""
        if not data:
            return True
        for layer in reversed(self._layers):
            data = layer.send(data)
        return super().write(data)

    def part(self) -> tuple[socket.socket, bytearray]:
        """Say goodbye in each layer, unless the client is gone, and leave the socket to who closes it."""
        if not self.closed and not self.gone:
            goodbye = b""
            for layer in reversed(self._layers):
                goodbye = (layer.send(goodbye) if goodbye else b"") + layer.goodbye()
            if goodbye:
                super().write(goodbye)
        return super().part()
