"""Topic filters and client identifiers that are to fill the node, or to leave the others without subscriptions."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.control.client import ControlClient
from tests.broker.test_access import USERS, client, config
from tests.conftest import StartNode
from tests.support.mqtt_client import MqttClient
from tests.support.node import Node, node_config
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.process

FOR_EVER = 0xFFFFFFFF
QUOTA_EXCEEDED, FAILURE_311 = 0x97, 0x80
LONG = "x" * 700  # with its level, 1,000 bytes


def filter_bytes(node: Node) -> int:
    count: int = node.status()["listener"]["filter_bytes"]
    return count


def limited(node: Node) -> dict[str, int]:
    counts: dict[str, int] = node.status()["listener"]["limited"]
    return counts


def long_filters(*numbers: int) -> list[str]:
    return [f"{number}{LONG[1:]}" for number in numbers]


@pytest.mark.parametrize(("version", "code"), [(4, FAILURE_311), (5, QUOTA_EXCEEDED)])
def test_a_client_has_so_many_bytes_of_filters_and_keeps_what_it_has(start_node: StartNode, version: int, code: int) -> None:
    """broker.filters-bounded"""
    node = start_node(node_config(clients={"subscriptions_max_bytes": "3kB"}))
    with MqttClient(node.port, "c", version=version) as one:
        assert one.subscribe(*long_filters(1, 2, 3, 4)).reason_codes == (0, 0, 0, code)
        assert one.subscribe(*long_filters(2), qos=1).reason_codes == (1,), "it has that one"
        one.unsubscribe(*long_filters(1))
        assert one.subscribe(*long_filters(4, 5)).reason_codes == (0, code)
        assert limited(node)["subscriptions_max_bytes"] == 2
        assert filter_bytes(node) == 3000
    wait_until(lambda: filter_bytes(node) == 0, PATIENCE_S, "they go with their client")


def test_a_user_has_half_of_all_filters_whether_its_clients_are_here_or_gone(start_node: StartNode, tmp_path: Path) -> None:
    """broker.filters-bounded. Also in a later life of the node and of its processes."""
    greedy, honest, third = USERS
    node = start_node({**config(tmp_path), "sessions": {"filters_max_bytes": "8kB"}})

    def codes(user: str, name: str, *numbers: int) -> tuple[int, ...]:
        with client(node, user, name, version=5, clean=False, session_expiry_s=FOR_EVER) as one:
            assert one.connect().reason_code == 0
            return tuple(one.subscribe(*long_filters(*numbers)).reason_codes)

    assert codes(greedy, "g1", 1, 2) == (0, 0)
    assert codes(greedy, "g2", 1, 2, 3) == (0, 0, QUOTA_EXCEEDED)
    for kill in ("clients", "store", ""):
        if kill:
            node.wait_replaced(kill, node.kill(kill))
        else:
            node.kill_supervisor()
            node.start()
        wait_until(lambda: filter_bytes(node) == 4000, PATIENCE_S, "all are known again")
        assert codes(greedy, "g1", 1, 2, 3) == (0, 0, QUOTA_EXCEEDED)
    assert codes(honest, "h", 1, 2, 3, 4, 5) == (0, 0, 0, 0, QUOTA_EXCEEDED)
    assert codes(third, "t", 1) == (QUOTA_EXCEEDED,), "all is given away"

    ControlClient.of_data_dir(node.data_dir).end_session("g1")
    assert filter_bytes(node) == 6000
    assert codes(third, "t", 1) == (0,)


def test_sessions_without_a_durable_store_are_forgotten_with_it(start_node: StartNode) -> None:
    node = start_node({**node_config(), "persistence": {"mode": "in-memory"}})
    with MqttClient(node.port, "c", version=5, clean=False, session_expiry_s=FOR_EVER) as one:
        one.subscribe(*long_filters(1))
    wait_until(lambda: node.status()["store"]["sessions"]["connected"] == 0, PATIENCE_S, "its client to be gone")
    assert filter_bytes(node) == 1000
    node.wait_replaced("store", node.kill("store"))
    wait_until(lambda: filter_bytes(node) == 0, PATIENCE_S, "nobody has it")


@pytest.mark.parametrize(("version", "code"), [(4, 2), (5, 0x85)])
def test_a_client_identifier_that_is_too_long_is_refused(start_node: StartNode, version: int, code: int) -> None:
    """It would stand in every list and in every row of its session."""
    node = start_node(node_config())
    one = MqttClient(node.port, "i" * 1025, version=version)
    assert one.connect().reason_code == code
    assert limited(node)["client_id_max_bytes"] == 1
    with MqttClient(node.port, "i" * 1024, version=version) as another:
        another.ping()
