"""One client that is to leave the others without retained messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.test_access import USERS, client, config
from tests.conftest import StartNode
from tests.support.mqtt_packets import DISCONNECT, PUBACK, Will, publish_bytes
from tests.support.node import Node
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.process

MOST = 20


def counts(node: Node) -> tuple[int, int]:
    """How many are retained, and how many were refused."""
    figures = node.status()["store"]["sessions"]["retained"]
    return figures["messages"], figures["refused"]


def retain(node: Node, user: str, *topics: str) -> None:
    one = client(node, user)
    one.connect()
    for topic in topics:
        one.publish(topic, b"x", qos=1, retain=True)
        assert one.expect(PUBACK).reason_code in (0, 0x10), "as beyond the limit of all"
    one.close()


def test_a_user_has_half_of_what_is_retained_and_another_the_rest(start_node: StartNode, tmp_path: Path) -> None:
    """store.shared-out. By whatever connections, by Wills too, and in a later life of the node."""
    greedy, honest = list(USERS)[:2]
    settings = {**config(tmp_path), "sessions": {"retained_max_messages": MOST}}
    node = start_node(settings)
    retain(node, greedy, *(f"g/{number}" for number in range(8)))
    for number in range(8, 10):  # at QoS 0, by connections that have ended when it is routed
        one = client(node, greedy, f"g{number}")
        one.connect()
        one.send(publish_bytes(4, f"g/{number}", b"x", 0, retain=True), bytes((DISCONNECT << 4, 0)))
        one.rest()
    wait_until(lambda: counts(node) == (10, 0), PATIENCE_S, lambda: str(counts(node)))
    retain(node, greedy, "g/10", "g/9")
    one = client(node, greedy, "gone", will=Will(topic="g/11", payload=b"x", qos=0, retain=True))
    one.connect()
    one.close()
    wait_until(lambda: counts(node) == (10, 2), PATIENCE_S, lambda: str(counts(node)))

    node.kill_supervisor()
    node.start()
    retain(node, honest, *(f"h/{number}" for number in range(9)), "g/0")
    assert counts(node) == (19, 0)
    retain(node, greedy, "g/10", "g/11")
    assert counts(node) == (20, 1), "the honest one has that topic of the greedy one now"
