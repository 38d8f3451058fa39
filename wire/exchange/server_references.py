"""Other servers that a remote names when it refuses a connection by *Use another server* or *Server moved*. Pure.

Source: MQTT 5.0, 4.13 and 3.2.2.3.16: one or more references, separated by spaces, each a host with or without a port.
"""

from __future__ import annotations

from wire.exchange.failback import Address

REFERENCES_MAX = 8


def server_references(text: str, port: int) -> list[Address]:
    """The addresses in ``text``, in order; ``port`` where one has none. What is no address is left out."""
    found: list[Address] = []
    for reference in text.split()[:REFERENCES_MAX]:
        host, colon, number = reference.rpartition(":")
        if not colon or reference.endswith("]") or (":" in host and not host.startswith("[")):
            host, number = reference, str(port)
        if (host := host.strip("[]")) and number.isascii() and number.isdigit() and 0 < int(number) < 65_536:
            found.append((host, int(number)))
    return found
