"""Ends TLS in front of a broker that speaks plain: Debian's Mosquitto does not offer secure WebSocket."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path
from types import TracebackType
from typing import Self


class TlsRelay:
    """Listens with ``certificate`` (and key) and passes everything on to ``port`` of 127.0.0.1, both ways."""

    def __init__(self, certificate: tuple[Path, Path], port: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(*certificate)
        self._target = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for one in (self._server, *self._sockets):
            one.close()

    def _serve(self) -> None:
        while True:
            try:
                accepted, _ = self._server.accept()
                near = self._context.wrap_socket(accepted, server_side=True)
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                if self._server.fileno() < 0:
                    return
                continue
            self._sockets += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)
        except (OSError, ValueError):
            sink.close()
