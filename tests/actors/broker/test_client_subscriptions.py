"""SUBSCRIBE and UNSUBSCRIBE of a session that ends with its connection, while the store says nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.client_subscriptions import LATE_REQUESTS_MAX, LATE_S, ClientSubscriptions
from tests.supervisor.settings import node_settings
from wire.exchange.subscriber_copies import Copies
from wire.frames.base import Frame
from wire.frames.batch import Batch, from_rows
from wire.frames.local_sessions import Retained, SubscriptionsKept
from wire.mqtt.packets import Subscribe, Subscription, Unsubscribe


class Host:
    """The Listener of one client, whose answers and retained messages it keeps."""

    name, epoch = "listener", 1

    def __init__(self) -> None:
        self.mailbox = SimpleNamespace(now_s=lambda: 0.0)
        self.asked: list[Frame] = []
        self.answers: list[bytes] = []
        self.topics: list[bytes] = []

    def send(self, peer: str, frame: Frame) -> None:
        self.asked.append(frame)

    def write(self, client: Any, data: bytes, packets: int = 1) -> None:
        self.answers.append(data)

    def subscribed(self, client: Any, wanted: dict[str, bool], retained: Sequence[Retained], late: Sequence[Batch]) -> None:
        batches = [Batch.decode(frame.bodies[0]) for frame in retained]
        self.topics += [batch.topics[index] for batch in batches for index in batch.topic_of]


class Desk:
    """One client's subscriptions."""

    def __init__(self, folder: Path, *, queue: str = "") -> None:
        host: Any = Host()
        self.host = host
        self.client: Any = SimpleNamespace(
            number=1, session="c", queue=queue, level=4, bridge=False, filters={}, rights=None, asking=0, closed=False
        )
        self.client.retained_first = self.client.packet_max_bytes = None
        self.client.hear = lambda *_: None
        access: Any = None
        self.subscriptions = ClientSubscriptions(
            self.host, node_settings(folder), access, subscribed=self.host.subscribed, read_on=lambda _: None
        )

    def subscribe(self, *filters: str) -> None:
        wanted = tuple(Subscription(topic_filter=one, qos=0) for one in filters)
        self.subscriptions.subscribe(self.client, Subscribe(packet_id=1, subscriptions=wanted))

    def store_answers(self, request: int, *topics: bytes) -> None:
        """What is retained under ``topics`` comes, and then that this was all."""
        body = from_rows([(topic, 0, b"x") for topic in topics], accepted_ms=0).encode()
        self.subscriptions.retained(Retained(epoch=1, request=request, source=1, qos=0, identifier=0, bodies=(body,)))
        self.subscriptions.kept(SubscriptionsKept(epoch=1, request=request, source=1))


def test_it_is_answered_late_and_once_and_what_is_retained_comes_when_it_does(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.subscribe("a/#")
    desk.subscriptions.wait_no_longer(LATE_S / 2)
    assert desk.host.answers == []
    desk.subscriptions.wait_no_longer(LATE_S)
    desk.subscriptions.wait_no_longer(2 * LATE_S)
    assert [answer[0] for answer in desk.host.answers] == [0x90]
    assert desk.client.asking == 0
    live = Copies(from_rows([(b"a/b", 0, b"x")], accepted_ms=0), 0)
    assert desk.client.retained_first.hold(live) is live, "what is published goes out"
    desk.store_answers(1, b"a/b", b"a/c")
    assert desk.host.topics == [b"a/b", b"a/c"]
    assert len(desk.host.answers) == 1
    assert desk.client.asking == 0
    assert desk.client.retained_first is None


def test_what_was_replaced_while_it_was_late_does_not_come_behind_its_successor(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.subscribe("a/#")
    desk.subscriptions.wait_no_longer(LATE_S)
    desk.client.retained_first.hold(Copies(from_rows([(b"a/b", 0, b"new")], accepted_ms=0), 0), lambda: [b"a/b"])
    desk.store_answers(1, b"a/b", b"a/c")
    assert desk.host.topics == [b"a/c"]


def test_nothing_comes_of_what_was_unsubscribed_meanwhile(tmp_path: Path) -> None:
    """[MQTT-3.10.4-2]"""
    desk = Desk(tmp_path)
    desk.subscribe("a/#", "b")
    desk.subscriptions.wait_no_longer(LATE_S)
    desk.subscriptions.unsubscribe(desk.client, Unsubscribe(packet_id=2, topic_filters=("a/#",)))
    desk.subscriptions.wait_no_longer(LATE_S)
    assert [answer[0] for answer in desk.host.answers] == [0x90, 0xB0]
    desk.store_answers(1, b"a/b", b"b")
    assert desk.host.topics == [b"b"]


def test_a_session_that_lasts_waits_for_its_record(tmp_path: Path) -> None:
    desk = Desk(tmp_path, queue="session:1:c")
    desk.subscribe("a")
    desk.subscriptions.wait_no_longer(100 * LATE_S)
    assert desk.host.answers == []
    desk.store_answers(1, b"a")
    assert [answer[0] for answer in desk.host.answers] == [0x90]


def test_requests_that_wait_for_retained_messages_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.broker.client_subscriptions.LATE_REQUESTS_MAX", 3)
    assert LATE_REQUESTS_MAX > 3
    desk = Desk(tmp_path)
    for turn in range(1, 6):
        desk.subscribe(f"t/{turn}")
        desk.subscriptions.wait_no_longer(LATE_S)
    assert len(desk.host.answers) == 3
    assert desk.client.asking == 2
