"""The Listener's sockets: opens them, accepts on them, and gives each new client its transport.

access.header-from-proxies-only [access]: a connection from one of ``proxy_protocol.from`` begins with a PROXY header or ends. From
    nobody else is one taken: there it is the beginning of MQTT, TLS or WebSocket, and wrong.

``actors/listening_socket/connection_limits.py`` decides who may come in; the Listener serves the clients that are in. Pausing when
descriptors run out is decided here, because only the sockets show it.
"""

from __future__ import annotations

import errno
import logging
import os
import resource
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from actors.access.client import UNIX, Client
from actors.access.closing_connections import ClosingConnections
from actors.access.connection_limits import ConnectionLimits, Verdict
from actors.access.port_occupant import holder_of_path, holder_of_port
from actors.access.transport_layers import HandshakeTurn, Layer, LayeredClient
from actors.process.mailbox import READ, Mailbox, PollGroup
from actors.system.certificates import CHECK_PERIOD_S, NotACertificate, identity
from actors.system.tls import Certificates
from wire.backoff import Backoff
from wire.config_settings import ListenerSettings, ListenerTlsSettings, SettingsNow
from wire.errors import PeerViolation, Unavailable
from wire.frames.placement import Placement
from wire.status.client_figures import ReceptionFigures

log = logging.getLogger("bascule")

OPEN_TIMER = "open"
ACCEPT_TIMER = "accept"
ACCEPTS_PER_TURN = 64
LISTEN_BACKLOG = 1024
DESCRIPTORS_KEPT = 16  # for the other actors' new lives; without one, not even the clients that are here could be served
ACCEPT_PAUSE_S = 1.0
REPORT_PERIOD_S = 10.0
PAUSES_TOLD_PERIOD_S = 60.0

_REMEDY = "it is tried again and again; free the address, or change bind and reload the configuration"

_Gives = Callable[[int], None]
_SeesOff = Callable[[], None]


@cache
def _networks(sources: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(map(ip_network, sources))


class ListeningSocket:
    """One listening socket, with what its clients speak below MQTT."""

    def __init__(self, sock: Any, settings: ListenerSettings) -> None:
        """``sock`` has its address, and does not block. Raises Unavailable if TLS is wanted and its files cannot be used."""
        self.sock = sock
        self.settings = settings
        self.secure = settings.tls is not None
        web = settings.protocol in ("ws", "wss")
        self.certificates: Certificates | None = None
        self._web = web
        if settings.tls is not None:
            self.certificates = self._show(settings.tls)
        self.plain = not web and not self.secure

    def _show(self, tls: ListenerTlsSettings) -> Certificates:
        certificates = Certificates(tls, self.settings.bind, "http/1.1" if self._web else "mqtt")
        certificates.warn_of_dates(time.strftime("%Y%m%d%H%M%SZ", time.gmtime()))
        return certificates

    def can_be(self, settings: ListenerSettings) -> bool:
        """Whether it is the socket of ``settings``, so that who is connected by it may stay."""
        own = self.settings
        return (own.bind, own.unix_mode, own.protocol) == (settings.bind, settings.unix_mode, settings.protocol)

    def change(self, settings: ListenerSettings) -> None:
        """These hold for who comes from now on; ``can_be`` was asked. Raises Unavailable if its files cannot be used."""
        if settings.tls is not None and settings.tls != self.settings.tls:
            self.certificates = self._show(settings.tls)
        self.settings = settings

    def is_proxy(self, host: str) -> bool:
        """Whether connections from ``host`` begin with a PROXY header."""
        if self.settings.proxy_protocol is None:
            return False
        address = ip_address(host)
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in _networks(self.settings.proxy_protocol.sources))

    def layers(self, packet_max_bytes: int) -> list[Layer]:
        """The layers between a new client's socket and MQTT, the lowest first."""
        layers: list[Layer] = []
        if self.certificates is not None and self.settings.tls is not None:
            from actors.system.tls import TlsLayer

            layers.append(TlsLayer(self.certificates.context, self.settings.tls.identity))
        if self._web:
            from actors.access.websocket_layer import WebSocketLayer  # most nodes need neither it nor its library

            layers.append(WebSocketLayer(self.settings.websocket_path, self.settings.origins, packet_max_bytes))
        return layers


class ListeningSockets:
    """Accepts clients at all listening sockets, within the limits."""

    def __init__(self, mailbox: Mailbox, group: PollGroup, lingering: ClosingConnections, settings: SettingsNow) -> None:
        self._mailbox = mailbox
        self._group = group
        self.lingering = lingering
        self._backoff = Backoff(settings.now.supervision.restart_backoff, mailbox.random)
        self._settings = settings
        self.listening_sockets: list[ListeningSocket] = []
        self.refusal = ""  # why they cannot be opened
        self.admission = ConnectionLimits(lambda: settings.now.clients)
        self.turn = HandshakeTurn()
        self.accepting = True
        self.handshakes_failed = 0
        self.pauses = 0  # how often nobody could be let in, and why the last time
        self.paused_for = ""
        self.connections = 0  # how many have come in, ever
        self._numbers = 0
        self._looked_s = float("-inf")
        self._kept = (0, settings.now, 0)  # from clients, by the limit of descriptors and the settings
        self._told: dict[str, tuple[float, int]] = {}

    # --- listening sockets ---

    def open(self, listeners: tuple[ListenerSettings, ...]) -> None:
        """Listen on every socket.

        Raises:
            Unavailable: one of them cannot be had, or the files of one cannot be used. Then nobody can connect to any.
        """
        listening_sockets: list[ListeningSocket] = []
        try:
            for settings in listeners:
                listening_sockets.append(_bind(settings))
            for listening_socket in listening_sockets:  # once all addresses are ours
                _listen(listening_socket)
        except Unavailable:
            for listening_socket in listening_sockets:
                _shut(listening_socket)
            raise
        self.refusal = ""
        for listening_socket in listening_sockets:
            self._serve(listening_socket)

    def rearrange(self, listeners: tuple[ListenerSettings, ...]) -> set[str]:
        """Shut the listening sockets that are not among ``listeners``, and open those that are not open yet.

        One that cannot be had is tried again, by ``open_missing``, while the others are served.
        Returns: where listening sockets were shut.
        """
        wanted = {listener.bind: listener for listener in listeners}
        shut = [
            listening_socket
            for listening_socket in self.listening_sockets
            if listening_socket.settings.bind not in wanted or not listening_socket.can_be(wanted[listening_socket.settings.bind])
        ]
        for listening_socket in shut:
            self.listening_sockets.remove(listening_socket)
            self._mailbox.forget(listening_socket.sock.fileno())
            _shut(listening_socket)
            log.info(
                "listener.closed", extra={"bind": listening_socket.settings.bind, "protocol": listening_socket.settings.protocol}
            )
        self.open_missing(listeners)
        return {listening_socket.settings.bind for listening_socket in shut}

    def open_missing(self, listeners: tuple[ListenerSettings, ...]) -> None:
        """Open those of ``listeners`` that are not open, and have the others go by their settings; later, if that cannot be yet."""
        listening_sockets = {listening_socket.settings.bind: listening_socket for listening_socket in self.listening_sockets}
        refusal: Unavailable | None = None
        for settings in listeners:
            try:
                if settings.bind in listening_sockets:
                    listening_sockets[settings.bind].change(settings)
                    continue
                listening_socket = _bind(settings)
                try:
                    _listen(listening_socket)
                except Unavailable:
                    _shut(listening_socket)
                    raise
                self._serve(listening_socket)
            except Unavailable as error:
                refusal = refusal or error
        if refusal is not None:
            self.open_later(refusal)
        else:
            self.refusal = ""

    def _serve(self, listening_socket: ListeningSocket) -> None:
        self.add(listening_socket)
        log.info("listener.opened", extra={"bind": listening_socket.settings.bind, "protocol": listening_socket.settings.protocol})

    def open_later(self, refusal: Unavailable) -> None:
        """The listening sockets cannot be opened because of ``refusal``, which is told once; it is time for another try when the
        timer says."""
        if self.refusal != str(refusal):
            self.refusal = str(refusal)
            log.error("listener.unavailable", extra={"error": self.refusal, "remedy": _REMEDY})
        self._mailbox.set_timer(OPEN_TIMER, self._mailbox.now_s() + self._backoff.next_delay_s())

    def add(self, listening_socket: ListeningSocket) -> None:
        """Accept at ``listening_socket`` from now on."""
        self.listening_sockets.append(listening_socket)
        if self.accepting:
            self._mailbox.watch(listening_socket.sock.fileno(), READ, listening_socket)

    def close(self) -> None:
        """Accept nobody any more."""
        for listening_socket in self.listening_sockets:
            self._mailbox.forget(listening_socket.sock.fileno())
            _shut(listening_socket)
        self.listening_sockets = []

    def reload_certificates(self, now_s: float) -> None:
        """Once a second: new certificates are for those who come from now on."""
        if now_s - self._looked_s >= CHECK_PERIOD_S:
            self._looked_s = now_s
            for listening_socket in self.listening_sockets:
                if listening_socket.certificates is not None:
                    listening_socket.certificates.reload()

    def figures(self) -> ReceptionFigures:
        """The figures for status: half-open connections, refusals by limit, certificates."""
        certificates = [
            listening_socket.certificates
            for listening_socket in self.listening_sockets
            if listening_socket.certificates is not None
        ]
        return ReceptionFigures(
            error=self.refusal,
            accepting=self.accepting,
            pauses=self.pauses,
            paused_for=self.paused_for,
            connections=self.connections,
            half_open=self.admission.half_open,
            limited=dict(self.admission.refused),
            handshakes_failed=self.handshakes_failed,
            certificates_reloaded=sum(each.reloads for each in certificates),
            certificates_refused=sum(each.refused for each in certificates),
        )

    def left(self) -> Iterable[Client]:
        """The clients that have closed their side."""
        return self._group.left()

    # --- accepting ---

    def accept(self, listening_socket: ListeningSocket, now_s: float, give_way: _Gives, see_off: _SeesOff) -> Iterator[Client]:
        """The clients that wait at ``listening_socket`` and may come in.

        give_way: closes the one whose place a newcomer gets. see_off: called where a limit is reached; closes those that have left,
        since whoever goes before another comes is not to count.
        """
        for _ in range(ACCEPTS_PER_TURN):
            if not self.accepting or (listening_socket.secure and not self.turn.left):  # those who are here shake hands first
                return
            if self._is_crowded():
                self.lingering.close()
            if self._is_crowded():
                self.pause(now_s, "file descriptors are used up")
                return
            try:
                sock, peer = listening_socket.sock.accept()
            except (BlockingIOError, ConnectionAbortedError):  # nobody waits, or who waited is gone
                return
            except OSError as error:  # no descriptor, no memory: it would be so again at once
                self.pause(now_s, str(error))
                return
            self._numbers += 1
            host, address = (peer[0], f"{peer[0]}:{peer[1]}") if not listening_socket.settings.unix_path else ("", _unix_peer(sock))
            if self.admission.is_full(host, listening_socket.settings.bind, listening_socket.settings.connections_max):
                see_off()
            verdict = self.admission.enter(
                self._numbers, host, listening_socket.settings.bind, listening_socket.settings.connections_max
            )
            if not self._stays(verdict, address, listening_socket.settings.bind, now_s, give_way):
                sock.close()
                continue
            self.connections += 1
            client = self._client(listening_socket, sock, address, now_s)
            settings = listening_socket.settings
            client.came_by(settings.bind, settings if listening_socket.is_proxy(host) else None)
            yield client

    def _is_crowded(self) -> bool:
        """Whether one more client would have a descriptor that others need."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if self._kept[:2] != (limit, self._settings.now):
            self._kept = (limit, self._settings.now, Placement(self._settings.now).kept_from_clients(limit))
        here = len(self.admission) + len(self.lingering)
        return here >= limit - self._kept[2] or _lowest_free_descriptor() >= limit - DESCRIPTORS_KEPT

    def _client(self, listening_socket: ListeningSocket, sock: socket.socket, address: str, now_s: float) -> Client:
        return (
            Client(sock, address, self._numbers, self._group, now_s)
            if listening_socket.plain
            else LayeredClient(
                sock,
                address,
                self._numbers,
                self._group,
                now_s,
                layers=listening_socket.layers(self._settings.now.clients.packet_max_bytes),
                turn=self.turn,
            )
        )

    def read_header(self, client: Client, settings: ListenerSettings, now_s: float, give_way: _Gives, see_off: _SeesOff) -> bool:
        """Read on in the PROXY header of ``client``, and let it in as who it is; False if it is to be closed.

        give_way and see_off as for ``accept``. Limits by address count by that in the header.
        """
        user = None
        try:
            header = client.read_proxy_header()
            if header is None:
                return True
            if header.common_name is not None and settings.proxy_protocol is not None:
                certificate = {"subject": ((("commonName", header.common_name),),)}
                user = identity(certificate, settings.proxy_protocol.identity)
        except OSError:
            return False
        except (PeerViolation, NotACertificate) as error:
            self.handshakes_failed += 1
            self._log_limited("client.transport_failed", str(error), now_s, address=client.address)
            return False
        client.came_from(f"{header.host}:{header.port}" if header.host else "", user)
        if not header.host:
            return True
        place = (header.host, client.listener, settings.connections_max)
        if self.admission.is_full(*place):
            see_off()
        self.admission.leave(client.number)
        return self._stays(self.admission.enter(client.number, *place), client.address, client.listener, now_s, give_way)

    def _stays(self, verdict: Verdict, address: str, bind: str, now_s: float, give_way: _Gives) -> bool:
        """Whether a newcomer does; who gives way for it is closed."""
        if verdict.gives_way is not None:
            give_way(verdict.gives_way)
        if verdict.refused or verdict.gives_way is not None:
            self._log_limited("client.refused", verdict.refused or "half_open_max", now_s, address=address, bind=bind)
        return not verdict.refused

    def on_failed(self, client: Client, now_s: float) -> None:
        """The transport of ``client`` ended by its own fault, if it did: count and tell."""
        if client.fault and isinstance(client, LayeredClient) and client.failed:
            self.handshakes_failed += 1
            self._log_limited("client.transport_failed", client.fault, now_s, address=client.address)

    def pause(self, now_s: float, why: str) -> None:
        """Let new clients wait in the kernel's queue, until a connection closes or a moment has passed."""
        self.accepting = False
        self.pauses += 1
        self.paused_for = why
        for listening_socket in self.listening_sockets:
            self._mailbox.forget(listening_socket.sock.fileno())
        self._mailbox.set_timer(ACCEPT_TIMER, now_s + ACCEPT_PAUSE_S)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        fields = {"clients": len(self.admission), "descriptors_max": limit}
        self._log_limited("listener.paused", why, now_s, PAUSES_TOLD_PERIOD_S, **fields)

    def resume(self) -> None:
        """Accept again after ``pause``."""
        if not self.accepting:
            self.accepting = True
            for listening_socket in self.listening_sockets:
                self._mailbox.watch(listening_socket.sock.fileno(), READ, listening_socket)

    def _log_limited(self, event: str, why: str, now_s: float, period_s: float = REPORT_PERIOD_S, **fields: object) -> None:
        """Log ``event`` once in ``period_s`` for each kind of ``why`` (up to its colon); ``untold``: how many more there were."""
        key = f"{event} {why.partition(':')[0]}"
        told_s, untold = self._told.get(key, (float("-inf"), 0))
        if now_s - told_s < period_s:
            self._told[key] = (told_s, untold + 1)
            return
        self._told[key] = (now_s, 0)
        log.warning(event, extra={"why": why, "untold": untold, **fields})


def _bind(settings: ListenerSettings) -> ListeningSocket:
    """The door of one listener, to which nobody can connect yet.

    Raises:
        Unavailable: its address cannot be had, and who has it if that is known; or its files cannot be used.
    """
    try:
        sock = _bind_unix(settings) if settings.unix_path else tcp_socket(settings.host, settings.port)
    except OSError as error:
        raise _refusal(settings, error) from error
    try:
        return ListeningSocket(sock, settings)
    except Unavailable:
        sock.close()
        raise


def _listen(listening_socket: ListeningSocket) -> None:
    try:
        listening_socket.sock.listen(LISTEN_BACKLOG)
    except OSError as error:
        raise _refusal(listening_socket.settings, error) from error


def _shut(listening_socket: ListeningSocket) -> None:
    listening_socket.sock.close()
    if listening_socket.settings.unix_path:
        _remove_socket(listening_socket.settings.unix_path)


def _refusal(settings: ListenerSettings, error: OSError) -> Unavailable:
    """Why ``settings`` cannot be listened on."""
    if not settings.unix_path:
        return tcp_refusal(settings.host, settings.port, error)
    why = error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        why = _taken("socket", holder_of_path(settings.unix_path))
    return Unavailable(f"cannot listen on {settings.bind}: {why}")


def tcp_refusal(host: str, port: int, error: OSError) -> Unavailable:
    """Why this address cannot be listened on, with who has it if that is the reason and the system tells."""
    why = _taken("port", holder_of_port(host, port)) if error.errno == errno.EADDRINUSE else error.strerror or str(error)
    return Unavailable(f"cannot listen on {host}:{port}: {why}")


def _taken(what: str, holder: str | None) -> str:
    return f"the {what} is taken by {holder}" if holder else f"the {what} is taken, the system does not say by whom"


def tcp_socket(host: str, port: int) -> socket.socket:
    """A socket that has this address, on which nobody listens yet; it does not block. Raises OSError if it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def _bind_unix(settings: ListenerSettings) -> socket.socket:
    """A Unix socket with the mode that was asked for, from its first moment; one that nobody listens on is replaced."""
    _remove_stale(settings.unix_path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o777 & ~settings.unix_mode)
    try:
        sock.bind(settings.unix_path)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    finally:
        os.umask(mask)
    return sock


def _remove_stale(path: str) -> None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise FileExistsError(errno.EEXIST, f"{path} is there and is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:  # its queue is full: somebody has it
            pass
    raise OSError(errno.EADDRINUSE, f"{path} is in use by another process")


def _remove_socket(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:  # it is gone, or the folder is not ours any more
        pass


def _unix_peer(sock: socket.socket) -> str:
    """Which process has connected, for logs."""
    pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return f"{UNIX}pid={pid},uid={uid}"


def _lowest_free_descriptor() -> int:
    """The number that the next socket gets; larger than any where none is left."""
    try:
        probe = os.eventfd(0, os.EFD_CLOEXEC)
    except OSError:
        return sys.maxsize
    os.close(probe)
    return probe
