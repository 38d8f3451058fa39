"""The sockets of one turn."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from actors.access.client import Client
from actors.broker.client_sockets import ClientSockets
from actors.broker.waiting_clients import TURN_S
from actors.process.mailbox import READ, WRITE
from tests.fuzz.in_process import LIMITS, InProcessNode
from wire.mqtt.codec import encode
from wire.mqtt.packets import Connect

PINGREQ, DISCONNECT = b"\xc0\x00", b"\xe0\x00"


class Slow(Client):
    """A client by its number; whatever it sends takes half a turn to read."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.closed = False
        self.proxied = None

    def flush(self) -> bool:
        return self.number != 0


class Desk:
    """The clients that were served, on a clock that each of them moves."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.served: list[int] = []
        self.closed: list[tuple[int, str]] = []
        self.touched: list[int] = []
        clients: Any = SimpleNamespace(
            mailbox=SimpleNamespace(now_s=lambda: self.now_s),
            close_client=lambda client, why: self.closed.append((client.number, why)),
        )
        reception: Any = SimpleNamespace(turn=SimpleNamespace(begin=lambda: None))
        client_input: Any = SimpleNamespace(read=self._read)
        self.sockets = ClientSockets(
            clients,
            reception,
            client_input,
            arrived=lambda *_: None,
            touched=lambda client: self.touched.append(client.number),
        )

    def _read(self, client: Client, now_s: float) -> bool:
        self.now_s += TURN_S * 0.6
        self.served.append(client.number)
        return True


def test_who_is_not_served_for_want_of_time_comes_first_in_the_next_turn() -> None:
    desk = Desk()
    clients = [Slow(number) for number in range(4)]
    assert not desk.sockets.serve([(client, READ) for client in clients])
    assert desk.served == [0, 1]
    assert not desk.sockets.serve([(client, READ) for client in clients])
    assert desk.served == [0, 1, 2, 3], "and the others wait, who have had their turn"
    assert desk.sockets.serve([(client, READ) for client in clients[:2]])
    assert desk.served == [0, 1, 2, 3, 0, 1]


def test_who_takes_more_is_written_to_and_who_is_gone_is_closed() -> None:
    desk = Desk()
    assert desk.sockets.serve([(Slow(number), WRITE) for number in (0, 1)])
    assert desk.touched == [1]
    assert desk.closed == [(0, "gone")]
    assert desk.served == []


@pytest.mark.parametrize("last", [b"", PINGREQ, DISCONNECT], ids=["silent", "with a packet unread", "with goodbye"])
def test_who_has_left_is_not_in_the_way_of_who_comes(last: bytes) -> None:
    """Clients are not read for now, since a batch is being committed, and the door is ready first."""
    host = InProcessNode(replace(LIMITS, connections_max=2))
    leaving, staying = host.connect(), host.connect()
    for name, pipe in enumerate((leaving, staying)):
        pipe.sent.append(encode(Connect(level=4, client_id=f"c{name}", clean_start=True, keep_alive_s=0), 4))
    host.settle()
    host.listener._group.hear(False)
    leaving.sent.extend([last] if last else [])
    leaving.ended = True

    come = host.connect()
    late = host.connect()

    assert leaving.closed
    assert (come.closed, late.closed) == (False, True), "one place was given back, and not two"
    assert host.listener.status().limited == {"connections_max": 1}
