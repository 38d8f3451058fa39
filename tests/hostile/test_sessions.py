"""One client that is to leave the others without sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supervisor.control.client import ControlClient
from tests.broker.test_access import USERS, client, config
from tests.conftest import StartNode
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import SESSION_EXPIRY
from tests.support.node import Node, node_config
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.process

QUOTA_EXCEEDED, SERVER_UNAVAILABLE = 0x97, 3
FOR_EVER = 0xFFFFFFFF
SESSIONS = {"sessions_max": 20}


def limited(node: Node) -> dict[str, int]:
    counts: dict[str, int] = node.status()["listener"]["limited"]
    return counts


def lasts(node: Node, name: str, user: str | None = None, *, version: int = 5, **more: Any) -> int:
    """Whether a client with a session that lasts is let in: the code of its CONNACK."""
    with client(node, user, name, version=version, clean=False, session_expiry_s=FOR_EVER, **more) as one:
        return one.connect().reason_code


def test_a_user_has_half_of_all_sessions_and_another_the_rest(start_node: StartNode, tmp_path: Path) -> None:
    """store.shared-out. Also in a later life of the store, and a session that ends gives its place back."""
    greedy, honest = list(USERS)[:2]
    node = start_node({**config(tmp_path), "sessions": SESSIONS})
    assert [lasts(node, f"g{number}", greedy) for number in range(10)] == [0] * 10
    assert lasts(node, "g10", greedy) == QUOTA_EXCEEDED
    assert lasts(node, "g10", greedy, version=4) == SERVER_UNAVAILABLE
    assert lasts(node, "g9", greedy) == 0, "it has that one"
    assert limited(node)["user_share_percent"] == 2

    node.kill_supervisor()
    node.start()
    assert lasts(node, "g10", greedy) == QUOTA_EXCEEDED
    assert [lasts(node, f"h{number}", honest) for number in range(10)] == [0] * 10
    ControlClient.of_data_dir(node.data_dir).end_session("g0")
    assert lasts(node, "g10", greedy) == 0
    assert lasts(node, "g11", greedy) == QUOTA_EXCEEDED


def test_a_user_has_as_many_connections_as_one_may_have(start_node: StartNode, tmp_path: Path) -> None:
    """access.connections-bounded, by whatever addresses; who comes again takes its own place, who leaves gives it back."""
    greedy, honest = list(USERS)[:2]
    node = start_node({**config(tmp_path), "clients": {"connections_per_user": 3}})

    def come(name: str, user: str, version: int = 5) -> tuple[MqttClient, int]:
        one = client(node, user, name, version=version, source=f"127.0.0.{1 + len(there)}")
        return one, one.connect().reason_code

    there: list[MqttClient] = []
    for number in range(3):
        one, code = come(f"g{number}", greedy)
        assert code == 0
        there.append(one)
    assert come("g3", greedy)[1] == QUOTA_EXCEEDED
    assert come("g3", greedy, 4)[1] == SERVER_UNAVAILABLE
    assert limited(node)["connections_per_user"] == 2
    again, code = come("g0", greedy, 4)
    assert code == 0, "in the place of the one that it takes over"
    other, code = come("h0", honest)
    assert code == 0
    again.close()
    wait_until(lambda: node.status()["listener"]["clients"] == 3, PATIENCE_S, "it to be gone")
    one, code = come("g3", greedy)
    assert code == 0
    for here in (one, other, *there):
        here.close()


def test_clients_without_a_user_share_by_their_address(start_node: StartNode) -> None:
    node = start_node({**node_config(), "sessions": SESSIONS})
    assert [lasts(node, f"g{number}") for number in range(11)] == [0] * 10 + [QUOTA_EXCEEDED]
    node.kill_supervisor()
    node.start()
    assert lasts(node, "g10") == QUOTA_EXCEEDED
    assert lasts(node, "h", source="127.0.0.2") == 0


def test_a_session_that_is_to_last_for_ever_lasts_a_week(start_node: StartNode) -> None:
    """And whoever asks is told [MQTT-3.1.2-24]."""
    node = start_node(node_config())
    with MqttClient(node.port, "c", version=5, clean=False, session_expiry_s=FOR_EVER) as one:
        assert one.connack is not None
        assert one.connack.number(SESSION_EXPIRY, 0) == 7 * 86_400
    with MqttClient(node.port, "old", version=4, clean=False):
        pass
    rows = ControlClient.of_data_dir(node.data_dir).each_session()
    assert {row.client_id: row.expiry_s for row in rows} == {"c": 7 * 86_400, "old": 7 * 86_400}
