"""The names of actors, processes and queues: what is made is taken apart again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.frames.names import (
    ACTORS_OF,
    BRIDGE,
    CLIENTS,
    CONNECTION,
    DISTRIBUTOR,
    FORWARDER,
    HTTP_SERVER,
    LISTENER,
    METRICS_EXPORTER,
    NOTIFIER,
    QUEUE_STORE,
    STORE,
    SUPERVISOR,
    LaneLabel,
    LaneName,
    actors_of,
    bridge_of_child,
    child_name,
    child_of,
    connection_name,
    forwarder_name,
    lane_label,
    lane_of_actor,
    lane_of_queue,
    lane_order,
    peer_of,
    queue_name,
    remote_client_id,
    session_of_queue,
    session_queue_name,
)


def test_names_of_actors_and_queues_are_those_of_the_architecture() -> None:
    assert LISTENER == "listener"
    assert forwarder_name("cloud", 0) == "forwarder:cloud:0"
    assert connection_name("cloud", 11) == "connection:cloud:11"
    assert queue_name("cloud", 0) == "bridge:cloud:0"


def test_processes_are_those_of_the_architecture() -> None:
    assert child_name(CLIENTS) == "clients"
    assert child_name(BRIDGE, "cloud", 11) == "bridge:cloud:11"
    assert actors_of("clients") == ("distributor", "listener")
    assert actors_of("store") == ("queue_store",)
    assert actors_of("bridge:cloud:11") == ("forwarder:cloud:11", "connection:cloud:11")
    with pytest.raises(KeyError):
        actors_of("listener")


def test_each_actor_has_one_process() -> None:
    placed = [kind for kinds in ACTORS_OF.values() for kind in kinds]
    assert sorted(placed) == sorted(
        {LISTENER, DISTRIBUTOR, QUEUE_STORE, FORWARDER, CONNECTION, HTTP_SERVER, METRICS_EXPORTER, NOTIFIER}
    )


@given(st.text(), st.integers(0, 1000))
def test_an_actors_process_is_the_one_that_has_it(bridge: str, lane: int) -> None:
    """Any characters may stand in the bridge's name, colons too."""
    process = child_name(BRIDGE, bridge, lane)
    assert actors_of(process) == (forwarder_name(bridge, lane), connection_name(bridge, lane))
    for name in (process, child_name(CLIENTS), child_name(STORE)):
        assert [child_of(actor) for actor in actors_of(name)] == [name] * len(actors_of(name))
        assert child_of(name) == name, "what is sent to a process itself goes to it"
        assert bridge_of_child(name) == (bridge if name == process else None)
    assert child_of(SUPERVISOR) == SUPERVISOR


def test_lanes_number_the_client_identifier_but_not_one_that_the_remote_is_to_make() -> None:
    lanes: tuple[LaneLabel, ...] = 0, 1, 2, "urgent"
    assert [remote_client_id("edge", lane) for lane in lanes] == ["edge", "edge-1", "edge-2", "edge-urgent"]
    mixed: list[LaneLabel] = ["b", 10, "a", 9]
    assert sorted(mixed, key=lane_order) == [9, 10, "a", "b"]
    assert [remote_client_id("", lane) for lane in range(2)] == ["", ""], "-1 would be that of every node"


@given(st.text(), st.integers(0, 1000) | st.from_regex("[a-z][a-z0-9_-]{0,31}", fullmatch=True))
def test_a_name_leads_back_to_its_lane(bridge: str, lane: LaneLabel) -> None:
    """Any characters may stand in the bridge's name, colons too."""
    place = LaneName(bridge, lane)
    assert lane_label(str(lane)) == lane
    assert lane_of_queue(queue_name(bridge, lane)) == place
    assert lane_of_actor(forwarder_name(bridge, lane)) == place
    assert lane_of_actor(connection_name(bridge, lane)) == place


@given(st.text())
def test_other_names_have_no_lane(name: str) -> None:
    assert lane_of_actor(LISTENER) is None
    assert lane_of_actor(QUEUE_STORE) is None
    assert lane_of_queue(f"dead:{name}") is None
    assert lane_of_queue(forwarder_name(name, 0)) is None


def test_a_lanes_queue_is_handed_out_to_its_forwarder_and_dead_letters_to_nobody() -> None:
    assert peer_of("bridge:cloud:1") == "forwarder:cloud:1"
    with pytest.raises(ValueError, match="dead:cloud"):
        peer_of("dead:cloud")


@given(st.integers(1, 1000), st.text())
def test_a_sessions_queue_leads_back_to_the_session_and_goes_to_the_listener(number: int, session: str) -> None:
    name = session_queue_name(number, session)
    assert session_of_queue(name) == session
    assert lane_of_queue(name) is None
    assert peer_of(name) == LISTENER


def test_a_bridges_queue_is_no_sessions() -> None:
    assert session_of_queue(queue_name("cloud", 0)) is None
