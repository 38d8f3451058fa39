"""Commands that a sentence names, as they are typed here: ``CONFIG`` behind one stands for the node that the sentence is about."""

from __future__ import annotations

import re

_COMMAND = re.compile(r"(\bbascule(?: [a-z-]+)+) CONFIG\b")
_given = ["CONFIG"]


def about(words: str) -> None:
    """From here on ``typed`` writes ``words`` for CONFIG: how the command that runs was given its node; empty, if it needs none."""
    _given[0] = words


def typed(text: str) -> str:
    """``text`` with its commands as they can be typed."""
    return _COMMAND.sub(lambda found: f"{found[1]} {_given[0]}".rstrip(), text)
