"""A node's health for load balancers, by its status."""

from __future__ import annotations

from typing import Any

from supervisor.http.health import readiness_of
from supervisor.http.models import Ready
from wire.figure import of_map
from wire.status.node_status import Status


def status(**keys: Any) -> Status:
    """Of a node that works."""
    return of_map(Status, {"ready": True, **keys})


def test_a_node_that_works_is_ready_and_so_is_one_that_leads() -> None:
    assert readiness_of(status()) == Ready(ready=True, state="ready", reasons=[])
    assert readiness_of(status(replication={"role": "leader"})).ready


def test_a_node_that_stands_by_is_to_get_no_client_and_tells_nobody_where_the_other_is() -> None:
    told = readiness_of(status(replication={"role": "standby", "leader": "b", "leader_address": "10.0.0.2:1883"}))

    reason = "the node stands by: another one of its cluster is to be asked"
    assert told == Ready(ready=False, state="standby", reasons=[reason])


def test_what_starts_or_stops_says_so_first() -> None:
    rows = [{"name": "store", "state": "starting"}, {"name": "http", "state": "starting"}]
    told = readiness_of(status(ready=False, processes=rows, replication={"role": "standby"}))
    assert told == Ready(ready=False, state="starting", reasons=["store is starting"])
    assert readiness_of(status(stop_left_s=3.0, replication={"role": "standby"})).state == "stopping"
