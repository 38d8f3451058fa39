"""Failback: in which order addresses are tried, when the first is probed, and when a later one is left for it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.present import present
from wire.exchange.failback import Failback
from wire.status.bridges import FirstAddress

ADDRESSES = (("a", 1), ("b", 2), ("c", 3))


def failback(retry_s: float | None = 300.0) -> Failback:
    return Failback(ADDRESSES, retry_s=retry_s, finish_s=30.0)


def at_later(*, tried_first: bool = True) -> Failback:
    """Connected to the second address at 1000 s."""
    made = failback()
    made.on_connected("b:2", 1000.0, tried_first=tried_first)
    return made


def probed_well(made: Failback, now_s: float) -> None:
    """The first address answers at ``now_s``."""
    asked = made.probe(now_s)
    assert asked is not None
    made.on_probed(asked[0], now_s, "")


def test_the_addresses_are_tried_in_their_order_after_one_that_is_wanted() -> None:
    """exchange.failback-when-finished"""
    assert failback().order() == list(ADDRESSES)
    assert failback().order("c:3") == [("c", 3), ("a", 1), ("b", 2)]
    assert failback().order("gone:4") == list(ADDRESSES), "an address of an earlier configuration"


def test_on_the_first_address_nothing_is_probed() -> None:
    made = failback()
    made.on_connected("a:1", 0.0, tried_first=False)
    assert (made.later, made.wakes_at_s, made.probe(1e9)) == (False, None, None)


def test_on_a_later_one_the_first_is_probed_when_it_is_time_and_again_after_each_failure() -> None:
    """exchange.failback-when-finished"""
    made = at_later()
    assert (made.later, made.wakes_at_s, made.probe(1299.9)) == (True, 1300.0, None)
    asked = made.probe(1300.0)
    assert asked == (1, ("a", 1))
    assert (made.probe(1400.0), made.wakes_at_s) == (None, None), "one at a time"
    made.on_probed(1, 1310.0, "tcp: refused")
    assert (made.error, made.next_probe_s(1310.0), made.finishing) == ("tcp: refused", 300.0, False)


def test_a_first_address_that_was_not_tried_is_probed_at_once() -> None:
    """exchange.failback-when-finished: after a restart, say, with an exchange to be finished at the later one."""
    assert at_later(tried_first=False).probe(1000.0) == (1, ("a", 1))


def test_round_robin_begins_with_the_next_address_and_probes_none() -> None:
    made = Failback(ADDRESSES, retry_s=300.0, finish_s=30.0, round_robin=True)
    made.on_connected("b:2", 0.0, tried_first=True)
    assert (made.later, made.wakes_at_s) == (False, None)
    made.on_disconnected()
    assert [host for host, _ in made.order()] == ["c", "a", "b"]
    assert [host for host, _ in made.order("b:2")] == ["b", "c", "a"], "where something is unfinished"


def test_unlimited_never_probes() -> None:
    made = failback(retry_s=None)
    made.on_connected("b:2", 0.0, tried_first=False)
    assert (made.later, made.wakes_at_s, made.probe(1e9)) == (True, None, None)


def test_a_later_address_is_left_when_nothing_is_unfinished() -> None:
    """exchange.failback-when-finished"""
    made = at_later()
    assert not made.leaves(1001.0, unfinished=False), "nobody has asked after the first"
    probed_well(made, 1300.0)
    assert made.finishing
    assert not made.leaves(1301.0, unfinished=True)
    assert made.finishing
    assert made.leaves(1302.0, unfinished=False)


def test_what_takes_too_long_to_finish_keeps_the_lane_where_it_is_until_the_next_probe() -> None:
    """exchange.failback-when-finished"""
    made = at_later()
    probed_well(made, 1300.0)
    assert made.wakes_at_s == 1330.0
    assert not made.leaves(1330.0, unfinished=True)
    assert (made.finishing, made.next_probe_s(1330.0)) == (False, 300.0)
    assert "not acknowledged" in made.error
    assert not made.leaves(1331.0, unfinished=False), "what waits goes on meanwhile"


def test_the_figures_tell_of_the_first_address_while_a_later_one_is_used() -> None:
    made = failback()
    made.on_connected("a:1", 0.0, tried_first=False)
    assert made.figures(0.0) is None
    made = at_later()
    assert made.figures(1100.0) == FirstAddress(address="a:1", returning=False, next_probe_s=200.0, error="")
    asked = made.probe(1300.0)
    assert asked is not None
    assert present(made.figures(1301.0)).next_probe_s is None, "it is under way"
    made.on_probed(asked[0], 1302.0, "tcp: refused")
    assert made.figures(1302.0) == FirstAddress(address="a:1", returning=False, next_probe_s=300.0, error="tcp: refused")
    probed_well(made, 1602.0)
    assert present(made.figures(1602.0)).returning is True


def test_a_probe_of_an_earlier_connection_says_nothing() -> None:
    made = at_later()
    assert made.probe(1300.0) == (1, ("a", 1))
    made.on_disconnected()
    made.on_probed(1, 1301.0, "")
    made.on_connected("b:2", 1302.0, tried_first=True)
    made.on_probed(1, 1303.0, "")
    assert not made.finishing
    assert made.probe(1602.0) == (2, ("a", 1))
    made.on_probed(1, 1603.0, "")
    assert not made.finishing


@given(st.lists(st.tuples(st.sampled_from(("probe", "good", "bad", "leave", "end", "b:2", "a:1")), st.booleans()), max_size=60))
def test_it_leaves_only_a_later_address_after_an_answer_and_with_nothing_unfinished(steps: list[tuple[str, bool]]) -> None:
    made, now_s, number, place, answered = failback(), 0.0, 0, "", False
    for step, flag in steps:
        now_s += 200.0 if flag else 1.0
        if step == "probe":
            asked = made.probe(now_s)
            assert asked is None or place == "b:2"
            number = asked[0] if asked is not None else number
        elif step in ("good", "bad"):
            made.on_probed(number, now_s, "" if step == "good" else "no")
            answered |= step == "good"
        elif step == "leave":
            finishing = made.finishing
            if made.leaves(now_s, unfinished=flag):
                assert finishing
                assert answered
                assert place == "b:2"
                assert not flag
        else:
            place, answered = ("", False) if step == "end" else (step, False)
            made.on_disconnected() if step == "end" else made.on_connected(step, now_s, tried_first=flag)
        assert made.finishing <= (place == "b:2")
