"""Due time of the store's open write. Pure: time is an argument.

Frames that somebody waits for are committed in their turn, or once in each flush period. Nobody waits for what only settles
messages: where it is lost with the process, they are delivered again, as after any death. So it goes with a commit that happens
anyway, or after ``LAZY_S``.
"""

from __future__ import annotations

from wire.frames.base import Frame
from wire.frames.lanes import Credit, Settle
from wire.settings import NodeSettings

LAZY_S = 0.1


class CommitTime:
    """flush_period_s: as in the settings."""

    def __init__(self, flush_period_s: float) -> None:
        self._flush_period_s = flush_period_s
        self._committed_s = float("-inf")
        self._only_settled = False  # nothing else came since the last commit
        self._lazy_due_s: float | None = None  # when that is committed though nobody waits for it

    def adopt(self, settings: NodeSettings) -> None:
        """These hold from now on."""
        self._flush_period_s = settings.persistence.flush_period_s

    def take(self, frame: Frame) -> None:
        """``frame`` is in the open write."""
        self._only_settled = self._only_settled and _can_wait(frame)

    def hurry(self) -> None:
        """The open write has something that does not wait."""
        self._only_settled = False

    def put_off(self, now_s: float) -> None:
        """The open write has something, and is not committed now."""
        if self._lazy_due_s is None:
            self._lazy_due_s = now_s + LAZY_S

    def written(self, now_s: float) -> None:
        """The open write went to the disk."""
        self._committed_s = now_s

    def committed(self) -> None:
        """Nothing is left uncommitted."""
        self._only_settled, self._lazy_due_s = True, None

    def is_due(self, now_s: float) -> bool:
        """Whether to commit now."""
        if self._only_settled and (self._lazy_due_s is None or now_s < self._lazy_due_s):
            return False
        return not self._flush_period_s or now_s >= self._flush_s

    def wakes_at_s(self, *, waited_for: bool) -> float:
        """The time at which it is due though nothing comes. waited_for: somebody waits for the open write."""
        wake_s = float("inf")
        if self._only_settled and self._lazy_due_s is not None:
            wake_s = max(self._lazy_due_s, self._flush_s)
        if waited_for and self._flush_period_s:
            wake_s = min(wake_s, self._flush_s)
        return wake_s

    @property
    def _flush_s(self) -> float:
        return self._committed_s + self._flush_period_s


def _can_wait(frame: Frame) -> bool:
    """Whether nobody waits for what ``frame`` changes: it only settles messages, which leaves nothing but their places."""
    if isinstance(frame, Settle):
        return frame.session is None and not frame.released and not any(outcome.startswith("dead:") for outcome, _ in frame.settled)
    return isinstance(frame, Credit)
