"""The demo's link: a TCP relay on loopback that can be cut and mended."""

from __future__ import annotations

import select
import socket
import threading
from typing import Self

_POLL_S = 0.02
_CHUNK_BYTES = 65_536


class Link:
    """Relays connections from ``port`` to ``target_port``, in one thread. While cut, it drops all and accepts none."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._peers: dict[socket.socket, socket.socket] = {}
        self._is_cut = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="link", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(5.0)

    def cut(self) -> None:
        """Drop every connection and refuse new ones."""
        self._is_cut.set()

    def mend(self) -> None:
        """Accept connections again."""
        self._is_cut.clear()

    def _work(self) -> None:
        while not self._ending.is_set():
            if self._is_cut.is_set():
                self._drop_all()
            for one in select.select([self._listener, *self._peers], [], [], _POLL_S)[0]:
                if one is self._listener:
                    self._accept()
                elif one in self._peers:
                    self._relay(one)
        self._drop_all()
        self._listener.close()

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        try:
            if self._is_cut.is_set():
                raise ConnectionRefusedError
            far = socket.create_connection(("127.0.0.1", self._target_port), 1.0)
        except OSError:
            near.close()
            return
        self._peers[near], self._peers[far] = far, near

    def _relay(self, one: socket.socket) -> None:
        try:
            data = one.recv(_CHUNK_BYTES)
            if data:
                self._peers[one].sendall(data)
                return
        except OSError:
            pass  # either end has gone: so does the other
        self._drop(one)

    def _drop(self, one: socket.socket) -> None:
        other = self._peers.pop(one)
        del self._peers[other]
        one.close()
        other.close()

    def _drop_all(self) -> None:
        while self._peers:
            self._drop(next(iter(self._peers)))
