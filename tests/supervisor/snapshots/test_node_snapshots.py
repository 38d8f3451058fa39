"""Times of snapshots and the fate of orders: the store answers when the test says so, and threads run at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from actors.process.actor import PolledActor
from storage.snapshots.manifest import read_manifest, verify
from storage.store.event_rows import Detail
from supervisor.control.control_socket import ControlError
from supervisor.snapshots.node_snapshots import LATE_S, LATE_TIMER, RETRY_S, STANDS_BY, TIMER, Snapshots
from tests.snapshots.made import Box, fields
from tests.supervisor.actor_double import Host
from tests.support.present import present
from tests.support.settings import node
from wire.config_settings import PersistenceSettings, SettingsNow, SnapshotSettings
from wire.frames.supervision import SnapshotMade, SnapshotWanted
from wire.status.answers import SnapshotState

DURABLE = PersistenceSettings(mode="file-native", acknowledge="after-commit", flush_period_s=0.0, sync="full")


@pytest.fixture(autouse=True)
def _no_nice_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads are this one."""
    monkeypatch.setattr("os.setpriority", lambda *_arguments: None)


class Node:
    """The snapshots of a node over a store of a few files."""

    def __init__(self, folder: Path, **own: Any) -> None:
        self.box = Box(folder)
        self.box.table()
        self.host = Host()
        self.store = "ready"
        self.noted: list[str] = []
        settings = node(name="edge", data_dir=str(folder), persistence=DURABLE, snapshots=SnapshotSettings(**own))
        self.settings = SettingsNow(settings)
        self.snapshots = Snapshots(cast(PolledActor, self.host), self.settings, lambda: self.store, self._note)
        self.snapshots.start()

    def _note(self, reason: str, _messages: int, _details: dict[str, Detail]) -> None:
        self.noted.append(reason)

    def wanted(self) -> SnapshotWanted:
        """The newest order to the store."""
        frame = self.host.sent[-1]
        assert isinstance(frame, SnapshotWanted)
        return frame

    def answer(self, wanted: SnapshotWanted, error: str = "") -> None:
        """The store has made the checkpoint, or not."""
        facts: dict[str, Any] = {}
        if not error:
            Path(wanted.path).mkdir()
            (Path(wanted.path) / "000001.sst").write_bytes(b"table")
            facts = {**fields("edge", self.host.wall_ms()), "pause_ms": 1.5}
        self.snapshots.on_made(SnapshotMade(request=wanted.request, error=error, message=error, facts=facts))

    def due(self, timer: str) -> None:
        """Its time has come."""
        self.host.at_s = self.host.timers.pop(timer)
        assert self.snapshots.on_timer(timer, self.host.at_s)

    @property
    def parts(self) -> list[Path]:
        return list(self.box.snapshots.path.glob(".part-*"))


def test_a_node_that_stands_by_makes_none_and_one_that_leads_does(tmp_path: Path) -> None:
    made = Node(tmp_path, every_s=60.0)
    assert TIMER in made.host.timers
    made.store = STANDS_BY
    made.settings.change(replace(made.settings.now, snapshots=SnapshotSettings(every_s=30.0)))
    made.snapshots.on_settings_changed()
    assert TIMER not in made.host.timers
    assert made.snapshots.figures().next_in_s is None
    with pytest.raises(ControlError, match="the queue store is standing by; no snapshot was made"):
        made.snapshots.take()


def test_an_order_that_is_answered_becomes_a_snapshot(tmp_path: Path) -> None:
    made = Node(tmp_path)
    number = made.snapshots.take()
    assert made.snapshots.result(str(number)) == SnapshotState(state="making", stage="checkpoint")
    made.answer(made.wanted())
    result = made.snapshots.result(str(number))
    assert result.state == "made"
    path = Path(present(result.path))
    assert verify(path) == []
    assert read_manifest(path).versions["store"] == 1
    assert made.noted == [result.id]
    assert present(made.snapshots.figures().last).id == result.id
    assert LATE_TIMER not in made.host.timers


def test_a_store_that_says_nothing_is_given_up_and_its_late_answer_is_no_snapshot(tmp_path: Path) -> None:
    made = Node(tmp_path)
    number = made.snapshots.take()
    late = made.wanted()
    assert made.host.timers[LATE_TIMER] == made.host.at_s + LATE_S
    made.due(LATE_TIMER)
    assert "not answered" in str(made.snapshots.result(str(number)).message)
    assert made.parts == []

    second = made.snapshots.take()
    Path(late.path).parent.mkdir()
    made.answer(late)
    assert [path.name for path in made.parts] == [Path(made.wanted().path).parent.name], "what is being made stays"
    made.answer(made.wanted())
    assert made.snapshots.result(str(second)).state == "made"
    assert len(made.box.snapshots.names()) == 1


@pytest.mark.parametrize("ends", ["refused", "dead"])
def test_a_snapshot_that_cannot_be_made_leaves_nothing_and_the_next_one_can(tmp_path: Path, ends: str) -> None:
    made = Node(tmp_path)
    number = made.snapshots.take()
    with pytest.raises(ControlError, match="already"):
        made.snapshots.take()
    if ends == "refused":
        made.answer(made.wanted(), error="disk_full")
    else:
        made.snapshots.on_store_ended()
    assert made.snapshots.result(str(number)).state == "failed"
    assert made.snapshots.figures().failure is not None
    assert made.parts == []
    made.snapshots.take()
    made.answer(made.wanted())
    assert made.snapshots.figures().failure is None


def test_nothing_is_ordered_of_a_store_that_is_away_or_of_a_node_that_stops(tmp_path: Path) -> None:
    made = Node(tmp_path)
    made.store = "restarting"
    with pytest.raises(ControlError, match="restarting"):
        made.snapshots.take()
    made.store = "ready"
    made.snapshots.stop()
    with pytest.raises(ControlError, match="stopping"):
        made.snapshots.take()
    assert made.host.sent == []
    assert made.host.timers == {}
    with pytest.raises(ControlError, match="no snapshot of number"):
        made.snapshots.result("7")


def test_the_schedule_goes_on_after_successes_failures_and_restarts(tmp_path: Path) -> None:
    made = Node(tmp_path, every_s=3600.0)
    assert made.host.timers[TIMER] == made.host.at_s, "there is none yet: at once"
    made.due(TIMER)
    made.answer(made.wanted())
    assert made.host.timers[TIMER] == made.host.at_s + 3600
    made.due(TIMER)
    made.answer(made.wanted(), error="unavailable")
    assert made.host.timers[TIMER] == made.host.at_s + RETRY_S
    made.store = "restarting"
    made.due(TIMER)
    assert made.host.timers[TIMER] > made.host.at_s
    made.store = "ready"
    made.due(TIMER)
    made.answer(made.wanted())
    assert len(made.box.snapshots.names()) == 2

    again = Snapshots(
        cast(PolledActor, made.host),
        SettingsNow(replace(made.settings.now, snapshots=SnapshotSettings(every_s=3600.0))),
        lambda: "ready",
        made._note,
    )
    made.host.at_s += 600
    again.start()
    assert made.host.timers[TIMER] == pytest.approx(made.host.at_s + 3000, abs=1)
