"""Snapshots of the demo's edge node, copied to the folder that ``bascule demo --keep`` names: something to report on.

The node makes them as any node does; what is here asks for them, waits, and copies them out of a folder that goes with the demo.
"""

from __future__ import annotations

import time
from pathlib import Path

from storage.snapshots.snapshot_copy import copy_snapshot
from supervisor.control.client import ControlClient
from supervisor.control.control_socket import ControlError, NotRunning
from supervisor.terminal.view import say
from wire.errors import Unavailable

_POLL_S = 0.05


def wanted_empty(folder: Path) -> None:
    """Raises: Unavailable, if there is something in ``folder``: two runs' nodes have one name, and would be taken for one node."""
    try:
        if not folder.exists() or not any(folder.iterdir()):
            return
    except OSError as error:
        raise Unavailable("the snapshots cannot be kept there", path=str(folder), error=error.strerror) from error
    raise Unavailable("the folder for the snapshots is not empty; remove it or name another", path=str(folder))


def keep_snapshot(run_dir: Path, folder: Path, patience_s: float) -> Path:
    """Have the node of ``run_dir`` make a snapshot, and copy it to ``folder``; where the copy is.

    Raises:
        Unavailable: none was made within ``patience_s``, or it cannot be copied.
    """
    with ControlClient.of_run_dir(run_dir) as node:
        made = _made(node, time.monotonic() + patience_s)
    copied = copy_snapshot(made, folder.absolute())
    say(f"  kept a snapshot: {copied.path.name}")
    return copied.path


def _made(node: ControlClient, deadline_s: float) -> Path:
    """The place of a new snapshot; asks again while the node is busy with other things, such as a store that was killed."""
    number: int | None = None
    why: str | None = ""
    while time.monotonic() < deadline_s:
        try:
            if number is None:
                number = node.snapshot()
            result = node.snapshot_result(number)
        except (ControlError, NotRunning) as error:
            number, why = None, str(error)
        else:
            if result.path is not None:
                return Path(result.path)
            if result.state == "failed":
                number, why = None, result.message
        time.sleep(_POLL_S)
    raise Unavailable("the node made no snapshot in time", last=why)
