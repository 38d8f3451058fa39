"""PROXY headers as a proxy writes them, for tests; it shares no code with the product."""

from __future__ import annotations

import socket
import struct

SIGNATURE = bytes.fromhex("0d0a0d0a000d0a515549540a")
TCP4, TCP6, UDP4, UNIX_STREAM, UNSPECIFIED = 0x11, 0x21, 0x12, 0x31, 0x00


def version_1(host: str, port: int = 4000) -> bytes:
    """The line for a client at ``host``."""
    family, own = ("TCP6", "2001:db8::1") if ":" in host else ("TCP4", "192.0.2.1")
    return f"PROXY {family} {host} {own} {port} 1883\r\n".encode()


def version_2(host: str, port: int = 4000, values: bytes = b"") -> bytes:
    """The same in binary; ``values`` stand behind the addresses."""
    family, kind, own = (TCP6, socket.AF_INET6, "2001:db8::1") if ":" in host else (TCP4, socket.AF_INET, "192.0.2.1")
    addresses = socket.inet_pton(kind, host) + socket.inet_pton(kind, own) + struct.pack("!HH", port, 1883)
    return binary(0x21, family, addresses + values)


def binary(command: int, family: int, rest: bytes = b"", *, claimed: int | None = None) -> bytes:
    """Any header of version 2; ``claimed`` is another length than that of ``rest``."""
    return SIGNATURE + struct.pack("!BBH", command, family, len(rest) if claimed is None else claimed) + rest


def value(kind: int, content: bytes) -> bytes:
    return struct.pack("!BH", kind, len(content)) + content


def tls_value(name: bytes | None, *, client: int = 0x07, verify: int = 0) -> bytes:
    """A proxy's words on the client's TLS: ``client`` and ``verify`` as in the specification, ``name`` of its certificate."""
    parts = value(0x21, b"TLSv1.3") + (b"" if name is None else value(0x22, name))
    return value(0x20, struct.pack("!BI", client, verify) + parts)
