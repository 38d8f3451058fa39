"""The steps of the wall clock on record, for the node's next life and for processes that start after a step.

``<data_dir>/clock`` is written by the supervisor and read by each process as it starts. It has the last reading, and CLOCK_BOOTTIME
beside it. In the same run of the machine the two tell of each step, also of those while nothing ran. The steady clock starts again
with the machine. Then only a wall clock that shows less than it did is known to have stepped, and the time without power counts as
none. Without the file, or with one that cannot be read, no steps are known.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from actors.system.clocks import machine_run
from storage import files
from wire.clock_steps import ClockSteps

log = logging.getLogger("bascule")

FILE_NAME = "clock"
WRITE_PERIOD_MS = 600_000


class ClockFile:
    """The record of one node's clock. run: as ``machine_run`` has it."""

    def __init__(self, data_dir: Path, clock: ClockSteps, run: str | None = None) -> None:
        self._path = data_dir / FILE_NAME
        self._clock = clock
        self._run = machine_run() if run is None else run
        self._written: list[tuple[int, int]] | None = None
        self._due_ms = 0

    def read(self, wall_ms: int, steady_ms: int) -> None:
        """Take over what is on record, now that the clocks show this."""
        try:
            known = json.loads(self._path.read_bytes())
            steps = [(int(before_ms), int(after_ms)) for before_ms, after_ms in known["steps"]]
            run, shown_ms, beside_ms = str(known["machine_run"]), int(known["wall_ms"]), int(known["steady_ms"])
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError, OverflowError) as error:
            log.warning("clock.unreadable", extra={"path": str(self._path), "error": str(error)})
        else:
            runs_on = bool(run) and run == self._run
            self._clock.restore(steps, shown_ms - beside_ms if runs_on else None)
            if not runs_on and wall_ms < shown_ms:
                self._clock.on_stepped(shown_ms, wall_ms)
        self._clock.read(wall_ms, steady_ms)

    def write(self, wall_ms: int, steady_ms: int) -> None:
        """Put on record what is known, if there was a step since, or the last time was long ago; call it each second or so.

        Raises:
            OSError: the disk refuses; the next call tries again.
        """
        self._clock.read(wall_ms, steady_ms)
        if self._clock.steps is self._written and steady_ms < self._due_ms:
            return
        steps = self._clock.steps
        row = {"machine_run": self._run, "wall_ms": wall_ms, "steady_ms": steady_ms, "steps": steps}
        files.write(self._path, json.dumps(row).encode())
        self._written, self._due_ms = steps, steady_ms + WRITE_PERIOD_MS
