"""What was learnt of each address of a remote, how long that holds, and its form on record. Pure.

exchange.lesson-for-a-day [P2, P7]: what an address was seen not to take is on record, so that a restart does not have it learnt
    again. It holds for ``HOLDS_S``, while the remote and the rules are configured as they were, and until an operator has paused
    and resumed the bridge.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

from wire.clock_steps import elapsed_ms
from wire.exchange.message_class import MessageClass
from wire.exchange.remote_limits import NO_LIMITS, RemoteLimits
from wire.settings import BridgeSettings

HOLDS_S = 86_400

LearntRows = tuple[tuple[str, int, int, tuple[Any, ...]], ...]  # address, configuration, when, and a ``RemoteLimits``


class LearntLimits:
    """That of one lane. changed: what is on record is another."""

    def __init__(self, bridge: BridgeSettings) -> None:
        said = (bridge.remote, bridge.local_subscriptions, bridge.remote_subscriptions, bridge.on_refusal)
        self._configured = crc32(repr(said).encode())
        self._of: dict[str, tuple[int, RemoteLimits]] = {}  # by address; when it was learnt, UTC epoch in ms
        self._knows = False  # what is on record, or better
        self.changed = False

    def open(self, rows: LearntRows) -> None:
        """The lane is opened: take what is on record, the first time. Later on that may lack what a store has died with."""
        if not self._knows:
            for place, configured, at_ms, row in rows:
                if configured == self._configured:
                    limits = RemoteLimits(*row)
                    limits = limits._replace(refused=tuple(MessageClass(*one) for one in limits.refused))
                    self._of[place] = at_ms, limits
            self._knows = True
        self.changed = self._rows() != rows

    def rows(self) -> LearntRows:
        """All of it, as it goes on record."""
        self.changed = False
        return self._rows()

    def _rows(self) -> LearntRows:
        return tuple((place, self._configured, at_ms, tuple(limits)) for place, (at_ms, limits) in self._of.items())

    def of(self, place: str, wall_ms: int) -> RemoteLimits:
        """What the remote at ``place`` does not take, as far as that was learnt and holds (exchange.lesson-for-a-day)."""
        at_ms, limits = self._of.get(place, (wall_ms, NO_LIMITS))
        if limits != NO_LIMITS and elapsed_ms(at_ms, wall_ms) >= HOLDS_S * 1000:
            del self._of[place]
            self.changed = True
            return NO_LIMITS
        return limits

    def learnt(self, place: str, limits: RemoteLimits, wall_ms: int) -> None:
        """The remote at ``place`` has shown that it takes no more than ``limits``."""
        self._of[place] = wall_ms, limits
        self.changed = True

    def forget(self) -> None:
        """Try everything again."""
        self._of.clear()
        self._knows = self.changed = True
