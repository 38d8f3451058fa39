"""Copies of a message that come by several ways, as in a ring of bridges: each once, as far as a window goes. Pure.

A message that came by one bridge and comes again by another says nothing of that where hops are not counted, and where they are it
has as many by each way. A copy is known by its topic and payload. How many genuine messages are alike is told by the way that
brings most of them: every copy of a message comes by another way, and two messages of one sender come by the same.

routing.ring-copies-left-out [MQTT]: what a bridge brings is left out while as many messages with its topic and payload were taken,
    within the window, as have come by this way. What a local client publishes is always taken. Memory is bounded: the oldest of
    more than ``messages_max`` are forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence

_TAKEN = None


class RingFilter:
    """The messages that a node has taken of late, and the ways by which they came."""

    def __init__(self, window_s: float, messages_max: int) -> None:
        self._window_s = window_s
        self._steps_max = 2 * messages_max  # one for its way, one where it was taken
        self._steps: deque[tuple[float, int, Hashable]] = deque()
        self._alike: dict[int, dict[Hashable, int]] = {}  # of those with one key: how many came by each way, and were ``_TAKEN``

    def copies(self, keys: Sequence[int], ways: Sequence[Hashable | None], now_s: float) -> frozenset[int]:
        """The rows that are copies, of messages with these content ``keys``.

        ways: the bridge that brings each, None if none does.
        """
        self._forget(now_s)
        found = set()
        for row, (key, way) in enumerate(zip(keys, ways, strict=True)):
            of = self._alike.setdefault(key, {})
            if way is not None:
                of[way] = of.get(way, 0) + 1
                self._steps.append((now_s, key, way))
                if of[way] <= of.get(_TAKEN, 0):
                    found.add(row)
                    continue
            of[_TAKEN] = of.get(_TAKEN, 0) + 1
            self._steps.append((now_s, key, _TAKEN))
        return frozenset(found)

    def _forget(self, now_s: float) -> None:
        steps = self._steps
        while steps and (now_s - steps[0][0] >= self._window_s or len(steps) > self._steps_max):
            _, key, way = steps.popleft()
            of = self._alike[key]
            of[way] -= 1
            if not of[way]:
                del of[way]
                if not of:
                    del self._alike[key]
