"""Tier 2 is bounded by its credit and keeps order (exchange.publish-in-order, bridge.credit-within-limits)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.bridge.forwarder_buffer import ForwarderBuffer
from wire.frames.lanes import HandOut


def handout(first_seq: int, count: int = 10, size_bytes: int = 100) -> HandOut:
    return HandOut(queue="bridge:b:0", epoch=1, first_seq=first_seq, count=count, size_bytes=size_bytes, offsets=b"", bodies=(b"",))


def test_the_first_grant_is_the_whole_of_tier_2_and_the_next_waits_for_a_quarter() -> None:
    tier2 = ForwarderBuffer(messages_max=100, bytes_max=10_000)
    assert tier2.grant() == (100, 10_000)
    assert tier2.grant() is None
    tier2.credit(1000, 1_000_000)
    for first_seq in (0, 10, 20):
        tier2.hold(handout(first_seq))
    tier2.take()
    tier2.take()
    assert tier2.grant() is None
    tier2.take()
    assert tier2.grant() == (130, 10_300)


def test_nothing_is_passed_on_without_credit_and_clear_forgets_it() -> None:
    tier2 = ForwarderBuffer(messages_max=100, bytes_max=10_000)
    tier2.hold(handout(0))
    assert tier2.take() is None
    tier2.credit(1, 1)
    assert tier2.take() == handout(0)
    tier2.hold(handout(10))
    assert tier2.take() is None
    assert (tier2.messages, tier2.size_bytes) == (10, 100)
    tier2.clear()
    assert (tier2.messages, tier2.size_bytes) == (0, 0)


def test_credit_is_withdrawn_once_as_totals_of_nothing_and_granted_again_with_room() -> None:
    """bridge.credit-within-limits"""
    tier2 = ForwarderBuffer(messages_max=100, bytes_max=10_000)
    assert tier2.withdraw() is None, "nothing was granted"
    assert tier2.grant() == (100, 10_000)
    tier2.hold(handout(0))
    assert tier2.withdraw() == (0, 0)
    assert tier2.withdraw() is None
    tier2.hold(handout(10))  # it was on its way
    assert tier2.withdraw() is None
    assert tier2.grant() == (100, 10_000)


def test_credit_that_was_used_up_is_withdrawn_too() -> None:
    """bridge.credit-within-limits: it tells the store that the link is down."""
    tier2 = ForwarderBuffer(messages_max=100, bytes_max=10_000)
    assert tier2.grant() == (100, 10_000)
    tier2.hold(handout(0, count=120))
    assert tier2.withdraw() == (0, 0)


@given(st.lists(st.one_of(st.just("take"), st.integers(1, 50)), max_size=60))
def test_what_leaves_is_what_came_in_order_and_never_more_than_granted(steps: list[str | int]) -> None:
    tier2 = ForwarderBuffer(messages_max=64, bytes_max=1 << 30)
    granted = (tier2.grant() or (0, 0))[0]
    came, left, held_max = 0, 0, 0
    for step in steps:
        if isinstance(step, int):
            if came < granted:  # the store's credit is soft by one chunk
                tier2.hold(handout(came, count=step))
                came += step
        else:
            tier2.credit(left + 1, 1 << 30)
            taken = tier2.take()
            if taken is not None:
                assert taken.first_seq == left
                left += taken.count
            granted = (tier2.grant() or (granted, 0))[0]
        held_max = max(held_max, tier2.messages)
    assert tier2.messages == came - left
    assert held_max < 64 + 50


def test_what_is_kept_back_uses_none_of_the_connections_credit() -> None:
    """Expired messages never reach the Connection: without this each would shrink the lane's credit for ever."""
    tier2 = ForwarderBuffer(messages_max=100, bytes_max=10_000)
    tier2.credit(10, 1000)
    tier2.hold(handout(0))
    tier2.hold(handout(10))
    assert tier2.take() == handout(0)
    assert tier2.take() is None
    tier2.kept_back(10, 100)
    assert tier2.take() == handout(10)
