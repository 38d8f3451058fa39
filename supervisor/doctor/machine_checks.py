"""Unmet wishes of a valid configuration: of this machine, of the files that remotes want; and topics that go in a circle.

A node runs with most of it all the same: its clock may be wrong at first, an address may come later, a file be written meanwhile.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

from actors.access.listening_sockets import tcp_socket
from actors.remote.remote_socket import credentials_fault
from actors.system.tls import certificate_dates
from supervisor.doctor.machine import folder_fault
from wire.config_settings import LIVE, LIVE_FIRST, BridgeSettings, NodeSettings, RuleSettings
from wire.errors import ConfigError
from wire.mqtt.packets import MQTT_3_1_1, MQTT_5_0
from wire.mqtt.topics import covers, overlap
from wire.routing.topic_mapping import TopicTemplate

Key = tuple[str | int, ...]
_ALL = ("0.0.0.0", "::", "")


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
        yield from ((("bridges", index, *key), what) for key, what in circles(settings, bridge))
    yield from _echoes(settings, by=(MQTT_3_1_1,))


def possible(settings: NodeSettings) -> Iterator[tuple[Key, str]]:
    """(key, what is so) where it depends on the remote whether there is a fault."""
    yield from _echoes(settings, by=(MQTT_5_0, MQTT_3_1_1))


def _echoes(settings: NodeSettings, *, by: tuple[int, ...]) -> Iterator[tuple[Key, str]]:
    for index, bridge in enumerate(settings.bridges):
        if bridge.remote.levels == by:
            yield from ((("bridges", index, *key), what) for key, what in unknown_echoes(settings, bridge))


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


# --- circles ---


def circles(settings: NodeSettings, bridge: BridgeSettings) -> Iterator[tuple[Key, str]]:
    """(key below the bridge, what goes round) of topics that ``bridge`` sends and then takes again."""
    for index, address in enumerate(bridge.remote.addresses):
        if _leads_here(settings, address) and any(comes_back(rule, rule, None) for rule in bridge.local_subscriptions):
            message = "leads to a listener of this node: what is sent there comes again; give the remote's address"
            yield ("remote", "addresses", index), message
    if bridge.loop_prevention.enabled:
        return  # what comes from its remote never goes back there
    for index, rule in enumerate(bridge.remote_subscriptions):
        for out in bridge.local_subscriptions:
            if comes_back(out, out, rule):
                message = f"takes back what rule {out.name} has sent, which then goes round without end; narrow one of them"
                yield ("remote_subscriptions", index, "filters"), message
                break


def unknown_echoes(settings: NodeSettings, bridge: BridgeSettings) -> Iterator[tuple[Key, str]]:
    """(key below the bridge, what comes twice by MQTT 3.1.1) of topics that ``bridge`` sends by one lane and takes back by another:
    an echo is known on the lane that has sent it.
    """
    loops = bridge.loop_prevention
    if not loops.enabled or not loops.echo_window_s or settings.rings.window_s:
        return
    comes = "it comes here again" if bridge.remote.levels == (MQTT_3_1_1,) else "where the remote speaks that, it comes here again"
    for index, rule in enumerate(bridge.remote_subscriptions):
        takes = {lane for lane in bridge.lane_labels if rule in bridge.taken_by(lane)}
        for out in bridge.local_subscriptions:
            sends = {*bridge.lanes_of(out), *((LIVE,) if bridge.backlog == LIVE_FIRST else ())}
            if len(takes | sends) > 1 and any(_common(_mapped(out, each), rule) for each in out.filters):
                message = (
                    f"takes back what rule {out.name} sends by another lane, which MQTT 3.1.1 does not tell: {comes}; "
                    "write rings: {window: 30s}, protocol: mqtt5, or loop_prevention.echo_window: 0s if it may"
                )
                yield ("remote_subscriptions", index, "filters"), message
                break


def _leads_here(settings: NodeSettings, address: tuple[str, int]) -> bool:
    host, port = address[0].lower(), address[1]
    for listener in settings.listeners:
        if not listener.unix_path and listener.port == port and _is_own(host):
            loopback = _is_loopback(host) and _is_loopback(listener.host)
            if listener.host in _ALL or listener.host.lower() == host or loopback:
                return True
    own = settings.replication.address if settings.replication is not None else ""
    return bool(own) and own.lower() == f"{host}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return host in _ALL or ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_own(host: str) -> bool:
    """Whether this machine has the address ``host``; of names only its own are known without asking anybody."""
    if _is_loopback(host) or host == socket.gethostname().lower():
        return True
    try:
        family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))
    except (OSError, ValueError):
        return False
    return True


def comes_back(rule: RuleSettings, takes: RuleSettings, back: RuleSettings | None) -> bool:
    """Whether something that ``rule`` sends comes to ``takes`` again, over the remote's ``back``, or as it is."""
    for sent in (_mapped(rule, topic_filter) for topic_filter in rule.filters):
        returns = [sent] if back is None else [_mapped(back, narrow) for narrow in _common(sent, back)]
        for returned in returns:
            if any(overlap(returned, wanted) for wanted in takes.filters) and not any(
                covers(no, returned) for no in takes.excludes
            ):
                return True
    return False


def _common(sent: str, back: RuleSettings) -> list[str]:
    """The part of ``sent`` that the rule ``back`` takes, as the narrower filter of both."""
    if any(covers(no, sent) for no in back.excludes):
        return []
    return [sent if covers(wanted, sent) else wanted for wanted in back.filters if overlap(sent, wanted)]


def _mapped(rule: RuleSettings, topic_filter: str) -> str:
    """The filter of what ``rule`` makes of what ``topic_filter`` matches: at least that."""
    try:
        levels = TopicTemplate.parse(rule.destination).map(topic_filter.encode()).decode().split("/")
    except ConfigError:
        return topic_filter
    end = next((place for place, level in enumerate(levels) if "#" in level), None)
    whole = levels if end is None else [*levels[:end], "#"]
    return "/".join("+" if "+" in level else level for level in whole)
