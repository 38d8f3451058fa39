"""The cure of what keeps a process or the sending of metrics from its work is that of its reason, whatever the words are."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.doctor.findings import Finding
from supervisor.doctor.running_node import examine_status
from wire.figure import of_map
from wire.status.node_status import Status
from wire.status.states import CollectorFault

WORDS = "cannot listen on 127.0.0.1:1883: 98"


def found(about: str, **status: Any) -> Finding:
    (finding,) = [finding for finding in examine_status(of_map(Status, status)) if finding.about.startswith(about)]
    return finding


@pytest.mark.parametrize(("figures", "actor"), [("listener", "listener"), ("http", "http_server")])
def test_who_cannot_listen_is_told_to_take_another_port_and_nobody_else_is(figures: str, actor: str) -> None:
    row = {"name": "clients", "state": "starting", "last_cause": f"it waits: {WORDS}", "actors": [actor]}
    assert "another port" in found("clients", processes=[row], **{figures: {"error": WORDS}}).cure
    assert "another port" not in found("clients", processes=[row], **{figures: {"error": ""}}).cure
    assert "another port" not in found("clients", processes=[{**row, "actors": []}]).cure


@pytest.mark.parametrize("fault", CollectorFault)
def test_a_collector_that_takes_nothing_is_cured_by_its_fault(fault: CollectorFault) -> None:
    told = {"endpoint": "http://c:4318", "failing_s": 3.0, "error": "it answered 401: the certificate is refused", "fault": fault}
    assert found("telemetry", telemetry=told).cure == fault.cure
