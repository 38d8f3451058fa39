"""Backoff: how long to wait before the next attempt, growing and jittered.

Pure: time arrives as an argument, randomness as a callable. A Connection waits so before it connects again, and the supervisor
before it starts a child again; who waits, and for what, is theirs.
"""

from __future__ import annotations

from collections.abc import Callable

from wire.config_settings import BackoffSettings


class Backoff:
    """The series ``initial_s``, times ``factor``, ... up to ``max_s``; each delay its nominal and up to ``jitter`` of it more.

    wire.flapping-keeps-backing-off [alive]: the series starts anew only after a connection that lasted ``stable_s``, so a flapping
        link does not hammer its remote. A delay is at least its nominal and at most nominal x (1 + jitter); the nominal never
        exceeds ``max_s``.
    """

    def __init__(self, settings: BackoffSettings, random: Callable[[], float]) -> None:
        """``random`` gives uniform values in [0, 1)."""
        self._settings = settings
        self._random = random
        self._nominal_s = min(settings.initial_s, settings.max_s)
        self._connected_s: float | None = None
        self._attempt = 0

    @property
    def attempt(self) -> int:
        """How many delays were given since the series started."""
        return self._attempt

    def next_delay_s(self) -> float:
        """The next delay in seconds; the one after it is longer."""
        nominal_s = self._nominal_s
        self._nominal_s = min(nominal_s * self._settings.factor, self._settings.max_s)
        self._attempt += 1
        return nominal_s * (1.0 + self._settings.jitter * self._random())

    def reset(self) -> None:
        """Start the series anew."""
        self._nominal_s = min(self._settings.initial_s, self._settings.max_s)
        self._attempt = 0

    def on_connected(self, now_s: float) -> None:
        """An attempt succeeded at ``now_s``; the series goes on until the success has proved stable."""
        self._connected_s = now_s

    def on_lost(self, now_s: float) -> bool:
        """The success ended at ``now_s``: start the series anew if it lasted ``stable_s``; whether it did."""
        since_s, self._connected_s = self._connected_s, None
        if since_s is None or now_s - since_s < self._settings.stable_s:
            return False
        self.reset()
        return True
