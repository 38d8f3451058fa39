"""A secret as it is now: from a file, the environment or a command. Reading it may block, so the actors' own thread never does."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from actors.system.certificates import CertificateFault
from actors.system.plain_file import read_secret
from storage import trusted_files

if TYPE_CHECKING:
    import subprocess

SECRET_BYTES_MAX = 65_535  # of a string of MQTT [MQTT-1.5.4]
_SAID_BYTES_MAX = 4_096  # of what a command writes to its standard error
_SHOWN_MAX = 200  # characters of its last line that are told
_AROUND_BYTES = 5  # a byte order mark and an end of line

CannotRead = (OSError, ValueError, CertificateFault)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where one secret comes from: the first of these that is given. key: of the setting, as ``password``."""

    key: str
    file: str | None = None
    variable: str | None = None
    command: tuple[str, ...] = ()

    def read(self, timeout_s: float) -> str | None:
        """The secret as it is now; None where no source is configured. Blocks.

        Raises:
            OSError, ValueError: it cannot be had; the text says why, and nothing of the secret.
        """
        if self.file is not None:
            return _first_line(read_secret(self.file, SECRET_BYTES_MAX + _AROUND_BYTES), self.file)
        if self.variable is not None:
            value = os.environ.get(self.variable, "")
            if not value:
                raise ValueError(f"the environment has no {self.variable}, which {self.key}_env names")
            return _first_line(os.fsencode(value), self.variable)
        return run(self.command, timeout_s) if self.command else None

    def fault(self) -> str | None:
        """Why it could not be read now, as far as that shows without running a command."""
        try:
            if self.command:
                _program(self.command[0])
            else:
                self.read(0.0)
        except CannotRead as error:
            return str(error)
        return None


def _first_line(data: bytes, where: str) -> str:
    line = data.decode("utf-8-sig").partition("\n")[0].removesuffix("\r")
    if len(line.encode()) > SECRET_BYTES_MAX:
        raise ValueError(f"the first line of {where} is longer than {SECRET_BYTES_MAX} bytes")
    return line


def _program(name: str) -> str:
    """The file of the program ``name``. Raises OSError or ValueError: there is none, or others can change it."""
    path = shutil.which(name)
    if path is None:
        raise ValueError(f"there is no program {name}")
    trusted_files.check(path)
    return path


def run(command: tuple[str, ...], timeout_s: float) -> str:
    """The first line that ``command`` writes to its standard output; blocks. No shell, no input; it and its children end in time.

    Raises:
        OSError, ValueError: it cannot be run, fails, writes too much or nothing, or takes too long; of what it wrote only the
            last line of its standard error is told.
    """
    import subprocess  # most nodes run no command

    name = os.path.basename(command[0])
    deadline_s = time.monotonic() + timeout_s
    process = subprocess.Popen(
        [_program(command[0]), *command[1:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        written, said = _output(process, deadline_s, name)
        status = process.wait(max(0.0, deadline_s - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired):
        raise ValueError(f"{name} took longer than {timeout_s:g} s") from None
    finally:
        if process.returncode is None:
            _kill(process)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    if status:
        lines = said.decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it says nothing")
        raise ValueError(f"{name} ended with {status}: {last[:_SHOWN_MAX]}")
    line = _first_line(written, f"the output of {name}")
    if not line:
        raise ValueError(f"{name} wrote nothing")
    return line


def _output(process: subprocess.Popen[bytes], deadline_s: float, name: str) -> tuple[bytes, bytes]:
    """All that it writes to its standard output, and the end of what it writes to its standard error."""
    assert process.stdout is not None
    assert process.stderr is not None
    held: dict[IO[bytes], bytes] = {process.stdout: b"", process.stderr: b""}
    with selectors.DefaultSelector() as selector:
        for stream in held:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            for key, _ in selector.select(left_s):
                stream = key.fileobj  # type: ignore[assignment]  # they are ours
                piece = os.read(stream.fileno(), 65_536)
                if not piece:
                    selector.unregister(stream)
                held[stream] += piece
                if stream is process.stderr:
                    held[stream] = held[stream][-_SAID_BYTES_MAX:]
                elif len(held[stream]) > SECRET_BYTES_MAX + _AROUND_BYTES:
                    raise ValueError(f"{name} writes more than {SECRET_BYTES_MAX} bytes")
    return held[process.stdout], held[process.stderr]


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End it and its group. It was not waited for, so its number is no other's."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended
    process.wait()
