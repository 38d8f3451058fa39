"""Steps of the wall clock, and the time that has passed between two of its readings whatever steps lie between. Pure.

wire.steps-age-nothing [P2, P6]: an age is the time that has passed, not the difference of two readings. A step of the wall clock
makes nothing older. It makes something younger only where the clock was set back, and by no more than that step.

The clock that no step moves is CLOCK_BOOTTIME; whoever reads the wall clock reads both (``actors/process/post.py``). NTP's slow
corrections move both alike. So the distance between the two changes at a step and at nothing else.

A process has one wall clock, and so one ``CLOCK``. The record of it between two lives: ``actors/system/clock_file.py``.
"""

from __future__ import annotations

STEP_MIN_MS = 1000  # smaller ones (a leap second) add up until they are as large
SEEN_WITHIN_MS = 5000  # by all processes of a node: each reads the clocks with each heartbeat, or more often
STEPS_MAX = 32  # of a clock that steps more often, the oldest are forgotten


class ClockSteps:
    """The steps of one wall clock: what it showed before each, and after.

    steps: (before, after) in milliseconds of UTC, oldest first. distance_ms: the wall clock less the steady one; None at first.
    """

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self.distance_ms: int | None = None

    def restore(self, steps: list[tuple[int, int]], distance_ms: int | None) -> None:
        """An earlier life knew this."""
        self.steps, self.distance_ms = steps[-STEPS_MAX:], distance_ms

    def agree(self, wall_ms: int, steady_ms: int) -> bool:
        """Whether the two clocks say that there was no step."""
        return self.distance_ms is not None and -STEP_MIN_MS <= wall_ms - steady_ms - self.distance_ms <= STEP_MIN_MS

    def read(self, wall_ms: int, steady_ms: int) -> None:
        """Both clocks were read at the same time."""
        if not self.agree(wall_ms, steady_ms):
            if self.distance_ms is not None:
                self.on_stepped(steady_ms + self.distance_ms, wall_ms)
            self.distance_ms = wall_ms - steady_ms

    def on_stepped(self, before_ms: int, after_ms: int) -> None:
        """The clock showed ``before_ms`` and then, at once, ``after_ms``."""
        self.steps = [*self.steps[1 - STEPS_MAX :], (before_ms, after_ms)]

    def elapsed_ms(self, since_ms: int, now_ms: int) -> int:
        """How long ago the clock showed ``since_ms``, now that it shows ``now_ms``; 0 at least.

        A time that the clock showed twice, since it was set back, is taken for the later one. One that it left out, since it was
        set forward, is taken for the moment of that step.
        """
        elapsed_ms = least_ms = 0
        for before_ms, after_ms in reversed(self.steps):
            begins_ms = _begins_ms(before_ms, after_ms)
            if begins_ms <= since_ms <= now_ms + STEP_MIN_MS:
                return elapsed_ms + max(0, now_ms - since_ms)
            elapsed_ms += max(0, now_ms - after_ms)
            if since_ms < begins_ms:
                least_ms = elapsed_ms
            now_ms = before_ms
        return elapsed_ms + max(0, now_ms - since_ms) if since_ms <= now_ms + STEP_MIN_MS else least_ms


def _begins_ms(before_ms: int, after_ms: int) -> int:
    """The earliest time that anything since the step may bear: a process may have seen it earlier than this one."""
    return after_ms - (SEEN_WITHIN_MS if after_ms < before_ms else STEP_MIN_MS)


CLOCK = ClockSteps()
elapsed_ms = CLOCK.elapsed_ms
