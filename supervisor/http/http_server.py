"""The actor of the HTTP interface: has its address, runs the server in a thread, and ends this process when that hangs.

The process's own thread beats to the supervisor as every process's does. The server's event loop is asked as often whether it is
alive, and a loop that does not answer for ``heartbeat_timeout`` ends the process, which is started again.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from actors.access.listening_sockets import tcp_refusal, tcp_socket
from actors.process.actor import MailboxActor
from actors.process.mailbox import Mailbox
from supervisor.http.http_counts import HttpCounts
from wire.backoff import Backoff
from wire.config_settings import HttpSettings, NodeSettings
from wire.errors import BasculeError, ConfigError, Unavailable
from wire.frames.frame import Frame
from wire.status.node_status import HttpFigures

log = logging.getLogger("bascule")

OPEN_TIMER, PROBE_TIMER = "open", "probe"
LISTEN_BACKLOG = 128
_REMEDY = "it is tried again and again; free the address, or change http.bind"


class LoopHangs(BasculeError):
    """The server's event loop does not answer."""


@dataclass(frozen=True, slots=True)
class Serves:
    """Server's thread -> actor: it serves. ask: has the loop call something, from any thread; stop: ends it in good order."""

    ask: Callable[[Callable[[], None]], None]
    stop: Callable[[], None]


@dataclass(frozen=True, slots=True)
class ServerEnded:
    """Server's thread -> actor: it has ended. fault: what ended it, if it was not told to."""

    fault: Unavailable | None = None


class HttpServer(MailboxActor):
    """One a node. While the address cannot be had it is tried again, as the Listener does; the node does without meanwhile."""

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> None:
        super().__init__(mailbox, settings, epoch)
        if settings.http is None:
            raise ConfigError("the configuration has no http")
        self._http: HttpSettings = settings.http
        self._figures = HttpCounts()
        self._backoff = Backoff(settings.supervision.restart_backoff, mailbox.random)
        self._refusal = ""
        self._bind = ""
        self._serves: Serves | None = None
        self._answered_s = 0.0

    # --- life ---

    def on_start(self) -> None:
        super().on_start()
        self._open()

    def on_timer(self, name: str, now_s: float) -> None:
        match name:
            case "open" if self.state == "starting":
                self._open()
            case "probe":
                self._probe(now_s)

    def on_thread_message(self, message: Any) -> None:
        match message:
            case Serves():
                self._serves = message
                self._answered_s = self.mailbox.now_s()
                self._probe(self._answered_s)
                if self.state == "stopping":
                    message.stop()
                else:
                    self.ready()
                    log.info("http.opened", extra={"bind": self._bind, "tls": self._http.tls is not None})
            case ServerEnded() if self.state == "stopping":
                self.on_finished()
            case ServerEnded():
                raise message.fault or BasculeError("the HTTP server has ended by itself")

    def on_stopping(self) -> None:
        if self._serves is not None:
            self._serves.stop()
        elif not self._bind:
            self.on_finished()

    def on_frame(self, frame: Frame) -> None:
        log.error("frame.refused", extra={"actor": self.name, "error": "no frame comes here", "kind": frame.KIND})

    def status(self) -> HttpFigures:
        return self._figures.figures(error=self._refusal, bind=self._bind or self._http.bind, tls=self._http.tls is not None)

    # --- inside ---

    def _open(self) -> None:
        try:
            sock = tcp_socket(self._http.host, self._http.port)
            try:
                sock.listen(LISTEN_BACKLOG)
            except OSError:
                sock.close()
                raise
        except OSError as error:
            self._on_open_failed(tcp_refusal(self._http.host, self._http.port, error))
            return
        self._refusal = ""
        host, port, *_ = sock.getsockname()
        self._bind = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.mailbox.in_thread("http", lambda: self._serve(sock))

    def _on_open_failed(self, refusal: Unavailable) -> None:
        if self._refusal != str(refusal):
            self._refusal = str(refusal)
            log.error("http.unavailable", extra={"error": self._refusal, "remedy": _REMEDY})
        self.mailbox.set_timer(OPEN_TIMER, self.mailbox.now_s() + self._backoff.next_delay_s())

    def _serve(self, sock: socket.socket) -> None:
        """The server's thread."""
        fault: Unavailable | None = None
        try:
            from supervisor.http.limited_server import serve  # its libraries take a second, in which the process beats

            serve(sock, self.settings, self._http, self._figures, lambda ask, stop: self.send_from_thread(Serves(ask, stop)))
        except Unavailable as error:
            fault = error
        finally:
            self.send_from_thread(ServerEnded(fault))

    def _probe(self, now_s: float) -> None:
        assert self._serves is not None
        if now_s - self._answered_s > self.settings.supervision.heartbeat_timeout_s:
            raise LoopHangs("the HTTP server's event loop does not answer", silent_s=round(now_s - self._answered_s, 3))
        self._serves.ask(self._on_answered)
        self.mailbox.set_timer(PROBE_TIMER, now_s + self.settings.supervision.heartbeat_period_s)

    def _on_answered(self) -> None:
        """In the server's thread."""
        self._answered_s = self.mailbox.now_s()
