"""What /metrics, ``bascule status --json``, the REST API (which the page reads) and the queues tell of a node agrees.

At rest each number is the same everywhere. Under load what only grows lies between the answers to ``status`` before and after.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from supervisor.metrics.metric import Buckets, Labels, Metric
from supervisor.metrics.table import METRICS
from tests.supervisor.http.client import request
from tests.supervisor.http.served import TOKENS, Served, serve
from tests.support.fake_remote import FakeRemote
from tests.support.mqtt_client import MqttClient
from tests.support.node import bridge_config
from tests.support.ports import free_port
from tests.support.publisher import Publisher
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.process

Values = dict[tuple[str, Labels], float]

NOT_AUTHORIZED = 0x87
DEAD, GOOD, ROOM = 3, 9, 5
SAMPLES = 10

# Gauges that move while nothing happens: ages, what processes take, and whoever asks. Counters may grow anywhere.
MOVING = {
    "bascule_actor_heartbeat_age_seconds",
    "bascule_bridge_next_attempt_seconds",
    "bascule_bridge_queue_drain_seconds",
    "bascule_bridge_queue_oldest_age_seconds",
    "bascule_bridge_state_age_seconds",
    "bascule_disk_free_bytes",
    "bascule_http_open_connections",
    "bascule_process_pss_bytes",
}
# Counters that grow while nothing happens: the questions themselves, and what carries them.
GROWING = {
    "bascule_actor_frames_received_total",
    "bascule_actor_frames_sent_total",
    "bascule_actor_turns_total",
    "bascule_control_requests_total",
    "bascule_http_answers_total",
    "bascule_http_connections_total",
    "bascule_process_cpu_seconds_total",
    "bascule_supervisor_frames_received_total",
    "bascule_supervisor_frames_sent_total",
    "bascule_supervisor_turns_total",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
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
        with serve(tmp_path_factory.mktemp("agreement"), *bridges) as served:
            served.node.wait_lane("cloud", state="connected")
            with MqttClient(served.node.port, version=5) as client:
                client.publish_burst("bad/1", [str(number) for number in range(DEAD)], 1)
                client.publish_burst("good/1", [str(number) for number in range(GOOD)], 1)
            served.node.wait_lane("cloud", depth=0, dead_lettered=DEAD, delivered=GOOD)
            served.node.wait_lane("away", state="backoff", depth=ROOM)
            yield served


def printed(served: Served) -> dict[str, Any]:
    """What ``bascule status --json`` prints."""
    status: dict[str, Any] = json.loads(served.node.cli("status", str(served.node.config_path), "--json").stdout)
    return status


def of_status(status: Mapping[str, Any]) -> Values:
    """The numbers of all metrics in an answer to ``status``; of a histogram those of its buckets, its sum and its count."""
    return {key: value for metric in METRICS for key, value in numbers(metric, status)}


def numbers(metric: Metric, status: Mapping[str, Any]) -> Iterator[tuple[tuple[str, Labels], float]]:
    for labels, value in metric.values(status).items():
        if metric.kind == "info":
            continue
        if isinstance(value, Buckets):
            for bound, count in value.cumulative():
                yield (f"{metric.name}_bucket", (*labels, f"{bound:g}")), float(count)
            yield (f"{metric.name}_sum", labels), value.total
            yield (f"{metric.name}_count", labels), float(value.cumulative()[-1][1])
        else:
            yield (metric.name, labels), value


def of_text(text: str) -> Values:
    """The same from Prometheus's text format, as simply as can be."""
    found: Values = {}
    for line in text.splitlines():
        read = re.fullmatch(r"(\w+)(?:{(.*)})? (\S+)", line)
        if read is None or read[1].endswith("_info"):
            assert read or line.startswith("#"), line
            continue
        labels = in_order(read[1], re.findall(r'(\w+)="([^"]*)"', read[2] or ""))
        found[read[1], tuple(f"{float(text):g}" if key == "le" else text for key, text in labels)] = float(read[3])
    return found


def in_order(name: str, labels: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """``labels`` in the order of the table, ``le`` last; the format leaves it open."""
    order = next((metric.labels for metric in METRICS if metric.name in (name, re.sub("_(bucket|sum|count)$", "", name))), ())
    return sorted(labels, key=lambda label: (*order, "le").index(label[0]))


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


def lasting(values: Values) -> Values:
    return {key: value for key, value in values.items() if key[0] not in MOVING | GROWING}


def sample_at_rest(served: Served) -> tuple[Values, Values, Values] | None:
    """What ``status``, /metrics and the REST API tell; None if that changed meanwhile: the store still wrote."""
    before = lasting(of_status(printed(served)))
    told = lasting(metrics(served))
    answered = lasting(of_status(served.get("/status").json))
    return (before, told, answered) if lasting(of_status(printed(served))) == before else None


def assert_all_agree(served: Served) -> Values:
    """At rest: all ways tell the same numbers, which add up. Those of /metrics."""
    sample = wait_until(lambda: sample_at_rest(served), PATIENCE_S, "the node is at rest")
    assert sample is not None
    status, told, answered = sample
    assert told == status
    assert answered == status
    assert ledger_is_open(told) == []
    return told


def test_at_rest_each_number_is_the_same_everywhere(served: Served) -> None:
    told = assert_all_agree(served)

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


def test_under_load_what_only_grows_lies_between_two_answers(served: Served) -> None:
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
    assert_all_agree(served)
