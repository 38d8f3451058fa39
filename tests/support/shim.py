"""Disk faults in a running node: ``tests/faults/shim.c``, compiled when a test wants it, and the control file that steers it.

``DiskFaults`` says which process of the node and which folder, gives the node's environment, and changes what is wrong at any time.
"""

from __future__ import annotations

import errno
import mmap
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import placements
from tests.support.waiting import PATIENCE_S, wait_until
from wire.frames.names import STORE
from wire.frames.placement import SITE

SOURCE = Path(__file__).resolve().parents[1] / "faults" / "shim.c"

ON_WRITE, ON_SYNC, ON_SPACE, ON_CREATE, ON_CHANGE, ON_OPEN, ON_READ = 1, 2, 4, 8, 16, 32, 64
NO_SPACE = ON_WRITE | ON_SPACE | ON_CREATE
READ_ONLY = ON_WRITE | ON_SPACE | ON_CREATE | ON_CHANGE

_LAYOUT = struct.Struct("=IiiiIIIIIII")
_FIELDS = ("calls", "error", "skip", "budget", "sync_ms", "sync_hangs", "write_max", "hits", "syncs", "hanging", "shortened")


def compile_shim(folder: Path, source: Path = SOURCE) -> Path:
    """The preloadable library of ``source`` in ``folder``; skips the test where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("the tests of disk faults need a C compiler (Debian: apt-get install gcc libc6-dev)")
    library = folder / f"{source.stem}.so"
    words = [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(library), str(source), "-ldl", "-lpthread"]
    compiled = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    if compiled.returncode != 0 and "headers" in compiled.stderr:
        pytest.skip(f"the C compiler lacks its library: {compiled.stderr.splitlines()[0]}")
    assert compiled.returncode == 0, compiled.stderr
    return library


class DiskFaults:
    """The faults of the files below ``data_folder`` in the processes that ``word`` is an argument of; none at first.

    word: None for the process that has the store.
    """

    def __init__(self, library: Path, control: Path, data_folder: Path, word: str | None = None) -> None:
        control.write_bytes(bytes(_LAYOUT.size))
        with control.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _LAYOUT.size)
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAULTS_CONTROL": str(control),
            "FAULTS_FOLDER": str(data_folder),
            "FAULTS_WORD": word or (SITE if placements.now() == placements.TOGETHER else STORE),
        }

    def fail(self, calls: int, error: int = errno.EIO, *, after: int = 0, times: int = -1) -> None:
        """From now on ``calls`` fail with ``error``: once ``after`` more went well, ``times`` times, for ever if negative."""
        self._set(calls=0)
        self._set(error=error, skip=after, budget=times)
        self._set(calls=calls)

    def slow_syncs(self, period_ms: int) -> None:
        """Every sync takes ``period_ms`` longer."""
        self._set(sync_ms=period_ms)

    def hang_syncs(self) -> None:
        """No sync comes back until ``heal``."""
        self._set(sync_hangs=1)

    def shorten_writes(self, bytes_max: int) -> None:
        """A write takes at most ``bytes_max`` bytes, as the kernel is free to do."""
        self._set(write_max=bytes_max)

    def heal(self) -> None:
        """Nothing is wrong any more."""
        self._set(calls=0, sync_ms=0, sync_hangs=0, write_max=0)

    @contextmanager
    def healed_at_last(self) -> Iterator[None]:
        """``heal`` at the end, so that the node can stop whatever became of the test."""
        try:
            yield
        finally:
            self.heal()

    @property
    def hits(self) -> int:
        """How many calls were made to fail."""
        return self._get("hits")

    @property
    def syncs(self) -> int:
        """How many syncs of the folder's files there were."""
        return self._get("syncs")

    @property
    def hanging(self) -> int:
        """How many syncs hang now, those of killed processes included."""
        return self._get("hanging")

    @property
    def shortened(self) -> int:
        """How many writes were cut short."""
        return self._get("shortened")

    def wait_hits(self, more: int = 1, deadline_s: float = 20.0) -> None:
        """Wait until ``more`` further calls were made to fail."""
        target = self.hits + more
        wait_until(lambda: self.hits >= target, deadline_s, lambda: f"{more} more calls that fail; {self.hits} did")

    def _get(self, name: str) -> int:
        value: int = _LAYOUT.unpack(self._map[:])[_FIELDS.index(name)]
        return value

    def _set(self, **values: int) -> None:
        for name, value in values.items():
            at = 4 * _FIELDS.index(name)
            self._map[at : at + 4] = struct.pack("=i" if value < 0 else "=I", value)
