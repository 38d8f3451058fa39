"""The actor that has metrics sent: one sending at a time, failures that are told and not repeated, and one that does not end."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from actors.process.mailbox import Mailbox
from supervisor.telemetry.metrics_exporter import SAID_AGAIN_S, SEND_TIMER, STUCK_S, MetricsExporter, SendingHangs, Sent
from tests.supervisor.tree_double import FakeMailbox
from tests.support.settings import OTLP, node
from wire.config_settings import TelemetrySettings
from wire.errors import BasculeError, ConfigError
from wire.figure import of_map
from wire.status.node_status import TelemetryFigures


class Sender:
    """The actor, whose sendings a test begins and ends."""

    def __init__(self, folder: Path) -> None:
        self.fake = FakeMailbox()
        self.jobs: list[Callable[[], None]] = []
        self.told: list[Sent] = []
        self.fake.in_thread = lambda name, job: self.jobs.append(job)  # type: ignore[method-assign]
        settings = replace(node(telemetry=TelemetrySettings(otlp=OTLP)), run_dir=str(folder))
        self.actor = MetricsExporter(cast(Mailbox, self.fake), settings, 1)
        self.actor.send_from_thread = self._tell  # type: ignore[method-assign]
        self.actor.on_start()

    def _tell(self, message: Sent) -> bool:
        self.told.append(message)
        return True

    @property
    def sendings(self) -> int:
        """How many were begun."""
        return len(self.jobs)

    def pass_interval(self) -> None:
        self.fake.time_s = self.fake.timers[SEND_TIMER]
        self.actor.on_timer(SEND_TIMER, self.fake.time_s)


@pytest.fixture
def sender(tmp_path: Path) -> Sender:
    return Sender(tmp_path)


def test_one_sending_is_under_way_at_a_time(sender: Sender) -> None:
    assert (sender.actor.state, sender.sendings) == ("ready", 1)
    sender.pass_interval()
    assert sender.sendings == 1
    sender.actor.on_thread_message(Sent(taken=True))
    sender.pass_interval()
    assert sender.sendings == 2


def test_a_sending_that_does_not_end_ends_the_process(sender: Sender) -> None:
    while sender.fake.timers[SEND_TIMER] <= OTLP.timeout_s + STUCK_S:
        sender.pass_interval()
    with pytest.raises(SendingHangs):
        sender.pass_interval()


def test_what_becomes_of_the_sendings_is_in_the_status(sender: Sender) -> None:
    actor, fake = sender.actor, sender.fake
    assert actor.status() == of_map(TelemetryFigures, {"endpoint": OTLP.endpoint})
    actor.on_thread_message(Sent(error="away"))
    fake.time_s += 7.0
    actor.on_thread_message(Sent(error="still away"))
    status = actor.status()
    assert (status.failures, status.failing_s, status.error) == (2, 7.0, "still away")
    actor.on_thread_message(Sent(taken=True, refused=3, error="it left out 3 values"))
    status = actor.status()
    assert (status.exports, status.points_refused, status.failing_s) == (1, 3, None)
    assert (status.error, status.last_export_ms) == ("it left out 3 values", fake.wall_ms())


def test_the_log_says_a_failure_and_its_end_once_and_what_comes_and_goes_not_often(
    sender: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "bascule")

    def said(*sent: Sent) -> list[str]:
        caplog.clear()
        for one in sent:
            sender.fake.time_s += 1.0
            sender.actor.on_thread_message(one)
        return [record.message for record in caplog.records]

    away, well = Sent(error="away"), Sent(taken=True)
    assert said(well, well) == ["telemetry.sent"]
    assert said(away, away, Sent(error="something else")) == ["telemetry.failed"]
    assert said(well, well) == ["telemetry.sent"]
    assert said(away, well, away, well) == []
    sender.fake.time_s += SAID_AGAIN_S
    assert said(away, away, well, well) == ["telemetry.failed", "telemetry.sent"]


def test_a_node_that_does_not_answer_is_no_fault_of_the_process(sender: Sender) -> None:
    sender.actor._node._timeout_s = 0.01
    sender.jobs[0]()

    (told,) = sender.told
    assert (told.taken, told.fault) == (False, None)
    assert told.error.startswith("the node itself gave no status: ")


def test_without_the_extra_the_process_says_what_to_install(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "supervisor.telemetry.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.metrics.export", None)
    sender.jobs[0]()

    with pytest.raises(ConfigError, match=r"pip install .*\[otel\]"):
        sender.actor.on_thread_message(sender.told[0])


def test_a_bug_in_a_sending_ends_the_process(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender.actor, "_on_sent", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        sender.jobs[0]()
    with pytest.raises(BasculeError, match="ended by itself"):
        sender.actor.on_thread_message(sender.told[0])
