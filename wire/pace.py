"""When the next batch may go: at once where nothing is under way, a moment later where commits follow each other closely. Pure.

Each batch costs its turns, its hops and its sync, whatever it carries. What comes while one is being committed shows that more is
coming: then the next one leaves no sooner than ``gather_s`` after it, and carries more. Who waits for each of its acknowledgements
before it publishes again sends nothing meanwhile, so it never waits.
"""

from __future__ import annotations


class Pace:
    """``busy``: something came while the last batch was being committed."""

    def __init__(self, gather_s: float) -> None:
        self._gather_s = gather_s
        self._sent_s = float("-inf")
        self.busy = False

    def sent(self, now_s: float) -> None:
        """A batch is on its way."""
        self._sent_s = now_s

    def committed(self, *, waiting: bool) -> None:
        """All that was on its way is committed. waiting: something came meanwhile."""
        self.busy = waiting and self._gather_s > 0

    @property
    def due_s(self) -> float:
        """When the next batch may go (monotonic)."""
        return self._sent_s + self._gather_s if self.busy else float("-inf")
