"""The server: uvicorn over one socket, with limits on how many connections there are and how long each may keep it waiting.

It accepts by itself, because of those limits; requests and answers are uvicorn's.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn

from actors.system.certificates import CHECK_PERIOD_S
from actors.system.tls import Certificates
from supervisor.http.app import make_app
from supervisor.http.connection import HttpConnection
from supervisor.http.front import Front
from supervisor.http.http_counts import HttpCounts
from supervisor.http.request_head import HEAD_MAX_BYTES
from wire.config_settings import HttpSettings, NodeSettings

ACCEPT_PAUSE_S = 1.0
STOP_TIMEOUT_S = 2  # for answers that are under way when the node stops

Started = Callable[[Callable[[Callable[[], None]], None], Callable[[], None]], object]


def serve(sock: socket.socket, node: NodeSettings, settings: HttpSettings, figures: HttpCounts, started: Started) -> None:
    """Serve on ``sock``, which listens, until told to stop. started: told how to ask the loop, and how to stop it.

    Raises:
        Unavailable: the certificate or the key cannot be used.
    """
    sock.setblocking(False)
    errors = logging.getLogger("uvicorn.error")
    errors.setLevel(logging.ERROR)  # it warns of each request that is none
    errors.addFilter(OncePerMinute())
    certificates = None if settings.tls is None else Certificates(settings.tls, settings.bind, "http/1.1")
    if certificates is not None:
        certificates.warn_of_dates(time.strftime("%Y%m%d%H%M%SZ", time.gmtime()))
    config = uvicorn.Config(
        Front(make_app(Path(node.run_dir), settings, figures), settings, figures),
        http=HttpConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=max(1, round(settings.idle_timeout_s)),
        timeout_graceful_shutdown=STOP_TIMEOUT_S,
        h11_max_incomplete_event_size=HEAD_MAX_BYTES,
    )
    asyncio.run(LimitedServer(config, settings, figures, certificates).run_on(sock, started))


class OncePerMinute(logging.Filter):
    """Lets one record a minute pass: whoever has found a bug of ours may ask for it again and again."""

    def __init__(self) -> None:
        super().__init__()
        self._next_s = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002  # logging's name
        """Whether ``record`` is logged."""
        now_s = time.monotonic()
        passes = now_s >= self._next_s
        if passes:
            self._next_s = now_s + 60.0
        return passes


class LimitedServer(uvicorn.Server):
    """One socket, at most ``connections_max`` connections."""

    def __init__(
        self, config: uvicorn.Config, settings: HttpSettings, figures: HttpCounts, certificates: Certificates | None
    ) -> None:
        super().__init__(config)
        self._settings = settings
        self._figures = figures
        self._certificates = certificates
        self._beginning: dict[asyncio.Task[None], str] = {}  # those that shake hands, with their addresses
        self._told_to_stop = asyncio.Event()
        self._started: Callable[[], object] = lambda: None

    async def run_on(self, sock: socket.socket, started: Started) -> None:
        """Serve until told to stop."""
        loop = asyncio.get_running_loop()

        def ask(what: Callable[[], None]) -> None:
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(what)

        self._socket = sock
        self._started = lambda: started(ask, lambda: ask(self._told_to_stop.set))
        await self._serve()

    # --- uvicorn ---

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002  # uvicorn's name
        await self.lifespan.startup()
        await self.on_tick(0)
        self.servers = []
        self._accepting = asyncio.create_task(self._accept())
        self.started = True
        self._started()

    async def main_loop(self) -> None:
        while not self._told_to_stop.is_set():
            await self.on_tick(0)
            if self._certificates is not None:
                self._certificates.reload()
            if self._accepting.done():
                self._accepting.result()  # raises what ended it
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told_to_stop.wait(), CHECK_PERIOD_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002  # uvicorn's name
        self._accepting.cancel()
        self._socket.close()
        for task in list(self._beginning):
            task.cancel()
        await super().shutdown()

    # --- connections ---

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, (address, *_) = await loop.sock_accept(self._socket)
            except ConnectionAbortedError:
                continue
            except OSError:  # no descriptor, no memory: it would be so again at once
                self._figures.refuse("system")
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            self._figures.on_accepted()
            self._make_room()
            task = loop.create_task(self._begin(sock))
            self._beginning[task] = address
            task.add_done_callback(lambda task: self._beginning.pop(task, None))

    def _make_room(self) -> None:
        """Let one more come: where there are ``connections_max``, one of the address that has most gives way.

        There, those that were answered before go first, and among them the oldest. So an address with few connections is always let
        in, and of another one who asks for the first time. One that is being answered ends after its answer: for so long there are
        more than ``connections_max``, at most twice as many.
        """
        limit, open_now = self._settings.connections_max, self._connections()
        staying = [each for each in open_now if not each.leaves]
        if len(open_now) + len(self._beginning) >= 2 * limit:
            self._give_way(open_now, lambda each: (not each.leaves, each.number))
        elif len(staying) + len(self._beginning) >= limit:
            self._give_way(staying, lambda each: (not each.answered, each.number))

    def _give_way(self, connections: list[HttpConnection], order: Callable[[HttpConnection], tuple[bool, int]]) -> None:
        """The first by ``order`` of the address that has most of ``connections`` and of those that shake hands."""
        self._figures.refuse("gave_way")
        crowds = Counter([each.address for each in connections]) + Counter(self._beginning.values())
        crowded = max(crowds, key=crowds.__getitem__)
        if of_crowd := [each for each in connections if each.address == crowded]:
            min(of_crowd, key=order).give_way()
            return
        task = next(task for task, address in self._beginning.items() if address == crowded)
        del self._beginning[task]
        task.cancel()

    def _connections(self) -> list[HttpConnection]:
        return [each for each in self.server_state.connections if isinstance(each, HttpConnection) and not each.aborted]

    async def _begin(self, sock: socket.socket) -> None:
        """Shake hands, if that is to be done."""
        loop = asyncio.get_running_loop()
        context = None if self._certificates is None else self._certificates.context
        timeouts = (
            {}
            if context is None
            else dict.fromkeys(("ssl_handshake_timeout", "ssl_shutdown_timeout"), self._settings.request_timeout_s)
        )
        try:
            await loop.connect_accepted_socket(self._protocol, sock, ssl=context, **timeouts)
        except (OSError, ssl.SSLError, ssl.CertificateError):
            self._figures.refuse("handshake")

    def _protocol(self) -> asyncio.Protocol:
        return HttpConnection(self.config, self.server_state, settings=self._settings, figures=self._figures)
