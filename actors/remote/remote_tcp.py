"""TCP towards remotes, by a proxy or not: from which address and interface, to which kind of address, and with which options."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address, ip_network

from wire.config_settings import RemoteSettings
from wire.exchange.failback import Address

_FAMILIES = {"any": socket.AF_UNSPEC, "ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}


def connect_tcp(address: Address, settings: RemoteSettings) -> socket.socket:
    """A socket connected to ``address``, by the proxy if one is to be used; blocks.

    Raises:
        OSError: none of its addresses answers; of the last. socket.gaierror: the name has none of the wanted kind.
        Unavailable: it is the proxy's fault.
    """
    proxy = settings.proxy
    if proxy is None or is_among(address[0], proxy.no_proxy):
        return _connect(settings, address)
    from actors.remote.remote_proxy import connect_by_proxy  # only here is its library needed

    return connect_by_proxy(address, proxy, settings, partial(_connect, settings))


def is_among(host: str, places: tuple[str, ...]) -> bool:
    """Whether ``host`` is one of these names, below one of them, or within one of these networks."""
    try:
        literal = ip_address(host)
    except ValueError:
        return any(f".{host.lower()}".endswith(f".{name.lower().removeprefix('.')}") for name in places)
    networks = []
    for each in places:
        try:
            networks.append(ip_network(each, strict=False))
        except ValueError:
            pass  # a name
    return any(literal in network for network in networks)


def _connect(settings: RemoteSettings, address: Address) -> socket.socket:
    """Connected to the first address of that name that answers, each tried for ``connect_timeout_s`` at most."""
    family = _FAMILIES[settings.ip_version]
    if settings.bind_address is not None:
        family = socket.AF_INET if ip_address(settings.bind_address).version == 4 else socket.AF_INET6
    error = OSError("the name has no address")
    for kind, _, protocol, _, place in socket.getaddrinfo(*address, family, socket.SOCK_STREAM):
        sock = socket.socket(kind, socket.SOCK_STREAM, protocol)
        try:
            sock.settimeout(settings.connect_timeout_s)
            _prepare(sock, settings)
            sock.connect(place)
        except OSError as failed:
            sock.close()
            error = failed
        else:
            return sock
    raise error


def _prepare(sock: socket.socket, settings: RemoteSettings) -> None:
    probes = settings.tcp_keep_alive
    if probes.idle_s > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, probes.idle_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, probes.interval_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, probes.count)
    if settings.tcp_user_timeout_s > 0:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(settings.tcp_user_timeout_s * 1000))
    if settings.dscp and sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, settings.dscp << 2)
    elif settings.dscp:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, settings.dscp << 2)
    if settings.bind_interface is not None:
        name = settings.bind_interface.encode() + b"\0"
        _leave_by(settings.bind_interface, partial(sock.setsockopt, socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name))
    if settings.bind_address is not None:
        _leave_by(settings.bind_address, partial(sock.bind, (settings.bind_address, 0)))


def _leave_by(what: str, bind: Callable[[], None]) -> None:
    try:
        bind()
    except OSError as error:
        raise OSError(error.errno, f"{what} cannot be connected from: {(error.strerror or str(error)).lower()}") from error
