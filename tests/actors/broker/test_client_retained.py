"""Turns of clients for retained messages, and what is kept of those that wait for theirs."""

from __future__ import annotations

import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from actors.access.client import Client
from actors.broker.client_retained import PIECES_MAX, ClientRetained
from tests.actors.session_desk import Unconnected
from tests.supervisor.settings import node_settings
from wire.config_settings import SettingsNow
from wire.frames.frame import Frame
from wire.frames.subscriptions import RetainedPiece


def subscriber(number: int) -> Client:
    """A client that has read everything."""
    client, outbox = Unconnected(number), SimpleNamespace(waits=False)
    client.subscribe("#", 0, 0)
    client.receives(outbox)  # type: ignore[arg-type]  # all that is asked of it
    return client


class Desk:
    """A Listener's retained messages, and what it asks the store for."""

    name, epoch = "listener", 1

    def __init__(self, folder: Path) -> None:
        self.mailbox = SimpleNamespace(now_s=lambda: 0.0, wall_ms=lambda: 0)
        self.asked: list[Any] = []
        self.wanting: list[Any] = []
        self.settings = SettingsNow(node_settings(folder))
        desk: Any = self
        self.retained = ClientRetained(desk, desk)

    def send(self, peer: str, frame: Frame) -> None:
        self.asked.append(frame)

    def take_wanting(self) -> list[Any]:
        wanting, self.wanting = self.wanting, []
        return wanting

    def subscribed(self, number: int) -> Client:
        client = subscriber(number)
        self.retained.begin(client, ["#"])
        self.retained.on_answered(client, ["#"])
        self.retained.turn_end()
        return client


def test_a_client_that_has_gone_is_not_kept_while_the_store_answers_nobody(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    others = [desk.subscribed(number) for number in range(PIECES_MAX)]
    gone = desk.subscribed(PIECES_MAX)
    assert len(desk.asked) == len(others), "its turn does not come while none is answered"
    kept = weakref.ref(gone)

    desk.wanting.append(gone)  # it was written to in the turn in which it is closed
    gone.closed = True
    desk.retained.on_closed(gone)
    desk.retained.turn_end()
    del gone

    assert kept() is None


def test_the_next_in_turn_is_asked_for_when_a_piece_has_come(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for number in range(PIECES_MAX + 1):
        desk.subscribed(number)

    desk.retained.piece(RetainedPiece(epoch=1, request=1, done=1, after=b"", places=(), bodies=()))
    desk.retained.turn_end()

    assert [frame.request for frame in desk.asked] == list(range(1, PIECES_MAX + 2))
