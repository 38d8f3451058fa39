"""Receiving from a socket, through one buffer of the process.

``recv(size)`` makes room for ``size`` bytes each time and gives back what is over. At 256 kB the allocator asks the system for it
and returns it, which costs more than the reading. Only the thread of the actors may use this.
"""

from __future__ import annotations

from typing import Protocol

RECEIVE_BYTES = 256 * 1024
_BUFFER = memoryview(bytearray(RECEIVE_BYTES))


class BufferSource(Protocol):
    """A socket."""

    def recv_into(self, buffer: memoryview, nbytes: int, /) -> int: ...


def receive(sock: BufferSource, bytes_max: int = RECEIVE_BYTES) -> bytes:
    """As ``sock.recv(bytes_max)``, and raises what that does; ``bytes_max`` is at most ``RECEIVE_BYTES``."""
    size = sock.recv_into(_BUFFER, bytes_max)
    return bytes(_BUFFER[:size])
