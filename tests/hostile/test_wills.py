"""Wills that are to fill the node, to wait for ever, or to say what their client may not say any more."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.broker.test_access import figures, write_acl
from tests.conftest import StartNode
from tests.support.mqtt_client import MqttClient, publish_once
from tests.support.mqtt_packets import PUBLISH, USER_PROPERTY, WILL_DELAY, Will
from tests.support.node import Node, node_config
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.process

FOR_EVER = 0xFFFFFFFE
QUOTA_EXCEEDED, SERVER_UNAVAILABLE = 0x97, 3
KIB = 1024


def will(size: int, *, delay_s: int = 0, topic: str = "last") -> Will:
    return Will(topic=topic, payload=b"w" * size, qos=1, retain=True, properties=[(WILL_DELAY, delay_s)] if delay_s else [])


def answer_of(node: Node, name: str, last: Will | None, *, version: int = 5, stack: ExitStack | None = None) -> int:
    """The reason code of its CONNACK. stack: what keeps the client connected; without one it goes without a DISCONNECT."""
    expiry_s = FOR_EVER if version == 5 else 0
    client = MqttClient(node.port, name, version=version, clean=False, session_expiry_s=expiry_s, will=last)
    code = client.connect().reason_code
    if stack is None:
        client.close()
    else:
        stack.callback(client.close)
    return code


def limited(node: Node, limit: str) -> int:
    count: int = node.status()["listener"]["limited"].get(limit, 0)
    return count


@pytest.mark.parametrize(("version", "code"), [(4, SERVER_UNAVAILABLE), (5, QUOTA_EXCEEDED)])
def test_a_will_that_is_too_large_is_refused_and_counted(start_node: StartNode, version: int, code: int) -> None:
    """A payload has at most 65,535 bytes, the properties beside it as much as a packet takes."""
    node = start_node(node_config())
    last = will(65_535)
    if version == 5:
        last = will(1)
        last.properties.extend([(WILL_DELAY, FOR_EVER), *[(USER_PROPERTY, ("a" * 60_000, "b"))] * 16])

    assert answer_of(node, "c", last, version=version) == code

    assert limited(node, "will_max_bytes") == 1
    assert answer_of(node, "c", will(63 * KIB), version=version) == 0


@pytest.mark.parametrize("gone", [False, True], ids=["here", "gone"])
def test_the_wills_of_all_have_a_limit_whether_their_clients_are_here_or_gone(start_node: StartNode, gone: bool) -> None:
    """broker.wills-bounded. Also in a later life of the node."""
    node = start_node({**node_config(), "sessions": {"wills_max_bytes": "100KiB"}})
    with ExitStack() as stack:
        for number in range(3):
            assert answer_of(node, f"c{number}", will(30 * KIB, delay_s=500), stack=None if gone else stack) == 0
        if gone:
            wait_until(lambda: node.status()["listener"]["pending_wills"] == 3, PATIENCE_S, "all to be gone")
        assert answer_of(node, "one-more", will(30 * KIB)) == QUOTA_EXCEEDED
        assert limited(node, "wills_max_bytes") == 1
        assert answer_of(node, "honest", None) == 0
        assert answer_of(node, "small", will(9 * KIB), stack=stack) == 0
        assert answer_of(node, "c1", will(30 * KIB, delay_s=500), stack=stack) == 0, "in place of its own"
        if gone:
            node.kill_supervisor()
            node.start()
            assert answer_of(node, "one-more", will(30 * KIB)) == QUOTA_EXCEEDED
    wait_until(lambda: node.status()["listener"]["pending_wills"] == 3, PATIENCE_S, "the small one to be published")
    assert answer_of(node, "c1", None) == 0, "it takes its Will back"
    assert answer_of(node, "one-more", will(30 * KIB)) == 0


def test_a_will_waits_no_longer_than_a_session_may_last(start_node: StartNode) -> None:
    """As its session does: a delay ends with it [MQTT-3.1.3-9]."""
    node = start_node({**node_config(), "sessions": {"expiry_max": "1s"}})
    with MqttClient(node.port, "watcher") as watcher:
        watcher.subscribe("last", qos=1)
        assert answer_of(node, "c", will(1, delay_s=FOR_EVER)) == 0
        assert watcher.expect(PUBLISH).payload == b"w"


@pytest.mark.parametrize("restarts", [False, True], ids=["in one life", "after a restart"])
def test_a_delayed_will_is_judged_by_the_rules_of_the_day_it_is_due(start_node: StartNode, tmp_path: Path, restarts: bool) -> None:
    """broker.will-unless-taken-back. Its record goes, so its session can end; the others are published."""
    acl = tmp_path / "acl.yaml"
    write_acl(acl, "{topics: ['#']}")
    node = start_node(node_config(access={"acl_file": str(acl), "allow_anonymous": True}))
    for name, topic in (("bad", "secret/last"), ("good", "plant/last")):
        assert answer_of(node, name, will(1, delay_s=3, topic=topic)) == 0
    wait_until(lambda: node.status()["listener"]["pending_wills"] == 2, PATIENCE_S, "both to be gone")
    if restarts:
        node.kill_supervisor()
    write_acl(acl, "{topics: ['plant/#']}", "{topics: ['secret/#'], action: subscribe}")
    if restarts:
        node.start()
    with MqttClient(node.port, "watcher") as watcher:
        watcher.subscribe("secret/#", "plant/#", qos=1)

        wait_until(lambda: node.status()["listener"]["pending_wills"] == 0, PATIENCE_S, "both to be due")
        publish_once(node.port, "plant/end", "end")

        seen = []
        while "plant/end" not in seen:
            seen.append(watcher.expect(PUBLISH).topic)
    assert "secret/last" not in seen
    assert "plant/last" in seen
    assert figures(node)["publishes_forbidden"] == 1
    assert answer_of(node, "bad", None) == 0, "who comes back waits for nothing"
