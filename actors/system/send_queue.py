"""Unsent bytes of a connection in the kernel."""

from __future__ import annotations

import fcntl
import termios
from array import array


def unsent_bytes(fd: int) -> int:
    """How many of the bytes that socket ``fd`` took the other machine has not confirmed, with what TLS and WebSocket add.

    Of a Unix socket: the memory of what the other end has not read; 0 when it has read all.
    """
    count = array("i", (0,))
    fcntl.ioctl(fd, termios.TIOCOUTQ, count)
    return count[0]
