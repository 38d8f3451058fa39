"""Logs are events, ``noun.verbed`` names, on standard error: a line of JSON each, or of text for who looks at a terminal.

Never a payload or a secret. What others chose, such as a client identifier, cannot speak to the terminal.
"""

from __future__ import annotations

import logging
import os
import sys
from datetime import datetime
from typing import TextIO

from pythonjsonlogger.core import RESERVED_ATTRS, merge_record_extra
from pythonjsonlogger.json import JsonFormatter

from wire.config_settings import LogSettings

_GREY, _YELLOW, _RED, _BOLD, _PLAIN = "\x1b[2m", "\x1b[33m", "\x1b[31m", "\x1b[1m", "\x1b[0m"
_COLOURS = {logging.DEBUG: _GREY, logging.WARNING: _YELLOW, logging.ERROR: _RED, logging.CRITICAL: _RED}
_NO_FACTS = (*RESERVED_ATTRS, "taskName")
_NOTHING: tuple[object, ...] = (None, "", [], (), {})


class LogHandler(logging.StreamHandler[TextIO]):
    """Writes the records of a process in the format of its settings. context: the node and the process."""

    def __init__(self, stream: TextIO, context: dict[str, str]) -> None:
        super().__init__(stream)
        self._context = context

    def follow(self, settings: LogSettings) -> None:
        """Write in the format of ``settings`` from here on."""
        is_terminal = self.stream.isatty()
        if settings.format == "text" or (settings.format == "auto" and is_terminal):
            self.setFormatter(
                TextLogFormatter(self._context.get("process", ""), colours=is_terminal and not os.environ.get("NO_COLOR"))
            )
        else:
            self.setFormatter(_json(self._context))


class TextLogFormatter(logging.Formatter):
    """A record as a line: time of day, level, process, event, facts. process: whose records these are."""

    def __init__(self, process: str, *, colours: bool) -> None:
        super().__init__()
        self._process = process
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """The line; behind it the stack of an exception."""
        at = datetime.fromtimestamp(record.created).isoformat(sep=" ", timespec="milliseconds")
        colour = _COLOURS.get(record.levelno, "")
        facts = merge_record_extra(record, {}, _NO_FACTS)
        words = [
            self._in(_GREY, at),
            self._in(colour, f"{record.levelname:<7}"),
            f"{self._process:<10}",
            self._in(colour or _BOLD, _printable(record.getMessage())),
            *(f"{self._in(_GREY, f'{name}=')}{_fact(value)}" for name, value in facts.items() if value not in _NOTHING),
        ]
        stack = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return "  ".join(words) + stack

    def _in(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_PLAIN}" if self._colours and colour else text


def configure_logging(settings: LogSettings, **context: str) -> None:
    """Send every log record of this process to standard error; ``context`` (node, process) is in each line of JSON."""
    root = logging.getLogger()
    root.handlers[:] = [LogHandler(sys.stderr, context)]
    follow_settings(settings)
    logging.getLogger("pykka").setLevel(logging.ERROR)


def follow_settings(settings: LogSettings) -> None:
    """Log from here on as ``settings`` say."""
    root = logging.getLogger()
    root.setLevel(settings.level.upper())
    for handler in root.handlers:
        if isinstance(handler, LogHandler):
            handler.follow(settings)


def _json(context: dict[str, str]) -> logging.Formatter:
    return JsonFormatter(
        "{asctime}{levelname}{message}",
        style="{",
        rename_fields={"asctime": "ts", "levelname": "level", "message": "event"},
        static_fields=dict(context),
        datefmt="%Y-%m-%dT%H:%M:%S%z",
    )


def _fact(value: object) -> str:
    """A value as one word, or in quotes."""
    text = _printable(_words(value))
    return f'"{text}"' if " " in text else text


def _words(value: object) -> str:
    match value:
        case list() | tuple():
            return ("; " if any(isinstance(each, dict) for each in value) else ", ").join(map(_words, value))
        case dict():
            return ", ".join(f"{name} {_words(each)}" for name, each in value.items() if each not in _NOTHING)
        case _:
            return str(value)


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
