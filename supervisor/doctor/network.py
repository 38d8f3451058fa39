"""The network: whether the listeners' addresses can be had, and whether each remote lets its bridge in."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from actors.access.port_occupant import belongs_to, holder_of_path, holder_of_port
from actors.remote.credentials import Credentials
from actors.remote.remote_socket import DISCONNECT, open_remote
from supervisor.doctor.findings import Finding, fail, ok
from wire.config_settings import BridgeSettings, ListenerSettings, NodeSettings, RemoteSettings
from wire.errors import BasculeError, Unavailable
from wire.exchange.remote_dialects import Dialect, refused_by
from wire.mqtt.packets import MQTT_3_1_1, MQTT_5_0
from wire.status.link_faults import fault_of

AT_ONCE = 8
SUFFIX = "-doctor"  # of the client identifier: the bridge's own would end its connection


def examine_listeners(settings: NodeSettings, running_pid: int | None) -> Iterator[Finding]:
    """Whether each listener, and HTTP, could be bound; nothing is tried while the node runs, which has them or says who has."""
    wanted = [(f"listener {listener.bind}", listener) for listener in settings.listeners]
    if settings.http is not None:
        wanted.append((f"http {settings.http.bind}", ListenerSettings(bind=settings.http.bind)))
    for about, listener in wanted:
        if running_pid is not None:
            yield _held(listener, about, running_pid)
        else:
            yield _unix(listener, about) if listener.unix_path else _tcp(listener, about)


def _held(listener: ListenerSettings, about: str, running_pid: int) -> Finding:
    holder = holder_of_path(listener.unix_path) if listener.unix_path else holder_of_port(listener.host, listener.port)
    if holder and not belongs_to(holder, running_pid):
        return fail(about, f"taken by {holder}; the node waits for it", "stop that process, or take another port")
    return ok(about, f"the node has it (pid {running_pid})")


def _tcp(listener: ListenerSettings, about: str) -> Finding:
    try:
        places = socket.getaddrinfo(listener.host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        return fail(about, error.strerror or "unknown name", "write an address of this machine, such as 127.0.0.1 or 0.0.0.0")
    family, kind, number, _, address = places[0]
    with socket.socket(family, kind, number) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen(1)
        except OSError as error:
            return _not_had(listener, about, error)
    return ok(about, "free")


def _not_had(listener: ListenerSettings, about: str, error: OSError) -> Finding:
    if error.errno == errno.EADDRINUSE:
        holder = holder_of_port(listener.host, listener.port)
        return fail(about, f"taken by {holder or 'another process'}", "stop that process, or take another port")
    if error.errno == errno.EADDRNOTAVAIL:
        return fail(about, "no interface of this machine has that address", "see ip addr; 0.0.0.0 stands for all")
    if error.errno == errno.EACCES:
        return fail(about, "this user may not have ports below 1024", "take a higher port, or give CAP_NET_BIND_SERVICE")
    return fail(about, error.strerror or str(error), "take another address")


def _unix(listener: ListenerSettings, about: str) -> Finding:
    holder = holder_of_path(listener.unix_path)
    if holder:
        return fail(about, f"taken by {holder}", "stop that process, or take another path")
    if not os.access(os.path.dirname(listener.unix_path), os.W_OK | os.X_OK):
        return fail(about, "its folder cannot be written to by this user", "give the node's user the right, or take another path")
    return ok(about, "free")


def examine_remotes(settings: NodeSettings, said: Sequence[str] = ()) -> Iterator[Finding]:
    """Whether each remote lets its bridge in, at each of its addresses; several at a time, told in their order.

    said: what the node itself has said, if it runs. A fault that is the same here and there is not told twice.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [
            (bridge, address, pool.submit(_try, bridge, address))
            for bridge in settings.bridges
            for address in bridge.remote.addresses
        ]
        for bridge, address, answer in asked:
            level, error = answer.result()
            if error is None or error.fields.get("older") or not _is_among(said, address, error):
                yield _told(bridge, address, level, error)


def _try(bridge: BridgeSettings, address: tuple[str, int]) -> tuple[int, BasculeError | None]:
    """Why the remote does not let the bridge in, and by which level of the protocol, or does; ``older``: it does by MQTT 3.1.1,
    and is asked for 5.0.
    """
    levels = bridge.remote.levels
    for level in levels:
        error = _log_in(replace(bridge.remote, protocol=level), address)
        if error is None or refused_by(error, Dialect(level)) is None:
            return level, error
    if error and MQTT_3_1_1 not in levels and _log_in(replace(bridge.remote, protocol=MQTT_3_1_1), address) is None:
        error = Unavailable(f"{error.message}; with MQTT 3.1.1 it lets the bridge in", older=True)
    return level, error


def _log_in(remote: RemoteSettings, address: tuple[str, int]) -> BasculeError | None:
    """Connect with the bridge's own credentials, and leave nothing behind; why it did not work."""
    settings = replace(remote, clean_start=True, session_expiry_s=0)
    try:
        login = Credentials(remote).login()
        opened = open_remote(settings, settings.client_id + SUFFIX if settings.client_id else "", address, clean=True, login=login)
    except BasculeError as error:
        return error
    try:
        opened.send(memoryview(DISCONNECT))
    except BasculeError:
        pass  # it let us in, which was the question
    opened.close()
    return None


def _is_among(said: Sequence[str], address: tuple[str, int], error: BasculeError) -> bool:
    same = f" {address[0]}:{address[1]}: {error.message}"
    return any(same in f" {text}" for text in said)


def _told(bridge: BridgeSettings, address: tuple[str, int], level: int, error: BasculeError | None) -> Finding:
    about = f"bridge {bridge.name} to {address[0]}:{address[1]}"
    if error is None:
        return ok(about, f"let in ({bridge.remote.transport}, MQTT {'5.0' if level == MQTT_5_0 else '3.1.1'})")
    cure = "write remote.protocol: mqtt311" if error.fields.get("older") else fault_of(error).cure
    return fail(about, error.message, cure)
