"""Admission: limits (access.connections-bounded), who gives way (access.half-open-bounded), and what is given back
(access.connections-bounded).
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.access.connection_limits import ConnectionLimits, address_key
from wire.config_settings import ClientLimitSettings


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("127.0.0.1", ""),
        ("127.8.9.1", ""),
        ("::1", ""),
        ("", ""),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::ffff:127.0.0.1", ""),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_what_counts_as_one_address(host: str, key: str) -> None:
    assert address_key(host) == key


def admission_of(
    *, connections_max: int, per_address_max: int | None = None, per_user_max: int | None = None, half_open_max: int | None = None
) -> ConnectionLimits:
    limits = ClientLimitSettings(
        connections_max=connections_max,
        connections_per_address=per_address_max,
        connections_per_user=per_user_max,
        half_open_max=half_open_max or 1_000_000,
    )
    return ConnectionLimits(lambda: limits)


def test_one_address_has_its_own_limit_and_loopback_has_none() -> None:
    admission = admission_of(connections_max=100, per_address_max=2)
    hosts = ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2", *["127.0.0.1"] * 5]

    refused = [admission.enter(number, host).refused for number, host in enumerate(hosts)]

    assert refused == ["", "", "connections_per_address", *[""] * 6]
    admission.leave(0)
    assert admission.enter(100, "192.0.2.1").refused == ""


def test_the_oldest_of_the_busiest_address_gives_way() -> None:
    admission = admission_of(connections_max=100, half_open_max=3)
    for number, host in enumerate(["192.0.2.9", "192.0.2.1", "192.0.2.1"]):
        admission.enter(number, host)

    assert admission.enter(3, "192.0.2.5").gives_way == 1
    admission.on_greeted(2)
    assert admission.enter(4, "192.0.2.6").gives_way is None
    assert admission.half_open == 3


def test_it_is_full_where_a_newcomer_would_be_at_somebody_s_cost() -> None:
    admission = admission_of(connections_max=4, per_address_max=2, half_open_max=3)
    for number, host in enumerate(["192.0.2.1", "192.0.2.1"]):
        assert not admission.is_full(host)
        admission.enter(number, host)
    assert admission.is_full("192.0.2.1")
    assert not admission.is_full("192.0.2.2", "a", 1)

    admission.enter(2, "192.0.2.2", "a", 1)
    assert admission.is_full("192.0.2.3"), "the oldest would give way"
    admission.on_greeted(0)
    assert not admission.is_full("192.0.2.3")
    assert admission.is_full("192.0.2.3", "a", 1)
    admission.enter(3, "127.0.0.1")
    assert admission.is_full("127.0.0.1")
    assert admission.refused == Counter()


HOSTS = ["192.0.2.1", "192.0.2.2", "127.0.0.1", "2001:db8::1", "2001:db8::2", ""]
Step = tuple[str, int, str, str]
STEPS = st.tuples(
    st.sampled_from(["enter", "greeted", "log in", "take over", "leave"]),
    st.integers(0, 30),
    st.sampled_from(HOSTS),
    st.sampled_from(["a", "b"]),
)


@given(st.lists(STEPS, max_size=200), st.integers(1, 10), st.integers(1, 4), st.integers(1, 5), st.integers(1, 6))
def test_no_limit_is_exceeded_and_all_is_given_back(
    steps: list[Step], connections_max: int, per_address_max: int, half_open_max: int, listener_max: int
) -> None:
    admission = admission_of(
        connections_max=connections_max, per_address_max=per_address_max, per_user_max=2, half_open_max=half_open_max
    )
    users: dict[int, str | None] = {}
    here: dict[int, tuple[str, str]] = {}
    half: set[int] = set()
    for number, (step, old, host, listener) in enumerate(steps, start=100):
        known = list(here)[old % len(here)] if here else -1
        if step == "enter":
            verdict = admission.enter(number, host, listener, listener_max)
            if verdict.gives_way is not None:
                assert verdict.gives_way in half
                half.discard(verdict.gives_way)
                del here[verdict.gives_way]
            if not verdict.refused:
                here[number] = (address_key(host), listener)
                half.add(number)
        elif step == "greeted":
            admission.on_greeted(known)
            half.discard(known)
        elif step in ("log in", "take over"):
            user = {"a": None, "b": "u"}[listener] if host else "v"
            if known in here and known not in users:
                older = next((one for one, of in users.items() if of == user), None) if step == "take over" else None
                has = sum(1 for one, of in users.items() if of == user and one in here and one != older)
                assert admission.log_in(known, user, older) == (user is None or has < 2)
                if older is not None:
                    admission.leave(older)
                    here.pop(older, None)
                    half.discard(older)
                    users.pop(older)
                if user is None or has < 2:
                    users[known] = user
        else:
            admission.leave(known)
            admission.leave(known)
            here.pop(known, None)
            half.discard(known)
        assert len(admission) == len(here) <= connections_max
        assert admission.half_open == len(half) <= half_open_max
        assert all(count <= per_address_max for key, count in Counter(key for key, _ in here.values()).items() if key)
        assert all(count <= listener_max for count in Counter(place for _, place in here.values()).values())
    for number in list(here):
        admission.leave(number)
    fresh = admission_of(connections_max=connections_max, per_address_max=per_address_max, half_open_max=half_open_max)
    for number, host in enumerate(HOSTS):
        assert (
            admission.enter(1000 + number, host, "a", listener_max).refused == fresh.enter(number, host, "a", listener_max).refused
        )
