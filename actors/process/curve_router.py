"""The answering end of a request socket on the network: encrypted by CURVE, and only for askers whose key is let in.

ZeroMQ asks for each handshake whether the key may come in (ZAP, its RFC 27), and tells of each connection (its monitor). Both come
as messages, which the process's one loop takes with all else; there is no thread of our own. Its sockets are in a context of their
own, so that a flood of handshakes takes nothing from the frames between the processes.

It says for each request whose key it came with. A client whose key was taken off the list since may still be connected: the
request's reader looks the key up again.
"""

from __future__ import annotations

import contextlib
import os
import socket as sockets
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import zmq
from zmq.utils import z85

from actors.process.request_sockets import readable

REQUEST_MAX_BYTES = 1 << 20  # of a larger one the connection is closed
REQUESTS_PER_TURN_MAX = 64
EVENTS_PER_TURN_MAX = 1024
_WAITING_MAX = 4  # requests of one asker that are read ahead
_ANSWERS_MAX = 64  # answers that wait for one asker; more are dropped
_DOMAIN, _ZAP = b"control", "inproc://zeromq.zap.01"
_ACCEPTED, _DISCONNECTED = int(zmq.EVENT_ACCEPTED), int(zmq.EVENT_DISCONNECTED)
_SUCCEEDED = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)

Asked = tuple[list[bytes], str, bytes]  # whom to answer, whose key, what was asked


@dataclass(slots=True)
class Connected:
    """The connections of a socket, as its monitor tells of them. Pure. It does not say which one's handshake has succeeded.

    refused: how many were not let in, by reason: ``key`` (not on the list), ``too_many``, ``handshake`` (no CURVE, another server
    key, nonsense, or nothing in time).
    """

    connections_max: int
    handshake_timeout_s: float
    refused: dict[str, int] = field(default_factory=lambda: {"key": 0, "handshake": 0, "too_many": 0})
    _since_s: dict[int, float] = field(default_factory=dict)
    _accepted: int = 0
    _succeeded: int = 0

    def __len__(self) -> int:
        return len(self._since_s)

    def on_accepted(self, fd: int, now_s: float) -> bool:
        """There is a connection more; whether it may stay."""
        self._accepted += 1
        self._since_s[fd] = now_s
        if len(self._since_s) <= self.connections_max:
            return True
        self.refused["too_many"] += 1
        return False

    def on_succeeded(self) -> None:
        """The handshake of one has succeeded."""
        self._succeeded += 1

    def on_ended(self, fd: int) -> None:
        """One has ended."""
        self._since_s.pop(fd, None)

    def count(self, now_s: float) -> None:
        """Bring ``handshake`` up to date: all that came and did not get in, but for those who may be about to."""
        young = sum(since_s + self.handshake_timeout_s > now_s for since_s in self._since_s.values())
        failed = self._accepted - self._succeeded - self.refused["key"] - self.refused["too_many"] - young
        self.refused["handshake"] = max(self.refused["handshake"], failed)


class CurveRouter:
    """One such socket. ``sockets`` are those to be watched; ``work`` takes what has come to any of them."""

    def __init__(self, endpoint: str, secret: str, *, connections_max: int, handshake_timeout_s: float) -> None:
        """Bind to ``endpoint``, such as ``tcp://0.0.0.0:7000``; secret: the node's own key, in Z85.

        Raises:
            OSError: it cannot be bound.
        """
        self.connected = Connected(connections_max, handshake_timeout_s)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._door = self._context.socket(zmq.ROUTER)
        self._router = self._context.socket(zmq.ROUTER)
        self._monitor = self._router.get_monitor_socket(_ACCEPTED | _SUCCEEDED | _DISCONNECTED)
        self.sockets = (self._door, self._router, self._monitor)
        options: dict[int, int | bytes] = {
            zmq.CURVE_SERVER: 1,
            zmq.CURVE_SECRETKEY: secret.encode(),
            zmq.ZAP_DOMAIN: _DOMAIN,
            zmq.ZAP_ENFORCE_DOMAIN: 1,
            zmq.IPV6: int("[" in endpoint),
            zmq.MAXMSGSIZE: REQUEST_MAX_BYTES,
            zmq.HANDSHAKE_IVL: round(handshake_timeout_s * 1000),
            zmq.RCVHWM: _WAITING_MAX,
            zmq.SNDHWM: _ANSWERS_MAX,
            zmq.LINGER: 200,
            zmq.TCP_KEEPALIVE: 1,
        }
        try:
            for name, value in options.items():
                self._router.setsockopt(name, value)
            self._door.bind(_ZAP)  # before anybody can come
            self._router.bind(endpoint)
        except zmq.ZMQError as error:
            self.close()
            raise OSError(error.errno, os.strerror(error.errno or 0)) from error
        bound = self._router.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(bound, bytes)
        self.endpoint = bound.rstrip(b"\0").decode()
        self._port = int(self.endpoint.rpartition(":")[2])

    def work(self, is_allowed: Callable[[str], bool], now_s: float) -> list[Asked]:
        """Let in who shows a key that ``is_allowed``, count who comes and goes, and return what was asked."""
        while readable(self._door):
            self._judge(self._door.recv_multipart(zmq.NOBLOCK), is_allowed)
        for _ in range(EVENTS_PER_TURN_MAX):
            if not readable(self._monitor):
                break
            self._note(self._monitor.recv_multipart(zmq.NOBLOCK), now_s)
        asked: list[Asked] = []
        while len(asked) < REQUESTS_PER_TURN_MAX and readable(self._router):
            *whom, payload = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
            asked.append(([part.bytes for part in whom], _key_of(payload), payload.bytes))
        return asked

    def answer(self, whom: list[bytes], payload: bytes) -> None:
        """Answer a request; an asker that has gone, or does not read, gets nothing."""
        with contextlib.suppress(zmq.Again):
            self._router.send_multipart([*whom, payload], flags=zmq.NOBLOCK)

    def close(self) -> None:
        """Close it, with all connections; answers on their way have a moment."""
        self._router.disable_monitor()
        self._monitor.close(0)
        self._router.close()
        self._door.close(0)
        self._context.term()

    def _judge(self, request: list[bytes], is_allowed: Callable[[str], bool]) -> None:
        """Answer one question of ZAP: route, version, number, domain, address, identity, mechanism, key."""
        *route, version, number, _, _, _, mechanism, credential = request
        key = z85.encode(credential).decode() if mechanism == b"CURVE" and len(credential) == 32 else ""
        let_in = bool(key) and is_allowed(key)
        if not let_in:
            self.connected.refused["key"] += 1
        status = [b"200", b"", key.encode(), b""] if let_in else [b"400", b"the key is not on the list", b"", b""]
        self._door.send_multipart([*route, version, number, *status], flags=zmq.NOBLOCK)

    def _note(self, message: list[bytes], now_s: float) -> None:
        event, value = struct.unpack("=Hi", message[0])
        if event == _ACCEPTED:
            if not self.connected.on_accepted(value, now_s):
                self._shut(value)
        elif event == _SUCCEEDED:
            self.connected.on_succeeded()
        else:
            self.connected.on_ended(value)

    def _shut(self, fd: int) -> None:
        """Shut a connection of ours, which ZeroMQ then closes. It may have done so by now, and ``fd`` be something else."""
        with contextlib.suppress(OSError), sockets.socket(fileno=os.dup(fd)) as connection:
            if connection.getsockname()[1] == self._port and connection.getpeername():
                connection.shutdown(sockets.SHUT_RDWR)


def _key_of(frame: zmq.Frame) -> str:
    """The key that ``_judge`` has let in; empty if it has not."""
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:
        return ""
