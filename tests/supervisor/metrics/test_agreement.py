"""Agreement of /metrics, a collector, ``bascule status --json``, the REST API (which the page reads) and the queues about a node.

At rest each number is the same everywhere. Under load what only grows lies between the answers to ``status`` before and after.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from supervisor.metrics.table import METRICS
from tests.supervisor.http.client import request
from tests.supervisor.http.served import TOKENS, Served, serve
from tests.supervisor.metrics.values import Values, lasting, of_export, of_status, of_text
from tests.supervisor.telemetry.receiver import Receiver
from tests.support.fake_remote import FakeRemote
from tests.support.mqtt_client import MqttClient
from tests.support.node import bridge_config
from tests.support.ports import free_port
from tests.support.publisher import Publisher
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.process

NOT_AUTHORIZED = 0x87
DEAD, GOOD, ROOM = 3, 9, 5
SAMPLES = 10


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Served]:
    """``cloud`` is connected and has refused some; ``away`` is down for longer than the test, and its queue is full."""
    with FakeRemote() as remote:
        remote.reason_code = lambda packet: NOT_AUTHORIZED if packet.topic.startswith("bad/") else 0
        bridges = (
            bridge_config("cloud", remote.port, protocol="mqtt5"),
            bridge_config(
                "away",
                free_port(),
                backoff={"initial": "1h", "max": "1h"},
                limits={"max_messages": ROOM, "overflow": "drop-oldest"},
            ),
        )
        telemetry = {"otlp": {"endpoint": receiver.endpoint, "interval": "1s"}}
        with serve(tmp_path_factory.mktemp("agreement"), *bridges, telemetry=telemetry) as served:
            served.node.wait_lane("cloud", state="connected")
            with MqttClient(served.node.port, version=5) as client:
                client.publish_burst("bad/1", [str(number) for number in range(DEAD)], 1)
                client.publish_burst("good/1", [str(number) for number in range(GOOD)], 1)
            served.node.wait_lane("cloud", depth=0, dead_lettered=DEAD, delivered=GOOD)
            served.node.wait_lane("away", state="backoff", depth=ROOM)
            yield served


def printed(served: Served) -> dict[str, Any]:
    """The output of ``bascule status --json``."""
    status: dict[str, Any] = json.loads(served.node.cli("status", str(served.node.config_path), "--json").stdout)
    return status


def metrics(served: Served) -> Values:
    return of_text(request(served.port, "/metrics", token=TOKENS["view"]).body.decode())


def only_grows() -> set[str]:
    parts = [metric.name + part for metric in METRICS if metric.kind == "histogram" for part in ("_bucket", "_sum", "_count")]
    return {metric.name for metric in METRICS if metric.kind == "counter"} | set(parts)


def ledger_is_open(values: Values) -> list[str]:
    """The bridges whose messages do not add up in ``values``."""

    def of(name: str, bridge: str) -> float:
        return sum(value for (one, labels), value in values.items() if one == f"bascule_bridge_{name}" and labels[0] == bridge)

    gone = ("delivered_messages_total", "expired_messages_total", "dropped_messages_total", "dead_lettered_messages_total")
    return [
        bridge
        for bridge in ("cloud", "away")
        if of("accepted_messages_total", bridge) != of("queue_messages", bridge) + sum(of(name, bridge) for name in gone)
    ]


def sample_at_rest(served: Served, receiver: Receiver) -> tuple[Values, Values, Values, Values] | None:
    """The figures of ``status``, /metrics, the REST API and an export; None if they changed meanwhile: the store still wrote."""
    before = lasting(of_status(printed(served)))
    told = lasting(metrics(served))
    answered = lasting(of_status(served.get("/status").json))
    sent = lasting(of_export(receiver.next().message))
    return (before, told, answered, sent) if lasting(of_status(printed(served))) == before else None


def assert_all_agree(served: Served, receiver: Receiver) -> Values:
    """At rest: all ways tell the same numbers, which add up. Those of /metrics."""
    sample = wait_until(lambda: sample_at_rest(served, receiver), PATIENCE_S, "the node is at rest")
    assert sample is not None
    status, told, answered, sent = sample
    assert told == status
    assert answered == status
    assert sent == status
    assert ledger_is_open(told) == []
    return told


def test_at_rest_each_number_is_the_same_everywhere(served: Served, receiver: Receiver) -> None:
    told = assert_all_agree(served, receiver)

    def of(name: str, *labels: str) -> float:
        return told[f"bascule_bridge_{name}", labels]

    all_messages = DEAD + GOOD
    assert (of("accepted_messages_total", "cloud", "0"), of("accepted_messages_total", "away", "0")) == (all_messages, all_messages)
    assert (of("delivered_messages_total", "cloud", "0"), of("dead_lettered_messages_total", "cloud", "0")) == (GOOD, DEAD)
    assert (of("dead_letters", "cloud"), of("dead_letters_by_reason", "cloud", "remote_0x87")) == (DEAD, DEAD)
    assert of("dropped_messages_total", "away", "0", "overflow") == all_messages - ROOM
    assert (of("state", "cloud", "0", "connected"), of("state", "away", "0", "backoff")) == (1, 1)

    queues = served.get("/queues").json
    for row in queues["queues"]:
        if row.get("bridge"):
            assert row["depth"] == of("queue_messages", row["bridge"], str(row["lane"]))
            assert row["bytes"] == of("queue_bytes", row["bridge"], str(row["lane"]))
    assert {row["bridge"]: row["held"] for row in queues["dead_letters"] if row["held"]} == {"cloud": DEAD}


def test_under_load_what_only_grows_lies_between_two_answers(served: Served, receiver: Receiver) -> None:
    with Publisher(served.node.port, "good/load", qos=1, rate_per_s=300.0) as publisher:
        for _ in range(SAMPLES):
            before = of_status(served.node.status())
            told = metrics(served)
            after = of_status(served.node.status())
            for key in (key for key in told if key[0] in only_grows()):
                assert before.get(key, 0) <= told[key] <= after[key], key
            assert ledger_is_open(told) == []
        publisher.finish()
    assert told["bascule_bridge_accepted_messages_total", ("cloud", "0")] > DEAD + GOOD

    served.node.wait_lane("cloud", depth=0, in_flight=0)
    wait_until(lambda: served.node.status()["listener"]["clients"] == 0, PATIENCE_S, "the publisher is gone")
    assert_all_agree(served, receiver)
