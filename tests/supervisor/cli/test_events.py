"""Output of ``bascule events``: by time, though the store gets events of several actors late; each once, while it follows."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli.events import by_time
from supervisor.cli.main import cli
from tests.conftest import StartNode
from tests.storage.building import RecordingEngine
from tests.storage.commanding import command
from tests.storage.store.test_event_log import Box
from tests.support.client_double import have_answered
from tests.support.node import node_config
from tests.support.waiting import wait_until
from wire.figure import of_map
from wire.frames.supervision import NodeEvents
from wire.status.answers import Event

KINDS = ("link.up", "link.down", "process.started", "clock.jumped")


@given(rows=st.lists(st.tuples(st.integers(0, 9), st.sampled_from(KINDS)), max_size=30))
def test_events_are_put_in_the_order_in_which_they_happened_between_two_jumps_of_the_clock(rows: list[tuple[int, str]]) -> None:
    events = [of_map(Event, {"number": number, "at_ms": at_ms, "kind": kind}) for number, (at_ms, kind) in enumerate(rows)]

    found = by_time(events)

    jumps = [event.number for event in events if event.kind == "clock.jumped"]

    def place(event: Event) -> tuple[int, bool, int, int]:
        jumped = event.kind == "clock.jumped"
        return sum(jump < event.number for jump in jumps), jumped, event.at_ms * (not jumped), event.number

    assert found == sorted(events, key=place), "each once, and those of the same time as they came"


class Interrupted(Exception):
    """The user has seen enough."""


def shown(monkeypatch: pytest.MonkeyPatch, box: Box, *words: str, meanwhile: list[Callable[[], None]]) -> list[dict[str, Any]]:
    """The output of ``bascule events --json`` about the store of ``box``, while these things happen."""

    def answer(asked: str, arguments: dict[str, str]) -> dict[str, Any]:
        assert asked == "events"
        start, count = int(arguments["from"]), min(3, int(arguments["count"]))  # pages of three
        return command(box.store, "events", now_s=box.now_s, **{"from": start, "count": count})

    def sleep(_seconds: float) -> None:
        if not meanwhile:
            raise Interrupted
        meanwhile.pop(0)()

    have_answered(monkeypatch, answer)
    monkeypatch.setattr("time.sleep", sleep)
    done = CliRunner().invoke(cli, ["events", __file__, "--json", *words])
    assert done.exception is None or isinstance(done.exception, Interrupted), done.exception
    return [json.loads(line) for line in done.stdout.splitlines()]


def happened(box: Box, *events: tuple[int, str]) -> None:
    box.turn(NodeEvents(events=tuple((at_ms, kind, "", -1, "", "", 0, {}) for at_ms, kind in events)))


@pytest.mark.parametrize("last", [0, 3, 100])
def test_a_page_is_printed_by_time_and_what_follows_is_neither_lost_nor_repeated(
    monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    box = Box(RecordingEngine())
    happened(box, (50, "link.up"), (10, "process.started"), (40, "link.down"), (30, "link.up"), (30, "process.ended"))
    meanwhile = [
        lambda: None,
        lambda: happened(box, (45, "link.down")),  # late: what came after it is printed already
        lambda: happened(box, (90, "link.up"), (70, "link.down"), (80, "link.up"), (60, "link.down"), (95, "link.up")),
        lambda: None,
    ]

    found = shown(monkeypatch, box, "--follow", "--last", str(last), meanwhile=meanwhile)

    first = [30, 30, 40] if last == 3 else [10, 30, 30, 40, 50]
    assert [event["at_ms"] for event in found] == [*first, 45, 60, 70, 80, 90, 95]
    assert [event["kind"] for event in found if event["at_ms"] == 30] == ["link.up", "process.ended"]


def test_of_one_kind_the_newest_are_printed_and_the_others_passed_over_once(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(RecordingEngine())
    happened(box, (50, "link.up"), (10, "link.up"), (40, "link.down"), (20, "link.up"), (60, "process.ended"))
    more = [lambda: happened(box, (61, "process.started"), (62, "link.up")), lambda: happened(box, (63, "link.up"))]

    found = shown(monkeypatch, box, "--follow", "--kind", "link.up", "--last", "2", meanwhile=more)

    assert [event["at_ms"] for event in found] == [10, 20, 62, 63], "the newest two are those that came last"


def test_of_a_stretch_of_time_all_are_printed_however_many_came_later(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(RecordingEngine())
    day_ms = 1_772_323_200_000  # 2026-03-01
    happened(box, *((day_ms + minute * 60_000, "link.up") for minute in range(120)))

    found = shown(monkeypatch, box, "--since", "2026-03-01T00:30", "--until", "2026-03-01 01:30Z", meanwhile=[])

    assert [(event["at_ms"] - day_ms) // 60_000 for event in found] == list(range(30, 90))


def test_what_follows_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    have_answered(monkeypatch, lambda command, _: pytest.fail(f"{command} was asked"))

    done = CliRunner().invoke(cli, ["events", __file__, "--follow", "--until", "2026-03-01T00:30"])

    assert done.exit_code == 2
    assert "--follow goes without --until" in done.stderr


def test_a_kind_that_there_is_not_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(RecordingEngine())
    have_answered(monkeypatch, lambda _, arguments: command(box.store, "events", **{"from": int(arguments["from"]), "count": 9}))

    said = CliRunner().invoke(cli, ["events", __file__, "--kind", "lonk"]).stdout

    assert said.startswith("no events of the kind lonk\n  there is no such kind; did you mean link?; those are node, store, ")


def test_a_line_says_where_and_by_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(RecordingEngine())
    box.turn(
        NodeEvents(
            events=(
                (10, "queue.purged", "cloud", -1, "operator", "queue", 7, {}),
                (20, "process.started", "", -1, "store", "", 2, {"pid": 9}),
            )
        )
    )
    have_answered(monkeypatch, lambda _, arguments: command(box.store, "events", **{"from": int(arguments["from"]), "count": 9}))

    lines = CliRunner().invoke(cli, ["events", __file__]).stdout.splitlines()

    assert [line.split()[1:] for line in lines] == [
        ["queue.purged", "cloud", "by", "operator", "queue", "count=7"],
        ["process.started", "store", "count=2", "pid=9"],
    ]


@pytest.mark.process
def test_a_hangup_is_among_the_events_with_what_is_wrong_with_the_file(start_node: StartNode) -> None:
    node = start_node(node_config())

    def refusals() -> list[dict[str, Any]]:
        done = node.cli("events", str(sound), "--json", "--kind", "node")
        return [event for event in map(json.loads, done.stdout.splitlines()) if event["kind"] == "node.reload_refused"]

    sound = Path(shutil.copy(node.config_path, node.folder / "sound.yaml"))
    node.configure(node_config(snapshots={"keep": 3}))
    node.supervisor.send_signal(signal.SIGHUP)
    wait_until(lambda: len(refusals()) == 1, 60.0, lambda: node.output[-2000:])
    node.configure(node_config(nonsense=True))
    node.supervisor.send_signal(signal.SIGHUP)
    wait_until(lambda: len(refusals()) == 2, 60.0, lambda: node.output[-2000:])
    valid, wrong = refusals()

    assert (valid["actor"], valid["details"]) == ("supervisor", {"valid": True, "problems": 0})
    assert "snapshots.keep would give something up for good" in valid["reason"]
    assert wrong["details"] == {"valid": False, "problems": 1}
    lines = node.config_path.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "nonsense" in text)
    assert wrong["reason"].startswith(f"{node.config_path}:{line}:3: nonsense")
