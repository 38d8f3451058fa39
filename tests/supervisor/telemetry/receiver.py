"""A collector's port, for tests: takes what is sent by OTLP over HTTP, decodes it, and answers as it is told."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest, ExportMetricsServiceResponse

from tests.support.authority import Pair
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until


@dataclass(frozen=True, slots=True)
class Export:
    """One request. headers: their names in lower case."""

    path: str
    headers: dict[str, str]
    message: ExportMetricsServiceRequest

    @property
    def at_ns(self) -> int:
        """The time of the metrics, Unix time."""
        return max(
            int(point.time_unix_nano)
            for resource in self.message.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in (*metric.sum.data_points, *metric.gauge.data_points)
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request. late: only when the receiver closes."""

    status: int = 200
    body: bytes = ExportMetricsServiceResponse().SerializeToString()
    headers: dict[str, str] = field(default_factory=dict)
    late: bool = False


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that breaks off is what a test wants."""


class Receiver:
    """It can close and open again, at the same port."""

    def __init__(self, pair: Pair | None = None, clients_ca: Path | None = None) -> None:
        """pair: speak TLS, with that. clients_ca: let only those in who have a certificate of that authority."""
        self.port = free_port()
        self.answer = Answer()
        self.exports: list[Export] = []
        self._connections: set[socket.socket] = set()
        self._context: ssl.SSLContext | None = None
        if pair is not None:
            self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=clients_ca)
            self._context.load_cert_chain(pair.cert_file, pair.key_file)
            self._context.verify_mode = ssl.CERT_NONE if clients_ca is None else ssl.CERT_REQUIRED

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"{'http' if self._context is None else 'https'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def open(self) -> None:
        """Listen."""
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", self.port), self._handler())
        if self._context is not None:
            self._server.socket = self._context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        """Listen no more, and end all connections."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def next(self) -> Export:
        """Wait for an export of metrics from now on."""
        now_ns = time.time_ns()
        return (
            wait_until(
                lambda: next((export for export in list(self.exports) if export.at_ns > now_ns), None), PATIENCE_S, "an export"
            )
            or self.exports[-1]
        )

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver, closing = self, self._closing

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                receiver._connections.add(self.connection)

            def finish(self) -> None:
                receiver._connections.discard(self.connection)
                super().finish()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                plain = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
                receiver.exports.append(Export(self.path, headers, ExportMetricsServiceRequest.FromString(plain)))
                answer = receiver.answer
                if answer.late:
                    closing.wait(PATIENCE_S)
                self.send_response(answer.status)
                for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
                """Nobody reads it."""

        return Handler
