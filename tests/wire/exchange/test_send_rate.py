"""A lane's rate: how much in how long (exchange.rate-kept), and less when the remote says so (exchange.rate-yields)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.config_settings import RateSettings
from wire.exchange.send_rate import GROWS_BACK_S, LEAST_PART, SendRate


def sent(rate: SendRate, now_s: float, wanted: int, size_bytes: int = 10) -> int:
    """Send as much of ``wanted`` as may leave, one by one."""
    rate.refill(now_s)
    for number in range(wanted):
        room = rate.room(0, 1 << 40)
        if room is not None and not min(room):
            return number
        rate.take(1, size_bytes)
    return wanted


@given(
    st.integers(1, 500),
    st.integers(1024, 50_000),
    st.sampled_from([0.05, 1.0, 5.0]),
    st.integers(1, 4),
    st.lists(st.tuples(st.floats(0, 3), st.integers(1, 300)), min_size=1, max_size=60),
)
def test_in_any_time_no_more_leaves_than_the_burst_and_the_rate_of_that_time(
    messages_per_s: int, bytes_per_s: int, burst_s: float, lanes: int, steps: list[tuple[float, int]]
) -> None:
    """exchange.rate-kept"""
    rate = SendRate(RateSettings(messages_per_s=messages_per_s, bytes_per_s=bytes_per_s, burst_s=burst_s), lanes, 0.0)
    now_s, total, packet_bytes = 0.0, 0, 100
    for idle_s, wanted in steps:
        total += sent(rate, now_s, wanted, packet_bytes)
        now_s = rate.resume_s or now_s + idle_s
        assert total <= max(1, messages_per_s / lanes * burst_s) + messages_per_s / lanes * now_s + 1e-6
        assert (total - 1) * packet_bytes <= max(1, bytes_per_s / lanes * burst_s) + bytes_per_s / lanes * now_s + 1e-6
    while not sent(rate, now_s, 1):
        assert rate.resume_s is not None
        assert rate.resume_s > now_s, "who waits is told until when, and it is worth it"
        now_s = rate.resume_s


def test_lanes_share_it() -> None:
    assert sent(SendRate(RateSettings(messages_per_s=100), 4, 0.0), 0.0, 1000) == 25


def test_what_has_just_come_is_not_of_the_backlog() -> None:
    rate = SendRate(RateSettings(messages_per_s=1, applies_to="backlog"), 1, 0.0)
    assert [rate.room(1_000_000, 1_000_000 + waited) for waited in (0, 10_000, 10_001)] == [None, None, (1, 1 << 40)]


@pytest.mark.parametrize("reason_code", [0x89, 0x97])
def test_it_is_halved_when_the_remote_says_so_and_grows_back(reason_code: int) -> None:
    """exchange.rate-yields"""
    rate = SendRate(RateSettings(messages_per_s=64), 1, 0.0)
    for _ in range(50):
        rate.on_answer(reason_code)
        rate.refill(0.5)
    assert (rate.figures().messages, rate.lowered) == (32, 1), "fifty refusals of one second are one sign"
    now_s = 0.5
    for _ in range(20):
        rate.on_answer(reason_code)
        now_s += 1.0
        rate.refill(now_s)
    assert rate.figures().part < LEAST_PART + 2 / GROWS_BACK_S
    before = rate.figures().part
    rate.refill(now_s + GROWS_BACK_S / 2)
    assert rate.figures().part == pytest.approx(before + 0.5, abs=0.01)
    rate.refill(now_s + GROWS_BACK_S)
    assert rate.figures().part == 1.0


def test_other_refusals_change_nothing() -> None:
    rate = SendRate(RateSettings(messages_per_s=64), 1, 0.0)
    rate.on_answer(0x80)
    rate.refill(1.0)
    assert (rate.figures().part, rate.lowered) == (1.0, 0)
