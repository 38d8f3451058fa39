"""Whether the extra ``replicated`` is installed, which ``persistence.mode: replicated`` needs; nothing of it is imported."""

from __future__ import annotations

from importlib.util import find_spec

MISSING = "the client of NATS is not installed; install it with: pip install 'bascule[replicated]'"


def is_installed() -> bool:
    """Whether everything is there that talks to the replicated log."""
    try:
        return find_spec("nats.js") is not None
    except (ImportError, ValueError):
        return False
