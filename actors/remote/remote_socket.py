"""Opens connections to remote brokers, and is the only user of paho-mqtt.

paho's public API does the name look-up, TCP, TLS, WebSocket and CONNECT, in the caller's thread, which blocks for it. The CONNACK
is read here, to its last byte and no further: paho refuses some that MQTT allows. Then the socket is the Connection's. The way
there is the settings' alone (``actors/remote/remote_tcp.py``): no proxy that the environment names.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 - each look-up of a name wants it; here it is in the template, once for all
import select
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

from paho.mqtt.client import Client, WebsocketConnectionError, error_string
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from actors.remote.credentials import NO_LOGIN, Login, sources_of
from actors.remote.remote_tcp import connect_tcp
from actors.remote.remote_tls import TlsSecrets, context, secrets_of
from actors.remote.secret_source import CannotRead
from actors.system.certificates import CertificateFault
from actors.system.receive_buffer import RECEIVE_BYTES, BufferSource, receive
from actors.system.send_queue import unsent_bytes
from wire.config_settings import RemoteSettings
from wire.errors import PeerViolation, Unavailable
from wire.exchange import remote_packets
from wire.exchange.announcements import Announcement
from wire.exchange.failback import Address
from wire.exchange.remote_dialects import Dialect
from wire.exchange.remote_limits import NO_LIMITS, RemoteLimits
from wire.mqtt import packets
from wire.mqtt.codec import missing_bytes, split
from wire.mqtt.publish_batch_parser import PACKET_BYTES_LIMIT
from wire.mqtt.reason_codes import reason_name
from wire.status.link_faults import LinkFault, of_error, of_handshake, of_refusal

LEVEL_5 = 5
DISCONNECT = b"\xe0\x00"

# Errors of a socket, plain or with TLS: it goes on later; the far end ended it, and not the way there; TLS did not come about.
_WAITS = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_CLOSED_BY_REMOTE = (ConnectionResetError, BrokenPipeError, ssl.SSLZeroReturnError, ssl.SSLEOFError)
_HANDSHAKE = (ssl.SSLError, ssl.CertificateError)

_WEBSOCKET_SEND_BYTES = 32_768  # one frame; paho masks it byte by byte, and wants a frame back until it is out whole


@dataclass(frozen=True, slots=True, kw_only=True)
class InputLimits:
    """Limits on packets from the remote: the largest packet, and how many unacknowledged QoS 1 and 2 PUBLISHes."""

    packet_max_bytes: int
    receive_maximum: int | None

    def publish_max_bytes(self, level: int) -> int:
        """The largest PUBLISH to take. A level 4 remote cannot be told a limit: it may send all that MQTT allows."""
        return self.packet_max_bytes if level == LEVEL_5 else PACKET_BYTES_LIMIT


NOTHING_SUBSCRIBED = InputLimits(packet_max_bytes=1 << 20, receive_maximum=None)  # so nothing large is expected


class _Socket(Protocol):
    def recv(self, buffer_size: int) -> bytes: ...
    def send(self, buffer: Any) -> int: ...
    def close(self) -> None: ...
    def fileno(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Connack:
    """The remote's CONNACK. A level 4 remote says ``session_present`` only.

    session_expiry_s: how long it keeps the session, where that is not what was asked for. topic_alias_maximum: how many aliases it
    takes.
    """

    session_present: bool
    receive_maximum: int = 65_535
    limits: RemoteLimits = NO_LIMITS
    keep_alive_s: int | None = None
    session_expiry_s: int | None = None
    topic_alias_maximum: int = 0


class Remote:
    """A connection that the remote broker has accepted, in ``dialect``; its socket does not block.

    leads: whether anything may be said on it, which without it may always be.
    """

    leads: Callable[[], bool] | None = None

    def __init__(self, client: Client, sock: _Socket, connack: Connack, address: str, *, dialect: Dialect, websocket: bool) -> None:
        self._client = client  # closes the socket when it is collected
        self._socket = sock
        self._read = partial(sock.recv, RECEIVE_BYTES) if websocket else partial(receive, cast("BufferSource", sock))
        self._pending: Callable[[], int] | None = getattr(sock, "pending", None)
        self._websocket = websocket
        self.connack = connack
        self.dialect = dialect
        self.address = address
        with socket.socket(fileno=socket.dup(sock.fileno())) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def speak_while(self, leads: Callable[[], bool]) -> None:
        """Something may be said on it only while ``leads`` says so."""
        self.leads = leads

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._socket.fileno()

    def receive(self) -> bytes:
        """All that can be read now, within reason; empty when there is nothing.

        Bytes that TLS or WebSocket hold back are read too: polling the descriptor would not tell of them.

        Raises:
            Unavailable: the connection is closed; ``by_remote``: by the far end, and not on the way there.
        """
        pieces: list[bytes] = []
        size = 0
        while size < RECEIVE_BYTES or (self._pending is not None and self._pending()):
            try:
                data = self._read()
            except _WAITS:
                if self._pending is None or not self._pending():
                    break
                continue
            except OSError as error:
                raise _broken(self.address, error) from error
            if not data:
                if pieces:
                    break  # told again by the next read
                raise _closed(self.address, "closed by the remote", LinkFault.CLOSED, by_remote=True)
            read_bytes = len(data)
            if self._pending is None and read_bytes < RECEIVE_BYTES and not pieces:
                return data  # all there is, as mostly
            pieces.append(data)
            size += read_bytes
            if self._pending is None and read_bytes < RECEIVE_BYTES:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def send(self, data: memoryview) -> int:
        """Write what can be written of ``data``; how many bytes went. Bytes that did not go must come again, unchanged, first.

        Raises:
            Unavailable: the connection is closed, or this node leads no more.
        """
        if self.leads is not None and not self.leads():
            raise _closed(self.address, "this node leads no more", LinkFault.OTHER, by_remote=False)
        try:
            if self._websocket:
                return self._socket.send(bytes(data[:_WEBSOCKET_SEND_BYTES]))
            return self._socket.send(data)
        except _WAITS:
            return 0
        except OSError as error:
            raise _broken(self.address, error) from error

    def unsent_bytes(self) -> int:
        """How many of the bytes that the socket took the remote's machine has not confirmed, with what TLS and WebSocket add."""
        return unsent_bytes(self._socket.fileno())

    def close(self) -> None:
        """Close the socket; saying DISCONNECT before is the caller's business."""
        self._socket.close()


def open_remote(
    settings: RemoteSettings,
    identifier: str,
    address: Address,
    *,
    clean: bool,
    limits: InputLimits = NOTHING_SUBSCRIBED,
    login: Login = NO_LOGIN,
    private: bool = False,
    will: Announcement | None = None,
) -> Remote:
    """Connect to ``address`` as ``login`` says; blocks, each step for ``connect_timeout_s`` at most.

    private: CONNECT says by the bridge bit of MQTT 3.1.1 that a bridge comes.

    With ``clean`` whatever session the remote has is ended first. At level 4 that takes a connection of its own, because a clean
    session there ends with its connection [MQTT-3.1.2-6]; it has no ``will``.

    Raises:
        Unavailable: it did not work; ``step`` says where (credentials, name, tcp, tls, websocket, connack) and ``fault`` why.
    """
    if clean and settings.protocol != LEVEL_5 and not settings.clean_start:
        ended = _open(settings, identifier, address, limits, login, clean=True, private=private)
        ended.send(memoryview(DISCONNECT))
        ended.close()
        clean = False
    return _open(settings, identifier, address, limits, login, clean=clean or settings.clean_start, private=private, will=will)


def probe_remote(settings: RemoteSettings, address: Address) -> None:
    """See whether a broker may be there; blocks. TCP, and TLS where it is configured; no CONNECT, so no session is touched.

    Raises:
        Unavailable: nobody answers; ``step`` and ``error`` say where and why.
    """
    place = f"{address[0]}:{address[1]}"
    try:
        with connect_tcp(address, settings) as sock:
            context = _tls_context(settings, _secrets(settings))
            if context is not None:
                with context.wrap_socket(sock, server_hostname=address[0]):
                    pass
    except CertificateFault as error:
        raise _unavailable("credentials", place, _why(error), LinkFault.CREDENTIALS) from error
    except socket.gaierror as error:
        raise _unavailable("name", place, error.strerror or str(error), LinkFault.NAME) from error
    except _HANDSHAKE as error:
        raise _no_handshake(place, error) from error
    except (OSError, ValueError) as error:
        raise _no_connection(place, error) from error


def _open(
    settings: RemoteSettings,
    identifier: str,
    address: Address,
    limits: InputLimits,
    login: Login,
    *,
    clean: bool,
    private: bool,
    will: Announcement | None = None,
) -> Remote:
    place = f"{address[0]}:{address[1]}"
    client = _client(settings, identifier, clean, place, login)
    if will is not None:
        client.will_set(will.topic, will.payload, will.qos, will.retain, _will_properties(settings, will))
    try:
        if settings.protocol == LEVEL_5:
            properties = _connect_properties(settings, limits, login)
            client.connect(address[0], address[1], settings.keep_alive_s, clean_start=clean, properties=properties)
        else:
            if private:
                client.enable_bridge_mode()
            client.connect(address[0], address[1], settings.keep_alive_s)
    except socket.gaierror as error:
        raise _unavailable("name", place, error.strerror or str(error), LinkFault.NAME) from error
    except _HANDSHAKE as error:
        raise _no_handshake(place, error) from error
    except WebsocketConnectionError as error:
        raise _unavailable("websocket", place, str(error), LinkFault.WEBSOCKET) from error
    except (OSError, ValueError) as error:
        raise _no_connection(place, error) from error
    sock = client.socket()
    if sock is None:
        raise _unavailable("connack", place, "closed by the remote", _at_connect(settings.protocol))
    try:
        connack = _await_connack(client, sock, settings, limits, place)
    except Unavailable:
        sock.close()
        raise
    return Remote(client, sock, connack, place, dialect=Dialect(settings.protocol, private), websocket=settings.web)


class _Client(Client):
    """Connects its socket as the settings of the remote say."""

    def __init__(self, settings: RemoteSettings, **options: Any) -> None:
        super().__init__(CallbackAPIVersion.VERSION2, **options)
        self._settings = settings

    def _create_socket_connection(self) -> socket.socket:
        return connect_tcp((self.host, self.port), self._settings)


def _secrets(settings: RemoteSettings) -> TlsSecrets:
    return secrets_of(settings.tls, settings.credentials.command_timeout_s) if settings.secure else TlsSecrets()


def _tls_context(settings: RemoteSettings, secrets: TlsSecrets) -> ssl.SSLContext | None:
    """Made of what is in the files now, and raises what ``remote_tls.context`` does; None without TLS."""
    return context(settings.tls, secrets) if settings.secure else None


def _client(settings: RemoteSettings, identifier: str, clean: bool, place: str, login: Login) -> Client:
    level_5 = settings.protocol == LEVEL_5
    client = _Client(
        settings,
        client_id=identifier,
        clean_session=None if level_5 else clean,
        protocol=MQTTProtocolVersion.MQTTv5 if level_5 else MQTTProtocolVersion.MQTTv311,
        transport="websockets" if settings.web else "tcp",
        reconnect_on_failure=False,  # otherwise paho itself tries MQTT 3.1 when 3.1.1 is refused
    )
    client.connect_timeout = settings.connect_timeout_s
    if settings.web:
        client.ws_set_options(path=settings.websocket_path, headers=partial(_web_headers, settings))
    try:
        if settings.username is not None:
            client.username_pw_set(settings.username, login.password)
        context = _tls_context(settings, login.tls)
        if context is not None:
            client.tls_set_context(context)
    except CannotRead as error:  # ssl.SSLError is an OSError
        raise _unavailable("credentials", place, _why(error), LinkFault.CREDENTIALS) from error
    return client


def _web_headers(settings: RemoteSettings, usual: dict[str, str]) -> dict[str, str]:
    """The headers of a WebSocket request: paho's own, of which those that are configured take the place."""
    own = {"Sec-WebSocket-Protocol": settings.websocket_subprotocol, **dict(settings.websocket_headers)}
    names = {name.lower() for name in own}
    return {name: text for name, text in usual.items() if name.lower() not in names} | own


def credentials_fault(settings: RemoteSettings) -> str | None:
    """The fault of what a password, certificates and a key for the remote are read from; None if there is none."""
    for source in sources_of(settings):
        if (found := source.fault()) is not None:
            return found
    try:
        _tls_context(settings, _secrets(settings))
    except CannotRead as error:
        return _why(error)
    return None


def _why(error: OSError | ValueError | CertificateFault) -> str:
    return error.message if isinstance(error, CertificateFault) else str(error)


def _connect_properties(settings: RemoteSettings, limits: InputLimits, login: Login) -> Properties:
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho leaves it untyped
    properties.SessionExpiryInterval = settings.session_expiry_s
    properties.MaximumPacketSize = limits.packet_max_bytes
    if settings.topic_aliases:
        properties.TopicAliasMaximum = settings.topic_aliases
    if settings.user_properties:
        properties.UserProperty = list(settings.user_properties)
    if limits.receive_maximum is not None:
        properties.ReceiveMaximum = limits.receive_maximum
    if settings.authentication is not None:
        properties.AuthenticationMethod = settings.authentication.method
        if login.data is not None:
            properties.AuthenticationData = login.data
    return properties


def _will_properties(settings: RemoteSettings, will: Announcement) -> Properties | None:
    """What MQTT 5 says besides of a Will."""
    if settings.protocol != LEVEL_5:
        return None
    properties, said = Properties(PacketTypes.WILLMESSAGE), will.properties  # type: ignore[no-untyped-call]  # paho leaves it untyped
    if will.delay_s:
        properties.WillDelayInterval = will.delay_s
    if said.message_expiry_interval is not None:
        properties.MessageExpiryInterval = said.message_expiry_interval
    if said.content_type is not None:
        properties.ContentType = said.content_type
    if said.user_properties:
        properties.UserProperty = list(said.user_properties)
    return properties


def _await_connack(client: Client, sock: _Socket, settings: RemoteSettings, limits: InputLimits, place: str) -> Connack:
    """Wait for the CONNACK; nothing behind it is touched."""
    deadline_s = time.monotonic() + settings.connect_timeout_s
    level = settings.protocol
    data = b""
    try:
        while (found := split(data, 0, limits.packet_max_bytes)) is None:
            _wait_for_bytes(client, sock, deadline_s, place, level)
            try:
                piece = sock.recv(missing_bytes(data, 0))
            except _WAITS:
                continue
            if not piece:
                raise _no_connack(place, "closed", _at_connect(level))
            data += piece
            if data[0] == remote_packets.AUTH and settings.authentication is not None:
                raise _unavailable("connack", place, "the remote wants more than one step of authentication", LinkFault.LOGIN)
            if not remote_packets.may_answer_connect(data[0], level):
                raise _no_connack(place, f"a packet that begins with 0x{data[0]:02x}", LinkFault.NO_MQTT)
        if data[0] == remote_packets.DISCONNECT:
            raise _unavailable("connack", place, "the remote sent DISCONNECT instead of a CONNACK", _at_connect(level))
        connack = remote_packets.connack(data[found[1] :], level)
    except PeerViolation as error:
        raise _no_connack(place, error.message, LinkFault.NO_MQTT) from error
    except OSError as error:
        raise _no_connack(place, str(error), _at_connect(level)) from error
    code = connack.reason_code
    if code:
        said = f"refused: {reason_name(code).capitalize()} (0x{code:02x})"
        elsewhere = connack.properties.server_reference or ""
        raise _unavailable("connack", place, said, of_refusal(code), reason_code=code, server_reference=elsewhere)
    return _connack(connack)


def _wait_for_bytes(client: Client, sock: _Socket, deadline_s: float, place: str, level: int) -> None:
    """Until there may be something to read; what is left of the CONNECT goes out meanwhile."""
    pending: Callable[[], int] = getattr(sock, "pending", lambda: 0)
    poll = select.poll()
    while True:
        timeout_s = deadline_s - time.monotonic()
        if timeout_s <= 0:
            fault = LinkFault.NO_CONNACK_TO_5 if level == LEVEL_5 else LinkFault.NO_CONNACK
            raise _unavailable("connack", place, "no CONNACK in time", fault)
        if pending():
            return
        writes = client.want_write()
        poll.register(sock.fileno(), select.POLLIN | (select.POLLOUT if writes else 0))
        for _, events in poll.poll(timeout_s * 1000):
            code = client.loop_write() if writes and events & select.POLLOUT else 0
            if code:
                raise _no_connack(place, error_string(code), _at_connect(level))
            if events & ~select.POLLOUT:
                return


def _no_connack(place: str, why: str, fault: LinkFault) -> Unavailable:
    return _unavailable("connack", place, f"closed or broken by the remote before a CONNACK: {why}", fault)


def _at_connect(level: int) -> LinkFault:
    return LinkFault.CLOSED_AT_CONNECT_5 if level == LEVEL_5 else LinkFault.CLOSED_AT_CONNECT


def _no_handshake(place: str, error: ssl.SSLError) -> Unavailable:
    said = getattr(error, "verify_message", "") or str(error)
    return _unavailable("tls", place, said, of_handshake(getattr(error, "verify_code", 0), error.reason))


def _no_connection(place: str, error: OSError | ValueError) -> Unavailable:
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return _unavailable("tcp", place, said, of_error(error, LinkFault.TCP))


def _connack(connack: packets.Connack) -> Connack:
    said = connack.properties
    return Connack(
        session_present=connack.session_present,
        receive_maximum=65_535 if said.receive_maximum is None else said.receive_maximum,
        limits=RemoteLimits(
            maximum_qos=2 if said.maximum_qos is None else said.maximum_qos,
            retain_available=said.retain_available != 0,
            packet_max_bytes=said.maximum_packet_size,
            wildcard_available=said.wildcard_subscription_available != 0,
            shared_available=said.shared_subscription_available != 0,
        ),
        keep_alive_s=said.server_keep_alive,
        session_expiry_s=said.session_expiry_interval,
        topic_alias_maximum=said.topic_alias_maximum or 0,
    )


def _unavailable(step: str, place: str, error: str, fault: LinkFault, **fields: object) -> Unavailable:
    return Unavailable(f"{step}: {error}", step=step, address=place, fault=fault, **fields)


def _broken(place: str, error: OSError) -> Unavailable:
    return _closed(place, str(error), of_error(error, LinkFault.OTHER), by_remote=isinstance(error, _CLOSED_BY_REMOTE))


def _closed(place: str, error: str, fault: LinkFault, *, by_remote: bool) -> Unavailable:
    return Unavailable(f"connection lost: {error}", step="connection", address=place, fault=fault, by_remote=by_remote)
