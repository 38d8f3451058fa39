"""Clients that are silent for too long, on a clock that the test moves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.access.client import QUEUE_FULL
from actors.broker.client_silence import CHECK_PERIOD_S, LOOK_AGAIN_S, ClientSilence
from tests.actors.session_desk import Unconnected
from tests.supervisor.settings import node_settings
from wire.config_settings import SettingsNow
from wire.exchange.receiver import ReceiverHalf

BEGAN_S = 1.0


class Desk:
    """One client, with CONNACK or without."""

    def __init__(self, folder: Path, *, greeted: bool) -> None:
        client = self.client = Unconnected(1, BEGAN_S)
        client.keep_alive.keep_alive_s = 1.0
        if greeted:
            client.begins(ReceiverHalf(number=1, session="c", level=4, receive_maximum=1, topic_alias_maximum=0))
        self.closed: list[str] = []
        self.limited: Counter[str] = Counter()
        self.stood_still_s: list[float] = []
        self.stalls: list[bool] = []
        host: Any = SimpleNamespace(
            mailbox=SimpleNamespace(now_s=lambda: BEGAN_S),
            clients=lambda: [client],
            client=lambda number: None if self.closed else client,
            on_limited=lambda limit: self.limited.update((limit,)),
            close_client=lambda client, why: self.closed.append(why),
            settings=SettingsNow(node_settings(folder)),
        )
        stalls: Any = SimpleNamespace(close_stalled=lambda now_s, *, stood_still: self.stalls.append(stood_still))
        self.silence = ClientSilence(host, stalls, self.stood_still_s.append)
        self.silence.watch(self.client)


@pytest.mark.parametrize(("greeted", "why"), [(True, "keep_alive_timeout"), (False, "connect_timeout")])
def test_a_time_in_which_the_listener_stood_still_is_no_client_s_silence(tmp_path: Path, greeted: bool, why: str) -> None:
    """Input that came meanwhile waits in the clients' sockets, which are looked at after the timers."""
    desk = Desk(tmp_path, greeted=greeted)
    for now_s in (1.5, 101.5, 102.0):
        desk.silence.close_silent(now_s)
    assert not desk.closed
    assert desk.stood_still_s == [100.0], "others wait for somebody too"
    assert desk.stalls == [False, True, False]
    for looks in range(30):
        desk.silence.close_silent(102.5 + looks * CHECK_PERIOD_S)
    assert desk.closed[0] == why
    assert desk.limited["connect_timeout"] == (0 if greeted else len(desk.closed))


def test_who_is_not_read_is_not_silent(tmp_path: Path) -> None:
    desk = Desk(tmp_path, greeted=True)
    desk.client.hear(False, QUEUE_FULL)
    for looks in range(30):
        desk.silence.close_silent(BEGAN_S + looks * CHECK_PERIOD_S)
    assert desk.closed == []
    desk.client.hear(True, QUEUE_FULL)
    desk.silence.close_silent(BEGAN_S + 31 * CHECK_PERIOD_S)
    assert desk.closed == ["keep_alive_timeout"]


def test_who_has_sent_connect_may_wait_for_its_session(tmp_path: Path) -> None:
    desk = Desk(tmp_path, greeted=False)
    desk.client.greets(4, bridge=False)
    for looks in range(100):
        desk.silence.close_silent(BEGAN_S + looks * CHECK_PERIOD_S)
    assert desk.closed == []


def test_a_look_costs_by_the_clients_whose_time_may_be_over(tmp_path: Path) -> None:
    """Twice a second at each of some thousands would be work for nothing."""
    desk = Desk(tmp_path, greeted=True)
    desk.client.keep_alive.keep_alive_s = 600.0
    looked: list[int] = []
    desk.silence._host.client = looked.append  # type: ignore[assignment,method-assign]
    for looks in range(int(LOOK_AGAIN_S / CHECK_PERIOD_S)):
        desk.silence.close_silent(BEGAN_S + looks * CHECK_PERIOD_S)
    assert len(looked) <= 2
