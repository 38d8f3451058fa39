"""``bascule trace`` and ``bascule topics`` on a real node: each step that a message takes is told, and why it takes none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from supervisor.control.client import ControlClient
from supervisor.control.control_socket import ControlError
from tests.support.fake_remote import FakeRemote
from tests.support.mqtt_client import MqttClient
from tests.support.node import Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until
from wire.status.answers import TraceSteps

NOT_AUTHORIZED = 0x87


@pytest.fixture(scope="module")
def remote() -> Iterator[FakeRemote]:
    with FakeRemote() as remote:
        remote.reason_code = lambda packet: NOT_AUTHORIZED if "/bad/" in packet.topic else 0
        yield remote


@pytest.fixture(scope="module")
def node(remote: FakeRemote, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Bridge ``cloud`` excludes secret/#, bridge ``away`` has no remote, ``small`` has room for one message."""
    config = node_config(
        bridge_config(
            "cloud",
            remote.port,
            protocol="mqtt5",
            local_subscriptions=[
                {
                    "name": "all",
                    "filters": ["cloud/#", "both/#", "bad/#", "secret/#"],
                    "excludes": ["secret/#"],
                    "destination": "x/{#}",
                }
            ],
        ),
        bridge_config(
            "away",
            free_port(),
            local_subscriptions=[{"filters": ["away/#", "both/#"]}],
            backoff={"initial": "1h", "max": "1h"},  # it is not seen in an attempt
        ),
        bridge_config(
            "small",
            free_port(),
            local_subscriptions=[{"filters": ["small/#"]}],
            limits={"max_messages": 1, "overflow": "reject"},
        ),
        access={
            "allow_anonymous": True,
            "acl": [{"permission": "deny", "topics": ["no/#"], "action": "publish"}, {"topics": ["#"]}],
        },
    )
    with Node(config, tmp_path_factory.mktemp("trace")) as node:
        node.wait_lane("cloud", state="connected")
        node.wait_lane("away", state="backoff")
        yield node


@pytest.fixture
def client(node: Node) -> Iterator[ControlClient]:
    with ControlClient.of_config(node.config_path) as client:
        yield client


def follow(client: ControlClient, node: Node, topic: str, *, qos: int = 1, until: str = "done", retain: bool = False) -> TraceSteps:
    """The steps of a message to ``topic``, once the trace is in state ``until``."""
    number = client.trace(topic).number
    with MqttClient(node.port, client_id="pump-7", version=5) as publisher:
        publisher.publish(topic, "21.5", qos=qos, packet_id=1 if qos else None, retain=retain)
        return reached(client, number, until)


def reached(client: ControlClient, number: int, *states: str) -> TraceSteps:
    seen = client.trace_result(number)

    def look() -> bool:
        nonlocal seen
        seen = client.trace_result(number)
        return seen.state in states

    wait_until(look, 20.0, lambda: f"{states}: {seen}", period_s=0.05)
    return seen


def steps(result: TraceSteps) -> list[str]:
    return [step.step for step in result.steps]


def details(result: TraceSteps, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(step.details for step in result.steps if step.step == name)
    return found


@pytest.mark.parametrize(("qos", "answers"), [(1, ["answered"]), (2, ["received", "answered"])], ids=["qos 1", "qos 2"])
def test_a_message_is_seen_in_every_step_to_the_remote_and_back(
    qos: int, answers: list[str], client: ControlClient, node: Node
) -> None:
    result = follow(client, node, "cloud/1", qos=qos)

    told = steps(result)
    assert sorted(told) == sorted(["taken", "routed", "committed", "acknowledged", "handed_out", "sent", *answers, "settled"])
    for earlier, later in (("taken", "routed"), ("routed", "committed"), ("committed", "acknowledged"), ("sent", "answered")):
        assert told.index(earlier) < told.index(later)
    taken, (lane,) = details(result, "taken"), details(result, "routed")["lanes"]
    assert (taken["client_id"], taken["topic"], taken["qos"], taken["bytes"]) == ("pump-7", "cloud/1", qos, 4)
    assert (lane["bridge"], lane["queue"], lane["rule"]) == ("cloud", "bridge:cloud:0", "all")
    assert {one["bridge"]: one["why"] for one in details(result, "routed")["not_to"]} == dict.fromkeys(
        ("away", "small"), "no filter of its local_subscriptions matches it"
    )
    assert details(result, "committed")["commit"] > 0
    assert details(result, "acknowledged") == {"packet": "PUBACK" if qos == 1 else "PUBREC"}
    seq = details(result, "handed_out")["seq"]
    assert details(result, "sent") == {"remote": details(result, "sent")["remote"], "qos": qos, "packet_id": seq + 1}
    assert details(result, "answered") == {"packet": "PUBACK" if qos == 1 else "PUBCOMP"}
    assert details(result, "settled") == {"outcome": "delivered"}
    assert result.steps[0].after_ms == 0
    assert result.note == "the message has left every queue"


def test_a_message_that_waits_says_for_which_link(client: ControlClient, node: Node) -> None:
    number = client.trace("both/+").number
    with MqttClient(node.port, version=5) as publisher:
        publisher.publish("both/1", "x", qos=1, packet_id=1)
        wait_until(lambda: "waits" in steps(client.trace_result(number)), 20.0, "it waits for bridge away")
        wait_until(lambda: "settled" in steps(client.trace_result(number)), 20.0, "it is through bridge cloud")
    result = client.trace_result(number)
    (waits,) = [step for step in result.steps if step.step == "waits"]
    assert (waits.queue, waits.details["link"]) == ("bridge:away:0", "backoff")
    assert "refused" in waits.details["reason"].lower()
    assert (result.state, result.note) == ("following", "the message is on its way")


def test_why_a_message_goes_nowhere_is_said(client: ControlClient, node: Node) -> None:
    result = follow(client, node, "secret/1", retain=True)
    routed = details(result, "routed")
    assert (routed["lanes"], routed["retained"]) == ([], True)
    assert routed["not_to"][0] == {"bridge": "cloud", "why": "no rule takes it, and exclude of all matches it"}
    assert result.note == "the message went to no queue, and is retained"


def test_what_the_access_list_forbids_is_said(client: ControlClient, node: Node) -> None:
    result = follow(client, node, "no/1")
    assert steps(result) == ["denied"]
    assert (details(result, "denied")["client_id"], result.note) == (
        "pump-7",
        "the access list forbids the message: it went nowhere",
    )


def test_what_the_remote_refuses_is_said(client: ControlClient, node: Node) -> None:
    assert details(follow(client, node, "bad/1"), "settled") == {"outcome": "dead:remote_0x87"}


def test_what_a_full_queue_refuses_is_said(client: ControlClient, node: Node) -> None:
    with MqttClient(node.port, version=5) as publisher:
        publisher.publish("small/1", "x", qos=1, packet_id=1)
        node.wait_lane("small", depth=1)
    result = follow(client, node, "small/1")
    assert "refused" in steps(result)
    assert "is full" in result.note
    assert details(result, "refused")["full"] == ["small"]


def test_local_sessions_are_among_the_receivers(client: ControlClient, node: Node) -> None:
    with MqttClient(node.port, client_id="panel", version=5, clean=False, session_expiry_s=60) as panel:
        panel.subscribe("local/#", qos=1)
        number = follow(client, node, "local/1", until="following").number
        wait_until(lambda: "routed" in steps(client.trace_result(number)), 10.0, "it is routed")
        result = client.trace_result(number)
        assert details(result, "routed")["sessions"] == ["panel"]


def test_no_message_and_another_trace_end_one(client: ControlClient, node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    number = client.trace("none/1", timeout_s=1).number
    assert reached(client, number, "timed_out").note == "no message whose topic matches none/1 has come within 1 s"
    number = client.trace("none/1").number
    client.trace("none/2")
    assert client.trace_result(number).state == "replaced"
    with pytest.raises(ControlError, match="there is no trace 999"):
        client.trace_result(999)
    with pytest.raises(ControlError, match="topic"):
        client.trace("a/#/b")


def test_the_command_prints_a_line_for_each_step(node: Node, client: ControlClient) -> None:
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(node.cli("trace", str(node.config_path), "cloud/cli")))
    number = client.trace("other").number
    thread.start()
    wait_until(lambda: client.trace_result(number).state == "replaced", 30.0, "the command waits for its message")
    with MqttClient(node.port, client_id="pump-8", version=5) as publisher:
        publisher.publish("cloud/cli", "x", qos=1, packet_id=1)
        thread.join(PATIENCE_S)
    (ended,) = done
    lines = ended.stdout.splitlines()
    assert lines[0] == "cloud/cli, QoS 1, 1 bytes"
    assert "taken from pump-8 (127.0.0.1:" in lines[1]
    assert lines[-1] == "the message has left every queue"
    assert max(map(len, lines)) <= 100
    assert any("goes to bridge:cloud:0 by rule all" in line for line in lines)
    assert ended.returncode == 0


def test_topics_are_counted_while_somebody_asks(node: Node, client: ControlClient) -> None:
    client.topics()
    with MqttClient(node.port, version=5) as publisher:
        for number, topic in enumerate(["cloud/a", "cloud/a", "cloud/b"], 1):
            publisher.publish(topic, "12345", qos=1, packet_id=number)
        wait_until(lambda: {row.topic for row in client.topics().topics} >= {"cloud/a", "cloud/b"}, 10.0, "both counted")
    counted = {row.topic: (row.messages, row.bytes) for row in client.topics().topics}
    assert (counted["cloud/a"], counted["cloud/b"]) == ((2, 10), (1, 5))
    one = client.topics(1)
    assert (len(one.topics), one.others) == (1, sum(count for count, _ in counted.values()) - one.topics[0].messages)
    shown = node.cli("topics", str(node.config_path), "--seconds", "1", "--top", "5").stdout.splitlines()
    assert shown[0].split()[:4] == ["PER", "S", "MESSAGES", "BYTES"]
