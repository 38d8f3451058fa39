"""Figures by their place and by their name: what is written comes back, and JSON of another version is read as far as it goes."""

from __future__ import annotations

import json

import msgpack
import pytest

from wire.figure import figure, figures, joined, of_map, of_values, part, to_map, values_of
from wire.status.node_status import Status


@figures
class Row:
    """A row."""

    name: str = figure("Its name.")
    counts: dict[str, int] = figure("By reason.", default_factory=dict)


@figures
class Told:
    """Figures of each kind."""

    ready: bool = figure("Ready.")
    age_s: float | None = figure("Age.")
    words: tuple[str, ...] = figure("Words.")
    rows: tuple[Row, ...] = figure("Rows.")
    by_name: dict[str, Row] = figure("By name.")
    last: Row | None = figure("The last.")
    kept: Row | None = part("A part.", default=None)


ROW = Row(name="a", counts={"x": 1})
ALL = Told(ready=True, age_s=1.5, words=("b",), rows=(ROW,), by_name={"c": ROW}, last=ROW, kept=ROW)
NONE = Told(ready=False, age_s=None, words=(), rows=(), by_name={}, last=None)


@pytest.mark.parametrize("told", [ALL, NONE])
def test_they_come_back_by_place_and_by_name(told: Told) -> None:
    packed = msgpack.packb(told, default=values_of)
    assert of_values(Told, msgpack.unpackb(packed, use_list=False)) == told
    assert of_map(Told, json.loads(json.dumps(to_map(told)))) == told


def test_a_part_that_nobody_has_reported_is_an_empty_object_and_a_figure_null() -> None:
    assert (to_map(NONE)["kept"], to_map(NONE)["last"], to_map(NONE)["age_s"]) == ({}, None, None)


def test_what_another_version_has_beside_is_left_out_and_what_it_lacks_is_empty() -> None:
    assert of_map(Told, {"ready": False, "new": 1}) == NONE
    assert of_map(Row, {}) == Row(name="")
    assert of_map(Status, {}).bridges == ()


def test_what_is_no_figure_is_not_packed() -> None:
    with pytest.raises(TypeError, match="no figures: set"):
        msgpack.packb({1}, default=values_of)


def test_parts_are_joined_as_far_as_the_whole_has_their_figures() -> None:
    assert joined(Row, ALL, NONE, name="d") == Row(name="d")
    assert joined(Row, Row(name="e", counts={"y": 2})) == Row(name="e", counts={"y": 2})
