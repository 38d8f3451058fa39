"""Since when a link is down does not start again with the lane's process."""

from __future__ import annotations

from supervisor.tree.status_figures import LinkDowns
from wire.figure import of_map
from wire.status.bridges import LinkFigures

NAME = "connection:a:0"


def link(down_s: float | None, connections: int = 0) -> LinkFigures:
    return of_map(LinkFigures, {"down_s": down_s, "connections": connections})


def test_a_process_that_was_never_connected_goes_on_with_what_was_before() -> None:
    downs = LinkDowns()
    downs.note(NAME, link(2.0), 10.0)
    downs.note(NAME, link(1.0), 500.0)  # another life

    assert downs.down_s(NAME, 508.0) == 500.0


def test_one_that_had_been_connected_knows_it_better() -> None:
    downs = LinkDowns()
    downs.note(NAME, link(2.0), 10.0)
    downs.note(NAME, link(3.0, connections=1), 500.0)

    assert downs.down_s(NAME, 508.0) == 11.0


def test_one_that_stands_or_is_paused_is_not_down_and_nobody_said_is_unknown() -> None:
    downs = LinkDowns()
    downs.note(NAME, link(2.0), 10.0)
    downs.note(NAME, link(None, connections=1), 11.0)

    assert downs.down_s(NAME, 12.0) is None
    assert downs.down_s("connection:b:0", 12.0) is None
