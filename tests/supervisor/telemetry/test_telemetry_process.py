"""A real node that sends its metrics: to a collector that comes and goes, with and without the section, and never in the way."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from supervisor.control.client import ControlClient
from supervisor.doctor.running_node import examine_status
from tests.supervisor.telemetry.receiver import Answer, Receiver
from tests.support.node import Config, Node, node_config
from tests.support.waiting import PATIENCE_S, wait_until
from wire.figure import of_map
from wire.status.answers import ReloadChange
from wire.status.node_status import Status

pytestmark = pytest.mark.process


def config(receiver: Receiver, **keys: Any) -> Config:
    return node_config(telemetry={"otlp": {"endpoint": receiver.endpoint, "interval": "1s", "timeout": "1s", **keys}})


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def sending(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Node]:
    """It has no HTTP interface, and an environment that would lead elsewhere."""
    environment = {"OTEL_EXPORTER_OTLP_HEADERS": "x-of=environment", "OTEL_SDK_DISABLED": "true"}
    with Node(config(receiver), tmp_path_factory.mktemp("sending"), environment=environment) as node:
        receiver.next()
        yield node


def telemetry(node: Node) -> dict[str, Any]:
    figures: dict[str, Any] = node.status()["telemetry"]
    return figures


def wait_error(node: Node, words: str) -> dict[str, Any]:
    """Wait until the status says that the last export failed, with these ``words``; its figures."""
    seen: dict[str, Any] = {}

    def failed() -> bool:
        seen.update(telemetry(node))
        return words in seen["error"]

    wait_until(failed, PATIENCE_S, lambda: f"{words}; it is {seen}", period_s=0.1)
    return seen


def wait_well(node: Node) -> dict[str, Any]:
    """Wait until the collector has taken one more; the figures then."""
    exports, seen = telemetry(node)["exports"], {}

    def taken() -> bool:
        seen.update(telemetry(node))
        return bool(seen["exports"] > exports)

    wait_until(taken, PATIENCE_S, lambda: f"an export; it is {seen}", period_s=0.1)
    return seen


def reload(node: Node, changed: Config) -> tuple[ReloadChange, ...]:
    node.configure(changed)
    with ControlClient.of_data_dir(node.data_dir, timeout_s=PATIENCE_S) as client:
        answer = client.reload()
    assert answer.applied, answer
    wait_until(lambda: not node.status()["configuration"]["pending"], PATIENCE_S, "all go by it", period_s=0.05)
    return answer.changes


def test_it_sends_of_the_node_what_the_configuration_says(sending: Node, receiver: Receiver) -> None:
    export = receiver.next()

    (resource,) = export.message.resource_metrics
    told = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert (told["service.name"], told["service.instance.id"]) == ("bascule", "edge")
    assert told["service.version"] == sending.status()["version"]
    assert "x-of" not in export.headers
    figures = telemetry(sending)
    assert (figures["endpoint"], figures["error"], figures["failing_s"]) == (receiver.endpoint, "", None)
    assert 0 < figures["last_export_ms"] <= export.at_ns // 1_000_000 + 1000 * PATIENCE_S


def test_a_collector_that_is_away_is_told_and_disturbs_nothing(sending: Node, receiver: Receiver) -> None:
    receiver.close()
    figures = wait_error(sending, "Connection refused")
    assert figures["failing_s"] >= 0
    status = sending.status()
    assert status["ready"]
    assert {row["restarts"] for row in status["processes"]} == {0}
    (finding,) = [finding for finding in examine_status(of_map(Status, status)) if finding.about.startswith("telemetry")]
    assert (finding.verdict, "4318" in finding.cure) == ("fail", True)
    assert "Connection refused" in sending.cli("status", str(sending.config_path)).stdout
    receiver.open()
    assert wait_well(sending)["failing_s"] is None
    assert [event["error"] for event in sending.events("telemetry.failed")] == ["Connection refused"]
    assert len(sending.events("telemetry.sent")) == 2


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(401), "it answered 401 Unauthorized"),
        (Answer(200, b"<html>"), "nothing that a collector says"),
        (Answer(late=True), "no answer in time"),
    ],
    ids=["refuses", "rubbish", "slow"],
)
def test_answers_that_are_wrong_or_late_are_told(sending: Node, receiver: Receiver, answer: Answer, words: str) -> None:
    receiver.answer = answer
    wait_error(sending, words)
    assert sending.status()["ready"]
    receiver.answer = Answer()
    wait_well(sending)


def test_a_killed_process_is_started_again_and_the_node_stays_ready(sending: Node, receiver: Receiver) -> None:
    pid = sending.kill("telemetry", signal.SIGKILL)
    assert sending.status()["ready"]
    sending.wait_replaced("telemetry", pid)
    receiver.next()


def test_a_reload_takes_it_away_changes_it_and_brings_it_back(sending: Node, receiver: Receiver) -> None:
    others = {sending.pid(name) for name in ("store", "clients")}

    (change,) = reload(sending, config(receiver, headers={"authorization": "Bearer secret"}))
    assert (change.what, change.how, change.target, change.detail) == (
        "telemetry.otlp.headers",
        "restart",
        "telemetry",
        "",
    )
    wait_until(lambda: receiver.next().headers.get("authorization") == "Bearer secret", PATIENCE_S, "the other header")
    assert "secret" not in sending.output

    (change,) = reload(sending, node_config())
    assert (change.what, change.how, change.target) == ("telemetry", "restart", "telemetry")
    wait_until(lambda: sending.find_pid("telemetry") is None, PATIENCE_S, "its end")
    wait_until(lambda: telemetry(sending) == {}, PATIENCE_S, "a supervisor that knows of its end")
    count = len(receiver.exports)

    reload(sending, config(receiver))
    receiver.next()
    assert len(receiver.exports) > count
    assert others == {sending.pid(name) for name in ("store", "clients")}
    assert sending.stop() == 0
