"""Which actor had failed when a process ended: a note beside its socket, which the supervisor reads then.

An actor that hangs is named as well: the supervisor asks before it kills (``ASK``), and the process says whose turn it is, logs
where that is, and ends.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

log = logging.getLogger("bascule")

ASK = signal.SIGUSR1


def note_failed(run_dir: Path, process: str, epoch: int, actor: str) -> None:
    """Note that ``actor`` fails. A disk that refuses leaves it unknown."""
    with contextlib.suppress(OSError):
        _path(run_dir, process).write_text(f"{epoch} {actor}")


def failed_actor(run_dir: Path, process: str, epoch: int) -> str:
    """The actor that failed in the life ``epoch`` of ``process``; empty if none is known."""
    try:
        noted, _, actor = _path(run_dir, process).read_text().partition(" ")
    except OSError:
        return ""
    return actor if noted == str(epoch) else ""


def answer_when_asked(at_work: Callable[[], str], note: Callable[[str], None], exit_status: int) -> None:
    """End this process when the supervisor asks, after it has said which actor it is ``at_work`` for."""

    def tell(_: int, frame: FrameType | None) -> None:
        actor = at_work()
        note(actor)
        log.critical("actor.hung", extra={"actor": actor, "where": "".join(traceback.format_stack(frame, limit=-8))})
        os._exit(exit_status)

    signal.signal(ASK, tell)


def _path(run_dir: Path, process: str) -> Path:
    return run_dir / f"{process.replace(':', '.')}.failed"
