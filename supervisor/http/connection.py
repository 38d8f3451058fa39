"""One connection to the HTTP interface: uvicorn's protocol, with a time for each thing that its client may keep it waiting for.

A request has to be complete, and an answer to be read, within ``request_timeout_s``; between them a connection may wait for
``idle_timeout_s``. Whoever waits for a request is in ``waiting``, the longest first, and may be closed for the sake of a newcomer.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from supervisor.http.answers import MALFORMED
from supervisor.http.figures import HttpFigures
from wire.settings import HttpSettings


class HttpConnection(H11Protocol):
    """From its first byte to its end."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        *,
        settings: HttpSettings,
        figures: HttpFigures,
        waiting: dict[HttpConnection, None],
    ) -> None:
        super().__init__(config, server_state, {})
        self._settings = settings
        self._figures = figures
        self._waiting = waiting
        self._request_timer: asyncio.TimerHandle | None = None
        self._reading_timer: asyncio.TimerHandle | None = None

    # --- uvicorn and asyncio ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._figures.connections = len(self.connections)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._got_request()
        self._was_read()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._figures.connections = len(self.connections)

    def data_received(self, data: bytes) -> None:
        if self._request_timer is None and self._idle:
            self._expect_request()
        super().data_received(data)
        if not self._idle and not self.cycle.more_body:
            self._got_request()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether it stays open, because its client has said all and waits for the answer; TLS has no such half."""
        if self._idle or self.cycle.more_body or self.scheme == "https":
            return False
        self.cycle.keep_alive = False
        return True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self._expect_reading()
        if self._idle and not self.transport.is_closing():
            self._waiting[self] = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._was_read()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # uvicorn's name
        """Refuse what is no HTTP; after the beginning of an answer there is nothing left to say."""
        self._figures.refuse("malformed")
        if self._idle:
            self._figures.answered(400)
            self.transport.write(MALFORMED)
            self.transport.close()
            self._expect_reading()
        else:
            self.transport.abort()

    # --- for the server ---

    def give_way(self) -> None:
        """End it for the sake of a newcomer."""
        self.transport.abort()

    # --- inside ---

    @property
    def _idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _expect_request(self) -> None:
        self._waiting.setdefault(self, None)
        self._request_timer = self._later("slow_request")

    def _got_request(self) -> None:
        self._waiting.pop(self, None)
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _expect_reading(self) -> None:
        if self._reading_timer is None:
            self._reading_timer = self._later("slow_reader")

    def _was_read(self) -> None:
        if self._reading_timer is not None:
            self._reading_timer.cancel()
            self._reading_timer = None

    def _later(self, why: str) -> asyncio.TimerHandle:
        return self.loop.call_later(self._settings.request_timeout_s, self._too_slow, why)

    def _too_slow(self, why: str) -> Any:
        if why == "slow_reader" and not self.transport.get_write_buffer_size():
            self._reading_timer = None
            return
        self._figures.refuse(why)
        self.transport.abort()
