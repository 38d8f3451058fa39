"""Whether the disk takes what the store commits, when it is tried again, and how much room it has.

After a refusal the store waits, opens its engine anew, and commits the same write again. Waits grow from one attempt to the next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from storage.engine.engine import Engine
from storage.replication.log import LogAway
from wire.config_settings import SettingsNow
from wire.errors import DiskFull, StoreGone, Unavailable
from wire.status.states import StoreState

log = logging.getLogger("bascule")

RETRY_FIRST_S = 0.1
RETRY_MAX_S = 5.0
CHECK_PERIOD_S = 1.0
LOOK_BYTES = 1 << 20  # written between two looks is too little to look again
TIGHT_BYTES = 256 << 20


class Disk:
    """The disk below an engine.

    refusal: the newest one, from the first refusal until a commit goes through. retry_s: when to open the engine again; None while
    it is open. free_bytes: as of the last look; None where that is not known, or means nothing.
    """

    def __init__(self, engine: Engine, settings: SettingsNow, *, tell: Callable[[str, int, int | None], None]) -> None:
        """tell: is called when it takes nothing, and why, and with an empty cause once it does: cause, UTC ms, free bytes."""
        self.refusal: Unavailable | None = None
        self.retry_s: float | None = None
        self.free_bytes: int | None = None
        self._engine = engine
        self._tell = tell
        self._settings = settings
        self._retry_delay_s = RETRY_FIRST_S
        self._looked_s = float("-inf")
        self._look_bytes = 0  # that may be written until the next look

    @property
    def needed_bytes(self) -> int:
        """How much the node is to leave free."""
        return self._settings.now.limits.min_free_disk_bytes

    @property
    def is_low(self) -> bool:
        """Whether less room is left than the node is to leave free."""
        return self.free_bytes is not None and self.free_bytes < self.needed_bytes

    @property
    def is_tight(self) -> bool:
        """Whether it may soon be."""
        return self.free_bytes is not None and self.free_bytes < max(2 * self.needed_bytes, TIGHT_BYTES)

    def measure_room(self, now_s: float) -> None:
        """See how much room there is, if the last look is some time ago, or much was written since."""
        if now_s - self._looked_s >= CHECK_PERIOD_S or self._look_bytes <= 0:
            self._looked_s = now_s
            self.free_bytes = self._engine.free_bytes()
            self._look_bytes = max(LOOK_BYTES, ((self.free_bytes or 0) - self.needed_bytes) // 4)

    def wrote(self, size_bytes: int) -> None:
        """So much was committed."""
        self._look_bytes -= size_bytes

    def refuses(self, error: Unavailable, now_s: float, wall_ms: int) -> None:
        """The disk refused: wait, and open the engine again."""
        if self.refusal is not None:
            self._retry_delay_s = min(self._retry_delay_s * 2, RETRY_MAX_S)
        else:
            self._retry_delay_s = RETRY_FIRST_S
            state, why = refusal_of(error)
            log.error("store.unavailable", extra={"state": state.value, "error": why})
            self._tell(state.value, wall_ms, self.free_bytes)
        self.refusal = error
        self.retry_s = now_s + self._retry_delay_s

    def reopen(self, now_s: float, wall_ms: int) -> bool:
        """Open the engine again if it is time; whether it was opened."""
        assert self.retry_s is not None
        if now_s < self.retry_s:
            return False
        if isinstance(self.refusal, DiskFull):
            self._engine.reserve(0)
        try:
            self._engine.reopen()
        except Unavailable as error:
            self.refuses(error, now_s, wall_ms)
            return False
        self.retry_s = None
        return True

    def on_recovered(self, wall_ms: int) -> None:
        """The first commit after a refusal went through."""
        self.refusal = None
        self._tell("", wall_ms, self.free_bytes)


def refusal_of(error: Unavailable | StoreGone) -> tuple[StoreState, str]:
    """The cause of a refusal for ``status``, with its words: the disk has no room, something else is wrong with it, the store is
    not there, or it is the replicated log.
    """
    if isinstance(error, StoreGone):
        return StoreState.STORE_GONE, error.message
    if isinstance(error, LogAway):
        return StoreState.LOG_AWAY, str(error)
    return StoreState.DISK_FULL if isinstance(error, DiskFull) else StoreState.DISK_ERROR, str(error)
