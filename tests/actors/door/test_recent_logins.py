"""Passwords verified a short while ago."""

from __future__ import annotations

from actors.door.recent_logins import RecentLogins

KEY = bytes(range(32))


def test_a_pair_is_known_for_a_while_and_asking_does_not_prolong_it() -> None:
    recent = RecentLogins(KEY, age_s=10.0)
    assert not recent.knows("ada", b"pw", 0.0)
    recent.verified("ada", b"pw", 0.0)
    assert recent.knows("ada", b"pw", 9.0)
    assert not recent.knows("ada", b"pw", 10.0)


def test_only_the_very_pair_is_known() -> None:
    recent = RecentLogins(KEY)
    recent.verified("ada", b"pw", 0.0)
    for user, password in (("ada", b"p"), ("ada", b"pww"), ("adap", b"w"), ("ad", b"apw"), ("", b"adapw")):
        assert not recent.knows(user, password, 0.0)


def test_the_oldest_is_forgotten_and_a_change_forgets_all() -> None:
    recent = RecentLogins(KEY, logins_max=2)
    for user in ("a", "b", "a", "c"):
        recent.verified(user, b"pw", 0.0)
    assert [recent.knows(user, b"pw", 1.0) for user in "abc"] == [True, False, True]
    recent.clear()
    assert len(recent) == 0
