"""How this program starts itself as another process: the command, with room for what ``ps`` is to show, and the environment."""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path
from typing import NoReturn

import actors

_ROOM_BYTES = 1024


def command(module: str, *words: str) -> list[str]:
    """The command that runs ``module``. Its last word has no meaning: a process shows a command line of its own in that place."""
    return [sys.executable, "-P", "-m", module, *words, "." * _ROOM_BYTES]


def environment() -> dict[str, str]:
    """This process's environment, in which the packages are found from any working folder, installed or not.

    MALLOC_ARENA_MAX: with an arena for each of RocksDB's threads, each would keep what it once needed.
    """
    root = str(Path(actors.__file__).resolve().parent.parent)
    found = {"MALLOC_ARENA_MAX": "2", **os.environ}
    if root not in (*site.getsitepackages(), site.getusersitepackages()):
        known = found.get("PYTHONPATH")
        found["PYTHONPATH"] = f"{root}{os.pathsep}{known}" if known else root
    return found


def become(module: str, *words: str) -> NoReturn:
    """Run ``module`` in place of this program, in this process."""
    os.execve(sys.executable, command(module, *words), environment())
