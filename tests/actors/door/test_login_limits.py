"""Failed logins by address: when an address has to wait, and that memory is bounded."""

from __future__ import annotations

import pytest

from actors.door.login_limits import LoginLimits, network_of


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
        ("@socket", ""),
    ],
)
def test_what_is_counted_together(host: str, network: str) -> None:
    """door.ipv6-counts-by-64"""
    assert network_of(host) == network


def test_an_address_waits_after_as_many_failures_as_are_allowed() -> None:
    """door.failed-logins-wait"""
    limits = LoginLimits(3, period_s=60.0, block_s=10.0)
    assert [limits.failed("a", at_s) for at_s in (0.0, 1.0, 2.0)] == [False, False, True]
    assert not limits.blocked("b", 2.0)
    assert limits.blocked("a", 2.0)
    assert limits.blocked("a", 11.9)
    assert not limits.blocked("a", 12.0)
    assert [limits.failed("a", at_s) for at_s in (13.0, 14.0, 15.0)] == [False, False, True], "it begins anew"


def test_failures_that_are_far_apart_do_not_add_up() -> None:
    limits = LoginLimits(3, period_s=60.0, block_s=10.0)
    assert not any(limits.failed("a", at_s) for at_s in (0.0, 31.0, 62.0, 93.0, 124.0))
    assert limits.failed("a", 125.0)


def test_one_failure_may_be_enough() -> None:
    assert LoginLimits(1, period_s=60.0, block_s=10.0).failed("a", 0.0)


def test_no_limit_and_no_address_never_wait() -> None:
    limits = LoginLimits(None, period_s=60.0, block_s=10.0)
    assert not any(limits.failed("a", 0.0) for _ in range(100))
    limits = LoginLimits(1, period_s=60.0, block_s=10.0)
    assert not limits.failed("", 0.0)
    assert not limits.blocked("", 0.0)


def test_memory_is_bounded_and_the_longest_quiet_is_forgotten() -> None:
    """door.failed-addresses-bounded"""
    limits = LoginLimits(2, period_s=60.0, block_s=10.0, addresses_max=3)
    for address in ("a", "b", "c", "a", "d"):
        limits.failed(address, 0.0)
    assert len(limits) == 3
    assert limits.blocked("a", 1.0), "it failed again after b, so b went"
    assert limits.failed("c", 1.0)
    assert not limits.failed("b", 1.0)
