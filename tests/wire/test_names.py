"""The names of actors and queues: what is made is taken apart again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.names import (
    LISTENER,
    QUEUE_STORE,
    BridgeLane,
    actor_name,
    connection_name,
    forwarder_name,
    lane_of_actor,
    lane_of_queue,
    peer_of,
    queue_name,
    remote_client_id,
    session_of_queue,
    session_queue_name,
)


def test_names_of_actors_and_queues_are_those_of_the_architecture() -> None:
    assert actor_name(LISTENER) == "listener"
    assert forwarder_name("cloud", 0) == "forwarder:cloud:0"
    assert connection_name("cloud", 11) == "connection:cloud:11"
    assert queue_name("cloud", 0) == "bridge:cloud:0"


def test_lanes_number_the_client_identifier_but_not_one_that_the_remote_is_to_make() -> None:
    assert [remote_client_id("edge", lane) for lane in range(3)] == ["edge", "edge-1", "edge-2"]
    assert [remote_client_id("", lane) for lane in range(2)] == ["", ""], "-1 would be that of every node"


@given(st.text(), st.integers(0, 1000))
def test_a_name_leads_back_to_its_lane(bridge: str, lane: int) -> None:
    """Whatever stands in the bridge's name, colons too."""
    place = BridgeLane(bridge, lane)
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
