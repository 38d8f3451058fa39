"""The placement: which process has which child and actor, by the settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.settings import bridge, node
from wire.config_settings import NodeSettings
from wire.frames.names import CLIENTS, HTTP, STORE, SUPERVISOR, actors_of, child_name
from wire.frames.placement import SITE, Placement, tables_open_max

A, B, B1 = (child_name("bridge", *lane) for lane in (("a", 0), ("b", 0), ("b", 1)))


def settings(placement: str, *, b: bool | None = None, apart: tuple[str, ...] = ()) -> NodeSettings:
    made = node(bridge("a"), replace(bridge("b", 2), isolated=b))
    return replace(made, supervision=replace(made.supervision, placement=placement), apart=apart)


@pytest.mark.parametrize(
    ("given", "table"),
    [
        (settings("isolated"), {STORE: STORE, A: A, B: B, B1: B1, CLIENTS: CLIENTS}),
        (settings("isolated", b=True), {STORE: STORE, A: A, B: B, B1: B1, CLIENTS: CLIENTS}),
        (settings("together"), dict.fromkeys((STORE, A, B, B1, CLIENTS), SITE)),
        (settings("together", b=True), {STORE: SITE, A: SITE, B: B, B1: B1, CLIENTS: SITE}),
        (settings("together", b=False), dict.fromkeys((STORE, A, B, B1, CLIENTS), SITE)),
        (settings("together", apart=(B1,)), {STORE: SITE, A: SITE, B: SITE, B1: B1, CLIENTS: SITE}),
    ],
)
def test_each_child_and_its_actors_live_where_the_settings_say(given: NodeSettings, table: dict[str, str]) -> None:
    place = Placement(given)
    for child, process in table.items():
        assert [place.process_of(name) for name in (child, *actors_of(child))] == [process] * (1 + len(actors_of(child)))


def test_a_lane_whose_bridge_is_configured_no_more_has_a_process_of_its_own_while_it_goes_on() -> None:
    """Nothing says any more whether it was isolated; within the process that is shared it has ended."""
    place = Placement(settings("together"))
    assert place.process_of("forwarder:gone:0") == "bridge:gone:0"


@pytest.mark.parametrize("placement", ["isolated", "together"])
def test_what_has_no_part_in_a_messages_way_has_a_process_of_its_own(placement: str) -> None:
    place = Placement(settings(placement))
    assert [place.process_of(name) for name in (SUPERVISOR, HTTP, "http_server", "telemetry")] == [
        SUPERVISOR,
        HTTP,
        HTTP,
        "telemetry",
    ]


@pytest.mark.parametrize("clients", [10, 1000, 4096])
@pytest.mark.parametrize(
    ("given", "lanes"), [(settings("together"), 3), (settings("together", b=True), 1), (settings("together", apart=(B1,)), 2)]
)
def test_clients_leave_files_for_the_store_and_the_lanes_beside_them(given: NodeSettings, lanes: int, clients: int) -> None:
    place = Placement(given)
    wanted = place.wanted_for(clients)
    kept = place.kept_from_clients(wanted)
    assert kept >= tables_open_max(wanted) + lanes
    assert clients <= wanted - kept <= clients + 1, "all of them fit, and no more was wanted than that takes"


def test_clients_have_the_files_of_their_own_process_to_themselves() -> None:
    place = Placement(settings("isolated"))
    assert (place.kept_from_clients(1000), place.wanted_for(1000)) == (0, 1000)
