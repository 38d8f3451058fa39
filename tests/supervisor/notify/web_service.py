"""A web service on loopback that takes notices, and can be away."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any, Self

from tests.support.waiting import PATIENCE_S


class WebService:
    """``answer``: the status that it answers with. ``taken``: what came, the oldest first, with its headers."""

    def __init__(self) -> None:
        self.answer = 200
        self.taken: Queue[tuple[Any, dict[str, str]]] = Queue()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if service.answer == 200:
                    service.taken.put((body, {name.lower(): value for name, value in self.headers.items()}))
                self.send_response(service.answer)
                self.send_header("location", service.url)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/secret-path"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def next(self) -> Any:
        """The next notice."""
        return self.taken.get(timeout=PATIENCE_S)[0]
