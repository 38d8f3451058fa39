"""What load balancers are told of a node, by its status."""

from __future__ import annotations

from typing import Any

from supervisor.http.health import readiness_of


def status(**keys: Any) -> dict[str, Any]:
    """Of a node that works."""
    return {"ready": True, "stop_left_s": None, "replication": {}, "processes": [], **keys}


def test_a_node_that_works_is_ready_and_so_is_one_that_leads() -> None:
    assert readiness_of(status()) == {"ready": True, "state": "ready", "reasons": []}
    assert readiness_of(status(replication={"role": "leader"}))["ready"]


def test_a_node_that_stands_by_is_to_get_no_client_and_tells_nobody_where_the_other_is() -> None:
    told = readiness_of(status(replication={"role": "standby", "leader": "b", "leader_address": "10.0.0.2:1883"}))

    assert told == {
        "ready": False,
        "state": "standby",
        "reasons": ["the node stands by: another one of its cluster is to be asked"],
    }


def test_what_starts_or_stops_says_so_first() -> None:
    rows = [{"name": "store", "state": "starting"}, {"name": "http", "state": "starting"}]
    told = readiness_of(status(ready=False, processes=rows, replication={"role": "standby"}))
    assert told == {"ready": False, "state": "starting", "reasons": ["store is starting"]}
    assert readiness_of(status(stop_left_s=3.0, replication={"role": "standby"}))["state"] == "stopping"
