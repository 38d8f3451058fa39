"""How the address of a remote broker is written: ``host``, ``host:port``, or as a URL such as ``mqtts://user@host:8883``.

The parts of a URL besides host and port, and the keys beside it, must agree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from supervisor.units import parse_address, shown

TRANSPORTS = {"mqtt": "tcp", "tcp": "tcp", "mqtts": "tls", "ssl": "tls", "tls": "tls", "ws": "ws", "wss": "wss"}
PORTS = {"tcp": 1883, "tls": 8883, "ws": 80, "wss": 443}
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?:(?P<user>[^@/]*)@)?(?P<place>[^/?#]*)(?P<path>[^?#]*)(?P<rest>.*)", re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteAddress:
    """One address, taken apart; None is nothing."""

    host: str
    port: int | None
    transport: str | None = None
    username: str | None = None
    path: str | None = None

    def at(self, transport: str) -> tuple[str, int]:
        """Host and port, where the bridge's transport is that."""
        return self.host, PORTS[transport] if self.port is None else self.port


def parse_remote_address(value: str) -> RemoteAddress:
    """The address ``value``, taken apart.

    Raises:
        ValueError: it is not an address; the sentence says what would be right.
    """
    if "://" not in value:
        return RemoteAddress(host=_host(value, value), port=_port(value))
    url = _URL.fullmatch(value)
    if url is None or url["scheme"].lower() not in TRANSPORTS:
        raise ValueError(f"{shown(value)} is not a URL of a broker; write it such as mqtts://broker.example:8883")
    transport = TRANSPORTS[url["scheme"].lower()]
    user, path = url["user"], url["path"]
    if user is not None and ":" in user:
        raise ValueError("a password in the address is read by everyone who reads this file; write password_file: FILE beside it")
    if url["rest"]:
        raise ValueError(f"{shown(value)}: what follows {url['rest'][0]} means nothing to a broker; remove it")
    if path not in ("", "/") and transport in ("tcp", "tls"):
        raise ValueError(f"{shown(value)}: {path} means nothing without WebSocket; write ws:// or wss://, or remove it")
    return RemoteAddress(
        host=_host(url["place"], value),
        port=_port(url["place"]),
        transport=transport,
        username=user or None,
        path=path or None,
    )


def _host(place: str, value: str) -> str:
    if _has_port(place):
        return parse_address(place)[0]
    try:
        return parse_address(f"{place}:1")[0]
    except ValueError:
        example = "broker.example, broker.example:8883 or [::1]:1883"
        raise ValueError(f"{shown(value)} is not an address; write it such as {example}") from None


def _port(place: str) -> int | None:
    return parse_address(place)[1] if _has_port(place) else None


def _has_port(place: str) -> bool:
    """Whether a port is written, right or wrong; an IPv6 address without brackets has colons, and is told of as it stands."""
    return ":" in place.rpartition("]")[2]
