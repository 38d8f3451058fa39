"""Whether a connection to a remote broker still lives: keep alive, PINGREQ and the progress of the exchange. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

# A PINGREQ is due after this part of the keep alive, so that it is there in time [MQTT-3.1.2-23].
_PING_FRACTION = 0.75


class Verdict(Enum):
    """What a look at the connection found."""

    ALIVE = "alive"
    PING = "ping"
    SILENT = "silent"
    STALLED = "stalled"


class LinkWatch:
    """Watches one connection at a time; ``keep_alive_s`` 0 switches PINGREQ off, ``stall_timeout_s`` 0 the watch on progress.

    W1  nothing was sent, or nothing was received, for three quarters of the keep alive: PINGREQ, one at a time.
    W2  nothing at all came within ``answer_timeout_s`` after a PINGREQ: the connection is dead.
    W3  the oldest PUBACK, PUBREC or PUBCOMP that the remote owes has not come for ``stall_timeout_s``: the exchange is stalled,
        whatever else comes meanwhile. What we owe ourselves (a commit, the end of a back-off) is no stall.
    """

    def __init__(self, *, stall_timeout_s: float, answer_timeout_s: float) -> None:
        self._stall_timeout_s = stall_timeout_s
        self._answer_timeout_s = answer_timeout_s
        self.started(0.0, keep_alive_s=0)

    def started(self, now_s: float, *, keep_alive_s: int) -> None:
        """A connection is up."""
        self._keep_alive_s = keep_alive_s
        self._sent_s = self._received_s = now_s
        self._owed: dict[int, tuple[object, float]] = {}  # kind of answer -> the oldest that is owed, and since when
        self._pinged_s: float | None = None

    @property
    def period_s(self) -> float:
        """How often to look."""
        limits = [limit for limit in (self._keep_alive_s, self._stall_timeout_s, self._answer_timeout_s) if limit > 0]
        return max(0.05, min(1.0, min(limits, default=4.0) / 8))

    def sent(self, now_s: float) -> None:
        """Bytes left."""
        self._sent_s = now_s

    def received(self, now_s: float) -> None:
        """Bytes came."""
        self._received_s = now_s
        self._pinged_s = None

    def look(self, now_s: float, *, owed: Sequence[object]) -> Verdict:
        """Judge the connection; after ``PING`` the caller sends a PINGREQ.

        owed: for each kind of answer the oldest that is owed, None for none. When it came, the next one looks different.
        """
        for kind, oldest in enumerate(owed):
            if oldest is None:
                self._owed.pop(kind, None)
            elif kind not in self._owed or self._owed[kind][0] != oldest:
                self._owed[kind] = (oldest, now_s)
            elif 0 < self._stall_timeout_s <= now_s - self._owed[kind][1]:
                return Verdict.STALLED
        if self._pinged_s is not None:
            return Verdict.SILENT if now_s - self._pinged_s >= self._answer_timeout_s else Verdict.ALIVE
        if self._keep_alive_s > 0 and now_s - min(self._sent_s, self._received_s) >= self._keep_alive_s * _PING_FRACTION:
            self._pinged_s = now_s
            return Verdict.PING
        return Verdict.ALIVE
