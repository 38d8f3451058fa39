"""No owner has more than its share of what all share."""

from __future__ import annotations

from wire.limit_shares import Shares, owner_of


def test_nobody_has_more_than_its_share_and_all_together_no_more_than_the_limit() -> None:
    shares = Shares()
    shares.add("ada", 50)
    assert [shares.broken("ada", amount, "most", 100, 50) for amount in (0, 1, 51)] == ["", "user_share_percent", "most"]
    shares.add("bob", 30)
    assert [shares.broken("eve", amount, "most", 100, 50) for amount in (20, 21)] == ["", "most"]
    shares.add("ada", -50)
    assert shares.broken("ada", 50, "most", 100, 50) == ""
    assert shares.total == 30


def test_a_share_of_little_is_one() -> None:
    assert Shares().broken("ada", 1, "most", 1, 1) == ""


def test_clients_without_a_user_share_by_their_network_whatever_a_user_is_called() -> None:
    assert owner_of(None, "10.0.0.1") == owner_of(None, "10.0.0.1") != owner_of("10.0.0.1", "10.0.0.1")
    assert owner_of("ada", "10.0.0.1") == owner_of("ada", "10.0.0.2")
