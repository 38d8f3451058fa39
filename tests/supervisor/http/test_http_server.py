"""The actor of the HTTP interface: it tells a server that hangs from one that works."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from actors.process.mailbox import Mailbox
from supervisor.http.http_server import PROBE_TIMER, HttpServer, LoopHangs, ServerEnded, Serves
from tests.supervisor.tree_double import FakeMailbox
from tests.support.settings import HTTP, node
from wire.errors import BasculeError, Unavailable


class Server:
    """A server whose loop answers while ``works``."""

    def __init__(self) -> None:
        self.fake = FakeMailbox()
        settings = node(http=HTTP)
        self.timeout_s = settings.supervision.heartbeat_timeout_s
        self.actor = HttpServer(cast(Mailbox, self.fake), settings, 1)
        self.works, self.stopped = True, False
        self.actor.on_thread_message(Serves(self._ask, self._stop))

    def _ask(self, what: Callable[[], None]) -> None:
        if self.works:
            what()

    def _stop(self) -> None:
        self.stopped = True

    def pass_time(self, seconds: float) -> None:
        """The probe's timer runs out when it is time."""
        end_s = self.fake.time_s + seconds
        while self.fake.timers[PROBE_TIMER] <= end_s:
            self.fake.time_s = self.fake.timers[PROBE_TIMER]
            self.actor.on_timer(PROBE_TIMER, self.fake.time_s)


def test_a_loop_that_works_is_asked_for_ever_and_one_that_hangs_ends_the_process() -> None:
    server = Server()
    assert server.actor.state == "ready"
    server.pass_time(5 * server.timeout_s)

    server.works = False
    server.pass_time(0.9 * server.timeout_s)
    with pytest.raises(LoopHangs):
        server.pass_time(server.timeout_s)


def test_a_server_that_ends_unasked_ends_the_process_with_its_reason() -> None:
    server = Server()
    with pytest.raises(BasculeError):
        server.actor.on_thread_message(ServerEnded())
    with pytest.raises(Unavailable, match="key_file"):
        server.actor.on_thread_message(ServerEnded(Unavailable("key_file is gone")))

    server.actor.state = "stopping"
    server.actor.on_stopping()
    assert server.stopped
