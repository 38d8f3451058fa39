"""The configuration an operator writes, as typed models: every key, its default, its limits, and what cannot be true together.

Validators raise ``ValueError`` with a sentence for the operator; ``supervisor/config/loading.py`` runs the models and adds file,
line and key; ``supervisor/config/to_settings.py`` turns a model that holds into ``wire/settings.py``'s values. Defaults stand here
and nowhere else, in the operator's own units.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import PurePath
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from actors.system.certificates import FileFault
from actors.system.tls import server_context, show, trust
from supervisor.config import otlp_extra, replication_extra
from supervisor.config.addresses import parse_remote_address
from supervisor.config.value_kinds import (
    UNIX,
    Address,
    Bind,
    CollectorUrl,
    ControlBind,
    Duration,
    File,
    Filled,
    Filter,
    Flag,
    Folder,
    Headers,
    LogServer,
    Mode,
    Name,
    Network,
    Number,
    Size,
    StreamName,
    TcpBind,
    Text,
    TopicPattern,
    TopicPrefix,
    User,
)
from supervisor.units import UNLIMITED, nearest, parse_address, shown, write_duration, write_size
from wire.errors import BasculeError
from wire.exchange.failback import place_of
from wire.exchange.refusal_policy import ACTIONS, REASONS, RETRY, TOO_LARGE, WITHOUT_CODE, code_of
from wire.frames.names import remote_client_id
from wire.mqtt.packets import SESSION_NEVER_EXPIRES_S
from wire.mqtt.topics import covers, overlap
from wire.routing.topic_mapping import Template
from wire.settings import CollectorTlsSettings, ListenerTlsSettings, ReplicationTlsSettings

NOT_AVAILABLE = "not available in this version"

# Half of what MQTT allows. A message grows on its way, by hops, user properties and destination, and must fit a packet then.
# And each process handles a message whole, in which time it is silent.
PACKET_MAX_BYTES = 128 << 20
BESIDE_A_MESSAGE_BYTES = 4 << 10  # what a dead letter or a retained message has beside the message, at most about

# Keys that a later version will know, by path without list indices: refused with that reason, never ignored.
NOT_YET = {
    "listeners.persistence": "persistence is set for the whole node",
    "bridges.persistence": "persistence is set for the whole node",
}


class Inconsistent(ValueError):
    """Settings that are right one by one and cannot be true together: (key below the model, sentence) for each."""

    def __init__(self, problems: Sequence[tuple[tuple[str | int, ...], str]]) -> None:
        super().__init__("; ".join(message for _, message in problems))
        self.problems = problems


_HasAcl = TypeVar("_HasAcl", "Access", "ListenerAccess")


def _one_acl(access: _HasAcl) -> _HasAcl:
    if access.acl is not None and access.acl_file is not None:
        raise Inconsistent([(("acl_file",), "cannot stand beside acl; keep one of them")])
    return access


DEFAULT_REASON = "default"
ON_REFUSAL = {DEFAULT_REASON: "dead-letter", "quota-exceeded": RETRY, "packet-identifier-in-use": RETRY}


def _on_refusal(value: object) -> object:
    """The map of reasons to actions with the defaults of what it leaves out, each code under one key."""
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)} is not a mapping; such as {{{DEFAULT_REASON}: dead-letter, quota-exceeded: retry}}")
    problems: list[tuple[tuple[str | int, ...], str]] = []
    actions: dict[int, str] = {}
    for reason, action in value.items():
        if action not in ACTIONS:
            problems.append(((reason,), f"{shown(action)} is not one of {', '.join(ACTIONS)}{nearest(str(action), ACTIONS)}"))
        if reason == DEFAULT_REASON:
            continue
        try:
            code = code_of(reason)
        except ValueError as error:
            known = [DEFAULT_REASON, *REASONS]
            problems.append(((reason,), f"{error}{nearest(reason, known)}; known are {', '.join(known)}, and codes such as 0x99"))
            continue
        if code in actions:
            problems.append(((reason,), f"0x{code:02x} is given twice, by name and by code; keep one"))
        if code == TOO_LARGE and action == RETRY:
            problems.append(((reason,), "what is too large for the remote stays so; write dead-letter or drop"))
        actions[code] = action
    if problems:
        raise Inconsistent(problems)
    left_out = {reason: action for reason, action in ON_REFUSAL.items() if REASONS.get(reason) not in actions}
    return left_out | value


_OnRefusal = Annotated[
    dict[str, str],
    BeforeValidator(_on_refusal),
    WithJsonSchema(
        {
            "type": "object",
            "properties": {reason: {"enum": list(ACTIONS)} for reason in (DEFAULT_REASON, *REASONS)},
            "patternProperties": {"^0[xX][89a-fA-F][0-9a-fA-F]$": {"enum": list(ACTIONS)}},
            "additionalProperties": False,
        }
    ),
]


def setting(default: object, description: str, **limits: Any) -> Any:
    """A key with its default, in the operator's own units, and what it is for."""
    return Field(default, description=description, validate_default=True, **limits)


def section(kind: type[BaseModel], description: str) -> Any:
    """A key whose default is all defaults of ``kind``."""
    return Field(default_factory=kind, description=description)


class Section(BaseModel):
    """Base of all models: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def given(self, name: str) -> bool:
        """Whether the operator wrote the key ``name``."""
        return name in self.model_fields_set


class Node(Section):
    """The node itself."""

    name: Name = Field(description="The node's name, in logs, status and process lists.")
    data_dir: Folder = Field(description="Where queues are kept; made if need be. Relative paths count from this file's folder.")
    new_store: Literal["allow", "refuse"] = setting(
        "allow", "Whether a start that finds nothing in data_dir begins a new store; if not, bascule run CONFIG --new-store does."
    )


class ListenerTls(Section):
    """TLS towards local clients; files are PEM, and read again when they change."""

    cert_file: File = Field(description="The server's certificate, with its chain.")
    key_file: File = Field(description="The key of cert_file, without a passphrase.")
    ca_file: File | None = setting(None, "Authorities of clients' certificates.")
    client_certificate: Literal["none", "optional", "required"] = setting("none", "Whether a client shows a certificate.")
    identity: Literal["none", "common-name", "subject"] = setting(
        "none", "What of a client's certificate is its user name; with one, a user name in CONNECT has no effect."
    )
    min_version: Literal["tls1.2", "tls1.3"] = setting("tls1.2", "The oldest TLS that is spoken.")
    ciphers: Filled | None = setting(None, "Ciphers of TLS 1.2 as OpenSSL lists them; without it, OpenSSL's own choice.")

    @model_validator(mode="after")
    def _consistent(self) -> ListenerTls:
        problems: list[tuple[tuple[str | int, ...], str]] = []
        if self.client_certificate != "none" and self.ca_file is None:
            problems.append((("ca_file",), "must be given: without authorities no client's certificate could be checked"))
        if self.client_certificate == "none" and self.ca_file is not None:
            problems.append((("ca_file",), "has no effect while client_certificate is none; write optional or required"))
        if self.client_certificate == "none" and self.identity != "none":
            problems.append((("identity",), "needs client_certificate: optional or required"))
        if not problems:
            try:
                server_context(self.settings())
            except FileFault as fault:
                problems.append(((fault.key,), fault.message))
        if problems:
            raise Inconsistent(problems)
        return self

    def settings(self) -> ListenerTlsSettings:
        """What the Listener is told of it."""
        return ListenerTlsSettings(
            cert_file=self.cert_file,
            key_file=self.key_file,
            ca_file=self.ca_file or "",
            client_certificate=self.client_certificate,
            identity=self.identity,
            min_version=self.min_version.removeprefix("tls"),
            ciphers=self.ciphers or "",
        )


class AclRule(Section):
    """One rule of an access control list. The first rule that fits a client, an action and a topic decides; if none does: deny."""

    permission: Literal["allow", "deny"] = setting("allow", "allow or deny.")
    action: Literal["publish", "subscribe", "both"] = setting("both", "What it is about; subscribe is delivery too.")
    users: tuple[User, ...] = setting((), "User names it is for; without users and anonymous, it is for everyone.")
    anonymous: Flag = setting(False, "It is for clients without a user name, and for users if named, but for no one else.")
    clients: tuple[Filled, ...] = setting((), "Client identifiers it is for, * stands for any text; without it, every client.")
    topics: tuple[TopicPattern, ...] = Field(
        min_length=1,
        description="Topic patterns: topic filters with %u for the user name, %c for the client identifier, %% for a percent sign.",
    )


class AclFile(Section):
    """The file of access.acl_file: the key acl with a list of rules. It is read again when it changes."""

    acl: tuple[AclRule, ...] = Field(description="Rules, in order.")


class LoginLimits(Section):
    """How often logins may fail from one address (IPv6: its /64), or one user's from as many, before all but the known wait."""

    failures_max: Annotated[int | None, Number(1, 1000, unlimited=True)] = setting(10, "Failed logins within period, or unlimited.")
    period: Annotated[float, Duration(1, 86400)] = setting("1m", "The period that failures_max counts in.")
    block: Annotated[float, Duration(1, 86400)] = setting(
        "1m", "How long logins from that address, or of that user, are refused then."
    )


class ListenerAccess(Section):
    """Who may connect to one listener; a key left out has the value in access."""

    allow_anonymous: Flag | None = setting(
        None, "Let clients in without a user name; they may do what the access control list says."
    )
    password_file: File | None = setting(None, "User names and password hashes, made with bascule passwd.")
    acl: tuple[AclRule, ...] | None = setting(None, "Rules, in order. acl or acl_file takes the place of both in access.")
    acl_file: File | None = setting(None, "A file with the rules, instead of acl.")

    @model_validator(mode="after")
    def _consistent(self) -> ListenerAccess:
        return _one_acl(self)


class ProxyProtocol(Section):
    """Proxies before a listener, which say by PROXY protocol from whom each connection is."""

    sources: tuple[Network, ...] = Field(
        alias="from", min_length=1, description="Addresses or networks whose connections, and no others, begin with a PROXY header."
    )
    identity: Literal["none", "common-name"] = setting("none", "What of a certificate that the proxy has verified is the user.")


class Listener(Section):
    """One socket for local clients."""

    bind: Bind = Field(
        description="Address and port, such as 127.0.0.1:1883, 0.0.0.0:1883 or [::]:1883; port 0 takes any free one. "
        "Or a Unix socket, such as unix:/run/bascule/mqtt.sock."
    )
    protocol: Literal["tcp", "tls", "ws", "wss"] = setting(
        "tcp", "What is spoken below MQTT; ws and wss are WebSocket, tls and wss encrypt."
    )
    tls: ListenerTls | None = setting(None, "For protocol tls and wss.")
    websocket_path: Annotated[Text, Field(pattern="^/")] = setting("/mqtt", "For protocol ws and wss.")
    origins: tuple[Filled, ...] = setting(
        (), "For protocol ws and wss: the web sites whose pages may connect, such as https://example.com; none given is any."
    )
    unix_mode: Mode = setting("0660", "Who may connect to a Unix socket, as a file mode.")
    connections_max: Annotated[int | None, Number(1, 1_000_000, unlimited=True)] = setting(
        UNLIMITED, "Clients of this socket at a time, within clients.connections_max."
    )
    proxy_protocol: ProxyProtocol | None = setting(None, "Proxies before it that say from whom a connection is.")
    access: ListenerAccess | None = setting(None, "Who may connect to this listener, where that differs from access.")

    @model_validator(mode="after")
    def _consistent(self) -> Listener:
        problems: list[tuple[tuple[str | int, ...], str]] = []
        if self.protocol in ("tls", "wss") and self.tls is None:
            message = f"is missing; protocol {self.protocol} needs tls: {{cert_file: server.pem, key_file: server.key}}"
            problems.append((("tls",), message))
        if self.protocol in ("tcp", "ws") and self.tls is not None:
            secure = {"tcp": "tls", "ws": "wss"}[self.protocol]
            problems.append((("tls",), f"has no effect with protocol {self.protocol}; write protocol: {secure}, or remove it"))
        if self.protocol in ("tcp", "tls"):
            problems += [
                ((key,), f"has no effect with protocol {self.protocol}; write protocol: ws or wss, or remove it")
                for key in ("websocket_path", "origins")
                if self.given(key)
            ]
        if self.given("unix_mode") and not self.bind.startswith(UNIX):
            problems.append((("unix_mode",), "has no effect without a Unix socket; write bind: unix:/path, or remove it"))
        if self.proxy_protocol is not None and self.bind.startswith(UNIX):
            problems.append((("proxy_protocol",), "has no effect on a Unix socket, where a proxy has no address; bind 127.0.0.1"))
        identities = [each.identity for each in (self.tls, self.proxy_protocol) if each is not None]
        if len(identities) == 2 and "none" not in identities:
            problems.append((("proxy_protocol", "identity"), "and tls.identity give two names; keep the one that is seen first"))
        if problems:
            raise Inconsistent(problems)
        return self


class Access(Section):
    """Who may connect to the listeners, and what a client may do."""

    allow_anonymous: Flag = setting(False, "Let clients in without a user name; they may do what the access control list says.")
    password_file: File | None = setting(
        None, "User names and password hashes, made with bascule passwd. It is read again when it changes."
    )
    acl: tuple[AclRule, ...] | None = setting(
        None, "Rules, in order; what none allows is denied. Without any list, all is allowed."
    )
    acl_file: File | None = setting(
        None, "A file with the rules under the key acl, instead of acl. It is read again when it changes."
    )
    login_limits: LoginLimits = section(LoginLimits, "How often logins may fail.")

    @model_validator(mode="after")
    def _consistent(self) -> Access:
        return _one_acl(self)


class Clients(Section):
    """What a local client may ask for."""

    connections_max: Annotated[int, Number(1, 1_000_000)] = setting(4096, "Clients connected at a time.")
    connect_timeout: Annotated[float, Duration(0.1, 3600)] = setting("10s", "How long a new connection may take to send CONNECT.")
    packet_max_bytes: Annotated[int, Size(1024, PACKET_MAX_BYTES)] = setting(
        "1MiB", "Largest packet taken from a client, at most 128MiB."
    )
    input_max_bytes: Annotated[int, Size(1024)] = setting(
        "256MiB", "What all clients have sent of packets that are not complete; beyond, the client with most of it is closed."
    )
    output_max_bytes: Annotated[int, Size(1024)] = setting(
        "4MiB", "What waits for a client that does not read; QoS 0 beyond is dropped."
    )
    client_id_max_bytes: Annotated[int, Size(23, 65535)] = setting(
        "1KiB", "Length of a client identifier; a client with a longer one is refused (0x85)."
    )
    subscriptions_max: Annotated[int, Number(1, 1_000_000)] = setting(1000, "Subscriptions of one client.")
    subscriptions_max_bytes: Annotated[int, Size(1024)] = setting(
        "4MiB", "Bytes of their topic filters, and 300 for each level of one; a filter beyond is refused (0x97)."
    )
    keep_alive_max: Annotated[float, Duration(1, 65535, whole=True)] = setting(
        "65535s", "Longest keep alive given to an MQTT 5 client."
    )
    receive_maximum: Annotated[int, Number(1, 65535)] = setting(1000, "QoS 1 and 2 PUBLISHes a client may have unacknowledged.")
    stall_timeout: Annotated[float, Duration(1, 86400)] = setting(
        "10m",
        "Close a client when its messages have waited so long for one that it does not acknowledge; it has it again, with DUP.",
    )
    connections_per_address: Annotated[int | None, Number(1, 1_000_000, unlimited=True)] = setting(
        1024, "Clients of one address (IPv6: of one /64) at a time; loopback and Unix sockets have no such limit."
    )
    connections_per_user: Annotated[int | None, Number(1, 1_000_000, unlimited=True)] = setting(
        UNLIMITED, "Clients that one user has logged in by at a time; one more is refused (0x97)."
    )
    half_open_max: Annotated[int, Number(1, 1_000_000)] = setting(
        1024, "Connections without CONNECT yet; one more closes the oldest of the address that has most of them."
    )
    publish_messages_per_s: Annotated[int | None, Number(1, 10**9, unlimited=True)] = setting(
        UNLIMITED, "Messages a second of one client; what is faster is not read until it is due."
    )
    publish_bytes_per_s: Annotated[int | None, Size(1024, unlimited=True)] = setting(
        UNLIMITED, "Bytes of PUBLISH packets a second of one client; what is faster is not read until it is due."
    )
    topic_levels_max: Annotated[int, Number(1, 65535)] = setting(
        201, "Levels of a client's topic names and filters, and of topics that a remote may bring: 200 slashes, as Mosquitto."
    )
    topic_max_bytes: Annotated[int, Size(1, 65535)] = setting("4KiB", "Their length.")
    will_max_bytes: Annotated[int, Size(1, PACKET_MAX_BYTES)] = setting(
        "64KiB", "Size of a client's Will, its topic and properties included; a client with a larger one is refused (0x97)."
    )
    response_information: TopicPrefix | None = setting(
        None,
        "What an MQTT 5 client that asks for it is told to begin its response topics with: %u is the user name, %c the client"
        " identifier, %% a percent sign.",
    )
    sys_period: Annotated[float, Duration(0, 86_400)] = setting(
        "10s", "How often the $SYS topics are sent to those who subscribe to them; 0s is never."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Clients:
        if self.input_max_bytes < self.packet_max_bytes:
            raise Inconsistent(
                [(("input_max_bytes",), "is below packet_max_bytes, so the largest packet could never be taken; raise it")]
            )
        if self.output_max_bytes < 2 * self.packet_max_bytes:
            words = "is below twice packet_max_bytes, so who is sent the largest message could be closed for having to read it"
            raise Inconsistent([(("output_max_bytes",), f"{words}; raise it")])
        return self


class Sessions(Section):
    """What is kept for local clients: sessions that outlive their connection, what waits for them, and retained messages."""

    sessions_max: Annotated[int, Number(1, 1_000_000)] = setting(
        10_000, "Sessions that outlive their connection; more are refused."
    )
    user_share_percent: Annotated[int, Number(1, 100)] = setting(
        50,
        "How much of sessions_max, filters_max_bytes, retained_max_messages and retained_max_bytes one user may have; clients"
        " without a user share by their address (IPv6: their /64). What a bridge brings is retained in a share of its own.",
    )
    expiry_max: Annotated[float | None, Duration(1, SESSION_NEVER_EXPIRES_S - 1, whole=True, unlimited=True)] = setting(
        "7d", "Longest life of a session without its client; MQTT 3.1.1 sessions with clean session 0 have this one."
    )
    queue_max_messages: Annotated[int, Number(1, 10**9)] = setting(10_000, "Messages of QoS 1 and 2 that wait for one client.")
    queue_max_bytes: Annotated[int, Size(1024)] = setting("16MiB", "Their bytes.")
    overflow: Literal["drop-newest", "drop-oldest"] = setting(
        "drop-newest",
        "What is dropped of a session's queue that is full. A session that ends with its connection drops the newest.",
    )
    in_flight_max: Annotated[int, Number(1, 65_000)] = setting(
        100, "Unacknowledged QoS 1 and 2 messages on their way to one client."
    )
    retained_max_messages: Annotated[int, Number(1, 10**9)] = setting(200_000, "Retained messages; more are not retained.")
    retained_max_bytes: Annotated[int, Size(1024)] = setting("512MiB", "Their bytes.")
    filters_max_bytes: Annotated[int, Size(1024)] = setting(
        "1GiB", "Bytes of all clients' topic filters, here or gone, and 300 for each level of one; more are refused (0x97)."
    )
    wills_max_bytes: Annotated[int, Size(1024)] = setting(
        "64MiB", "Bytes of all Wills, of clients that are here or gone; who brings one more is refused (0x97)."
    )


class Events(Section):
    """What is kept of the events of the node: links, restarts, drops, overflow. The oldest give way."""

    max: Annotated[int, Number(0, 10_000_000)] = setting(100_000, "Events kept; 0 keeps none.")
    max_age: Annotated[float, Duration(1)] = setting("30d", "What was kept longer is removed.")


class Persistence(Section):
    """What an acknowledgement is worth. All but the mode matter to file-native only."""

    mode: Literal["file-native", "in-memory", "replicated"] = setting(
        "file-native",
        "file-native keeps QoS 1 and 2 on disk; replicated on a majority of servers as well; in-memory keeps nothing.",
    )
    acknowledge: Literal["after-commit", "fast"] = setting(
        "after-commit",
        "after-commit acknowledges what is committed; fast what is received, so a crash can lose acknowledged messages.",
    )
    flush_period: Annotated[float, Duration(0, 60)] = setting(
        "0s", "0s commits each cycle; longer commits, and acknowledges, on that period."
    )
    gather: Annotated[float, Duration(0, 1)] = setting(
        "1ms",
        "While commits follow each other closely, the next waits so long after one, and carries more; a lone message never does.",
    )
    sync: Literal["full", "os"] = setting("full", "full survives loss of power; os survives the death of processes only.")
    events: Events = section(Events, "What is kept of the events of the node.")


_MESSAGES = Number(1, 10**15, unlimited=True)


class BridgeLimits(Section):
    """Limits of one bridge's queue; a key left out has the value of the node's."""

    max_messages: Annotated[int | None, _MESSAGES] = setting(10_000_000, "Messages waiting, or unlimited.")
    max_bytes: Annotated[int | None, Size(1024, unlimited=True)] = setting(
        "50GiB", "Bytes waiting, or unlimited. In memory: 256MiB."
    )
    max_age: Annotated[float | None, Duration(1, unlimited=True)] = setting(UNLIMITED, "What waited longer is dropped as expired.")
    volatile_max_bytes: Annotated[int, Size(1024)] = setting(
        "64MiB", "Bytes of QoS 0 messages waiting in memory; more are dropped."
    )
    overflow: Literal["reject", "drop-oldest", "drop-newest"] = setting("reject", "What gives way when a limit is reached.")


class Limits(BridgeLimits):
    """Limits of all queues of the node together, and of each bridge without limits of its own."""

    min_free_disk: Annotated[int, Size(0)] = setting("1GiB", "Intake stops while the disk of data_dir has less free space.")


class Backoff(Section):
    """Delays between attempts: initial, times factor each, up to max, and a random part of up to jitter added."""

    initial: Annotated[float, Duration(0.001, 86400)] = setting("1s", "The first delay.")
    max: Annotated[float, Duration(0.001, 86400)] = setting("2m", "The longest delay, without what jitter adds.")
    factor: Annotated[float, Number(1, 100, whole=False)] = setting(2, "How much longer each delay is than the one before.")
    jitter: Annotated[float, Number(0, 1, whole=False)] = setting(
        0.25, "How much of each delay chance adds at most: 0.25 makes 1 s between 1 s and 1.25 s."
    )
    stable: Annotated[float, Duration(0, 86400)] = setting(
        "10s", "After lasting this long, the next failure starts at initial again."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Backoff:
        if self.max < self.initial:
            raise Inconsistent([(("max",), f"is below initial ({write_duration(self.initial)}); write the same or longer")])
        return self


class RestartBackoff(Backoff):
    """Delays before a child is started again."""

    initial: Annotated[float, Duration(0.001, 86400)] = setting("50ms", "The first delay.")
    max: Annotated[float, Duration(0.001, 86400)] = setting("1s", "The longest delay, without what jitter adds.")
    stable: Annotated[float, Duration(0, 86400)] = setting("5s", "A child that lasted this long starts at initial again.")


def _have_both_or_none(cert_file: str | None, key_file: str | None) -> None:
    """Of a client's own certificate. Raises Inconsistent."""
    if key_file and not cert_file:
        raise Inconsistent([(("key_file",), "needs cert_file beside it")])
    if cert_file and not key_file:
        raise Inconsistent([(("cert_file",), "needs key_file beside it")])


class Tls(Section):
    """TLS towards the remote; files are PEM."""

    ca_file: File | None = setting(None, "Authorities to trust; without it, the system's.")
    cert_file: File | None = setting(None, "This bridge's own certificate, with its chain.")
    key_file: File | None = setting(None, "The key of cert_file, without a passphrase.")
    verify: Flag = setting(True, "Check the remote's certificate and its name. Switch off for a test only.")
    server_name: Filled | None = setting(None, "The name in the remote's certificate; without it, the host of the address.")
    alpn: tuple[Filled, ...] = setting((), "Application protocols to offer, such as mqtt.")

    @model_validator(mode="after")
    def _consistent(self) -> Tls:
        _have_both_or_none(self.cert_file, self.key_file)
        return self


class Way(NamedTuple):
    """How a remote is reached."""

    transport: str
    username: str | None
    path: str


class Remote(Section):
    """The remote broker of a bridge."""

    addresses: tuple[Address, ...] = Field(
        min_length=1,
        description="host, host:port or a URL such as mqtts://user@host, tried in turn. Without a port: 1883, with TLS 8883; "
        "with WebSocket 80 and 443.",
    )
    protocol: Literal["mqtt5", "mqtt311"] = setting("mqtt5", "MQTT 5.0 or 3.1.1.")
    transport: Literal["tcp", "tls", "ws", "wss"] = setting("tcp", "tls and wss encrypt; ws and wss are WebSocket.")
    client_id: Text = setting(
        "", "The remote keeps the session under it, so clean_start: false needs one. Lanes from the second on add their number."
    )
    keep_alive: Annotated[float, Duration(0, 65535, whole=True)] = setting(
        "60s", "PINGREQ when nothing was sent for so long; 0s is never."
    )
    connect_timeout: Annotated[float, Duration(0.1, 600)] = setting("10s", "From the name look-up to CONNACK.")
    clean_start: Flag = setting(False, "true forgets the remote session at each connect: no exactly-once across a disconnect.")
    session_expiry: Annotated[float | None, Duration(0, SESSION_NEVER_EXPIRES_S - 1, whole=True, unlimited=True)] = setting(
        "7d", "How long the remote keeps the session while we are away (MQTT 5)."
    )
    username: Filled | None = setting(None, "User name at the remote.")
    password_file: File | None = setting(None, "File with the password in its first line.")
    tls: Tls = section(Tls, "For transport tls and wss.")
    websocket_path: Annotated[Text, Field(pattern="^/")] = setting("/mqtt", "For transport ws and wss.")
    receive_maximum: Annotated[int, Number(1, 65000)] = setting(
        1000, "Most QoS 1 and 2 messages in flight; the remote may allow fewer."
    )
    qos2_maximum: Annotated[int, Number(1, 65000)] = setting(
        20, "Most QoS 2 messages in flight. Mosquitto 2.0 throws out an MQTT 3.1.1 peer that has more than 20."
    )
    stall_timeout: Annotated[float, Duration(1, 86400)] = setting(
        "30s", "Connect anew when what has left is not acknowledged for so long, or nothing leaves any more."
    )
    packet_max_bytes: Annotated[int | None, Size(16, unlimited=True)] = setting(
        "unlimited", "Largest packet that the remote takes, as far as it does not say so itself; one of MQTT 3.1.1 cannot."
    )

    primary_retry: Annotated[float | None, Duration(1, 86400, unlimited=True)] = setting(
        "5m", "While a later address is used, the first is probed so often, and gone back to when it answers; or unlimited: never."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Remote:
        problems: list[tuple[tuple[str | int, ...], str]] = []
        if not self.clean_start and not self.client_id:
            problems.append((("client_id",), "must be given while clean_start is false: the remote keeps the session under it"))
        problems += self._at_odds()
        transport = self.way.transport
        if transport in ("tcp", "ws") and self.given("tls"):
            secure = {"tcp": "tls", "ws": "wss"}[transport]
            problems.append((("tls",), f"has no effect with transport {transport}; write transport: {secure}, or remove it"))
        if transport in ("tcp", "tls") and self.given("websocket_path"):
            problems.append(
                (("websocket_path",), f"has no effect with transport {transport}; write transport: ws or wss, or remove it")
            )
        if self.protocol == "mqtt311" and self.given("session_expiry"):
            problems.append((("session_expiry",), "is not in MQTT 3.1.1; write protocol: mqtt5, or remove it"))
        if self.password_file and self.way.username is None:
            problems.append((("password_file",), "needs username beside it; a password alone is not sent"))
        if len(self.addresses) == 1 and self.given("primary_retry"):
            problems.append((("primary_retry",), "has no effect with one address; give a second one, or remove it"))
        places = self.places()
        for index, place in enumerate(places):
            if place in places[:index]:
                problems.append((("addresses", index), f"{self.addresses[index]} is given twice; keep one"))
        if problems:
            raise Inconsistent(problems)
        return self

    def places(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each address."""
        return tuple(parse_remote_address(address).at(self.way.transport) for address in self.addresses)

    @property
    def way(self) -> Way:
        """How the remote is reached, by its keys or, where they are left out, by its addresses."""
        said = [parse_remote_address(address) for address in self.addresses]
        return Way(
            transport=next((each.transport for each in said if each.transport and not self.given("transport")), self.transport),
            username=next((each.username for each in said if each.username and self.username is None), self.username),
            path=next((each.path for each in said if each.path and not self.given("websocket_path")), self.websocket_path),
        )

    def _at_odds(self) -> list[tuple[tuple[str | int, ...], str]]:
        """Addresses that say something else than the keys beside them, or than the first one that says anything."""
        way = self.way
        problems: list[tuple[tuple[str | int, ...], str]] = []
        for index, address in enumerate(self.addresses):
            said = parse_remote_address(address)
            for one, other, key in (
                (said.transport, way.transport, "transport"),
                (said.username, way.username, "username"),
                (said.path, way.path, "websocket_path"),
            ):
                if one is not None and one != other:
                    message = f"{address} says {key} {one}, and it is {other} already; all addresses of a bridge have the same"
                    problems.append((("addresses", index), message))
        return problems


class Rule(Section):
    """What crosses the bridge, and how it is named on the other side."""

    name: Name | None = setting(None, "What status, queue peek and reports call it; else it is called by its filters.")
    filters: tuple[Filter, ...] = Field(min_length=1, description="Topic filters; a message that matches any of them crosses once.")
    excludes: tuple[Filter, ...] = setting((), "Topic filters of what does not cross after all.")
    destination: Filled = setting(
        "{#}", "Topic name on the other side; {#} is the whole topic, {2} its second level, {2-#} all from there on."
    )
    max_qos: Annotated[int, Number(0, 2)] = setting(2, "QoS above it is lowered to it; QoS is never raised.")
    preserve_retain: Flag = setting(True, "Pass RETAIN on; false clears it.")
    user_properties: dict[Filled, Text] = setting({}, "MQTT 5 user properties added to each message.")

    @model_validator(mode="after")
    def _consistent(self) -> Rule:
        try:
            Template.parse(self.destination, filters=self.filters)
        except BasculeError as error:
            raise Inconsistent([(("destination",), error.message)]) from error
        return self


class Tier2(Section):
    """A lane's memory for what the store has handed out and its connection cannot take yet."""

    max_messages: Annotated[int, Number(1, 1_000_000)] = setting(10_000, "Messages a lane holds in memory.")
    max_bytes: Annotated[int, Size(1024)] = setting("16MiB", "Bytes a lane holds in memory.")


class DeadLetter(Section):
    """Messages that the remote will not have, kept for a person to look at; the oldest give way, and are counted."""

    max_messages: Annotated[int | None, _MESSAGES] = setting(100_000, "Messages kept, or unlimited.")
    max_bytes: Annotated[int | None, Size(1024, unlimited=True)] = setting("256MiB", "Bytes kept, or unlimited.")
    max_age: Annotated[float | None, Duration(1, unlimited=True)] = setting(UNLIMITED, "What was kept longer is removed.")


class LoopPrevention(Section):
    """Keeps a message from going round bridges for ever."""

    enabled: Flag = setting(True, "Count the bridges a message has crossed, in an MQTT 5 user property.")
    max_hops: Annotated[int, Number(1, 100)] = setting(1, "Bridges a message may cross; more are dropped and counted.")


class Bridge(Section):
    """A bridge: a remote broker and what crosses."""

    name: Name = Field(description="The bridge's name. Its queue is kept under it.")
    remote: Remote = Field(description="The remote broker.")
    persist: Flag = setting(True, "false lowers every message to QoS 0, and nothing of it is on disk.")
    backoff: Backoff = section(Backoff, "Delays between attempts to connect.")
    lanes: Annotated[int, Number(1, 64)] = setting(
        1, "Connections side by side; topics are spread over them, each topic stays in order."
    )
    tier2: Tier2 = section(Tier2, "Memory of each lane.")
    limits: BridgeLimits | None = setting(None, "Limits of this bridge's queue; without it, the node's.")
    dead_letter: DeadLetter = section(DeadLetter, "What is kept of messages that the remote will not have.")
    retention: Annotated[float, Duration(0, 10 * 366 * 86400)] = setting(
        "0s", "How long messages are kept that have left the queue, for analysis; 0s keeps none. file-native only."
    )
    retention_max_bytes: Annotated[int, Size(1024)] = setting(
        "1GiB", "Bytes of such messages. The oldest give way, as they do when the disk is nearly full."
    )
    local_subscriptions: tuple[Rule, ...] = setting((), "What goes to the remote.")
    remote_subscriptions: tuple[Rule, ...] = setting((), "What comes from the remote, by lane 0.")
    loop_prevention: LoopPrevention = section(LoopPrevention, "Keeps messages from going round.")
    on_session_loss: Literal["assume-delivered", "republish"] = setting(
        "assume-delivered",
        "What becomes of QoS 2 messages the remote had received but not completed, when it has lost the session.",
    )
    on_refusal: _OnRefusal = setting(
        ON_REFUSAL,
        "What becomes of a message the remote refuses, by reason: retry later, dead-letter or drop. Codes are written as 0x99.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Bridge:
        problems: list[tuple[tuple[str | int, ...], str]] = []
        if not self.local_subscriptions and not self.remote_subscriptions:
            message = 'nothing crosses: write at least one rule, such as {filters: ["plant/#"]}, here or in remote_subscriptions'
            problems.append((("local_subscriptions",), message))
        problems += self._doubles()
        if self.remote.protocol == "mqtt311":
            problems += [
                (
                    ("local_subscriptions", index, "user_properties"),
                    "MQTT 3.1.1 carries no user properties; write protocol: mqtt5, or remove them",
                )
                for index, rule in enumerate(self.local_subscriptions)
                if rule.user_properties
            ]
            problems += [
                (("on_refusal", reason), f"MQTT 3.1.1 has no reason codes; only {', '.join(WITHOUT_CODE)} can be given")
                for reason, action in self.on_refusal.items()
                if action != ON_REFUSAL.get(reason) and (reason == DEFAULT_REASON or code_of(reason) not in WITHOUT_CODE.values())
            ]
        if problems:
            raise Inconsistent(problems)
        return self

    def identifiers(self) -> set[str]:
        """The client identifiers of its lanes at the remote; none that the remote makes."""
        names = {remote_client_id(self.remote.client_id, lane) for lane in range(self.lanes)}
        return names - {""}

    def _doubles(self) -> list[tuple[tuple[str | int, ...], str]]:
        """Remote filters of which a remote may send one message twice; one inside another is subscribed to once, so it may stay."""
        problems: list[tuple[tuple[str | int, ...], str]] = []
        earlier: list[str] = []
        for index, rule in enumerate(self.remote_subscriptions):
            for place, topic_filter in enumerate(rule.filters):
                for other in earlier:
                    if overlap(topic_filter, other) and not covers(topic_filter, other) and not covers(other, topic_filter):
                        message = f"overlaps {other}: a remote may send what both match twice; write one filter that covers both"
                        problems.append((("remote_subscriptions", index, "filters", place), message))
                        break
                earlier.append(topic_filter)
        return problems


class Supervision(Section):
    """How children are watched and started again."""

    heartbeat_period: Annotated[float, Duration(0.05, 3600)] = setting("2s", "How often each child reports.")
    heartbeat_timeout: Annotated[float, Duration(0.1, 3600)] = setting(
        "10s", "A child silent for so long is killed and started again."
    )
    restarts_max: Annotated[int, Number(0, 1_000_000)] = setting(
        30, "Restarts of one child within restart_period; one more stops the node."
    )
    restart_period: Annotated[float, Duration(0.1, 86400)] = setting("60s", "The period that restarts_max counts in.")
    restart_backoff: RestartBackoff = section(RestartBackoff, "Delays before a child is started again.")
    stop_timeout: Annotated[float, Duration(0.1, 3600)] = setting("10s", "How long a child may take to stop before it is killed.")

    @model_validator(mode="after")
    def _consistent(self) -> Supervision:
        if self.heartbeat_timeout <= self.heartbeat_period:
            period = write_duration(self.heartbeat_period)
            raise Inconsistent(
                [(("heartbeat_timeout",), f"must be longer than heartbeat_period ({period}), better three times it")]
            )
        return self


class Snapshots(Section):
    """Snapshots of the store, in the folder snapshots of data_dir; they go before intake stops for want of disk space."""

    every: Annotated[float, Duration(0, 31_536_000)] = setting("0s", "How often one is made; 0s is when asked only.")
    keep: Annotated[int, Number(1, 100_000)] = setting(24, "Snapshots kept; older ones are removed.")
    max_bytes: Annotated[int | None, Size(1024, unlimited=True)] = setting(
        "10GiB", "What they may take beyond what the store shares with them, or unlimited; the newest one is kept."
    )
    to: Folder | None = setting(None, "A folder, such as a mounted share, to which each is copied, and which is made if need be.")
    keep_in_target: Annotated[int | None, Number(1, 1_000_000, unlimited=True)] = setting(
        UNLIMITED, "Snapshots of this node kept in that folder, or unlimited."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Snapshots:
        if self.to is None and self.given("keep_in_target"):
            raise Inconsistent([(("keep_in_target",), "has no effect without to; write to: FOLDER, or remove it")])
        return self


class HttpTls(Section):
    """TLS of the HTTP interface; files are PEM, and read again when they change."""

    cert_file: File = Field(description="The server's certificate, with its chain.")
    key_file: File = Field(description="The key of cert_file, without a passphrase.")
    min_version: Literal["tls1.2", "tls1.3"] = setting("tls1.2", "The oldest TLS that is spoken.")

    @model_validator(mode="after")
    def _consistent(self) -> HttpTls:
        try:
            server_context(self.settings())
        except FileFault as fault:
            raise Inconsistent([((fault.key,), fault.message)]) from fault
        return self

    def settings(self) -> ListenerTlsSettings:
        """What the HTTP interface is told of it."""
        return ListenerTlsSettings(
            cert_file=self.cert_file, key_file=self.key_file, min_version=self.min_version.removeprefix("tls")
        )


class Http(Section):
    """The HTTP interface: the page, health, metrics and a REST API of the commands. A process of its own; absent is off."""

    bind: TcpBind = setting("127.0.0.1:8080", "Address and port; port 0 takes any free one.")
    tls: HttpTls | None = setting(None, "Without it, plain HTTP is spoken.")
    tokens_file: File | None = setting(
        None,
        "Tokens and their roles, made with bascule token; read again when it changes. "
        "Without it everybody on this machine may do everything, so bind must be loopback then.",
    )
    hosts: tuple[Filled, ...] = setting(
        (), "Names by which browsers reach it, such as that of a proxy before it; those of bind and of loopback are known."
    )
    login_limits: LoginLimits = section(LoginLimits, "How often wrong tokens may come from one address.")
    connections_max: Annotated[int, Number(1, 1000)] = setting(
        64, "Connections at a time; a new one takes the place of that which has waited longest for a request."
    )
    calls_max: Annotated[int, Number(1, 64)] = setting(
        8, "Requests that ask the node something at a time; one more is answered 503."
    )
    request_max_bytes: Annotated[int, Size(1024, 16 << 20)] = setting("256KiB", "Largest body of a request.")
    request_timeout: Annotated[float, Duration(0.1, 3600)] = setting(
        "10s", "How long a request may take to arrive, and its answer to be read."
    )
    idle_timeout: Annotated[float, Duration(0.1, 3600)] = setting("60s", "How long a connection may wait for its next request.")

    @model_validator(mode="after")
    def _consistent(self) -> Http:
        if self.tokens_file is None and not self.on_loopback:
            message = f"must be given where bind is not loopback ({self.bind}): make a token with bascule token add FILE NAME"
            raise Inconsistent([(("tokens_file",), message)])
        return self

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        host = parse_address(self.bind, port_min=0)[0]
        try:
            return ip_address(host).is_loopback
        except ValueError:  # a name; what it stands for may change
            return host == "localhost"


class CollectorTls(Section):
    """TLS towards the collector; files are PEM."""

    ca_file: File | None = setting(None, "Authorities to trust; without it, the system's.")
    cert_file: File | None = setting(None, "This node's own certificate, with its chain.")
    key_file: File | None = setting(None, "The key of cert_file, without a passphrase.")

    @model_validator(mode="after")
    def _consistent(self) -> CollectorTls:
        _have_both_or_none(self.cert_file, self.key_file)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if self.ca_file:
                trust(context, self.ca_file)
            if self.cert_file and self.key_file:
                show(context, self.cert_file, self.key_file)
        except FileFault as fault:
            raise Inconsistent([((fault.key,), fault.message)]) from fault
        return self

    def settings(self) -> CollectorTlsSettings:
        """What the process is told of it."""
        return CollectorTlsSettings(ca_file=self.ca_file or "", cert_file=self.cert_file or "", key_file=self.key_file or "")


class Otlp(Section):
    """Metrics are sent to a collector by OTLP over HTTP. Nothing but these keys says whereto: no variables OTEL_*, no proxies."""

    endpoint: CollectorUrl = Field(
        description="The collector, such as http://collector:4318; /v1/metrics is added where the path does not end with it."
    )
    headers: Headers = setting(
        {}, 'Headers of each request, such as {authorization: "Bearer ${OTLP_TOKEN}"}; no plan, log or status tells them.'
    )
    interval: Annotated[float, Duration(1, 3600)] = setting("15s", "How often the metrics are sent.")
    timeout: Annotated[float, Duration(0.1, 600)] = setting(
        "10s", "How long one sending may take; while the collector is away it is repeated within that time."
    )
    compression: Literal["none", "gzip"] = setting("gzip", "How requests are compressed.")
    tls: CollectorTls = section(CollectorTls, "For an endpoint with https.")

    @model_validator(mode="after")
    def _consistent(self) -> Otlp:
        if self.given("tls") and not self.endpoint.startswith("https:"):
            raise Inconsistent([(("tls",), "has no effect with http; write endpoint: https://..., or remove it")])
        return self


class Telemetry(Section):
    """Who is told of the node without asking. A process of its own, which needs the extra otel; absent is off."""

    otlp: Otlp = Field(description="The collector of OpenTelemetry.")

    @model_validator(mode="after")
    def _consistent(self) -> Telemetry:
        if not otlp_extra.is_installed():
            raise Inconsistent([(("otlp",), otlp_extra.MISSING)])
        return self


class Control(Section):
    """The control socket on the network, beside its file: encrypted, for those whose key is let in; absent is off."""

    bind: ControlBind = Field(
        description="An address of this machine and a port, such as tcp://0.0.0.0:7000; port 0 takes any free one."
    )
    allowed_keys: Folder = Field(
        description="The folder of the keys that are let in, kept with bascule keys; looked at again when it changes."
    )
    connections_max: Annotated[int, Number(1, 1000)] = setting(64, "Connections at a time; more are closed.")
    handshake_timeout: Annotated[float, Duration(0.1, 60)] = setting("5s", "How long a new connection may take to show its key.")


class ReplicationTls(Section):
    """TLS towards the servers of the log; files are PEM."""

    ca_file: File | None = setting(None, "Authorities to trust; without it, the system's.")
    cert_file: File | None = setting(None, "This node's own certificate, with its chain.")
    key_file: File | None = setting(None, "The key of cert_file, without a passphrase.")

    @model_validator(mode="after")
    def _consistent(self) -> ReplicationTls:
        _have_both_or_none(self.cert_file, self.key_file)
        return self

    def settings(self) -> ReplicationTlsSettings:
        """What the process is told of it."""
        return ReplicationTlsSettings(ca_file=self.ca_file or "", cert_file=self.cert_file or "", key_file=self.key_file or "")


class Trim(Section):
    """For how long the log waits for a member that is behind. One that is further behind begins with the leader's store."""

    max_bytes: Annotated[int | None, Size(1 << 20, unlimited=True)] = setting("10GiB", "Bytes on the log, or unlimited.")
    max_age: Annotated[float | None, Duration(60, unlimited=True)] = setting(
        "1d", "A member that has said nothing for so long is not waited for; or unlimited."
    )


class Replication(Section):
    """The log that the members of a cluster share, a stream of NATS JetStream. Needs the extra replicated."""

    servers: tuple[LogServer, ...] = Field(min_length=1, description="The NATS servers, such as nats://10.0.0.1:4222.")
    stream: StreamName = Field(description="The name of the stream; it is made if it is not there. Each cluster has its own.")
    member: StreamName = Field(description="What this node is called in its cluster; each has its own name.")
    address: Text = setting("", "Where this node's clients are to go while it leads, such as 10.0.0.1:1883; told to others.")
    replicas: Literal[1, 3, 5] = setting(3, "Servers that keep the log; a majority of them acknowledges. 1 is for trying it out.")
    lease: Annotated[float, Duration(2, 3600)] = setting(
        "10s", "How long a leader is believed to be there after its newest record; then another member takes over."
    )
    standby: Literal["closed", "redirect"] = setting(
        "closed", "What clients find at a node that stands by: closed ports, or the leader's address (MQTT 5, TCP and TLS)."
    )
    trim: Trim = section(Trim, "How long the log waits for a member that is behind.")
    user: User | None = setting(None, "The user at the servers.")
    password_file: File | None = setting(None, "A file with the user's password on its first line.")
    token_file: File | None = setting(None, "A file with a token on its first line.")
    credentials_file: File | None = setting(None, "A file of NATS credentials (.creds).")
    nkey_file: File | None = setting(None, "A file with an NKey seed.")
    tls: ReplicationTls | None = setting(None, "TLS towards the servers; absent is none, unless a server wants it.")

    @model_validator(mode="after")
    def _consistent(self) -> Replication:
        problems: list[tuple[tuple[str | int, ...], str]] = []
        if not replication_extra.is_installed():
            problems.append((("servers",), replication_extra.MISSING))
        if (self.user is None) != (self.password_file is None):
            missing = "password_file" if self.password_file is None else "user"
            problems.append(((missing,), "is missing; user and password_file go together"))
        ways = [key for key in ("user", "token_file", "credentials_file", "nkey_file") if getattr(self, key) is not None]
        if len(ways) > 1:
            problems.append(((ways[1],), f"cannot stand beside {ways[0]}; keep one of them"))
        if problems:
            raise Inconsistent(problems)
        return self


class Log(Section):
    """Logs: JSON lines on standard error."""

    level: Literal["debug", "info", "warning", "error"] = setting("info", "The least that is logged.")


class Configuration(Section):
    """A Bascule node."""

    include: tuple[Filled, ...] = setting(
        (), "Files of which each adds bridges and listeners, or keys that stand nowhere else; such as bridges.d/*.yaml."
    )
    node: Node = Field(description="The node itself.")
    listeners: tuple[Listener, ...] = Field(min_length=1, description="Sockets for local clients.")
    access: Access = Field(description="Who may connect to the listeners.")
    clients: Clients = section(Clients, "What a local client may ask for.")
    sessions: Sessions = section(Sessions, "What is kept for local clients.")
    persistence: Persistence = section(Persistence, "What an acknowledgement is worth.")
    limits: Limits = section(Limits, "Limits of the queues.")
    bridges: tuple[Bridge, ...] = setting((), "Bridges to remote brokers; without one, this is a broker alone.")
    supervision: Supervision = section(Supervision, "How processes are watched and started again.")
    snapshots: Snapshots = section(Snapshots, "Snapshots of the store.")
    http: Http | None = setting(None, "The HTTP interface; absent is off.")
    telemetry: Telemetry | None = setting(None, "Sends the metrics to a collector of OpenTelemetry; absent is off.")
    control: Control | None = setting(None, "The control socket on the network; absent is off.")
    replication: Replication | None = setting(None, "The cluster of a node whose persistence.mode is replicated.")
    log: Log = section(Log, "Logs.")

    @model_validator(mode="after")
    def _consistent(self) -> Configuration:
        problems = self._nobody_could_log_in()
        for index, bridge in enumerate(self.bridges):
            if bridge.retention and self.persistence.mode == "in-memory":
                message = "in memory nothing is kept; write 0s, or persistence.mode: file-native"
                problems.append((("bridges", index, "retention"), message))
            for earlier, other in enumerate(self.bridges[:index]):
                shared = set(bridge.remote.places()) & set(other.remote.places())
                if shared and (same := bridge.identifiers() & other.identifiers()):
                    whose = f"makes {min(same)}, which is bridges[{earlier}]'s at {place_of(min(shared))}"
                    message = f"{whose}, so each would throw out the other; take another"
                    problems.append((("bridges", index, "remote", "client_id"), message))
        problems += self._too_small()
        problems += self._no_snapshots()
        problems += self._half_replicated()
        if problems:
            raise Inconsistent(problems)
        return self

    def _too_small(self) -> list[tuple[tuple[str | int, ...], str]]:
        """Limits that the largest message which a client may publish, or the largest Will, could never be within."""
        largest, largest_will = self.clients.packet_max_bytes, self.clients.will_max_bytes
        if self.sessions.wills_max_bytes < largest_will:
            said = f"is below clients.will_max_bytes ({write_size(largest_will)}), so the largest Will is never kept; raise it"
            return [(("sessions", "wills_max_bytes"), said)]
        share = self.sessions.retained_max_bytes * self.sessions.user_share_percent // 100 - BESIDE_A_MESSAGE_BYTES
        limits: list[tuple[tuple[str | int, ...], int | None, str]] = [
            (("sessions", "queue_max_bytes"), self.sessions.queue_max_bytes, "delivered to a session that lasts"),
            (
                ("sessions", "retained_max_bytes"),
                share,
                f"retained within {self.sessions.user_share_percent} % of it, a user's share",
            ),
            (("limits", "max_bytes"), self.limits.max_bytes, "queued"),
            (("limits", "volatile_max_bytes"), self.limits.volatile_max_bytes, "queued at QoS 0"),
        ]
        for index, bridge in enumerate(self.bridges):
            place = ("bridges", index)
            limits.append(((*place, "tier2", "max_bytes"), bridge.tier2.max_bytes, "handed out"))
            letters = bridge.dead_letter.max_bytes
            letters = None if letters is None else letters - BESIDE_A_MESSAGE_BYTES
            limits.append(((*place, "dead_letter", "max_bytes"), letters, "kept as a dead letter"))
            if bridge.limits is not None and bridge.limits.given("max_bytes"):
                limits.append(((*place, "limits", "max_bytes"), bridge.limits.max_bytes, "queued"))
            if bridge.limits is not None and bridge.limits.given("volatile_max_bytes"):
                limits.append(((*place, "limits", "volatile_max_bytes"), bridge.limits.volatile_max_bytes, "queued at QoS 0"))
        return [
            (
                key,
                f"is too small for clients.packet_max_bytes ({write_size(largest)}): the largest message is never {what}; raise it",
            )
            for key, size_bytes, what in limits
            if size_bytes is not None and size_bytes < largest
        ]

    def _half_replicated(self) -> list[tuple[tuple[str | int, ...], str]]:
        replicated = self.persistence.mode == "replicated"
        if replicated and self.replication is None:
            return [(("replication",), "is missing; persistence.mode: replicated needs its servers, stream and member")]
        if not replicated and self.replication is not None:
            return [(("replication",), "has no effect without persistence.mode: replicated; write that, or remove it")]
        if replicated and self.persistence.acknowledge == "fast":
            return [
                (
                    ("persistence", "acknowledge"),
                    "cannot be fast with mode: replicated, which is for acknowledging later; remove it",
                )
            ]
        return []

    def _no_snapshots(self) -> list[tuple[tuple[str | int, ...], str]]:
        problems: list[tuple[tuple[str | int, ...], str]] = []
        if self.snapshots.every and self.persistence.mode == "in-memory":
            message = "there is nothing on the disk with persistence.mode in-memory; write every: 0s, or mode: file-native"
            problems.append((("snapshots", "every"), message))
        data_dir = PurePath(self.node.data_dir)
        if self.snapshots.to is not None and data_dir in (PurePath(self.snapshots.to), *PurePath(self.snapshots.to).parents):
            message = f"is in node.data_dir ({data_dir}), which holds the snapshots themselves; take another folder"
            problems.append((("snapshots", "to"), message))
        return problems

    def _nobody_could_log_in(self) -> list[tuple[tuple[str | int, ...], str]]:
        problems: list[tuple[tuple[str | int, ...], str]] = []
        for index, listener in enumerate(self.listeners):
            own = listener.access or ListenerAccess()
            anonymous = self.access.allow_anonymous if own.allow_anonymous is None else own.allow_anonymous
            certified = any(each is not None and each.identity != "none" for each in (listener.tls, listener.proxy_protocol))
            if not anonymous and not certified and not (own.password_file or self.access.password_file):
                message = "nobody could log in: write password_file: PATH (see bascule passwd), or allow_anonymous: true"
                problems.append(((("listeners", index, "access") if listener.access else ("access", "allow_anonymous")), message))
        return problems
