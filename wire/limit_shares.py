"""How much each owner has of something that all share, so that no one of them has all of it. Pure."""

from __future__ import annotations

from collections import Counter
from sys import intern


def owner_of(user: str | None, network: str) -> str:
    """In whose share a client counts: its user's, or its network's where nobody has logged in."""
    return intern(f"user {user}" if user is not None else f"address {network}")


class Shares:
    """total: what all have together."""

    def __init__(self) -> None:
        self.total = 0
        self._of: Counter[str] = Counter()

    def add(self, owner: str, amount: int) -> None:
        """``owner`` has so much more; or less, where it is below 0."""
        self.total += amount
        self._of[owner] += amount
        if not self._of[owner]:
            del self._of[owner]

    def broken(self, owner: str, amount: int, limit: str, most: int, percent: int) -> str:
        """Which limit ``amount`` more of ``owner`` would break, empty for none: the ``limit`` of all, which is ``most``, or
        ``user_share_percent`` of that.
        """
        if self.total + amount > most:
            return limit
        return "user_share_percent" if self._of[owner] + amount > max(1, most * percent // 100) else ""
