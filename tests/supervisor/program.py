"""The program that the template is asked to run in its tests: it says how it is, then ends as it is told.

``FILE STATUS``: notes in FILE what it sees of itself, and exits with STATUS; a negative one is a signal that it sends to itself.
"""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path


def main(argv: list[str]) -> int:
    status = int(argv[1])
    seen = {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "command_line": Path("/proc/self/cmdline").read_bytes().decode().rstrip("\0").split("\0"),
        "descriptors": sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)),
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "random": random.random(),
        "arenas": os.environ["MALLOC_ARENA_MAX"],
    }
    Path(argv[0]).write_text(json.dumps(seen))
    if status < 0:
        os.kill(os.getpid(), -status)
        signal.pause()
    return status


def _is_open(fd: str) -> bool:
    """The listing's own descriptor has gone by now."""
    return os.path.lexists(f"/proc/self/fd/{fd}")
