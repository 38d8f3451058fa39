"""The history in the supervisor's actor: when there is a record, who is answered, and what a disk that fails costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from actors.process.actor import PolledActor
from storage.node_history import DAMAGED_NAME, FOLDER_NAME
from supervisor.control.control_socket import Answers, ControlError, Request, parse_answer
from supervisor.history.node_history import ASKERS_MAX, FIRST_S, TIMER, NodeHistory, question_of
from supervisor.history.sampling import LaneSample, Sample
from tests.supervisor.actor_double import Host
from tests.support.present import present
from tests.support.settings import bridge, node
from wire.config_settings import HistorySettings, SettingsNow
from wire.errors import BasculeError
from wire.figure import of_map
from wire.frames.names import LaneName
from wire.status.answers import History
from wire.status.bridges import QueueFigures

CLOUD = LaneName("cloud", 0)


@pytest.fixture(autouse=True)
def _no_nice_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads are this one."""
    monkeypatch.setattr("os.setpriority", lambda *_arguments: None)


class Hanging(Host):
    """Threads go on when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[Callable[[], None]] = []
        self.hangs = False

    def in_thread(self, name: str, job: Callable[[], None]) -> None:
        if self.hangs:
            self.jobs.append(job)
        else:
            super().in_thread(name, job)

    def go_on(self) -> None:
        self.hangs = False
        for job in self.jobs:
            job()


class Kept:
    """The history of a node with one bridge, which takes a message a second."""

    def __init__(self, folder: Path, **own: Any) -> None:
        self.host = Hanging()
        self.settings = SettingsNow(node(bridge("cloud", 1), data_dir=str(folder), history=HistorySettings(**own)))
        self.answers: list[bytes] = []
        self.history = NodeHistory(cast(PolledActor, self.host), self.settings, self._sample, self._answer)
        self.history.start()

    def _sample(self) -> Sample:
        queue = QueueFigures(depth=4, bytes=40, accepted=int(self.host.at_s), delivered=int(self.host.at_s) - 4)
        lanes = {CLOUD: LaneSample(queue=queue, down_s=0.0)}
        return Sample(at_ms=self.host.wall_ms(), now_s=self.host.at_s, lanes=lanes, clients=1)

    def _answer(self, answers: Answers) -> None:
        self.answers += [payload for _, payload in answers]

    def go_on(self, seconds: float) -> None:
        """Time passes, and timers run out."""
        end_s = self.host.at_s + seconds
        while (due_s := self.host.timers.get(TIMER)) is not None and due_s <= end_s:
            self.host.at_s = due_s
            self.history.on_due(due_s)
        self.host.at_s = end_s

    def change(self, **own: Any) -> None:
        self.settings.change(replace(self.settings.now, history=HistorySettings(**own)))
        self.history.on_settings_changed()

    def ask(self, **arguments: str) -> History:
        self.history.ask([], Request(request_id=1, command="history", arguments=arguments))
        return of_map(History, parse_answer(self.answers.pop()))


def test_there_is_a_record_each_minute_from_soon_after_the_start(tmp_path: Path) -> None:
    kept = Kept(tmp_path)

    kept.go_on(FIRST_S + 180.0)
    found = kept.ask(since="1h")

    assert (len(found.at_ms), found.seconds) == (3, (60.0,) * 3)
    assert (found.lanes[0].rate_in, found.lanes[0].depth) == ((1.0,) * 3, (4,) * 3)
    figures = present(kept.history.figures())
    assert (figures.kept_since_ms, figures.lost, figures.error) == (found.kept_since_ms, 0, "")
    assert 0 < figures.bytes < 1000


def test_a_new_life_of_the_node_goes_on_with_it(tmp_path: Path) -> None:
    Kept(tmp_path).go_on(FIRST_S + 60.0)
    kept = Kept(tmp_path)
    kept.host.at_s += 600.0
    kept.history.start()

    kept.go_on(FIRST_S)
    assert present(kept.history.figures()).kept_since_ms is not None
    kept.go_on(60.0)

    assert len(kept.ask(since="1h").at_ms) == 2


def test_a_disk_that_hangs_costs_minutes_of_the_history_and_no_thread_more(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.go_on(FIRST_S)
    kept.host.hangs = True

    kept.go_on(240.0)
    assert (len(kept.host.jobs), present(kept.history.figures()).lost) == (1, 3)
    kept.host.go_on()
    kept.go_on(120.0)

    assert len(kept.ask(since="1h").at_ms) == 3


def test_a_disk_that_refuses_is_told_once_and_the_next_minute_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept(tmp_path)
    (tmp_path / FOLDER_NAME).write_text("in the way")

    kept.go_on(FIRST_S + 120.0)
    figures = present(kept.history.figures())
    (tmp_path / FOLDER_NAME).unlink()
    kept.go_on(60.0)

    assert (figures.lost, "exists" in figures.error or "Not a directory" in figures.error) == (2, True)
    assert [record.message for record in caplog.records] == ["history.unrecorded"]
    assert present(kept.history.figures()).error == ""
    assert len(kept.ask().at_ms) == 1


def test_damage_is_named_in_log_and_status_and_the_history_begins_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Kept(tmp_path).go_on(FIRST_S + 600.0)
    (path,) = (tmp_path / FOLDER_NAME).iterdir()
    path.write_bytes(b"x" + path.read_bytes())

    kept = Kept(tmp_path)
    kept.go_on(FIRST_S + 60.0)

    assert str(path) in present(kept.history.figures()).damage
    assert [record.message for record in caplog.records] == ["history.damaged"]
    assert (tmp_path / FOLDER_NAME / DAMAGED_NAME).exists()
    assert len(kept.ask().at_ms) == 1


def test_it_is_switched_off_and_on_and_what_there_was_goes(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.go_on(FIRST_S + 60.0)

    kept.change(keep_s=0.0)

    assert (kept.host.timers, kept.history.figures(), list((tmp_path / FOLDER_NAME).iterdir())) == ({}, None, [])
    with pytest.raises(ControlError) as refused:
        kept.ask()
    assert refused.value.kind == "not_kept"
    kept.change(every_s=1.0)
    kept.go_on(3.0)
    assert len(kept.ask(since="1m").at_ms) == 2
    before = kept.host.timers[TIMER]
    kept.history.on_settings_changed()  # by a reload of something else
    assert kept.host.timers[TIMER] == before


def test_questions_that_are_wrong_or_too_many_are_refused(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.go_on(FIRST_S + 60.0)

    with pytest.raises(ControlError) as gone:
        kept.ask(bridge="clud")
    assert gone.value.kind == "unknown_bridge"
    assert len(kept.ask(bridge="cloud").lanes) == 1
    kept.host.hangs = True
    request = Request(request_id=1, command="history", arguments={})
    for _ in range(ASKERS_MAX):
        kept.history.ask([], request)
    with pytest.raises(ControlError) as busy:
        kept.history.ask([], request)
    assert busy.value.kind == "busy"
    kept.host.go_on()
    assert len(kept.answers) == ASKERS_MAX


@pytest.mark.parametrize(
    ("arguments", "since_ms", "until_ms", "step_s"),
    [
        ({}, 913_600_000, 1_000_000_000, 0.0),
        ({"since": "1h", "step": "5m"}, 996_400_000, 1_000_000_000, 300.0),
        ({"since": "100", "until": "10m"}, 100, 999_400_000, 0.0),
        ({"since": "9999999d"}, 0, 1_000_000_000, 0.0),
    ],
)
def test_times_are_said_as_long_ago_or_as_unix_time(arguments: dict[str, str], since_ms: int, until_ms: int, step_s: float) -> None:
    found = question_of(Request(request_id=1, command="history", arguments=arguments), 1_000_000_000)

    assert (found.since_ms, found.until_ms, found.step_s) == (since_ms, until_ms, step_s)


@pytest.mark.parametrize("arguments", [{"since": "soon"}, {"since": "1h", "until": "2h"}, {"step": "-1m"}, {"since": "9" * 300}])
def test_a_question_that_is_none_is_refused(arguments: dict[str, str]) -> None:
    with pytest.raises(BasculeError):
        question_of(Request(request_id=1, command="history", arguments=arguments), 1_000_000_000)
