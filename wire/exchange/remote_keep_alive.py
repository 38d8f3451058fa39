"""Whether a connection to a remote broker still lives: keep alive, PINGREQ and the progress of the exchange. Pure.

It is told where the connection stands as two counts of bytes since it came up: those that were given to it, and those of them
that have left this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from wire.exchange.remote_packets import PINGREQ

# A PINGREQ is due after this part of the keep alive, so that it is there in time [MQTT-3.1.2-23].
_PING_FRACTION = 0.75


class Verdict(Enum):
    """The verdict on the connection."""

    ALIVE = "alive"
    PING = "ping"
    SILENT = "silent"
    STALLED = "stalled"


@dataclass(slots=True)
class _Wait:
    """An answer is awaited to what stands before the byte ``stop``. Its time runs from ``since_s``."""

    since_s: float
    stop: int
    oldest: object = None


class RemoteKeepAlive:
    """Watches one connection at a time; ``keep_alive_s`` 0 switches PINGREQ off, ``stall_timeout_s`` 0 the watch on progress.

    exchange.silent-after-ping-is-dead [alive]: when nothing at all came within ``answer_timeout_s`` after a PINGREQ, the connection
        is dead. When nothing was sent, or nothing was received, for three quarters of the keep alive, PINGREQ is sent, one at a
        time.
    exchange.owed-answer-stalls [alive]: when the oldest PUBACK, PUBREC or PUBCOMP that the remote owes has not come for
        ``stall_timeout_s``, the exchange is stalled, whatever else comes meanwhile. A debt of our own (a commit, the end of a
        back-off) is no stall. Nobody can answer what has not reached him: the time of exchange.silent-after-ping-is-dead,
        exchange.owed-answer-stalls and a SUBACK starts again as long as what is to be answered, and all before it, goes on leaving.
        Bytes that leave behind it do not count.
    """

    def __init__(self, *, stall_timeout_s: float, answer_timeout_s: float) -> None:
        self._stall_timeout_s = stall_timeout_s
        self._answer_timeout_s = answer_timeout_s
        self.on_started(0.0, keep_alive_s=0)

    def on_started(self, now_s: float, *, keep_alive_s: int) -> None:
        """A connection is up."""
        self._keep_alive_s = keep_alive_s
        self._sent_s = self._received_s = now_s
        self._left = 0
        self._owed: dict[int, _Wait] = {}  # kind of answer -> the oldest that is owed
        self._ping: _Wait | None = None
        self._subscribe = _Wait(now_s, 0)

    @property
    def period_s(self) -> float:
        """How often to look."""
        limits = [limit for limit in (self._keep_alive_s, self._stall_timeout_s, self._answer_timeout_s) if limit > 0]
        return max(0.05, min(2.0, min(limits, default=16.0) / 8))

    def on_sent(self, now_s: float) -> None:
        """The socket took bytes."""
        self._sent_s = now_s

    def on_received(self, now_s: float) -> None:
        """Bytes came."""
        self._received_s = now_s
        self._ping = None

    def subscribing(self, now_s: float, given: int) -> None:
        """A SUBSCRIBE is the last of the ``given`` bytes."""
        self._subscribe = _Wait(now_s, given)

    @property
    def suback_due_s(self) -> float:
        """Until when the SUBACK has time, as of the last look."""
        return self._subscribe.since_s + self._answer_timeout_s

    def judge(self, now_s: float, *, owed: Sequence[object], given: int, left: int) -> Verdict:
        """Judge the connection; after ``PING`` the caller gives it a PINGREQ, behind the ``given`` bytes.

        owed: for each kind of answer the oldest that is owed, None for none. When it came, the next one looks different.
        left: how many of ``given`` have left. Bytes that TLS or WebSocket add may make it seem less for a moment.
        """
        self._advance(now_s, left)
        for kind, oldest in enumerate(owed):
            wait = self._owed.get(kind)
            if oldest is None:
                self._owed.pop(kind, None)
            elif wait is None or wait.oldest != oldest:
                self._owed[kind] = _Wait(now_s, given, oldest)
            elif 0 < self._stall_timeout_s <= now_s - wait.since_s:
                return Verdict.STALLED
        if self._ping is not None:
            return Verdict.SILENT if now_s - self._ping.since_s >= self._answer_timeout_s else Verdict.ALIVE
        if self._keep_alive_s > 0 and now_s - min(self._sent_s, self._received_s) >= self._keep_alive_s * _PING_FRACTION:
            self._ping = _Wait(now_s, given + len(PINGREQ))
            return Verdict.PING
        return Verdict.ALIVE

    def _advance(self, now_s: float, left: int) -> None:
        """Begin the time anew of what waits for an answer to bytes that were still leaving since the last look."""
        before, self._left = self._left, left
        if left > before:
            for wait in (*self._owed.values(), self._subscribe, *(() if self._ping is None else (self._ping,))):
                if before < wait.stop:
                    wait.since_s = now_s
                if left >= wait.stop:
                    wait.stop = 0
