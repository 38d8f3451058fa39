"""Where a metric finds its values in the status, and how they are labelled."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.metrics.metric import Buckets, Metric, count, given, seconds

STATUS: dict[str, Any] = {
    "ready": True,
    "bridges": [
        {
            "name": "a",
            "lane": 0,
            "depth": 3,
            "accepted": 9,
            "dropped": {"full": 2},
            "dead": {"held": 5},
            "paused": None,
            "link": {},
        },
        {
            "name": "a",
            "lane": 1,
            "depth": None,
            "accepted": None,
            "dropped": {},
            "dead": {"held": 6},
            "paused": 7,
            "link": {"n": 1},
        },
    ],
    "store": {"commits": 4, "took": {"bounds": [0.1, 1], "counts": [2, 1, 3], "sum": 9.5}, "state": "running"},
    "http": {},
}


def metric(path: str, kind: Any = "gauge", **keys: Any) -> Metric:
    return Metric("bascule_it", kind, path, "It.", **keys)


@pytest.mark.parametrize(
    ("one", "labels", "values"),
    [
        (metric("store.commits"), (), {(): 4.0}),
        (metric("ready"), (), {(): 1.0}),
        (metric("bridges[].depth"), ("bridge", "lane"), {("a", "0"): 3.0}),
        (metric("bridges[].link.n"), ("bridge", "lane"), {("a", "1"): 1.0}),
        (metric("bridges[].dropped{reason}"), ("bridge", "lane", "reason"), {("a", "0", "full"): 2.0}),
        (metric("bridges[].dead.held", per=("bridge",)), ("bridge",), {("a",): 5.0}),
        (metric("bridges[].paused", read=given), ("bridge", "lane"), {("a", "0"): 0.0, ("a", "1"): 1.0}),
        (metric("bridges[].paused", read=seconds), ("bridge", "lane"), {("a", "1"): 0.007}),
        (metric("bridges[].dropped", read=count), ("bridge", "lane"), {("a", "0"): 1.0, ("a", "1"): 0.0}),
        (metric("http.answers{status}", known=("2xx",)), ("status",), {}),
        (metric("http.connections"), (), {}),
        (metric("nothing.of.it"), (), {}),
    ],
    ids=lambda value: value.path if isinstance(value, Metric) else "",
)
def test_values_are_found_by_their_path(one: Metric, labels: tuple[str, ...], values: dict[tuple[str, ...], float]) -> None:
    assert (one.labels, one.values(STATUS)) == (labels, values)


def test_a_known_reason_counts_from_zero_once_the_store_has_told_the_ledger() -> None:
    """Else the first one would be no growth to Prometheus, and a store that begins anew would be one."""
    one = metric("bridges[].dropped{reason}", "counter", known=("full", "old"), beside="accepted")

    assert one.values(STATUS) == {("a", "0", "full"): 2.0, ("a", "0", "old"): 0.0}


def test_one_of_the_states_is_1() -> None:
    one = metric("store.state", "states", known=("running", "disk_low"))

    assert one.labels == ("state",)
    assert one.values(STATUS) == {("running",): 1.0, ("disk_low",): 0.0}
    assert one.values({"store": {"state": "new"}}) == {("running",): 0.0, ("disk_low",): 0.0, ("new",): 1.0}
    assert one.values({"store": {}}) == {}


def test_an_info_tells_words_and_is_absent_without_any() -> None:
    one = metric("bridges[]", "info", words={"why": "link.error"})

    assert one.labels == ("bridge", "lane", "why")
    assert one.values(STATUS) == {}
    assert one.values({"bridges": [{"name": "a", "lane": 0, "link": {"error": "no route"}}]}) == {("a", "0", "no route"): 1.0}


def test_buckets_add_up() -> None:
    one = metric("store.took", "histogram")

    assert one.values(STATUS) == {(): Buckets((0.1, 1), (2, 1, 3), 9.5)}
    assert Buckets((0.1, 1), (2, 1, 3), 9.5).cumulative() == [(0.1, 2), (1, 3), (float("inf"), 6)]
