"""TCP towards remote brokers: from which address and interface, to which kind of address, and what the system does for it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address

from wire.config_settings import RemoteSettings
from wire.exchange.failback import Address

_FAMILIES = {"any": socket.AF_UNSPEC, "ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}


def connect_tcp(address: Address, settings: RemoteSettings) -> socket.socket:
    """A socket connected to the first address of that name that answers; blocks, for each ``connect_timeout_s`` at most.

    Raises:
        OSError: none does; of the last. socket.gaierror: the name has none of the wanted kind.
    """
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
