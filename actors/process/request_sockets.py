"""Request sockets: who asks (``RequestConnections``), and who answers (``RequestRouter``). Both ends of the control socket.

A request is answered once or not at all. ZeroMQ connects again by itself and says nothing; its monitor does, so whoever asks is
told at once that nobody listens, that the answering end has gone, or that it does not take the asker's key.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import zmq

_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)  # plain numbers: an enum's "and" makes an enum
_SUN_PATH_MAX = 100  # sun_path holds 108 bytes; zmq and a temporary suffix want a few


def ipc_endpoint(path: Path) -> str:
    """The ZeroMQ address of the socket file ``path``, however long its folder's name is."""
    if len(os.fsencode(path)) <= _SUN_PATH_MAX:
        return f"ipc://{path}"
    return f"ipc:///proc/self/fd/{_folder(path.parent)}/{path.name}"


_folders: dict[Path, int] = {}


def _folder(path: Path) -> int:
    """A descriptor of the folder ``path``. It stays open, since addresses need it; one is enough while the folder is the same."""
    known = _folders.get(path)
    if known is None or not os.path.samestat(os.fstat(known), os.stat(path)):
        known = _folders[path] = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return known


def readable(socket: zmq.Socket[bytes]) -> bool:
    """Whether a message waits. ``getsockopt`` is a third of the price of the attribute, and this is asked once a message."""
    events: Any = socket.getsockopt(_EVENTS)  # zmq types every option as a number or text
    return bool(events & _POLLIN)


class RequestRouter:
    """The answering end of a request socket. A request's first parts say whom to answer, its last is what was asked."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket

    def requests(self) -> list[tuple[list[bytes], bytes]]:
        """Requests since the last call: (whom to answer, payload)."""
        requests = []
        while readable(self._socket):
            *whom, payload = self._socket.recv_multipart(zmq.NOBLOCK)
            requests.append((whom, payload))
        return requests

    def answer(self, whom: list[bytes], payload: bytes) -> None:
        """Answer a request; an asker that has gone gets nothing."""
        self._socket.send_multipart([*whom, payload], flags=zmq.NOBLOCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveKeys:
    """The keys of a request over the network: the asker's key pair, and the public key of the answering end. In Z85, 40
    characters."""

    public: str
    secret: str
    server: str


class Why(Enum):
    """Why there is no answer."""

    AWAY = "nobody listens there"
    ENDED = "the connection ended before there was an answer"
    REFUSED = "our key is not on the list of keys that are let in"
    NO_HANDSHAKE = "the far end does not speak as it should: another server key, or no control socket"
    LATE = "there was no answer in time"


class NoAnswer(Exception):
    """A request has no answer. Unless ``why`` is AWAY, REFUSED or NO_HANDSHAKE it may have been carried out."""

    def __init__(self, why: Why) -> None:
        super().__init__(why.value)
        self.why = why


_SUCCEEDED = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)
_DISCONNECTED = int(zmq.EVENT_DISCONNECTED)
_LOST = {
    int(zmq.EVENT_CONNECT_RETRIED): Why.AWAY,
    _DISCONNECTED: Why.ENDED,
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH): Why.REFUSED,
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): Why.NO_HANDSHAKE,
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): Why.NO_HANDSHAKE,
}


class RequestConnections:
    """Connections to one ``RequestRouter``: each request has one to itself, which the next one uses again. For any number of
    threads."""

    def __init__(self, endpoint: str, keys: CurveKeys | None = None) -> None:
        self._endpoint = endpoint
        self._keys = keys
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._idle: list[_Connection] = []
        self._lock = threading.Lock()

    def ask(self, payload: bytes, timeout_s: float) -> bytes:
        """Send ``payload`` and return its answer.

        Raises:
            NoAnswer: there is none, or not within ``timeout_s``.
        """
        connection = self._connection()
        answered = False
        try:
            answer = connection.ask(payload, timeout_s)
            answered = True
        finally:
            if not answered:  # its answer may still come, and is nobody's
                connection.close()
        with self._lock:
            self._idle.append(connection)
        return answer

    def close(self) -> None:
        """Close all; no request may be under way."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        self._context.term()

    def _connection(self) -> _Connection:
        while True:
            with self._lock:
                if not self._idle:
                    return _Connection(self._context, self._endpoint, self._keys)
                connection = self._idle.pop()
            if not connection.is_lost():
                return connection
            connection.close()


class _Connection:
    """One connection to a ``RequestRouter``, for one request at a time. After an error it is of no more use."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str, keys: CurveKeys | None) -> None:
        self._socket = context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        if keys is not None:
            self._socket.setsockopt(zmq.CURVE_SERVERKEY, keys.server.encode())
            self._socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public.encode())
            self._socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret.encode())
        self._monitor = self._socket.get_monitor_socket(sum(_LOST) | _SUCCEEDED)
        self._stands = False
        self._socket.connect(endpoint)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._monitor, zmq.POLLIN)

    def ask(self, payload: bytes, timeout_s: float) -> bytes:
        """As ``RequestConnections.ask``."""
        deadline_s = time.monotonic() + timeout_s
        self._socket.send(payload)
        while (left_s := deadline_s - time.monotonic()) > 0:
            ready = dict(self._poller.poll(round(left_s * 1000)))
            if self._socket in ready:
                return self._socket.recv()
            if self._monitor in ready:
                self._take_event()
        raise NoAnswer(Why.LATE)

    def is_lost(self) -> bool:
        """Whether it has been lost since the last answer."""
        try:
            while readable(self._monitor):
                self._take_event()
        except NoAnswer:
            return True
        return False

    def close(self) -> None:
        """Close it; what waits to be sent is dropped."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)

    def _take_event(self) -> None:
        """Take one event of the monitor; raises NoAnswer if the connection is lost by it."""
        head, *_ = self._monitor.recv_multipart(zmq.NOBLOCK)
        event, _ = struct.unpack("=Hi", head)
        if event == _SUCCEEDED:
            self._stands = True
        elif event == _DISCONNECTED and not self._stands:
            raise NoAnswer(Why.NO_HANDSHAKE)
        else:
            raise NoAnswer(_LOST[event])


def new_key_pair() -> tuple[str, str]:
    """A new pair of keys: (public, secret), in Z85. The public one looks like no option of a command."""
    while True:
        public, secret = zmq.curve_keypair()
        if not public.startswith(b"-"):
            return public.decode(), secret.decode()


def public_of(secret: str) -> str:
    """The public key of a secret one, both in Z85.

    Raises:
        ValueError: it is no key.
    """
    try:
        public: bytes = zmq.curve_public(secret.encode())
    except (zmq.ZMQError, ValueError) as error:
        raise ValueError("a key has 40 characters of Z85") from error
    return public.decode()
