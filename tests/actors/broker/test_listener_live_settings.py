"""The Listener is given other settings while clients are connected: rights, limits and doors follow; who may stay does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.fuzz.in_process import LIMITS, InProcessNode, Pipe
from wire.config_settings import AclRuleSettings, NodeSettings, SessionSettings, dump
from wire.frames.names import CLIENTS
from wire.frames.supervision import Reconfigure
from wire.mqtt.codec import encode
from wire.mqtt.packets import Connect, Subscribe, Subscription

NOT_AUTHORIZED, ADMINISTRATIVE_ACTION = b"\xe0\x01\x87", b"\xe0\x01\x98"


class LiveNode(InProcessNode):
    """A node whose clients' process is told of changes."""

    def change(self, **changed: Any) -> None:
        number = self.listener.settings.number + 1
        settings: NodeSettings = replace(self.listener.settings, number=number, **changed)
        self._posts[CLIENTS].frames.append((CLIENTS, Reconfigure(number=number, settings=dump(settings))))
        self.settle()

    def greet(self, client_id: str, level: int = 5) -> Pipe:
        """A client with its CONNACK."""
        pipe = self.connect()
        pipe.sent.append(encode(Connect(level=level, client_id=client_id, clean_start=True, keep_alive_s=0), level))
        self.settle()
        assert pipe.taken[0] == 0x20
        pipe.taken.clear()
        return pipe


def test_a_client_stays_when_what_changes_does_not_concern_it() -> None:
    node = LiveNode()
    pipe = node.greet("c")
    node.change(clients=replace(LIMITS, connections_max=1))
    pipe.sent.append(b"\xc0\x00")
    node.settle()
    assert bytes(pipe.taken) == b"\xd0\x00"
    assert node.connect().closed, "there is no room for one more by the new limit"


def test_who_could_not_come_in_any_more_is_told_so_and_goes() -> None:
    node = LiveNode()
    older, newer = node.greet("older", 4), node.greet("newer")
    node.change(access=replace(node.settings.access, allow_anonymous=False))
    assert (bytes(older.taken), bytes(newer.taken)) == (b"", NOT_AUTHORIZED)
    assert (older.closed, newer.closed) == (True, True)


def test_clients_of_a_listener_that_is_taken_out_are_told_so_and_go() -> None:
    node = LiveNode()
    pipe = node.greet("c")
    node.change(listeners=())
    assert (bytes(pipe.taken), pipe.closed) == (ADMINISTRATIVE_ACTION, True)
    assert node.listener.reception.listening_sockets == []
    assert node.listener.status().connections == 1
    assert node.listener.state == "ready"


def test_other_rights_count_at_once() -> None:
    node = LiveNode()
    pipe = node.greet("c", 4)
    publish = b"\x32\x06\x00\x01a\x00\x01x"
    pipe.sent.append(publish)
    node.settle()
    assert sum(map(len, node.published)) == 1
    rule = AclRuleSettings(("b",))
    node.change(access=replace(node.settings.access, acl=(rule,)))
    pipe.sent.append(publish)
    node.settle()
    assert node.listener.status().access.publishes_forbidden == 1
    assert sum(map(len, node.published)) == 1


@pytest.mark.parametrize(
    ("changed", "packet"),
    [
        ({"packet_max_bytes": 20}, b"\x30\x1e\x00\x01a" + b"x" * 27),
        ({"topic_levels_max": 1}, b"\x30\x06\x00\x03a/bx"),
        ({"topic_max_bytes": 2}, b"\x30\x06\x00\x04aaaa"),
    ],
    ids=["packet_max_bytes", "topic_levels_max", "topic_max_bytes"],
)
def test_a_limit_holds_for_those_who_are_connected(changed: dict[str, int], packet: bytes) -> None:
    node = LiveNode()
    pipe = node.greet("c", 4)
    pipe.sent.append(packet)
    node.settle()
    assert not pipe.closed
    node.change(clients=replace(LIMITS, **changed))  # type: ignore[arg-type]
    pipe.sent.append(packet)
    node.settle()
    assert pipe.closed


def test_how_many_filters_a_client_may_have_is_what_is_said_now() -> None:
    node = LiveNode()
    pipe = node.greet("c", 4)
    node.change(clients=replace(LIMITS, subscriptions_max=1))
    filters = tuple(Subscription(topic_filter=name, qos=0) for name in ("a", "b"))
    pipe.sent.append(encode(Subscribe(packet_id=1, subscriptions=filters), 4))
    node.settle()
    assert bytes(pipe.taken) == b"\x90\x04\x00\x01\x00\x80"


def test_each_part_goes_by_what_holds_now() -> None:
    """No part keeps what it was made with."""
    node = LiveNode()
    pipe = node.greet("c")
    sessions = SessionSettings(in_flight_max=3, queue_max_bytes=4)
    limits = replace(
        LIMITS,
        connect_timeout_s=1.5,
        output_max_bytes=2222,
        input_max_bytes=3333,
        stall_timeout_s=4.5,
        publish_messages_per_s=5,
        connections_per_address=6,
        half_open_max=7,
        response_information="r/",
    )
    persistence = replace(node.settings.persistence, gather_s=0.25, flush_period_s=0.5)
    node.change(clients=limits, sessions=sessions, persistence=persistence)

    listener = node.listener
    client = node.client(pipe)
    assert client is not None
    assert client.rate is not None
    assert listener.clients.settings.now is listener.settings
    assert (listener.settings.clients, listener.settings.sessions) == (limits, sessions)
    assert listener._input._budget._bytes_max == 3333
    assert listener.batches.builder.forbidden_take_room
    assert listener.reception.admission._limits() == limits
    assert listener.gathering._pace._gather_s() == 0.25
    node.change(clients=LIMITS)
    assert client.rate is None
