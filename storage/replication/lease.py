"""The lease: for how long a leader may believe that nobody else leads, and when another member may.

A leader's lease begins when it sends a record, and counts once that is on the log. A member that follows begins to count when it
gets the record, which is later, and waits for longer. Only durations are compared, each on one machine's clock, and that goes on
while a process is stopped or the machine sleeps.

replication.lease-before-take-over [P1, P2]: a leader's lease has ended when another member begins to lead, whatever was delayed.
replication.no-word-without-lease [P2]: a node speaks to clients and remotes while it holds the lease, and never else.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path

from storage import files

FILE_NAME = "lease"
MARGIN_S, MARGIN_SHARE = 1.0, 0.01  # a follower waits for that much longer, whichever is more: clocks run at different rates
MARGIN_MAX_SHARE = 0.25
RENEWALS = 4  # in a lease
RENEWAL_MAX_S = 10.0  # however long the lease: a connection that says nothing for long is given up by servers
_UNTIL_BYTES = 8


def clock_s() -> float:
    """The time on this machine's clock that never stands still, in seconds."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def renewal_s(lease_s: float) -> float:
    """How often each member says something, at least."""
    return min(lease_s / RENEWALS, RENEWAL_MAX_S)


def patience_s(lease_s: float) -> float:
    """For how long a member hears nothing of a leader before it takes over."""
    return lease_s + min(lease_s * MARGIN_MAX_SHARE, max(MARGIN_S, lease_s * MARGIN_SHARE))


class Watch:
    """Since when a member has heard nothing of who leads. Pure: time is an argument."""

    def __init__(self, now_s: float) -> None:
        self._heard_s = now_s

    def on_heard(self, now_s: float) -> None:
        """A record has come."""
        self._heard_s = now_s

    def silent_s(self, now_s: float) -> float:
        """For how long none has."""
        return now_s - self._heard_s

    def is_over(self, lease_s: float, now_s: float) -> bool:
        """Whether the lease of whoever wrote the newest record is over."""
        return self.silent_s(now_s) >= patience_s(lease_s)


class LeaseFile:
    """Until when this node leads, where all its processes see it at once. Only the store writes it.

    A bridge looks at it before each word to its remote: one that was stopped and goes on must not speak in the place of another
    node's (replication.no-word-without-lease).
    """

    def __init__(self, run_dir: Path, clock: Callable[[], float] = clock_s) -> None:
        """Raises:
        OSError: the file cannot be made.
        """
        self._clock = clock
        descriptor = files.open_fixed(run_dir / FILE_NAME, _UNTIL_BYTES)
        try:
            self._map = mmap.mmap(descriptor, _UNTIL_BYTES)
            self._until_s = memoryview(self._map).cast("d")  # written and read in one piece, whoever looks meanwhile
        finally:
            os.close(descriptor)

    def hold(self, until_s: float) -> None:
        """This node leads until then, by its clock."""
        self._until_s[0] = until_s

    def left_s(self) -> float:
        """For how long it still does; not above 0: it does not."""
        return self._until_s[0] - self._clock()

    def is_held(self) -> bool:
        """Whether this node leads."""
        return self.left_s() > 0.0

    def close(self) -> None:
        """Release the file."""
        self._until_s.release()
        self._map.close()
