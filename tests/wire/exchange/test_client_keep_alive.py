"""Keep alive of local clients: whole packets count (exchange.silence-from-last-packet), and a packet that goes on coming has its
time (exchange.silence-from-last-packet).
"""

from __future__ import annotations

import pytest

from wire.exchange.client_keep_alive import PACE_BYTES, KeepAlive


def alive(keep_alive_s: float) -> KeepAlive:
    made = KeepAlive(0.0)
    made.keep_alive_s = keep_alive_s
    return made


def test_who_is_silent_for_one_and_a_half_times_its_keep_alive_is_over() -> None:
    keep_alive = alive(2.0)
    assert not keep_alive.poll_over(3.0, 0)
    assert keep_alive.poll_over(3.1, 0)

    keep_alive.on_heard(2.0)
    assert not keep_alive.poll_over(5.0, 0)
    assert keep_alive.poll_over(5.1, 0)


def test_no_keep_alive_is_never_over() -> None:
    assert not alive(0.0).poll_over(1e9, 0)


@pytest.mark.parametrize(("bytes_per_s", "lives"), [(1, False), (PACE_BYTES / 4, False), (PACE_BYTES / 3 + 1, True)])
def test_a_packet_under_way_is_no_life_but_at_the_least_pace(bytes_per_s: float, lives: bool) -> None:
    """Looked at every half second, as the Listener does."""
    keep_alive = alive(2.0)
    assert all(not keep_alive.poll_over(tick / 2, int(bytes_per_s * tick / 2)) for tick in range(200)) == lives


def test_what_came_quickly_buys_one_period_and_no_more() -> None:
    keep_alive = alive(2.0)
    assert not keep_alive.poll_over(3.5, 100 * PACE_BYTES)
    assert keep_alive.poll_over(7.0, 100 * PACE_BYTES + 3)


def test_a_packet_under_way_begins_at_nothing_behind_a_whole_one() -> None:
    keep_alive = alive(2.0)
    assert not keep_alive.poll_over(3.5, 9 * PACE_BYTES)
    keep_alive.on_heard(4.0)
    assert not keep_alive.poll_over(7.5, PACE_BYTES)
    assert keep_alive.poll_over(11.0, PACE_BYTES)


def test_time_in_which_nobody_was_heard_is_no_silence() -> None:
    keep_alive = alive(2.0)
    keep_alive.stood_still(100.0, 101.0)
    assert not keep_alive.poll_over(103.0, 0)
    assert keep_alive.poll_over(103.1, 0)
    keep_alive.stood_still(1000.0, 104.0)
    assert not keep_alive.poll_over(107.0, 0), "and never begins in the future"
    assert keep_alive.poll_over(107.1, 0)
