"""Failed logins by address and by user: who has to wait, who does not, and that memory is bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.access.login_limits import KNOWN_S, LoginLimits, network_of
from wire.config_settings import LoginLimitSettings

ADA, BOB, NOBODY = b"ada", b"bob", b""
RIGHT = b"right"


def limits(failures_max: int | None = 3, **keys: int) -> LoginLimits:
    return LoginLimits(lambda: LoginLimitSettings(failures_max=failures_max, period_s=60.0, block_s=10.0), **keys)


def fails(door: LoginLimits, origin: str, *at_s: float, user: bytes = NOBODY) -> list[bool]:
    return [door.on_failed(origin, user, each_s)[0] for each_s in at_s]


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
    """access.failed-logins-wait"""
    assert network_of(host) == network


def test_an_address_waits_after_as_many_failures_as_are_allowed() -> None:
    """access.failed-logins-wait"""
    door = limits()
    assert fails(door, "a", 0.0, 1.0, 2.0) == [False, False, True]
    assert not door.refuses("b", ADA, 2.0)
    assert door.refuses("a", ADA, 2.0)
    assert door.refuses("a", ADA, 11.9)
    assert not door.refuses("a", ADA, 12.0)
    assert fails(door, "a", 13.0, 14.0, 15.0) == [False, False, True], "it starts again"


def test_failures_that_are_far_apart_do_not_add_up() -> None:
    door = limits()
    assert not any(fails(door, "a", 0.0, 31.0, 62.0, 93.0, 124.0))
    assert fails(door, "a", 125.0) == [True]


def test_one_failure_may_be_enough_and_fewer_may_be_from_now_on() -> None:
    assert fails(limits(1), "a", 0.0) == [True]
    now = LoginLimitSettings(failures_max=10, period_s=60.0, block_s=10.0)
    door = LoginLimits(lambda: now)
    fails(door, "a", *map(float, range(9)))
    now = replace(now, failures_max=2)
    assert fails(door, "a", 9.0) == [True]


def test_no_limit_and_no_address_never_wait() -> None:
    door = limits(None)
    assert not any(fails(door, "a", *[0.0] * 100, user=ADA))
    door = limits(1)
    assert not any(fails(door, "", 0.0))
    assert not door.refuses("", NOBODY, 0.0)


def test_a_user_waits_who_has_failed_from_many_addresses_and_not_from_one() -> None:
    """access.failed-logins-wait"""
    door = limits()
    for at_s in range(100):
        door.on_failed("a", ADA, float(at_s))
    assert door.on_failed("b", ADA, 100.0) == (False, False)
    assert not door.refuses("d", ADA, 100.0)
    assert door.on_failed("c", ADA, 101.0) == (False, True)
    assert door.refuses("d", ADA, 101.0)
    assert not door.refuses("d", BOB, 101.0)
    assert not door.refuses("d", ADA, 111.0)


def test_who_was_let_in_is_known_by_address_user_and_credential_for_a_while() -> None:
    """access.known-login-let-in"""
    door = limits()
    door.let_in("a", ADA, RIGHT, 0.0)
    fails(door, "a", 0.0, 0.0, 0.0, user=ADA)
    assert door.is_known("a", ADA, RIGHT, 1.0)
    assert not door.is_known("a", ADA, b"other", 1.0)
    assert not door.is_known("a", BOB, RIGHT, 1.0)
    assert not door.is_known("b", ADA, RIGHT, 1.0)
    assert not door.is_known("a", ADA, RIGHT, KNOWN_S)
    door.let_in("a", ADA, b"new", 2.0)
    assert not door.is_known("a", ADA, RIGHT, 3.0)


def test_different_guesses_at_the_known_have_it_wait_and_the_same_one_again_does_not() -> None:
    """access.known-login-let-in: guesses at others, and the right one, count nothing."""
    door = limits()
    door.let_in("a", ADA, RIGHT, 0.0)
    for at_s in range(100):
        door.guessed("a", ADA, b"old", float(at_s))
        door.guessed("a", ADA, RIGHT, float(at_s))
        door.guessed("a", BOB, b"%d" % at_s, float(at_s))
        door.guessed("b", ADA, b"%d" % at_s, float(at_s))
    assert door.is_known("a", ADA, RIGHT, 100.0)
    door.guessed("a", ADA, b"1", 100.0)
    assert door.is_known("a", ADA, RIGHT, 100.0)
    door.guessed("a", ADA, b"2", 101.0)
    assert not door.is_known("a", ADA, RIGHT, 110.9)
    assert door.is_known("a", ADA, RIGHT, 111.0)


def test_the_longest_quiet_is_forgotten() -> None:
    """access.failed-logins-wait"""
    door = limits(2, entries_max=3)
    for origin in ("a", "b", "c", "a", "d"):
        door.on_failed(origin, ADA, 0.0)
        door.let_in(origin, ADA, RIGHT, 0.0)
    assert door.refuses("a", NOBODY, 1.0), "it failed again after b, so b went"
    assert fails(door, "c", 1.0) == [True]
    assert fails(door, "b", 1.0) == [False]
    assert [door.is_known(origin, ADA, RIGHT, 1.0) for origin in "abcd"] == [True, False, True, True]


STEPS = st.tuples(st.sampled_from(("failed", "guessed", "let_in")), st.integers(0, 9), st.integers(0, 9), st.integers(0, 3))


@given(st.lists(STEPS, max_size=100))
def test_memory_is_bounded_whatever_comes(steps: list[tuple[str, int, int, int]]) -> None:
    """access.failed-logins-wait"""
    door = limits(2, entries_max=3)
    for at_s, (step, origin, user, credential) in enumerate(steps):
        name, who, proof = str(origin), b"%d" % user, b"%d" % credential
        if step == "failed":
            door.on_failed(name, who, float(at_s))
        elif step == "guessed":
            door.guessed(name, who, proof, float(at_s))
        else:
            door.let_in(name, who, proof, float(at_s))
        assert max(len(door._known), len(door.origins._failures), len(door.users._failures)) <= 3
