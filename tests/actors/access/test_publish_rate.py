"""Rate limits: how much in how long (access.rate-per-second), and how long to wait (access.rate-per-second)."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from actors.access.publish_rate import PublishRate


def test_a_second_s_worth_goes_at_once_and_the_rest_at_the_rate() -> None:
    rate = PublishRate(10, None, 0.0)
    assert rate.allowance(0.0) == (10, inf)
    rate.take(10, 5000)
    assert rate.allowance(0.0)[0] == 0
    assert rate.wait_s() == 0.1
    assert rate.allowance(0.5)[0] == 5
    assert rate.wait_s() == 0
    assert rate.allowance(100.0)[0] == 10, "what is not used is not saved up"


def test_a_packet_larger_than_a_second_s_worth_is_paid_off() -> None:
    rate = PublishRate(None, 1000, 0.0)
    rate.allowance(0.0)
    rate.take(1, 3000)
    assert rate.allowance(1.9)[1] == 0
    assert rate.wait_s() > 0
    assert rate.allowance(2.1)[1] > 0


@given(
    st.one_of(st.none(), st.integers(1, 1000)),
    st.one_of(st.none(), st.integers(1024, 100_000)),
    st.lists(st.tuples(st.floats(0, 3), st.integers(1, 500)), min_size=1, max_size=100),
)
def test_who_takes_what_it_may_and_waits_as_told_keeps_to_the_rate(
    messages_per_s: int | None, bytes_per_s: int | None, steps: list[tuple[float, int]]
) -> None:
    now_s = taken = size_bytes = 0.0
    packet_bytes = 100
    rate = PublishRate(messages_per_s, bytes_per_s, 0.0)
    for idle_s, wanted in steps:
        messages, size = rate.allowance(now_s)
        if messages and size:
            most = min(wanted, messages, -(-size // packet_bytes))
            rate.take(int(most), int(most) * packet_bytes)
            taken += int(most)
            size_bytes += int(most) * packet_bytes
        else:
            assert rate.wait_s() > 0
        now_s += rate.wait_s() or idle_s
        assert messages_per_s is None or taken <= messages_per_s * (1 + now_s) + 1e-6
        assert bytes_per_s is None or size_bytes <= bytes_per_s * (1 + now_s) + packet_bytes
