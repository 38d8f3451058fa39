"""Which metrics figures become, where they find their values, and how those are labelled."""

from __future__ import annotations

from typing import ClassVar

import pytest

from supervisor.metrics.metric import Metric, Value
from supervisor.metrics.table import sections
from wire.figure import FigureMetric, count, counter, equals, figure, figures, gauge, given, histogram, info, part, states
from wire.status.histogram import HistogramFigures

TOOK = HistogramFigures(bounds=(0.1, 1), counts=(2, 1, 3), sum=9.5)


@figures
class Letters:
    """Of all lanes of a bridge."""

    held: int = figure("Held.", gauge("held"))


@figures
class Link:
    """A link."""

    n: int = figure("Attempts.", gauge("n"))
    error: str = figure("Why.", default="")


@figures
class Lane:
    """A lane."""

    LABELS: ClassVar = {"bridge": "name", "lane": "lane"}
    METRICS: ClassVar[tuple[FigureMetric, ...]] = (info("why", "Why.", why="link.error"),)

    name: str = figure("Bridge.")
    lane: int = figure("Lane.")
    depth: int | None = figure("Depth.", gauge("depth"))
    accepted: int | None = figure("Accepted.", counter("accepted"))
    dropped: dict[str, int] = figure("Dropped.", counter("dropped", by="reason", known=("full", "old"), beside="accepted"))
    paused_ms: int | None = figure("Paused.", given("paused"), gauge("paused_seconds"))
    suspects: tuple[int, ...] = figure("Suspects.", count("suspects"))
    letters: Letters | None = part("Letters.", default=None, per=("bridge",))
    link: Link | None = part("Link.", default=None)


@figures
class Member:
    """A member."""

    behind: int = figure("Behind.", gauge("behind"))


@figures
class Node:
    """A node."""

    ready: bool = figure("Ready.", gauge("ready"))
    state: str | None = figure("State.", states("state", ("running", "low")), equals("runs", "Runs.", "running"))
    took: HistogramFigures | None = figure("Took.", histogram("took"))
    bridges: tuple[Lane, ...] = figure("Bridges.")
    members: dict[str, Member] = figure("Members.", count("members"), by="member")


def lane(number: int, *, depth: int | None = None, accepted: int | None = None, link: Link | None = None) -> Lane:
    return Lane(
        name="a",
        lane=number,
        depth=depth,
        accepted=accepted,
        dropped={"full": 2} if accepted is not None else {},
        paused_ms=7 if number else None,
        suspects=(1,) * number,
        letters=Letters(held=5 + number),
        link=link,
    )


NODE = Node(
    ready=True,
    state="running",
    took=TOOK,
    bridges=(lane(0, depth=3, accepted=9), lane(1, link=Link(n=1, error="no route"))),
    members={"b": Member(behind=4)},
)
METRICS = {metric.name.removeprefix("bascule_"): metric for _, _, metrics in sections(Node) for metric in metrics}
LANE = ("bridge", "lane")


@pytest.mark.parametrize(
    ("name", "path", "labels", "values"),
    [
        ("ready", "ready", (), {(): 1.0}),
        ("runs", "state", (), {(): 1.0}),
        ("state", "state", ("state",), {("running",): 1.0, ("low",): 0.0}),
        ("took", "took", (), {(): TOOK}),
        ("members", "members", (), {(): 1.0}),
        ("behind", "members{member}.behind", ("member",), {("b",): 4.0}),
        ("depth", "bridges[].depth", LANE, {("a", "0"): 3.0}),
        ("n", "bridges[].link.n", LANE, {("a", "1"): 1.0}),
        ("held", "bridges[].letters.held", ("bridge",), {("a",): 5.0}),
        ("paused", "bridges[].paused_ms", LANE, {("a", "0"): 0.0, ("a", "1"): 1.0}),
        ("paused_seconds", "bridges[].paused_ms", LANE, {("a", "1"): 0.007}),
        ("suspects", "bridges[].suspects", LANE, {("a", "0"): 0.0, ("a", "1"): 1.0}),
        ("why_info", "bridges[]", (*LANE, "why"), {("a", "1", "no route"): 1.0}),
    ],
)
def test_values_are_found_by_the_path_of_their_figure(
    name: str, path: str, labels: tuple[str, ...], values: dict[tuple[str, ...], Value]
) -> None:
    metric: Metric = METRICS[name]

    assert (metric.path, metric.labels, metric.values(NODE)) == (path, labels, values)


def test_a_known_reason_counts_from_zero_once_the_store_has_told_the_ledger() -> None:
    """Else the first one would be no growth to Prometheus, and a store that starts again would be one."""
    assert METRICS["dropped_total"].values(NODE) == {("a", "0", "full"): 2.0, ("a", "0", "old"): 0.0}


def test_a_state_that_is_not_known_is_told_beside_those_that_are_and_none_where_nobody_has_said() -> None:
    def told(state: str | None) -> object:
        return METRICS["state"].values(Node(ready=True, state=state, took=None, bridges=(), members={}))

    assert told("new") == {("running",): 0.0, ("low",): 0.0, ("new",): 1.0}
    assert told(None) == {}
