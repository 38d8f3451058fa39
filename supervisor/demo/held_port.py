"""A port for a server that is about to start: it is the server's from the moment it is chosen."""

from __future__ import annotations

import socket


def held_port() -> socket.socket:
    """A socket that keeps a port of 127.0.0.1 for a server of the demo, also while that is down, and does not listen.

    Linux gives the port to nobody who asks for any, and lets a server with ``SO_REUSEADDR`` listen there, as every server has it.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def port_of(held: socket.socket) -> int:
    """The port that ``held`` keeps."""
    port: int = held.getsockname()[1]
    return port
