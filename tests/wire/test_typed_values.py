"""Plain values become dataclasses only where each is of the type that is written there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import pytest

from wire.typed_values import build


@dataclass(frozen=True, slots=True)
class Inner:
    name: str
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Outer:
    inner: Inner | None
    numbers: tuple[int, ...]
    pairs: tuple[tuple[int, str], ...]
    counts: Mapping[str, int | str]
    on: bool
    raw: bytes | None


GOOD = Outer(Inner("a", 2), (1, 2), ((1, "x"),), {"a": 1, "b": "2"}, True, b"")


def test_what_was_a_dataclass_is_one_again() -> None:
    assert build(Outer, asdict(GOOD)) == GOOD
    assert build(Outer, {**asdict(GOOD), "numbers": [1, 2], "inner": None, "raw": None}).inner is None


@pytest.mark.parametrize(
    ("name", "value", "where"),
    [
        ("inner", "a", "inner"),
        ("inner", {"name": "a"}, "inner"),
        ("inner", {"name": 1, "share": 1.0}, "inner.name"),
        ("inner", {"name": "a", "share": float("nan")}, "inner.share"),
        ("inner", {"name": "a", "share": float("inf")}, "inner.share"),
        ("inner", {"name": "a", "share": 1.0, "more": 1}, "inner"),
        ("numbers", 1, "numbers"),
        ("numbers", [1, "2"], r"numbers\[1\]"),
        ("numbers", [True], r"numbers\[0\]"),
        ("numbers", [1.0], r"numbers\[0\]"),
        ("numbers", [1 << 63], r"numbers\[0\]"),
        ("pairs", [[1]], r"pairs\[0\]"),
        ("counts", {"a": None}, "counts.a"),
        ("counts", {1: 1}, "counts"),
        ("counts", [], "counts"),
        ("on", 1, "on"),
        ("raw", "", "raw"),
    ],
)
def test_another_type_is_refused_with_its_place(name: str, value: object, where: str) -> None:
    with pytest.raises(ValueError, match=rf"^{where} "):
        build(Outer, {**asdict(GOOD), name: value})


def test_a_long_value_is_not_repeated_whole() -> None:
    with pytest.raises(ValueError) as caught:
        build(Outer, {**asdict(GOOD), "on": "x" * 10_000})
    assert len(str(caught.value)) < 200
