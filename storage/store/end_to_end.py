"""How long the messages of a bridge took, from their acceptance until their remote had them: counted as they leave the queue. Pure.

When each was accepted, its queue knows; when it was delivered, the bridge says. Both are times of this machine's clock, so where
that is set back in between, a message counts as one that took no time.
"""

from __future__ import annotations

from collections.abc import Sequence

from storage.queue.chunk import Left
from wire.status.histogram import Histogram

BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 14_400, 86_400)


def end_to_end() -> Histogram:
    """One of which nothing was measured yet."""
    return Histogram(BOUNDS_S)


def count(histogram: Histogram, left: Left, times: Sequence[tuple[int, int]]) -> None:
    """Count what has ``left``: in its order, each of ``times`` is that of so many messages, and the last that of the rest, too."""
    if not times:
        return
    place, (remaining, at_ms) = 0, times[0]
    for accepted_ms, messages in left:
        while remaining < messages and place + 1 < len(times):
            if remaining:
                histogram.add(max(0, at_ms - accepted_ms) / 1000, remaining)
                messages -= remaining
            place += 1
            remaining, at_ms = times[place]
        histogram.add(max(0, at_ms - accepted_ms) / 1000, messages)
        remaining -= messages
