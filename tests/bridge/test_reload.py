"""A real node takes a changed configuration: who is not meant keeps its connection, and nothing is lost or goes elsewhere."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from supervisor.config.loading import load
from supervisor.doctor.running_node import ask
from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.placements import ISOLATED, TOGETHER
from tests.support.ports import accepts, free_port
from tests.support.proxy import Proxy
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, wait_until

ESTABLISHED = "01"
A: Config = {"name": "a", "filters": ["a/#"], "destination": "by-a/{#}"}
B: Config = {"name": "b", "filters": ["b/#"], "destination": "by-b/{#}"}
OVER_A: Config = {"name": "over", "filters": ["a/#"], "destination": "over-a/{#}"}


def reload(node: Node, config: Config | None, *words: str, status: int = 0) -> dict[str, Any]:
    """Write ``config``, have the node take it, and wait until all go by it; what it answers."""
    if config is not None:
        node.configure(config)
    done = node.cli("reload", str(node.config_path), "--json", "--wait", *words)
    assert done.returncode == status, f"{done.stdout}\n{done.stderr}\n{node.output[-3000:]}"
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def hows(answer: dict[str, Any]) -> dict[str, str]:
    return {change["what"]: change["how"] for change in answer["changes"]}


def links_to(port: int) -> set[int]:
    """The local ports of the connections to ``port`` that there are on this machine."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {
        int(row[1].partition(":")[2], 16) for row in rows if row[3] == ESTABLISHED and int(row[2].partition(":")[2], 16) == port
    }


def publish(client: MqttClient, text: str, *topics: str, each: int = 10) -> Counter[str]:
    """So many to each topic at QoS 2, acknowledged; the payloads."""
    texts = [f"{text} {number}" for number in range(each)]
    for topic in topics:
        client.publish_burst(topic, [f"{topic} {one}" for one in texts], qos=2)
    return Counter(f"{topic} {one}" for topic in topics for one in texts)


def arrived(subscriber: Subscriber, wanted: Counter[str]) -> None:
    """Exactly ``wanted`` is there, each once."""
    wait_until(lambda: subscriber.count() >= wanted.total(), 60.0, lambda: f"{subscriber.count()} of {wanted.total()}")
    assert Counter(packet.payload.decode() for packet in subscriber.packets) == wanted


@pytest.fixture
def second(tmp_path: Path) -> Any:
    with Mosquitto(tmp_path / "second", users={"edge": "one", "other": "two"}) as broker:
        yield broker


def with_login(port: int, folder: Path, user: str, password: str, **keys: Any) -> Config:
    path = folder / f"{user}.password"
    path.unlink(missing_ok=True)
    path.write_text(password)
    path.chmod(0o600)
    return bridge_config("second", port, remote={"username": user, "password_file": str(path)}, **keys)


def test_bridges_come_go_and_change_and_the_others_keep_their_connections(
    remote: Mosquitto, second: Mosquitto, start_node: StartNode, tmp_path: Path
) -> None:
    stays = bridge_config("stays", remote.port, local_subscriptions=[A])
    node = start_node(node_config(stays, with_login(second.port, tmp_path, "edge", "one")))
    with Subscriber(remote.port, "#") as subscriber, MqttClient(node.port, "machine") as client:
        for name in ("stays", "second"):
            node.wait_lane(name, state="connected")
        before, client_pid = links_to(remote.port), node.pid("clients")
        pids = {name: node.pid("bridge", name) for name in ("stays", "second")}
        wanted = publish(client, "first", "a/1")

        answer = reload(node, node_config(stays, with_login(second.port, tmp_path, "other", "two")))
        assert hows(answer) == {
            "bridge second: remote.username": "reconnect",
            "bridge second: remote.password_file": "reconnect",
        }
        node.wait_lane("second", state="connected")
        assert node.placement == TOGETHER or node.pid("bridge", "second") != pids["second"]
        wanted += publish(client, "second", "a/1")

        third = bridge_config("third", remote.port, local_subscriptions=[B])
        assert hows(reload(node, node_config(stays, third), "--yes"))["bridge third: added"] == "live"
        node.wait_lane("third", state="connected")
        wanted += publish(client, "third", "a/1", "b/1")
        arrived(subscriber, wanted)
        assert node.placement == TOGETHER or node.find_pid("bridge", "second") is None
        assert not [actor for actor in node.hosts() if actor.partition(":")[2] == "second:0"]
        assert [row["name"] for row in node.status()["bridges"]] == ["stays", "third"]

        assert before & links_to(remote.port) >= before, "the bridge that stays has the connection that it had"
        assert (node.pid("bridge", "stays"), node.pid("clients")) == (pids["stays"], client_pid)
        client.ping()


def test_what_waits_goes_where_its_rule_said_though_a_running_node_changes_them(remote: Mosquitto, start_node: StartNode) -> None:
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        proxy.cut()

        def with_rules(*rules: Config) -> Config:
            return node_config(bridge_config("cloud", proxy.port, local_subscriptions=list(rules)))

        node = start_node(with_rules(A, B))
        pid = node.pid("bridge", "cloud")
        with MqttClient(node.port, "machine") as client:
            publish(client, "before", "a/1", "b/1")
            assert hows(reload(node, with_rules(B, OVER_A, A))) == {"bridge cloud: local_subscriptions": "live"}
            publish(client, "after", "a/1", "b/1")
            assert hows(reload(node, with_rules(B))) == {"bridge cloud: local_subscriptions": "live"}
            publish(client, "last", "a/1", "b/1")
        assert node.pid("bridge", "cloud") == pid
        proxy.restore()
        wait_until(lambda: subscriber.count() >= 50, 60.0, lambda: f"{subscriber.count()} of 50")
        node.wait_lane("cloud", depth=0)
        found = Counter((packet.topic, packet.payload.decode().split()[1]) for packet in subscriber.packets)
        assert found == {
            ("by-a/a/1", "before"): 10,
            ("by-b/b/1", "before"): 10,
            ("over-a/a/1", "after"): 10,
            ("by-b/b/1", "after"): 10,
            ("by-b/b/1", "last"): 10,
        }
        assert node.lane("cloud")["ledger_closes"] is True


def test_a_queue_without_its_bridge_stays_until_that_is_back_or_it_is_purged(remote: Mosquitto, start_node: StartNode) -> None:
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        proxy.cut()
        whole = node_config(bridge_config("cloud", proxy.port), bridge_config("north", proxy.port))
        node = start_node(whole)
        with MqttClient(node.port, "machine") as client:
            publish(client, "before", "a/1")
        node.wait_lane("cloud", depth=10)
        wait_until(lambda: reload(node, node_config(), status=2), PATIENCE_S, "a refusal")
        assert len(node.status()["bridges"]) == 2, "nothing was changed"
        done = node.cli("reload", str(node.config_path), "--yes", "--wait")
        assert (done.returncode, "destructive" in done.stdout) == (0, True), done.stdout
        assert [(row["queue"], row["depth"]) for row in node.status()["unserved"]] == [
            ("bridge:cloud:0", 10),
            ("bridge:north:0", 10),
        ]
        assert "messages for bridges or lanes that are not configured any more" in node.cli("status", str(node.config_path)).stdout
        with MqttClient(node.port, "machine") as client:
            publish(client, "for nobody", "a/1")

        purged = node.cli("queue", "purge", str(node.config_path), "north", "--yes", "--json")
        assert json.loads(purged.stdout)["purged"] == 10
        wait_until(lambda: [row["queue"] for row in node.status()["unserved"]] == ["bridge:cloud:0"], PATIENCE_S, "one is gone")

        reload(node, whole)
        proxy.restore()
        wait_until(lambda: subscriber.count() >= 10, 60.0, lambda: f"{subscriber.count()} of 10")
        node.wait_lane("cloud", depth=0)
        node.wait_lane("north", depth=0, accepted=10)
        assert {packet.payload.decode().split()[1] for packet in subscriber.packets} == {"before"}


def test_a_listener_access_and_limits_change_while_clients_stay(remote: Mosquitto, start_node: StartNode) -> None:
    config = node_config(bridge_config("cloud", remote.port))
    node = start_node(config)
    other = free_port()
    with MqttClient(node.port, "machine") as client:
        listeners = [{"bind": f"127.0.0.1:{node.port}"}, {"bind": f"127.0.0.1:{other}"}]
        answer = reload(node, {**config, "listeners": listeners, "log": {"level": "debug"}})
        assert hows(answer) == {f"listener 127.0.0.1:{other}: added": "live", "log.level": "live"}
        with MqttClient(other, "another") as another:
            publish(another, "x", "a/2", each=1)
            acl = [{"permission": "deny", "topics": ["secret/#"]}, {"topics": ["#"]}]
            reload(node, {**config, "listeners": listeners[:1], "access": {"allow_anonymous": True, "acl": acl}})
            wait_until(lambda: not accepts(other), PATIENCE_S, "the listener is gone")
            another.expect_end()
        publish(client, "x", "secret/1", "a/1", each=1)
        node.wait_lane("cloud", accepted=2, delivered=2)
        full = node_config(bridge_config("cloud", 1, limits={"max_messages": 3, "overflow": "drop-newest"}, remote={}))
        assert hows(reload(node, full, "--yes"))["bridge cloud: limits.overflow"] == "live"
        publish(client, "more", "a/1", each=5)
        row = node.wait_lane("cloud", depth=3)
        assert row["dropped"] == {"overflow": 2}


def test_lanes_change_while_messages_wait_and_each_topic_keeps_its_order(remote: Mosquitto, start_node: StartNode) -> None:
    topics = [f"a/{number}" for number in range(8)]
    with Proxy(remote.port) as proxy, Subscriber(remote.port, "#") as subscriber:
        proxy.cut()
        node = start_node(node_config(bridge_config("cloud", proxy.port, lanes=1)))
        with MqttClient(node.port, "machine") as client:
            wanted = publish(client, "1", *topics)
            reload(node, node_config(bridge_config("cloud", proxy.port, lanes=3)))
            wanted += publish(client, "2", *topics)
            reload(node, node_config(bridge_config("cloud", proxy.port, lanes=2)))
            wanted += publish(client, "3", *topics)
        proxy.restore()
        arrived(subscriber, wanted)
        for topic in topics:
            found = [packet.payload.decode() for packet in subscriber.packets if packet.topic == topic]
            assert found == [f"{topic} {text} {number}" for text in "123" for number in range(10)]
        wait_until(lambda: len(node.status()["bridges"]) == 2, PATIENCE_S, lambda: f"{node.status()['bridges']}")


def test_an_edited_data_folder_neither_moves_a_node_nor_hides_it(start_node: StartNode, tmp_path: Path) -> None:
    node = start_node(node_config())
    node.configure({**node_config(), "node": {"name": "edge", "data_dir": str(tmp_path / "elsewhere")}})
    config = str(node.config_path)
    told = node.cli("status", config)
    assert (told.returncode, "node edge  ready" in told.stdout) == (0, True), told
    wait_until(lambda: "changed and not reloaded" in node.cli("status", config).stdout, PATIENCE_S, "the file is named")
    answer = reload(node, None, "--yes", status=1)
    assert hows(answer) == {"node.data_dir": "node-restart"}
    node.config_path.write_text("not: [yaml")
    assert node.cli("status", config).returncode == 0
    done = node.cli("reload", config)
    assert (done.returncode, "bascule.yaml:" in done.stderr) == (78, True), done
    stopped = node.cli("stop", config)
    assert (stopped.returncode, stopped.stdout) == (0, "edge: stopped\n"), stopped
    node.wait_ended()


def test_a_hangup_applies_what_gives_nothing_up_and_is_an_event(start_node: StartNode) -> None:
    node = start_node(node_config())
    node.configure(node_config(log={"level": "warning"}))
    node.supervisor.send_signal(signal.SIGHUP)
    wait_until(lambda: node.status()["configuration"]["number"] == 2, PATIENCE_S, lambda: node.output[-2000:])

    def told() -> list[dict[str, Any]]:
        lines = node.cli("events", str(node.config_path), "--json", "--kind", "node").stdout.splitlines()
        return [event for event in map(json.loads, lines) if event["kind"] == "node.reloaded"]

    (event,) = wait_until(told, PATIENCE_S, "the event")
    assert (event["actor"], event["reason"], event["count"]) == ("supervisor", "log.level", 1)


def test_what_an_operator_had_begin_anew_is_no_trouble_anywhere(remote: Mosquitto, start_node: StartNode) -> None:
    node = start_node(node_config(bridge_config("cloud", remote.port)))
    node.wait_lane("cloud", state="connected")
    for number in range(1, 4):
        config = node_config(
            bridge_config("cloud", remote.port, tier2={"max_messages": 1000 + number}), sessions={"in_flight_max": number}
        )
        reload(node, config)
        node.wait_lane("cloud", state="connected")
    assert node.cli("bridge", "restart", str(node.config_path), "cloud").returncode == 0
    wait_until(
        lambda: [one for one in node.events("child.restarted") if one["child"] == "bridge:cloud:0"], PATIENCE_S, "its next life"
    )
    if node.placement == ISOLATED:  # else its process lives on, and none ends
        wait_until(lambda: [one for one in _ended(node) if one["actor"] == "bridge:cloud:0"], PATIENCE_S, lambda: str(_ended(node)))
    node.wait_lane("cloud", state="connected")

    assert {one["reason"] for one in _ended(node)} == ({"ordered"} if node.placement == ISOLATED else set())
    assert {row["name"]: (row["restarts"], row["last_cause"]) for row in node.status()["processes"] if row["restarts"]} == {}
    assert [one for one in ask(node.config_path, load(node.config_path)) if one.verdict != "ok"] == []
    assert " down" not in node.cli("status", str(node.config_path)).stdout


def _ended(node: Node) -> list[dict[str, Any]]:
    lines = node.cli("events", str(node.config_path), "--json", "--kind", "process").stdout.splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] == "process.ended"]


def test_another_password_in_the_same_file_is_used_without_a_reload(
    second: Mosquitto, start_node: StartNode, tmp_path: Path
) -> None:
    node = start_node(node_config(with_login(second.port, tmp_path, "edge", "wrong")))
    with_login(second.port, tmp_path, "edge", "one")
    node.wait_lane("second", state="connected")
