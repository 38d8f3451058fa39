"""The connections: what is written to them, and how one ends."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.connected_clients import ConnectedClients
from tests.support.settings import node
from wire.config_settings import ClientLimitSettings, SettingsNow

OUTPUT_MAX_BYTES = 100


class FakeClient:
    """A connection that takes what it is given, or has ended."""

    def __init__(self, number: int, *, output_bytes: int = 0, takes: bool = True) -> None:
        self.number = number
        self.output_bytes = output_bytes
        self.takes = takes
        self.closed = self.gone = False
        self.flow: object | None = None
        self.outbox: object | None = None
        self.session, self.address = f"c{number}", "here:1"
        self.written = b""

    def write(self, data: bytes) -> bool:
        self.written += data
        self.gone = not self.takes
        return self.takes

    def part(self) -> tuple[str, str]:
        self.closed = True
        return "socket", "rest"

    def close(self) -> None:
        self.closed = True


class Desk:
    """The report on each connection that ends."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self.said: list[str] = []
        self.half_open = 0
        admission = SimpleNamespace(
            refused=self.refused,
            leave=lambda number: self.said.append(f"{number} left"),
            on_greeted=lambda number: self.said.append(f"{number} greeted"),
            half_open=0,
        )
        self.admission = admission
        reception: Any = SimpleNamespace(admission=admission, resume=lambda: self.said.append("a place is free"))
        lingering: Any = SimpleNamespace(add=lambda sock, output: self.said.append("lingers"))
        settings = SettingsNow(node(clients=ClientLimitSettings(output_max_bytes=OUTPUT_MAX_BYTES)))
        mailbox: Any = SimpleNamespace(name="listener", now_s=lambda: 0.0, send=None)
        self.clients = ConnectedClients(mailbox, 7, reception, lingering, settings, parted=self._parted)

    def _parted(self, client: Any, publish_will: bool) -> None:
        assert self.clients.client(client.number) is None
        self.said.append(f"{client.number} parted, Will: {publish_will}")

    def join(self, client: FakeClient) -> Any:
        joined: Any = client
        self.clients.add(joined)
        return joined


def test_who_is_closed_may_read_the_last_and_everybody_is_told_once() -> None:
    desk = Desk()
    client = desk.join(FakeClient(1))
    desk.clients.close_client(client, "refused", publish_will=False)
    desk.clients.close_client(client, "again")
    desk.clients.write(client, b"late")
    assert desk.said == ["lingers", "1 left", "a place is free", "1 parted, Will: False"]
    assert client.written == b""
    assert len(desk.clients) == 0


def test_who_is_gone_does_not_linger() -> None:
    desk = Desk()
    client = desk.join(FakeClient(1, takes=False))
    desk.clients.write(client, b"x")
    assert client.closed
    assert desk.said == ["1 left", "a place is free", "1 parted, Will: True"]


@pytest.mark.parametrize(("output_bytes", "closed"), [(OUTPUT_MAX_BYTES, False), (OUTPUT_MAX_BYTES + 1, True)])
def test_who_does_not_read_is_closed_and_counted(output_bytes: int, closed: bool) -> None:
    desk = Desk()
    client = desk.join(FakeClient(1, output_bytes=output_bytes))
    desk.clients.write(client, b"abc", 2)
    assert client.closed == closed
    assert client.written == (b"" if closed else b"abc")
    assert desk.refused["output_max_bytes"] == closed
    assert (desk.clients.packets_sent, desk.clients.bytes_sent) == (2, 3)


def test_the_most_that_were_connected_at_a_time_are_those_with_connack() -> None:
    desk = Desk()
    for number in (1, 2, 3):
        client = desk.join(FakeClient(number))
        if number < 3:
            client.flow = client.outbox = object()
            desk.clients.on_welcomed()
    desk.clients.close_client(desk.clients.clients()[0], "gone")
    assert (desk.clients.connected, desk.clients.most_connected) == (1, 2)
    assert [client.number for client in desk.clients.clients()] == [2, 3]
