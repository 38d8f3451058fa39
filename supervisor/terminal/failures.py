"""How a command ends when the system fails it: quietly if its reader has gone, with one line for a file or a full disk."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import TextIO

from supervisor.terminal.typed_commands import typed
from wire.errors import BasculeError, ConfigError

EXIT_FAILED = 74  # EX_IOERR
EXIT_PIPE_CLOSED = 141  # as the shell counts SIGPIPE


def printing(command: Callable[[], int]) -> int:
    """Carry out ``command``, which prints and reads files; its exit status, or what the system did to it."""
    _open_all()
    try:
        try:
            status = command()
        except SystemExit as ended:  # click's answer to a closed pipe, and how it ends a completion
            status = EXIT_PIPE_CLOSED if ended.code else 0
        sys.stdout.flush()
    except OSError as error:
        _give_up(sys.stdout)
        if isinstance(error, BrokenPipeError):
            return EXIT_PIPE_CLOSED
        what = "what was printed was not taken" if error.filename is None else error.filename
        complain(f"bascule: {what}: {(error.strerror or str(error)).lower()}")
        return EXIT_FAILED
    return status


def complain(line: str) -> None:
    """Print ``line`` on standard error, if that takes it: the exit status says it, too."""
    try:
        sys.stderr.write(f"{typed(line)}\n")
        sys.stderr.flush()
    except OSError:
        _give_up(sys.stderr)


def refused(error: BasculeError) -> int:
    """Print why ``error`` ended the command, each problem of a configuration on its line; the exit status."""
    if isinstance(error, ConfigError):
        complain("\n".join(error.problems or (str(error),)))
    else:
        complain(f"bascule: {error}")
    return error.exit_status


def try_print(line: str) -> str | None:
    """Print ``line`` for whoever may wait for it; why that was refused. Nothing of it is left to fail again."""
    try:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except OSError as error:
        _give_up(sys.stdout)
        return error.strerror or str(error)
    return None


def _open_all() -> None:
    """Fill the places of standard streams that were closed: what is opened next would take them, and its peer get our output."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a topic may have what the terminal's character set has not


def _give_up(stream: TextIO) -> None:
    """Let ``stream`` take what it has left, and whatever comes, for nobody: the end of the interpreter is not to fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
