"""What status says, from heartbeats that may lack anything."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.tree.process_usage import Usage
from supervisor.tree.status_figures import ActorView, ProcessView, bridge_row, ledger_closes, process_rows, status_map

ROW = {"accepted": 20, "delivered": 5, "depth": 4, "expired": 3, "dropped": {"full": 2, "session": 1}, "dead_lettered": 5}


def views(*, state: str = "ready", **figures: dict[str, Any]) -> list[ActorView]:
    names = {"queue_store": "store", "distributor": "distributor", "forwarder:a:0": "forwarder", "connection:a:0": "connection"}
    names["listener"] = "listener"
    return [
        ActorView(name=name, pid=7, state=state, restarts=1, heartbeat_age_s=0.25, figures=figures.get(key, {}))
        for name, key in names.items()
    ]


def row(**arguments: Any) -> dict[str, Any]:
    return bridge_row("a", 0, {view.name: view for view in views(**arguments)})


def test_a_ledger_closes_when_nothing_is_missing() -> None:
    """P6"""
    assert ledger_closes(ROW)


@pytest.mark.parametrize("field", ["accepted", "delivered", "depth", "expired", "dead_lettered"])
def test_a_ledger_does_not_close_when_one_message_is_missing(field: str) -> None:
    """P6"""
    assert not ledger_closes({**ROW, field: ROW[field] + 1})  # type: ignore[operator]


def test_a_dropped_message_counts_in_the_ledger() -> None:
    """P6"""
    assert not ledger_closes({**ROW, "dropped": {"full": 2}})


def test_figures_that_nobody_reported_are_none() -> None:
    empty = row()
    assert (empty["depth"], empty["accepted"], empty["ledger_closes"], empty["dropped"]) == (None, None, None, {})


def test_a_queue_with_a_missing_key_counts_as_none_of_it() -> None:
    full = row(store={"queues": {"bridge:a:0": {"accepted": 4, "depth": 4}}})
    assert (full["delivered"], full["oldest_age_s"], full["ledger_closes"]) == (0, None, True)


def test_the_state_is_the_links_while_the_connection_works_and_the_childs_otherwise() -> None:
    link = {"connection": {"link": {"state": "backoff"}}}
    assert row(**link)["state"] == "backoff"
    assert row(state="restarting", **link)["state"] == "restarting"


def test_a_lane_shows_what_its_exchange_counts() -> None:
    counts = {"retried": 2, "assumed_delivered": 1}
    assert row(connection={"exchange": counts})["exchange"] == counts
    assert row()["exchange"] == {}


def test_what_a_mailbox_counts_is_in_its_actors_row_and_nowhere_else() -> None:
    counts = {"frames_sent": 3, "frames_received": 4, "turns": 5}
    status = status_map(
        node="n",
        pid=1,
        ready=True,
        uptime_s=2.0,
        traffic=counts,
        actors=views(store={"commits": 1, "mailbox": counts}),
        lanes=[("a", 0)],
    )
    assert status["supervisor"] == {"pid": 1, "started_at_ms": None, "uptime_s": 2.0, "mailbox": counts}
    rows = {row["name"]: row["mailbox"] for row in status["actors"]}
    assert rows == {name: counts if name == "queue_store" else {} for name in rows}
    assert status["store"] == {"commits": 1}


def test_the_whole_has_the_promised_keys() -> None:
    status = status_map(node="n", pid=1, ready=True, uptime_s=2.0, actors=views(), lanes=[("a", 0)])
    assert {"node", "ready", "actors", "bridges"} <= status.keys()
    assert set(status["actors"][0]) == {"name", "pid", "state", "restarts", "heartbeat_age_s", "last_cause", "mailbox"}
    wanted = "name lane state depth bytes oldest_age_s in_flight accepted delivered expired dropped dead_lettered redelivered"
    assert {*wanted.split(), "refused", "held_back", "ledger_closes"} <= status["bridges"][0].keys()


def test_a_process_has_the_promised_keys_and_what_it_takes_if_that_is_known() -> None:
    taken = {7: Usage(pss_bytes=4096, cpu_s=1.5)}
    lives = ProcessView(name="clients", pid=7, state="ready", actors=("distributor", "listener"), restarts=2, last_cause="why")
    gone = ProcessView(name="store", pid=None, state="restarting")
    assert process_rows([lives, gone], lambda pid: taken.get(pid or 0, Usage())) == [
        {
            "name": "clients",
            "pid": 7,
            "actors": ["distributor", "listener"],
            "state": "ready",
            "pss_bytes": 4096,
            "cpu_s": 1.5,
            "restarts": 2,
            "last_cause": "why",
        },
        {
            "name": "store",
            "pid": None,
            "actors": [],
            "state": "restarting",
            "pss_bytes": None,
            "cpu_s": None,
            "restarts": 0,
            "last_cause": "",
        },
    ]
