"""What a person reads."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from supervisor.figures import ActorView, status_map
from supervisor.view import duration, size, status_view


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.9, "59.9 s"), (61, "1 min 1 s"), (3_660, "1 h 1 min"), (90_000, "1 d 1 h")]
)
def test_durations_are_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (1 << 60, "1048576.0 TiB")]
)
def test_sizes_are_for_people(count: int, text: str) -> None:
    assert size(count) == text


def test_the_tables_show_actors_bridges_and_an_open_ledger() -> None:
    retained = {"messages": 17, "bytes": 3072}
    queue = {"accepted": 5, "depth": 1, "delivered": 3, "bytes": 2048, "oldest_age_s": 70.0, "retained": retained}
    queue |= {"waits_for_lanes": [1, 2], "refused": 12, "held_back": 34}
    queue["former_rules"] = [{"rule": "b/#", "destination": "x/{#}", "messages": 4}]
    figures: dict[str, dict[str, Any]] = {
        "queue_store": {"queues": {"bridge:a:0": queue}},
        "connection:a:0": {"link": {"state": "backoff"}},
    }
    names = ["queue_store", "distributor", "forwarder:a:0", "connection:a:0", "listener"]
    actors = [
        ActorView(name=name, pid=7, state="ready", restarts=0, heartbeat_age_s=0.1, figures=figures.get(name, {})) for name in names
    ]
    console = Console(width=200)
    with console.capture() as capture:
        console.print(status_view(status_map(node="n", pid=1, ready=True, uptime_s=1.0, actors=actors, lanes=[("a", 0)])))
    text = capture.get()
    for wanted in (
        *names,
        "a:0",
        "backoff",
        "2.0 KiB",
        "1 min 10 s",
        "OPEN",
        "a:0 17 messages, 3.0 KiB",
        "lanes was changed: a:0 for 1, 2",
        "ledger: accepted = delivered + depth + expired + dropped + dead lettered",
        "refused for want of room: a:0 12",
        "held back by publishers until there is room: a:0 34",
        "rules not in the file any more, or changed; what they took goes where they said: a:0 b/# -> x/{#} (at most 4 messages)",
    ):
        assert wanted in text


@pytest.mark.parametrize(
    ("figures", "line"),
    [
        ({"state": "running", "disk_free_bytes": 4096}, None),
        ({"state": "disk_full", "error": "No space left", "disk_free_bytes": 4096}, "store disk_full  No space left  4.0 KiB free"),
        ({"state": "disk_low", "disk_free_bytes": 4096}, "store disk_low  4.0 KiB free"),
    ],
)
def test_a_disk_that_refuses_is_shown(figures: dict[str, Any], line: str | None) -> None:
    actors = [
        ActorView(
            name=name, pid=7, state="ready", restarts=0, heartbeat_age_s=0.1, figures=figures if name == "queue_store" else {}
        )
        for name in ("queue_store", "distributor", "listener")
    ]
    console = Console(width=200)
    with console.capture() as capture:
        console.print(status_view(status_map(node="n", pid=1, ready=True, uptime_s=1.0, actors=actors, lanes=[])))
    lines = [shown.rstrip() for shown in capture.get().splitlines()]
    assert line in lines if line is not None else not any(shown.startswith("store ") for shown in lines)


def test_what_is_kept_for_local_clients_is_shown_once_it_is_known() -> None:
    sessions = {"kept": 41, "connected": 3, "depth": 712, "bytes": 3 << 20, "dropped": 5, "refused_wills": 1}
    figures: dict[str, dict[str, Any]] = {
        "queue_store": {"sessions": {**sessions, "retained": {"messages": 88}}},
        "listener": {"clients": 9, "in_flight": 4, "dropped": {"queue_full": 15}, "pending_wills": 2},
    }

    def shown(figures: dict[str, dict[str, Any]]) -> str:
        actors = [
            ActorView(name=name, pid=7, state="ready", restarts=0, heartbeat_age_s=0.1, figures=figures.get(name, {}))
            for name in ("queue_store", "distributor", "listener")
        ]
        console = Console(width=200)
        with console.capture() as capture:
            console.print(status_view(status_map(node="n", pid=1, ready=True, uptime_s=1.0, actors=actors, lanes=[])))
        return capture.get()

    heads, row = shown(figures).splitlines()[-2:]
    assert " ".join(heads.split()) == "local clients sessions kept connected queued size in flight dropped retained Wills waiting"
    assert row.split() == ["9", "41", "3", "712", "3.0", "MiB", "4", "20", "88", "3"]
    assert "sessions kept" not in shown({})
