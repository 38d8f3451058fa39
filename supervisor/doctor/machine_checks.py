"""Unmet wishes of a valid configuration: of this machine, and of the files that remotes want.

A node runs with most of it all the same: its clock may be wrong at first, an address may come later, a file be written meanwhile.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from pathlib import Path

from actors.access.listening_sockets import tcp_socket
from actors.remote.remote_socket import credentials_fault
from actors.system.tls import certificate_dates
from supervisor.config.yaml_file import Key
from supervisor.doctor.machine import folder_fault
from wire.config_settings import NodeSettings


def unmet(settings: NodeSettings) -> Iterator[tuple[Key, str]]:
    """(key, what is wrong) of each."""
    if fault := folder_fault(Path(settings.node.data_dir)):
        yield ("node", "data_dir"), "; ".join(fault)
    for key, host, port in _binds(settings):
        if why := _bind_fault(host, port):
            yield key, why
    now = time.strftime("%Y%m%d%H%M%SZ", time.gmtime())
    for index, listener in enumerate(settings.listeners):
        if listener.tls is not None:
            before, after = certificate_dates(listener.tls.cert_file)
            if not before <= now <= after:
                what = f"{listener.tls.cert_file} is valid from {before} to {after}, and it is {now}"
                yield ("listeners", index, "tls", "cert_file"), what
    for index, bridge in enumerate(settings.bridges):
        if credentials := credentials_fault(bridge.remote):
            yield ("bridges", index, "remote"), credentials


def _binds(settings: NodeSettings) -> Iterator[tuple[Key, str, int]]:
    for index, listener in enumerate(settings.listeners):
        if not listener.unix_path:
            yield ("listeners", index, "bind"), listener.host, listener.port
    if settings.http is not None:
        yield ("http", "bind"), settings.http.host, settings.http.port
    if settings.control is not None:
        yield ("control", "bind"), settings.control.host, settings.control.port


def _bind_fault(host: str, port: int) -> str | None:
    """Why this machine, or this user, cannot listen there; that somebody else does, such as the node itself, is no reason."""
    try:
        tcp_socket(host, port).close()
    except OSError as error:
        match error.errno:
            case errno.EADDRINUSE:
                return None
            case errno.EADDRNOTAVAIL:
                return f"no interface of this machine has the address {host}; see ip addr, 0.0.0.0 stands for all"
            case errno.EACCES:
                return f"this user may not have port {port}; take one above 1023, or give CAP_NET_BIND_SERVICE"
        return f"{host} cannot be listened on: {error.strerror or error}"
    return None
