"""The connections of an encrypted socket, as its monitor tells of them. The socket itself is tested by a node that has one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.process.curve_router import Connected


def test_one_more_than_there_may_be_does_not_stay() -> None:
    connected = Connected(2, 5.0)
    assert [connected.on_accepted(fd, 0.0) for fd in (1, 2, 3)] == [True, True, False]
    connected.on_ended(3)
    connected.on_ended(1)
    assert connected.on_accepted(4, 1.0)
    assert len(connected) == 2
    assert connected.refused["too_many"] == 1


def test_who_may_still_show_a_key_is_not_counted_as_refused() -> None:
    connected = Connected(10, 5.0)
    connected.on_accepted(1, 0.0)
    connected.count(4.9)
    assert connected.refused["handshake"] == 0
    connected.on_ended(1)
    connected.count(5.0)
    assert connected.refused["handshake"] == 1


@given(st.lists(st.sampled_from(["stays", "leaves", "nonsense", "wrong key"]), max_size=40))
def test_at_rest_each_that_was_not_let_in_is_counted_once(ends: list[str]) -> None:
    connected = Connected(100, 5.0)
    for fd, end in enumerate(ends):
        connected.on_accepted(fd, float(fd))
        connected.count(float(fd))
        if end in ("stays", "leaves"):
            connected.on_succeeded()
        if end == "wrong key":
            connected.refused["key"] += 1
        if end != "stays":
            connected.on_ended(fd)
    connected.count(1000.0)
    assert connected.refused == {"key": ends.count("wrong key"), "handshake": ends.count("nonsense"), "too_many": 0}
    assert len(connected) == ends.count("stays")
