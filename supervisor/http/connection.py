"""One connection to the HTTP interface: uvicorn's protocol, with a time for each thing that its client may keep it waiting for.

A request has to be complete, and an answer to be read, within ``request_timeout_s``; between them a connection may wait for
``idle_timeout_s``. A client that sends a request before the answer to the one before it is not served further: the connection ends
after that answer. It ends after ``REQUESTS_MAX`` too, and for the sake of a newcomer, at the latest after the answer under way.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from supervisor.http.answers import MALFORMED
from supervisor.http.http_counts import HttpCounts
from supervisor.http.request_head import RequestHead
from wire.config_settings import HttpSettings

REQUESTS_MAX = 1000
_NUMBERS = count()


class HttpConnection(H11Protocol):
    """From its first byte to its end. number: later ones have a higher one. answered: how many requests."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        *,
        settings: HttpSettings,
        figures: HttpCounts,
    ) -> None:
        super().__init__(config, server_state, {})
        self._settings = settings
        self._figures = figures
        self._head = RequestHead()
        self._leaves = self.aborted = False
        self.number = next(_NUMBERS)
        self.answered = 0
        self._request_timer: asyncio.TimerHandle | None = None
        self._reading_timer: asyncio.TimerHandle | None = None

    # --- uvicorn and asyncio ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._figures.on_connections(len(self.connections))
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._got_request()
        self._on_read()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._figures.on_connections(len(self.connections))

    def data_received(self, data: bytes) -> None:
        if self._request_timer is None and self._idle:
            self._expect_request()
        if self._idle and not self._head.complete and not self._head.take(data):
            self._unset_keepalive_if_required()
            self.send_400_response("")
            return
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
        self.answered += 1
        self._head = RequestHead()
        if self._leaves or self.answered >= REQUESTS_MAX or self.conn.trailing_data[0]:
            self.transport.close()
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self._expect_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._on_read()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # uvicorn's name
        """Refuse what is no HTTP; after the beginning of an answer there is nothing left to say."""
        self._figures.refuse("malformed")
        if self._idle:
            self._figures.on_answered(400)
            self.transport.write(MALFORMED)
            self.transport.close()
            self._expect_reading()
        else:
            self.transport.abort()

    # --- for the server ---

    @property
    def address(self) -> str:
        """The address of its client."""
        return self.client[0] if self.client else ""

    @property
    def leaves(self) -> bool:
        """Whether it ends with the answer that is under way."""
        return self._leaves

    def give_way(self) -> None:
        """End it for the sake of a newcomer: after the answer that is under way, or now if there is none or it was asked before."""
        if self._idle or self._leaves:
            self.aborted = True
            self.transport.abort()
        self._leaves = True

    # --- inside ---

    @property
    def _idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _expect_request(self) -> None:
        self._request_timer = self._later("slow_request")

    def _got_request(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _expect_reading(self) -> None:
        if self._reading_timer is None:
            self._reading_timer = self._later("slow_reader")

    def _on_read(self) -> None:
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
