"""A client that only stays connected costs little memory."""

from __future__ import annotations

import gc
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from actors.access.client import Client
from actors.broker.client_deliveries import REST_S, Deliveries
from actors.broker.local_routing import LocalRouting
from actors.process.local_messages import SessionDown
from actors.process.mailbox import PollGroup
from tests.supervisor.settings import node_settings
from tests.wire.exchange.test_client_outbox import batch, kept, outbox, puback
from wire.config_settings import SettingsNow
from wire.exchange.client_outbox import ClientOutbox
from wire.exchange.receiver import ReceiverHalf
from wire.exchange.subscriber_copies import Parcel

CLIENTS = 100
BYTES_MAX = 2_500


def bytes_of_each(make: Callable[[int], object]) -> float:
    """The size of each of some that are made; the first has what is made once for all."""
    make(0)
    gc.collect()
    tracemalloc.start()
    try:
        made = [make(number) for number in range(1, CLIENTS)]
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / len(made)
    finally:
        tracemalloc.stop()


class Nowhere(PollGroup):
    """Watches nothing."""

    def __init__(self) -> None:
        pass

    def watch(self, fd: int, events: int, token: object) -> None:
        pass


def test_an_idle_client_takes_little_memory_whether_its_session_lasts_or_not() -> None:
    near, far = socket.socketpair()

    def begun() -> ClientOutbox:
        box = outbox()
        box.begin()
        return box

    def client_with(box: Callable[[], ClientOutbox]) -> Callable[[int], Client]:
        def make(number: int) -> Client:
            client = Client(near, f"unix:{number}", number, Nowhere(), 1.0)
            client.flow = ReceiverHalf(number=number, session="c", level=5, receive_maximum=20, topic_alias_maximum=10)
            client.outbox = box()
            return client

        return make

    with near, far:
        assert bytes_of_each(client_with(begun)) < BYTES_MAX
        assert bytes_of_each(client_with(kept)) < BYTES_MAX


def test_the_name_of_a_connection_that_has_ended_is_kept_only_if_something_was_published_on_it(tmp_path: Path) -> None:
    """Names would keep the memory around them from being given back."""
    routing = LocalRouting(node_settings(tmp_path))
    for number, published in ((1, False), (2, True)):
        routing.down(SessionDown(session=f"c{number}", source=number, ended=True, published=published))
    assert routing._ended.named([1, 2]) == [1, "c2"]


def test_only_clients_with_an_exchange_are_looked_at_and_none_that_is_closed_by_what_it_is_sent(tmp_path: Path) -> None:
    def write(client: Any, data: bytes, packets: int) -> None:
        client.closed = client.number == 2

    mailbox = SimpleNamespace(wall_ms=lambda: 0)
    settings = SettingsNow(node_settings(tmp_path))
    host: Any = SimpleNamespace(mailbox=mailbox, write=write, settings=settings)
    nobody: Any = None
    deliveries = Deliveries(host, nobody)
    clients: list[Any] = []
    for number in range(3):
        box = outbox()
        box.begin()
        clients.append(SimpleNamespace(number=number, closed=False, outbox=box, retained=None, output_bytes=0))
        if number:
            box.put(Parcel(batch(1)))
        deliveries.on_touched(clients[-1])
    deliveries.turn_end(1.0)
    assert deliveries.exchanging() == [clients[1]]

    clients[1].outbox.on_received(puback(1), 0)
    deliveries.rest(REST_S)
    assert deliveries.exchanging() == [clients[1]], "it was used lately"
    deliveries.rest(2 * REST_S)
    assert deliveries.exchanging() == []
