"""Free TCP ports, each given to one test process only.

They lie below the range from which the kernel takes ports for whoever asks for any, so that neither the connections of other tests
nor their listeners get a port between its choice and its use, or while the broker it belongs to is down.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

_FIRST, _BEHIND = 12_000, 32_000


def free_port() -> int:
    """A port that nobody listens on now, and that no other process running these tests is given while this one lives."""
    return next(port for port in _ports if _is_claimed(port) and _is_free(port))


def accepts(port: int, host: str = "127.0.0.1") -> bool:
    """Whether somebody accepts connections at ``port`` of ``host``."""
    try:
        socket.create_connection((host, port), timeout=5.0).close()
    except OSError:
        return False
    return True


def _in_turn() -> Iterator[int]:
    """Each port once a round, from one that differs from process to process."""
    span = _BEHIND - _FIRST
    number = os.getpid() * 997
    while True:
        yield _FIRST + number % span
        number += 1


def _is_claimed(port: int) -> bool:
    """Take ``port`` for this process: one byte of a locked file stands for it, until the process ends."""
    try:
        fcntl.lockf(_claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


_claims = os.open(Path(tempfile.gettempdir()) / f"bascule-test-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
_ports = _in_turn()
