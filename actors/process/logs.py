"""Logs are events: one JSON line each on standard error, ``noun.verbed`` names, never a payload or a secret."""

from __future__ import annotations

import logging
import sys

from pythonjsonlogger.json import JsonFormatter


def configure_logging(level: str, **context: str) -> None:
    """Send every log record of this process to standard error as JSON; ``context`` (node, actor) is in each line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter(
            "{asctime}{levelname}{message}",
            style="{",
            rename_fields={"asctime": "ts", "levelname": "level", "message": "event"},
            static_fields=dict(context),
            datefmt="%Y-%m-%dT%H:%M:%S%z",
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(level)
    logging.getLogger("pykka").setLevel(logging.ERROR)


def set_level(level: str) -> None:
    """Say from now on what is at least of this ``level``."""
    logging.getLogger().setLevel(level.upper())
