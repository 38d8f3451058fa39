"""The header that a proxy puts before a connection to say from whom it is: PROXY protocol, version 1 and 2. Pure.

Source: haproxy's doc/proxy-protocol.txt, sections 2.1 and 2.2. If the proxy speaks for itself (LOCAL) or knows no address (UNKNOWN,
AF_UNSPEC, a Unix socket), the connection keeps the address that it has. Datagrams, and families that are not in the specification,
are refused. Checksums (PP2_TYPE_CRC32C) are not looked at: TCP has its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import NoReturn

from wire.errors import PeerViolation

V1_MAX_BYTES = 107  # with CR and LF
V2_LENGTH_MAX = 4096  # of what follows the first 16 bytes
HEADER_MAX_BYTES = 16 + V2_LENGTH_MAX

_V1, _V2 = b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n"
_LINE = re.compile(rb"(TCP4|TCP6) ([0-9A-Fa-f.:]+) ([0-9A-Fa-f.:]+) (0|[1-9]\d{0,4}) (0|[1-9]\d{0,4})")
_LOCAL, _PROXY, _UNSPECIFIED, _UNIX = 0x20, 0x21, 0x00, 0x31
_BYTES = {_UNSPECIFIED: 0, 0x11: 12, 0x21: 36, _UNIX: 216}  # of both addresses, by family: TCP over IPv4, over IPv6
_SSL, _COMMON_NAME = 0x20, 0x22
_SHOWED_CERTIFICATE = 0x02 | 0x04  # on this connection, or on an earlier one of its TLS session


@dataclass(frozen=True, slots=True)
class ProxyHeader:
    """host, port: the client's; empty where none is told. common_name: of the certificate that the proxy has verified, if any."""

    host: str = ""
    port: int = 0
    common_name: str | None = None


def read_header(data: bytes) -> tuple[ProxyHeader, int] | None:
    """The header at the beginning of ``data``, and its length; None as long as it is not whole.

    Raises:
        PeerViolation: this is no header, or it is too long, as soon as that is known.
    """
    if data[: len(_V2)] == _V2[: len(data)]:
        return _version_2(data) if len(data) >= 16 else None
    end = data.find(b"\r\n", 0, V1_MAX_BYTES)
    if data[: len(_V1)] != _V1[: len(data)] or (end < 0 and len(data) >= V1_MAX_BYTES):
        _refuse("there is none")
    return None if end < 0 else (_version_1(data[len(_V1) : end]), end + 2)


def _version_1(line: bytes) -> ProxyHeader:
    if line.split(b" ")[0] == b"UNKNOWN":
        return ProxyHeader()
    found = _LINE.fullmatch(line)
    if found is None:
        _refuse("its line is wrong")
    family, *texts = (part.decode() for part in found.groups())
    try:
        host, _ = map(IPv4Address if family == "TCP4" else IPv6Address, texts[:2])
    except ValueError:
        _refuse("an address is wrong")
    port, own_port = map(int, texts[2:])
    if max(port, own_port) > 65_535:
        _refuse("a port is wrong")
    return ProxyHeader(str(host), port)


def _version_2(data: bytes) -> tuple[ProxyHeader, int] | None:
    command, family, end = data[12], data[13], 16 + int.from_bytes(data[14:16], "big")
    if command not in (_LOCAL, _PROXY) or (command == _PROXY and family not in _BYTES):
        _refuse("its version, command or family is unknown")
    if end > HEADER_MAX_BYTES:
        _refuse("it is too long")
    if len(data) < end:
        return None
    if command == _LOCAL or family == _UNSPECIFIED:
        return ProxyHeader(), end
    size, addresses = _BYTES[family], data[16:end]
    if len(addresses) < size:
        _refuse("it is too short for its addresses")
    name = _verified_name(addresses[size:])
    if family == _UNIX:
        return ProxyHeader(common_name=name), end
    host = IPv4Address(addresses[:4]) if size == 12 else IPv6Address(addresses[:16])
    return ProxyHeader(str(host), int.from_bytes(addresses[size - 4 : size - 2], "big"), name), end


def _verified_name(data: bytes) -> str | None:
    """The common name in ``data``, what stands behind the addresses."""
    tls = dict(_values(data)).get(_SSL)
    if tls is None:
        return None
    name = dict(_values(tls[5:])).get(_COMMON_NAME)
    if name is None or not tls[0] & _SHOWED_CERTIFICATE or any(tls[1:5]):
        return None
    try:
        return name.decode()
    except UnicodeDecodeError:
        _refuse("the common name is not UTF-8")


def _values(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and value of each, one behind the other."""
    position = 0
    while position < len(data):
        start = position + 3
        end = start + int.from_bytes(data[position + 1 : start], "big")
        if len(data) < max(start, end):
            _refuse("a value is cut off")
        yield data[position], data[start:end]
        position = end


def _refuse(why: str) -> NoReturn:
    raise PeerViolation(f"PROXY header: {why}")
