"""Connections to remotes by a proxy, HTTP CONNECT or SOCKS5; the only user of python-socks, loaded where a proxy is configured.

The socket to the proxy is ours, bound and timed as the settings say. The library speaks with the proxy on it, within one deadline,
and no byte behind the answer is read: TLS, WebSocket and MQTT begin on that socket as without a proxy.

Source: RFC 9110, section 9.3.6 (CONNECT); RFC 1928 and 1929 (SOCKS5).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlsplit

from python_socks import ProxyError, ProxyType
from python_socks.sync import Proxy

from actors.remote.secret_source import CannotRead, Source
from actors.system.certificates import CertificateFault
from wire.config_settings import ProxySettings, RemoteSettings
from wire.errors import Unavailable
from wire.exchange.failback import Address
from wire.status.link_faults import LinkFault

_ANSWER_BYTES_MAX = 16_384  # of HTTP, with its headers
_SHOWN_MAX = 200  # characters that the proxy says of a refusal


def connect_by_proxy(
    address: Address, proxy: ProxySettings, settings: RemoteSettings, connect: Callable[[Address], socket.socket]
) -> socket.socket:
    """A socket at whose far end is ``address``; blocks. connect: makes the one to the proxy.

    Raises:
        Unavailable: the proxy cannot be reached, or does not let it through; ``step`` is proxy, or credentials for its password.
        socket.gaierror: the remote's name has no address, where the proxy is not to look it up.
    """
    url = urlsplit(proxy.url)
    host, port = address
    if url.scheme == "socks5":
        host = str(socket.getaddrinfo(host, port, socket.AF_UNSPEC, socket.SOCK_STREAM)[0][4][0])
    password = _password(proxy)
    place = (url.hostname or "", url.port or 0)
    deadline_s = time.monotonic() + settings.connect_timeout_s
    try:
        sock = connect(place)
    except OSError as error:
        raise _fault(proxy, error.strerror or str(error)) from error
    kind = ProxyType.HTTP if url.scheme == "http" else ProxyType.SOCKS5
    spoken = _Spoken(sock, deadline_s, by_line=kind is ProxyType.HTTP)
    try:
        Proxy(kind, *place, proxy.username, password, forward=cast("Any", spoken)).connect(host, port)
        sock.settimeout(settings.connect_timeout_s)
    except UnicodeEncodeError:
        sock.close()
        raise _fault(proxy, "SOCKS5 takes a user and a password of ASCII only") from None
    except (ProxyError, OSError, ValueError, IndexError, AssertionError) as error:  # the last: of an answer that is none
        sock.close()
        said = str(error).encode("ascii", "replace").decode()[:_SHOWN_MAX] or "it answers what is no answer"
        raise _fault(proxy, said) from error
    return sock


class _Spoken:
    """The socket as the library sees it: each step has what is left of the time, and an answer of HTTP ends at its blank line."""

    def __init__(self, sock: socket.socket, deadline_s: float, *, by_line: bool) -> None:
        self._sock = sock
        self._deadline_s = deadline_s
        self._by_line = by_line
        self.close = sock.close

    def connect(self, **_: Any) -> _Spoken:
        """The library takes it for the proxy before this one, which has connected already."""
        return self

    def sendall(self, data: bytes) -> None:
        """Send ``data``. Raises OSError."""
        self._await()
        self._sock.sendall(data)

    def recv(self, size: int) -> bytes:
        """What has come, at most ``size`` bytes; of HTTP the whole answer. Raises OSError."""
        if not self._by_line:
            self._await()
            return self._sock.recv(size)
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            self._await()
            byte = self._sock.recv(1)
            if not byte or len(data) > _ANSWER_BYTES_MAX:
                raise OSError("its answer does not end" if byte else "it has closed the connection")
            data += byte
        return data

    def _await(self) -> None:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("no answer in time")
        self._sock.settimeout(left_s)


def _password(proxy: ProxySettings) -> str | None:
    try:
        return Source(key="proxy.password", file=proxy.password_file).read(0.0)
    except CannotRead as error:
        said = error.message if isinstance(error, CertificateFault) else str(error)
        raise Unavailable(f"credentials: {said}", step="credentials", fault=LinkFault.CREDENTIALS) from error


def _fault(proxy: ProxySettings, said: str) -> Unavailable:
    return Unavailable(f"proxy: {proxy.url}: {said}", step="proxy", fault=LinkFault.PROXY)
