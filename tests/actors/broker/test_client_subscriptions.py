"""SUBSCRIBE and UNSUBSCRIBE between the request and its answer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from actors.broker.client_subscriptions import ClientSubscriptions
from actors.broker.filter_bytes import FilterBytes
from tests.actors.session_desk import Unconnected
from tests.supervisor.settings import node_settings
from wire.config_settings import SettingsNow
from wire.frames.frame import Frame
from wire.frames.subscriptions import SubscriptionsKept
from wire.mqtt.packets import Subscribe, Subscription, Unsubscribe


class Host:
    """The Listener of one client, whose answers it keeps, and what is wanted of retained messages."""

    name, epoch = "listener", 1

    def __init__(self) -> None:
        self.mailbox = SimpleNamespace(now_s=lambda: 0.0)
        self.asked: list[Frame] = []
        self.answers: list[bytes] = []
        self.passes: list[tuple[str, list[str]]] = []

    def send(self, peer: str, frame: Frame) -> None:
        self.asked.append(frame)

    def write(self, client: Any, data: bytes, packets: int = 1) -> None:
        self.answers.append(data)

    def begin(self, client: Any, filters: Iterable[str]) -> None:
        self.passes.append(("begin", list(filters)))

    def on_answered(self, client: Any, filters: Iterable[str]) -> None:
        self.passes.append(("answered", list(filters)))

    def end(self, client: Any, filters: Iterable[str]) -> None:
        self.passes.append(("end", list(filters)))


class Desk:
    """One client's subscriptions."""

    def __init__(self, folder: Path, *, queue: str = "") -> None:
        host: Any = Host()
        host.settings = SettingsNow(node_settings(folder))
        self.host = host
        self.client = Unconnected(1)
        self.client.is_called("c")
        self.client.resumes(queue, ())
        self.client.greets(4, bridge=False)
        access: Any = None
        self.subscriptions = ClientSubscriptions(self.host, access, host, FilterBytes(), subscribed=lambda *_: None)

    def subscribe(self, *filters: str) -> None:
        wanted = tuple(Subscription(topic_filter=one, qos=0) for one in filters)
        self.subscriptions.subscribe(self.client, Subscribe(packet_id=1, subscriptions=wanted))


def test_it_is_answered_once_when_it_has_come_to_pass(tmp_path: Path) -> None:
    desk = Desk(tmp_path, queue="session:1:c")
    desk.subscribe("a")
    assert desk.host.answers == []
    assert desk.host.passes == [("begin", ["a"])], "what is published meanwhile waits"
    desk.subscriptions.store_is_new()
    assert desk.host.asked[0] == desk.host.asked[1]
    desk.subscriptions.on_kept(SubscriptionsKept(epoch=1, request=1, source=1))
    desk.subscriptions.on_kept(SubscriptionsKept(epoch=1, request=1, source=1))
    assert [answer[0] for answer in desk.host.answers] == [0x90]
    assert desk.host.passes[1:] == [("answered", ["a"])]
    assert desk.client.asking == 0
    desk.subscriptions.unsubscribe(desk.client, Unsubscribe(packet_id=2, topic_filters=("a",)))
    assert desk.host.passes[2:] == [("end", ["a"])]
