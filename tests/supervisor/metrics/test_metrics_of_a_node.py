"""The metrics of a real node: who may have them, in which form, and that nothing which the status says is missing."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from supervisor.control.client import ControlClient
from supervisor.metrics.exposition import OPENMETRICS, TEXT
from supervisor.metrics.table import METRICS
from tests.supervisor.http.client import Answer, request
from tests.supervisor.http.served import TOKENS, Served, serve
from tests.support.mosquitto import Mosquitto
from tests.support.node import bridge_config
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until
from wire.figure import of_map, to_map
from wire.status.node_status import Status

pytestmark = pytest.mark.process

ROWS = ("bridges", "processes", "actors", "unserved")
# Numbers in the status that are no metric.
LEFT_OUT = {
    "actors[].restarts": "as processes[].restarts",
    "bridges[].lane": "a label",
    "bridges[].rate_in": "of a counter",
    "bridges[].rate_out": "of a counter",
    "bridges[].remote_filters": "the store's record behind bridges[].remote_subscriptions.filters",
    "bridges[].room.most": "a setting",
    "bridges[].room.used": "as bridges[].full, of messages or of bytes",
    "bridges[].link.attempts": "as bridges[].attempts",
    "bridges[].link.down_s": "as bridges[].down_s, but of this process alone",
    "bridges[].link.protocol": "a setting",
    "bridges[].link.in_flight": "as bridges[].in_flight",
    "bridges[].link.next_attempt_s": "as bridges[].next_attempt_s",
    "bridges[].link.retry_in_s": "as bridges[].next_attempt_s",
    "bridges[].link.since_s": "as bridges[].since_s",
    "store.sessions.dropped": "the sum of store.sessions.dropped_by_reason",
    "supervisor.uptime_s": "by the start time",
    "http.tls": "a setting",
    "history.max_bytes": "a setting",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Mosquitto(tmp_path_factory.mktemp("remote")) as remote:
        bridges = (
            bridge_config("cloud", remote.port, remote_subscriptions=[{"filters": ["commands/#"]}]),
            bridge_config("away", free_port()),
        )
        with serve(tmp_path_factory.mktemp("metrics"), *bridges) as served:
            served.node.wait_lane("cloud", state="connected")
            yield served


def get(served: Served, role: str | None = "view", **keys: Any) -> Answer:
    return request(served.port, "/metrics", token=None if role is None else TOKENS[role], **keys)


def test_they_are_for_whoever_may_see_the_status(served: Served) -> None:
    assert (get(served, None).status, get(served, None).kind) == (401, "no_token")
    for role in TOKENS:
        answer = get(served, role)
        assert (answer.status, answer.headers["content-type"]) == (200, TEXT)
        assert b"bascule_ready 1.0\n" in answer.body


def test_who_asks_for_openmetrics_gets_it(served: Served) -> None:
    answer = get(served, headers={"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"})

    assert (answer.status, answer.headers["content-type"]) == (200, OPENMETRICS)
    assert answer.body.endswith(b"# EOF\n")


def test_head_has_no_body(served: Served) -> None:
    answer = get(served, method="HEAD")

    assert (answer.status, answer.body) == (200, b"")


def test_the_command_and_the_client_tell_the_same(served: Served) -> None:
    def names(text: str) -> set[str]:
        return {line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#") and "_info{" not in line}

    with ControlClient.of_data_dir(served.node.data_dir) as node:
        told = node.metrics().decode()
    printed = served.node.cli("metrics", str(served.node.config_path))  # later: there is more of a node the longer it runs

    assert printed.returncode == 0
    lasting = {name for name in names(told) if "age_seconds" not in name and "next_attempt" not in name}
    assert lasting <= names(printed.stdout)
    assert lasting <= names(get(served).body.decode())


def test_promtool_finds_nothing_to_complain_of(served: Served) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    for body in (get(served).body, served.node.cli("metrics", str(served.node.config_path)).stdout.encode()):
        checked = subprocess.run([promtool, "check", "metrics"], input=body, capture_output=True, timeout=60)
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def test_the_status_is_the_tree_that_is_declared_and_its_words_lead_back_to_it(served: Served) -> None:
    """Each field of ``docs/reference/status.md``, which is made of the tree, and no other."""
    status = served.node.status()

    assert to_map(of_map(Status, status)) == status


def test_each_number_of_the_status_is_a_metric_or_left_out_for_a_reason(served: Served) -> None:
    found: set[str] = set()

    def all_seen() -> bool:
        """A rate is known after a while, and the time of an attempt between two of them."""
        found.update(numbers(served.node.status(), ""))
        return set(LEFT_OUT) <= found

    wait_until(all_seen, PATIENCE_S, lambda: f"what is in the status no more need not be left out: {set(LEFT_OUT) - found}")
    told = {metric.path for metric in METRICS}
    by_key = {path.partition("{")[0] for path in told if "{" in path}

    assert {path for path in found - told if path.rpartition(".")[0] not in by_key} - set(LEFT_OUT) == set()


def numbers(value: Any, path: str) -> Iterator[str]:
    """The paths, as those of metrics, of all numbers in ``value``; process numbers are none."""
    is_histogram = isinstance(value, dict) and set(value) == {"bounds", "counts", "sum"}
    if is_histogram or (isinstance(value, bool | int | float) and not path.endswith("pid")):
        yield path
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from numbers(one, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list) and path in ROWS:
        for row in value:
            yield from numbers(row, f"{path}[]")
