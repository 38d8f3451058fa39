"""Commands that a sentence names, as they are typed here: ``CONFIG`` behind one stands for the node that the sentence is about, and
``bascule`` for this program, which a shell may not find by its name.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

PROGRAM = "bascule"
_COMMAND = re.compile(r"(\bbascule(?: [a-z-]+)+) CONFIG\b")
_NAME = re.compile(r"(?<![\w/.-])bascule(?= [a-z-])")
_given = ["CONFIG"]
_program = [PROGRAM]


def about(words: str) -> None:
    """From here on ``typed`` writes ``words`` for CONFIG: how the command that runs was given its node; empty, if it needs none."""
    _given[0] = words


def called(name: str) -> None:
    """From here on ``typed`` writes for ``bascule`` what starts this program, which was called ``name``."""
    found = shutil.which(PROGRAM)
    is_found = found is not None and os.path.realpath(found) == os.path.realpath(name)
    _program[0] = PROGRAM if is_found or Path(name).name != PROGRAM or not os.access(name, os.X_OK) else shlex.quote(name)


def typed(text: str) -> str:
    """``text`` with its commands as they can be typed."""
    text = _COMMAND.sub(lambda found: f"{found[1]} {_given[0]}".rstrip(), text)
    return text if _program[0] == PROGRAM else _NAME.sub(lambda _: _program[0], text)
