"""The settings of a node: each declared once, with how it is written, its limits, a sentence for the operator, its default.

An annotation says it all (``wire/setting_kinds.py``): ``Annotated[float, Duration(1, 60), "What it is for."] = 10.0``. A field
without a default must be given; a list of that kind has at least one item. An ``Effect`` says how a running node takes a change
of the field, and of those below it that do not say otherwise. From these follow the model of the configuration file
(``supervisor/config/section_model.py``), its JSON Schema, the reference page, and the plan of a reload; what is true of several
settings together is in ``supervisor/config/consistency.py``.

Values are plain and frozen: durations in seconds, sizes in bytes, files with their whole paths. Children read them from a msgpack
file, so that no child pays for the validation library.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, is_dataclass
from typing import Annotated, Any, get_args

import msgpack

from wire.setting_kinds import Choices, Duration, Effect, Inherits, Key, Number, SettingForm, Size, Without
from wire.trouble_kinds import TroubleKind
from wire.typed_values import build, field_types

UNIX, TCP = "unix:", "tcp://"  # before what is bound
SESSION_NEVER_EXPIRES_S = 0xFFFF_FFFF  # as MQTT 5 says it [MQTT5-3.1.2.11.2]
# Half of what MQTT allows. A message grows on its way, by hops, user properties and destination, and must fit a packet then.
# And each process handles a message whole, in which time it is silent.
PACKET_MAX_BYTES = 128 << 20
DAY_S = 86400.0
MESSAGES = Number(1, 10**15)
RATE = Number(1, 10**9)
URGENT, NORMAL, BULK = CLASSES = "urgent", "normal", "bulk"  # of messages; a node may have others besides
LIVE = "live"  # the lane beside a backlog; no class is called so
OLDEST_FIRST, LIVE_FIRST = "oldest-first", "live-first"
ALWAYS, WHEN_NEEDED = "always", "when-needed"
AUTO_PROTOCOL = 0  # the level that a remote speaks is found out
BACKLOG_MS = 10_000  # what has waited for longer is of a backlog


def class_of(lane: int | str) -> str:
    """The class of the messages in the lane of that label; lanes with numbers, and the one beside a backlog, are of ``NORMAL``."""
    return lane if isinstance(lane, str) and lane != LIVE else NORMAL


class _Bound:
    """Where ``bind`` is: ``127.0.0.1:1883``, ``tcp://[::1]:1883``, or ``unix:`` with a path."""

    __slots__ = ()
    bind: str

    @property
    def host(self) -> str:
        """The address or name; nothing of a Unix socket."""
        return "" if self.unix_path else self.bind.removeprefix(TCP).rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port; 0 of a Unix socket."""
        return 0 if self.unix_path else int(self.bind.rpartition(":")[2])

    @property
    def unix_path(self) -> str:
        """The file of a Unix socket; else nothing."""
        return self.bind[len(UNIX) :] if self.bind.startswith(UNIX) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeItself:
    """The node itself."""

    name: Annotated[str, SettingForm.NAME, "The node's name, in logs, status and process lists."]
    data_dir: Annotated[
        str, SettingForm.FOLDER, "The folder of the queues; made if need be. Relative paths count from this file's folder."
    ]
    new_store: Annotated[
        str,
        Choices("allow", "refuse"),
        "Whether a start that finds nothing in data_dir begins a new store; if not, bascule run CONFIG --new-store does.",
        Effect.LIVE,
    ] = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSettings:
    """Stored events of the node: links, restarts, drops, overflow. The oldest give way."""

    max: Annotated[int, Number(0, 10_000_000), "Events kept; 0 keeps none."] = 100_000
    max_age_s: Annotated[float, Duration(1), "Older ones are removed."] = 30 * DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistenceSettings:
    """The strength of an acknowledgement. All but the mode matter to file-native only."""

    mode: Annotated[
        str,
        Choices("file-native", "in-memory", "replicated"),
        "file-native keeps QoS 1 and 2 on disk; replicated on a majority of servers as well; in-memory keeps nothing.",
        Effect.NODE_RESTART,
    ] = "file-native"
    acknowledge: Annotated[
        str,
        Choices("after-commit", "fast"),
        "after-commit acknowledges what is committed; fast what is received, so a crash can lose acknowledged messages.",
    ] = "after-commit"
    flush_period_s: Annotated[
        float, Duration(0, 60), "0s commits each cycle; longer commits, and acknowledges, on that period."
    ] = 0.0
    gather_s: Annotated[
        float,
        Duration(0, 1),
        "While commits follow each other closely, the next waits so long after one, and carries more; a lone message never does.",
    ] = 0.001
    sync: Annotated[str, Choices("full", "os"), "full survives loss of power; os survives the death of processes only."] = "full"
    events: Annotated[EventSettings, "Stored events of the node."] = EventSettings()


@dataclass(frozen=True, slots=True)
class AclRuleSettings:
    """One rule of an access control list. The first rule that fits a client, an action and a topic decides; if none does: deny."""

    topics: Annotated[
        tuple[str, ...],
        SettingForm.TOPIC_PATTERN,
        "Topic patterns: topic filters with %u for the user name, %c for the client identifier, %% for a percent sign.",
    ]
    allow: Annotated[bool, Key("permission"), Choices(allow=True, deny=False), "allow or deny."] = True
    action: Annotated[str, Choices("publish", "subscribe", "both"), "The actions of the rule; subscribe is delivery too."] = "both"
    users: Annotated[
        tuple[str, ...], SettingForm.USER, "User names it is for; without users and anonymous, it is for everyone."
    ] = ()
    anonymous: Annotated[bool, "It is for clients without a user name, and for users if named, but for no one else."] = False
    clients: Annotated[
        tuple[str, ...], SettingForm.FILLED, "Client identifiers it is for, * stands for any text; without it, every client."
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginLimitSettings:
    """How often logins may fail from one address (IPv6: its /64), or one user's from as many, before all but the known wait."""

    failures_max: Annotated[int | None, Number(1, 1000), "Failed logins within period, or unlimited."] = 10
    period_s: Annotated[float, Duration(1, DAY_S), "The period that failures_max counts in."] = 60.0
    block_s: Annotated[float, Duration(1, DAY_S), "How long logins from that address, or of that user, are refused then."] = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """Clients of the listeners, and their rights."""

    allow_anonymous: Annotated[bool, "Let clients in without a user name; they may do what the access control list says."] = False
    password_file: Annotated[
        str | None,
        SettingForm.FILE,
        "User names and password hashes, made with bascule user. It is read again when it changes.",
    ] = None
    acl: Annotated[
        tuple[AclRuleSettings, ...] | None, "Rules, in order; what none allows is denied. Without any list, all is allowed."
    ] = None
    acl_file: Annotated[
        str | None,
        SettingForm.FILE,
        "A file with the rules under the key acl, instead of acl. It is read again when it changes.",
    ] = None
    login_limits: Annotated[LoginLimitSettings, "How often logins may fail."] = LoginLimitSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerTlsSettings:
    """TLS towards local clients; files are PEM, and read again when they change."""

    cert_file: Annotated[str, SettingForm.FILE, "The server's certificate, with its chain."]
    key_file: Annotated[str, SettingForm.FILE, "The key of cert_file, without a passphrase."]
    ca_file: Annotated[str | None, SettingForm.FILE, "Authorities of clients' certificates."] = None
    crl_file: Annotated[
        str | None,
        SettingForm.FILE,
        "Revocation lists; a client whose certificate is on one, or whose authority has none there, is refused.",
    ] = None
    client_certificate: Annotated[str, Choices("none", "optional", "required"), "Whether a client shows a certificate."] = "none"
    identity: Annotated[
        str,
        Choices("none", "common-name", "subject"),
        "The part of a client's certificate that is its user name; with one, a user name in CONNECT has no effect.",
    ] = "none"
    min_version: Annotated[str, Choices("tls1.2", "tls1.3"), "The oldest TLS that is spoken."] = "tls1.2"
    ciphers: Annotated[
        str | None, SettingForm.FILLED, "Ciphers of TLS 1.2 as OpenSSL lists them; without it, OpenSSL's own choice."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyProtocolSettings:
    """Proxies before a listener, which say by PROXY protocol from whom each connection is."""

    sources: Annotated[
        tuple[str, ...],
        SettingForm.NETWORK,
        Key("from"),
        "Addresses or networks whose connections, and no others, begin with a PROXY header.",
    ]
    identity: Annotated[
        str, Choices("none", "common-name"), "The part of a certificate that the proxy has verified which is the user name."
    ] = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings(_Bound):
    """One socket for local clients."""

    bind: Annotated[
        str,
        SettingForm.BIND,
        "Address and port, such as 127.0.0.1:1883, 0.0.0.0:1883 or [::]:1883; port 0 takes any free one. "
        "Or a Unix socket, such as unix:/run/bascule/mqtt.sock.",
    ]
    protocol: Annotated[
        str, Choices("tcp", "tls", "ws", "wss"), "The protocol below MQTT; ws and wss are WebSocket, tls and wss encrypt."
    ] = "tcp"
    tls: Annotated[ListenerTlsSettings | None, "For protocol tls and wss."] = None
    websocket_path: Annotated[str, SettingForm.URL_PATH, "For protocol ws and wss."] = "/mqtt"
    origins: Annotated[
        tuple[str, ...],
        SettingForm.FILLED,
        "For protocol ws and wss: the web sites whose pages may connect, such as https://example.com; none given is any.",
    ] = ()
    unix_mode: Annotated[int, SettingForm.FILE_MODE, "File mode of a Unix socket: the users who may connect."] = 0o660
    connections_max: Annotated[
        int | None, Number(1, 1_000_000), "Clients of this socket at a time, within clients.connections_max."
    ] = None
    proxy_protocol: Annotated[ProxyProtocolSettings | None, "Proxies before it that say from whom a connection is."] = None
    access: Annotated[
        AccessSettings | None,
        Inherits("access"),
        Without("login_limits"),
        "Access to this listener, as far as it differs from access; acl or acl_file takes the place of both there.",
    ] = None
    durability: Annotated[
        PersistenceSettings | None,
        Inherits("persistence"),
        Without("mode", "gather_s", "events"),
        "The strength of an acknowledgement here, where it differs from persistence; the strictest that a message concerns holds.",
        Effect.RESTART,
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimitSettings:
    """Limits of a local client."""

    connections_max: Annotated[int, Number(1, 1_000_000), "Clients connected at a time."] = 4096
    connect_timeout_s: Annotated[float, Duration(0.1, 3600), "How long a new connection may take to send CONNECT."] = 10.0
    packet_max_bytes: Annotated[int, Size(1024, PACKET_MAX_BYTES), "Largest packet taken from a client, at most 128MiB."] = 1 << 20
    input_max_bytes: Annotated[
        int,
        Size(1024),
        "Incomplete packets of all clients together; beyond, the client with most of it is closed.",
    ] = 256 << 20
    output_max_bytes: Annotated[int, Size(1024), "Output for a client that does not read; QoS 0 beyond is dropped."] = 4 << 20
    client_id_max_bytes: Annotated[
        int, Size(23, 65535), "Length of a client identifier; a client with a longer one is refused (0x85)."
    ] = 1 << 10
    subscriptions_max: Annotated[int, Number(1, 1_000_000), "Subscriptions of one client."] = 1000
    subscriptions_max_bytes: Annotated[
        int, Size(1024), "Bytes of their topic filters, and 300 for each level of one; a filter beyond is refused (0x97)."
    ] = 4 << 20
    keep_alive_max_s: Annotated[int, Duration(1, 65535), "Longest keep alive given to an MQTT 5 client."] = 65535
    receive_maximum: Annotated[int, Number(1, 65535), "QoS 1 and 2 PUBLISHes a client may have unacknowledged."] = 1000
    stall_timeout_s: Annotated[
        float,
        Duration(1, DAY_S),
        "Close a client when its messages have waited so long for one that it does not acknowledge; it has it again, with DUP.",
    ] = 600.0
    connections_per_address: Annotated[
        int | None,
        Number(1, 1_000_000),
        "Clients of one address (IPv6: of one /64) at a time; loopback and Unix sockets have no such limit.",
    ] = 1024
    connections_per_user: Annotated[
        int | None, Number(1, 1_000_000), "Clients that one user has logged in by at a time; one more is refused (0x97)."
    ] = None
    half_open_max: Annotated[
        int,
        Number(1, 1_000_000),
        "Connections without CONNECT yet; one more closes the oldest of the address that has most of them.",
    ] = 1024
    publish_messages_per_s: Annotated[
        int | None, RATE, "Messages a second of one client; what is faster is not read until it is due."
    ] = None
    publish_bytes_per_s: Annotated[
        int | None, Size(1024), "Bytes of PUBLISH packets a second of one client; what is faster is not read until it is due."
    ] = None
    topic_levels_max: Annotated[
        int,
        Number(1, 65535),
        "Levels of a client's topic names and filters, and of topics that a remote may bring: 200 slashes, as Mosquitto.",
    ] = 201
    topic_max_bytes: Annotated[int, Size(1, 65535), "Their length."] = 4 << 10
    will_max_bytes: Annotated[
        int,
        Size(1, PACKET_MAX_BYTES),
        "Size of a client's Will, its topic and properties included; a client with a larger one is refused (0x97).",
    ] = 64 << 10
    response_information: Annotated[
        str | None,
        SettingForm.TOPIC_PREFIX,
        "What an MQTT 5 client that asks for it is told to begin its response topics with: %u is the user name, %c the client"
        " identifier, %% a percent sign.",
    ] = None
    sys_period_s: Annotated[
        float, Duration(0, DAY_S), "How often the $SYS topics are sent to those who subscribe to them; 0s is never."
    ] = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Stored data of local clients: sessions that outlive their connection, their waiting messages, and retained messages."""

    sessions_max: Annotated[int, Number(1, 1_000_000), "Sessions that outlive their connection; more are refused."] = 10_000
    user_share_percent: Annotated[
        int,
        Number(1, 100),
        "How much of sessions_max, filters_max_bytes, retained_max_messages and retained_max_bytes one user may have; clients"
        " without a user share by their address (IPv6: their /64). Retained messages of a bridge have a share of their own.",
    ] = 50
    expiry_max_s: Annotated[
        int,
        Duration(1, SESSION_NEVER_EXPIRES_S - 1, never=SESSION_NEVER_EXPIRES_S),
        "Longest life of a session without its client; MQTT 3.1.1 sessions with clean session 0 have this one.",
    ] = 7 * 86400
    queue_max_messages: Annotated[int, RATE, "Messages of QoS 1 and 2 that wait for one client."] = 10_000
    queue_max_bytes: Annotated[int, Size(1024), "Their bytes."] = 16 << 20
    overflow: Annotated[
        str,
        Choices("drop-newest", "drop-oldest"),
        "The messages that a session's full queue drops. A session that ends with its connection drops the newest.",
    ] = "drop-newest"
    in_flight_max: Annotated[int, Number(1, 65_000), "Unacknowledged QoS 1 and 2 messages on their way to one client."] = 100
    retained_max_messages: Annotated[int, RATE, "Retained messages; more are not retained."] = 200_000
    retained_max_bytes: Annotated[int, Size(1024), "Their bytes."] = 512 << 20
    filters_max_bytes: Annotated[
        int,
        Size(1024),
        "Bytes of all clients' topic filters, here or gone, and 300 for each level of one; more are refused (0x97).",
    ] = 1 << 30
    wills_max_bytes: Annotated[
        int, Size(1024), "Bytes of all Wills, of clients that are here or gone; who brings one more is refused (0x97)."
    ] = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """Limits of the queues."""

    max_messages: Annotated[int | None, MESSAGES, "Messages waiting, or unlimited."] = 10_000_000
    max_bytes: Annotated[int | None, Size(1024), "Bytes waiting, or unlimited. In memory: 256MiB."] = 50 << 30
    max_age_s: Annotated[float | None, Duration(1), "Messages that waited longer are dropped as expired.", Effect.RECONNECT] = None
    volatile_max_bytes: Annotated[int, Size(1024), "Bytes of QoS 0 messages waiting in memory; more are dropped."] = 64 << 20
    overflow: Annotated[
        str, Choices("reject", "drop-oldest", "drop-newest"), "The messages that give way when a limit is reached."
    ] = "reject"
    min_free_disk_bytes: Annotated[
        int, Size(0), Key("min_free_disk"), "Intake stops while the disk of data_dir has less free space."
    ] = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSettings:
    """Messages that the remote will not have, kept for a person to look at; the oldest give way, and are counted."""

    max_messages: Annotated[int | None, MESSAGES, "Messages kept, or unlimited."] = 100_000
    max_bytes: Annotated[int | None, Size(1024), "Bytes kept, or unlimited."] = 256 << 20
    max_age_s: Annotated[float | None, Duration(1), "Older ones are removed."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffSettings:
    """Delays between attempts: initial, times factor each, up to max, and a random part of up to jitter added."""

    initial_s: Annotated[float, Duration(0.001, DAY_S), "The first delay."] = 1.0
    max_s: Annotated[float, Duration(0.001, DAY_S), "The longest delay, without what jitter adds."] = 120.0
    factor: Annotated[float, Number(1, 100, bound=False), "How much longer each delay is than the one before."] = 2.0
    jitter: Annotated[
        float,
        Number(0, 1, bound=False),
        "How much of each delay chance adds at most: 0.25 makes 1 s between 1 s and 1.25 s.",
    ] = 0.25
    stable_s: Annotated[float, Duration(0, DAY_S), "After lasting this long, the next failure starts at initial again."] = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTlsSettings:
    """TLS towards a server; files are PEM."""

    ca_file: Annotated[str | None, SettingForm.FILE, "Authorities to trust; without it, the system's."] = None
    cert_file: Annotated[str | None, SettingForm.FILE, "The node's own certificate, with its chain."] = None
    key_file: Annotated[str | None, SettingForm.FILE, "The key of cert_file, without a passphrase."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings(ClientTlsSettings):
    """TLS towards the remote; files are PEM."""

    key_file: Annotated[
        str | None, SettingForm.FILE, "The key of cert_file; its passphrase, if it has one, is key_passphrase_..."
    ] = None
    key_passphrase_file: Annotated[str | None, SettingForm.FILE, "File with the passphrase of key_file in its first line."] = None
    key_passphrase_env: Annotated[str | None, SettingForm.FILLED, "Environment variable with that passphrase."] = None
    key_passphrase_command: Annotated[
        tuple[str, ...], SettingForm.FILLED, "A program and its arguments, without a shell, that writes that passphrase."
    ] = ()
    psk_identity: Annotated[
        str | None,
        SettingForm.FILLED,
        "The name of a pre-shared key, which takes the place of certificates on both sides; needs Python 3.13.",
    ] = None
    psk_file: Annotated[
        str | None, SettingForm.FILE, "File with that key in hexadecimal in its first line; read when it changes."
    ] = None
    psk_env: Annotated[str | None, SettingForm.FILLED, "Environment variable with that key in hexadecimal."] = None
    psk_command: Annotated[
        tuple[str, ...], SettingForm.FILLED, "A program and its arguments, without a shell, that writes that key in hexadecimal."
    ] = ()
    ca_path: Annotated[
        str | None, SettingForm.FOLDER, "A folder with authorities to trust, named by openssl rehash, besides ca_file."
    ] = None
    crl_file: Annotated[
        str | None,
        SettingForm.FILE,
        "Revocation lists; a remote whose certificate is on one, or whose authority has none there, is refused.",
    ] = None
    min_version: Annotated[str, Choices("tls1.2", "tls1.3"), "The oldest TLS that is spoken."] = "tls1.2"
    ciphers: Annotated[
        str | None, SettingForm.FILLED, "Ciphers of TLS 1.2 as OpenSSL lists them; without it, OpenSSL's own choice."
    ] = None
    verify: Annotated[bool, "Check the remote's certificate and its name. Switch off for a test only."] = True
    verify_name: Annotated[bool, "false checks the certificate alone: whoever an authority has signed may be the remote."] = True
    server_name: Annotated[
        str | None, SettingForm.FILLED, "The name in the remote's certificate; without it, the host of the address."
    ] = None
    alpn: Annotated[tuple[str, ...], SettingForm.FILLED, "Application protocols to offer, such as mqtt."] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpKeepAliveSettings:
    """The system's own probes of a silent connection: they keep its place in a router, and end it where nobody answers."""

    idle_s: Annotated[int, Duration(0, 32_767), "The first probe when nothing has come for so long; 0s is never."] = 60
    interval_s: Annotated[int, Duration(1, 32_767), "The time between two probes."] = 10
    count: Annotated[int, Number(1, 127, bound=False), "Probes without an answer that end the connection."] = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialSettings:
    """When a password or token is made anew, and how long a command may take for it."""

    renew_before_s: Annotated[
        float,
        Duration(1, 7 * DAY_S),
        "A token that says when it ends, a JWT or a SAS token, is read anew so long before; of a shorter life, after half of it.",
    ] = 300.0
    command_timeout_s: Annotated[float, Duration(0.1, 600), "How long a command may take; then it is killed."] = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationSettings:
    """Enhanced authentication in CONNECT, in one step, as Azure Event Grid wants it."""

    method: Annotated[str, SettingForm.FILLED, "The authentication method, such as OAUTH2-JWT or CUSTOM-JWT."]
    data_file: Annotated[
        str | None, SettingForm.FILE, "File with the authentication data in its first line; read when it changes."
    ] = None
    data_env: Annotated[str | None, SettingForm.FILLED, "Environment variable with the authentication data."] = None
    data_command: Annotated[
        tuple[str, ...],
        SettingForm.FILLED,
        "A program and its arguments, without a shell, that writes the authentication data to its standard output.",
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """A proxy by which the remote is reached; TLS and WebSocket go through it."""

    url: Annotated[
        str,
        SettingForm.PROXY,
        "http://HOST:PORT for HTTP CONNECT, socks5h://HOST:PORT, or socks5:// where the node looks the remote's name up itself.",
    ]
    username: Annotated[str | None, SettingForm.FILLED, "User name at the proxy."] = None
    password_file: Annotated[
        str | None, SettingForm.FILE, "File with its password in the first line; read for each connection."
    ] = None
    no_proxy: Annotated[
        tuple[str, ...],
        SettingForm.FILLED,
        "Remotes that are reached without it: names, with all below them, addresses, networks.",
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncementSettings:
    """A message of the bridge about itself, by its first lane."""

    topic: Annotated[str, SettingForm.FILLED, "Its topic."]
    payload: Annotated[str, "Its payload."] = ""
    qos: Annotated[int, Number(0, 1, bound=False), "Its QoS."] = 1
    retain: Annotated[bool, "Whether the remote retains it."] = True
    user_properties: Annotated[
        tuple[tuple[str, str], ...], SettingForm.PROPERTIES, "Its user properties (MQTT 5), such as {site: edge-1}."
    ] = ()
    content_type: Annotated[str | None, SettingForm.FILLED, "Its content type (MQTT 5), such as application/json."] = None
    expiry_s: Annotated[
        int | None, Duration(1, SESSION_NEVER_EXPIRES_S), "How long it holds (MQTT 5); unlimited: until another one comes."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WillSettings(AnnouncementSettings):
    """A message of the bridge that the remote publishes when its first lane's connection ends."""

    qos: Annotated[int, Number(0, 2, bound=False), "Its QoS."] = 1
    delay_s: Annotated[
        int,
        Duration(0, SESSION_NEVER_EXPIRES_S),
        "The remote publishes it so long after the connection ended, and not at all if the bridge is back by then (MQTT 5).",
    ] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WhenNeededSettings:
    """When a link that is dialled when needed comes and goes: a lane connects as soon as any of these waits for it."""

    messages: Annotated[
        int | None, Number(1, 10**9, bound=False), "So many messages; unlimited: their number alone never does."
    ] = 10
    bytes: Annotated[int | None, Size(1, bound=False), "So many bytes of messages."] = None
    age_s: Annotated[float | None, Duration(1, 30 * DAY_S), "Any message, for so long; unlimited: fewer wait for ever."] = 60.0
    idle_s: Annotated[float, Duration(1, DAY_S), "It leaves once nothing has been sent or received for so long."] = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSettings:
    """The remote broker of a bridge."""

    addresses: Annotated[
        tuple[tuple[str, int], ...],
        SettingForm.REMOTE,
        "host, host:port or a URL such as mqtts://user@host, tried in turn. Without a port: 1883, with TLS 8883; "
        "with WebSocket 80 and 443.",
    ]
    protocol: Annotated[
        int,
        Choices(mqtt5=5, mqtt311=4, auto=AUTO_PROTOCOL),
        "MQTT 5.0 or 3.1.1. auto: 5.0, or 3.1.1 with a remote that does not let the bridge in by 5.0, which is tried again after a"
        " day.",
    ] = 5
    try_private: Annotated[
        bool,
        "At MQTT 3.1.1, tell a remote that is subscribed to that a bridge comes: it sends no echo then, and keeps RETAIN. "
        "One that refuses this is connected to without it, and asked again after a day.",
    ] = True
    transport: Annotated[str, Choices("tcp", "tls", "ws", "wss"), "tls and wss encrypt; ws and wss are WebSocket."] = "tcp"
    client_id: Annotated[
        str, "The remote keeps the session under it, so clean_start: false needs one. Lanes from the second on add their number."
    ] = ""
    keep_alive_s: Annotated[int, Duration(0, 65535), "PINGREQ when nothing was sent for so long; 0s is never."] = 60
    tcp_keep_alive: Annotated[TcpKeepAliveSettings, "Probes by TCP itself, below TLS and WebSocket; they are not messages."] = (
        TcpKeepAliveSettings()
    )
    tcp_user_timeout_s: Annotated[
        float,
        Duration(0, 86_400),
        "The system ends the connection when what it sent is not confirmed for so long; 0s leaves it to it.",
    ] = 0.0
    bind_address: Annotated[
        str | None, SettingForm.ADDRESS, "The address of this machine to connect from; without it, the system's."
    ] = None
    bind_interface: Annotated[str | None, SettingForm.FILLED, "The interface to connect by, such as wwan0; without it, any."] = None
    ip_version: Annotated[str, Choices("any", "ipv4", "ipv6"), "The addresses of a host name that are tried."] = "any"
    dscp: Annotated[int, Number(0, 63, bound=False), "The class of its packets (DSCP), such as 46 for expedited forwarding."] = 0
    proxy: Annotated[ProxySettings | None, "A proxy, HTTP or SOCKS5, by which it is reached; the environment names none."] = None
    dial: Annotated[
        str,
        Choices(ALWAYS, WHEN_NEEDED),
        "when-needed connects once enough waits, and leaves when nothing is to be sent; messages from the remote come meanwhile.",
    ] = ALWAYS
    when_needed: Annotated[WhenNeededSettings, "What is enough, for dial: when-needed."] = WhenNeededSettings()
    hours: Annotated[
        tuple[str, ...],
        SettingForm.HOURS,
        'The hours in which it connects, such as "mon-fri 18:00-06:00" or "22:00-04:00"; without any, always.',
    ] = ()
    time_zone: Annotated[
        str | None, SettingForm.TIME_ZONE, "The time zone of hours, such as Europe/Berlin; without one, that of the machine."
    ] = None
    connect_timeout_s: Annotated[float, Duration(0.1, 600), "From the name look-up to CONNACK."] = 10.0
    clean_start: Annotated[bool, "true forgets the remote session at each connect: no exactly-once across a disconnect."] = False
    user_properties: Annotated[
        tuple[tuple[str, str], ...], SettingForm.PROPERTIES, "User properties of CONNECT (MQTT 5), such as {site: edge-1}."
    ] = ()
    topic_aliases: Annotated[
        int,
        Number(0, 65535, bound=False),
        "Most topic aliases, each way (MQTT 5): a topic that comes again is sent as a number. The remote may allow fewer.",
    ] = 0
    retain_handling: Annotated[
        int,
        Choices(always=0, new=1, never=2),
        "When the remote sends what it has retained for remote_subscriptions (MQTT 5): at each connect, when one is new, never.",
    ] = 1
    await_suback: Annotated[
        bool, "Publish nothing on a connection before the remote has answered the subscriptions: answers to it are not missed."
    ] = False
    session_expiry_s: Annotated[
        int,
        Duration(0, SESSION_NEVER_EXPIRES_S - 1, never=SESSION_NEVER_EXPIRES_S),
        "How long the remote keeps the session while we are away (MQTT 5).",
    ] = 7 * 86400
    username: Annotated[str | None, SettingForm.FILLED, "User name at the remote."] = None
    password_file: Annotated[
        str | None, SettingForm.FILE, "File with the password in its first line; when it changes, the bridge connects anew."
    ] = None
    password_env: Annotated[str | None, SettingForm.FILLED, "Environment variable with the password, as the node was started."] = (
        None
    )
    password_command: Annotated[
        tuple[str, ...],
        SettingForm.FILLED,
        "A program and its arguments, without a shell, that writes the password to its standard output.",
    ] = ()
    authentication: Annotated[
        AuthenticationSettings | None, "Enhanced authentication (MQTT 5), besides a user name and password or without."
    ] = None
    credentials: Annotated[CredentialSettings, "How passwords and tokens are made anew."] = CredentialSettings()
    tls: Annotated[TlsSettings, "For transport tls and wss."] = TlsSettings()
    websocket_path: Annotated[str, SettingForm.URL_PATH, "For transport ws and wss."] = "/mqtt"
    websocket_headers: Annotated[
        tuple[tuple[str, str], ...],
        SettingForm.HEADERS,
        'Headers of the request, such as {authorization: "Bearer ${TOKEN}"}; no plan, log or status tells them.',
    ] = ()
    websocket_subprotocol: Annotated[str, SettingForm.FILLED, "The subprotocol that is asked for, for transport ws and wss."] = (
        "mqtt"
    )
    receive_maximum: Annotated[int, Number(1, 65000), "Most QoS 1 and 2 messages in flight; the remote may allow fewer."] = 1000
    qos2_maximum: Annotated[
        int,
        Number(1, 65000, auto=0),
        "Most QoS 2 messages in flight at an MQTT 3.1.1 remote. auto: as many as it states when asked by MQTT 5, else 20.",
    ] = 0
    stall_timeout_s: Annotated[
        float,
        Duration(1, DAY_S),
        "Connect anew when what has left is not acknowledged for so long, or nothing leaves any more.",
    ] = 30.0
    packet_max_bytes: Annotated[
        int | None,
        Size(16, bound=False),
        "Largest packet that the remote takes, as far as it does not say so itself; one of MQTT 3.1.1 cannot.",
    ] = None
    primary_retry_s: Annotated[
        float | None,
        Duration(1, DAY_S),
        "While a later address is used, the first is probed so often, and gone back to when it answers; or unlimited: never.",
    ] = 300.0

    follow: Annotated[
        tuple[str, ...],
        SettingForm.FILLED,
        "Where the remote may send the bridge instead (0x9C and 0x9D, MQTT 5): names, with all below them, addresses, networks.",
    ] = ()
    will: Annotated[WillSettings | None, "A message that the remote publishes when the connection ends, be it by choice."] = None
    birth: Annotated[AnnouncementSettings | None, "A message that is published at each connect, before all others."] = None
    round_robin: Annotated[
        bool, "The addresses are alike: the next one is tried when a connection has ended, and the first is not gone back to."
    ] = False

    @property
    def levels(self) -> tuple[int, ...]:
        """The protocol levels by which it may be spoken to, the best first."""
        return (5, 4) if self.protocol == AUTO_PROTOCOL else (self.protocol,)

    @property
    def secure(self) -> bool:
        """Whether it is reached over TLS."""
        return self.transport in ("tls", "wss")

    @property
    def web(self) -> bool:
        """Whether it is reached over WebSocket."""
        return self.transport in ("ws", "wss")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlySettings:
    """The messages of a rule that cross: all, those that have another payload than the one before, or the last of each period."""

    changed: bool = False
    one_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings:
    """Topics that cross the bridge, and their names on the other side."""

    name: Annotated[str, SettingForm.NAME, "The rule's name in status, queue peek and reports; without one, its filters."] = ""
    filters: Annotated[tuple[str, ...], SettingForm.TOPIC_FILTER, "Topic filters; a message that matches any of them crosses once."]
    excludes: Annotated[tuple[str, ...], SettingForm.TOPIC_FILTER, "Topic filters of what does not cross after all."] = ()
    shared: Annotated[
        str | None,
        SettingForm.FILLED,
        "The group of a shared subscription at the remote, $share/GROUP/FILTER: each message goes to one member of it. Each of"
        " lanes is one; order holds on each.",
    ] = None
    destination: Annotated[
        str,
        SettingForm.FILLED,
        "Topic name on the other side; {#} is the whole topic, {2} its second level, {2-#} all from there on.",
    ] = "{#}"
    max_qos: Annotated[int, Number(0, 2, bound=False), "QoS above it is lowered to it."] = 2
    min_qos: Annotated[
        int,
        Number(0, 2, bound=False),
        "QoS below it is raised to it on the way into the queue: such a message is on disk, and sent at that QoS.",
    ] = 0
    preserve_retain: Annotated[bool, "Pass RETAIN on; false clears it."] = True
    retained: Annotated[
        str,
        Choices("never", "send-once", "at-each-session"),
        "Whether what was retained before crosses, too: once for this rule, or whenever the remote has begun a new session.",
    ] = "never"
    priority: Annotated[
        str,
        SettingForm.CLASS,
        "The class of its messages: urgent, normal, bulk, or one of classes. Each but normal has a lane of its own, so that it"
        " waits for no other.",
    ] = NORMAL
    user_properties: Annotated[
        tuple[tuple[str, str], ...], SettingForm.PROPERTIES, "MQTT 5 user properties added to each message."
    ] = ()
    provenance: Annotated[
        str,
        Choices("none", "user-properties", "envelope"),
        "How each message tells when and where it was accepted: by MQTT 5 user properties, or as JSON around its payload.",
    ] = "none"
    only: Annotated[
        OnlySettings,
        SettingForm.ONLY,
        "The messages of each topic that cross: all; changed, with another payload than the one before; or {one_per: 10s},"
        " the last of each period.",
    ] = OnlySettings()
    keep_last: Annotated[bool, "While the link is down, of what comes only the last message of each topic waits."] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalSettings:
    """Treatment of a message that the remote refuses: retry | dead-letter | drop, by reason code, else ``default``.

    0x95 is the code of a message larger than the remote takes, 0x100 of one for which it closes the connection, 0x101 of one that
    it acknowledges wrongly.
    """

    default: str = "dead-letter"
    codes: tuple[tuple[int, str], ...] = ((0x97, "retry"), (0x91, "retry"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier2Settings:
    """A lane's memory for what the store has handed out and its connection cannot take yet."""

    max_messages: Annotated[int, Number(1, 1_000_000), "Messages a lane holds in memory."] = 10_000
    max_bytes: Annotated[int, Size(1024), "Bytes a lane holds in memory."] = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSettings:
    """How fast messages may leave for a remote that allows only so much. The rest waits; nothing is dropped, and order stays."""

    messages_per_s: Annotated[int | None, Number(1, 10**9, bound=False), "PUBLISHes a second, or unlimited."] = None
    bytes_per_s: Annotated[int | None, Size(1024, bound=False), "Bytes of them a second, or unlimited."] = None
    burst_s: Annotated[float, Duration(0.01, 3600), "How much may leave at once after a pause: so much time's worth."] = 1.0
    per: Annotated[
        str,
        Choices("bridge", "class", "lane"),
        "Whether the lanes of the bridge share it, in equal parts, or those of each class, or each has it.",
    ] = "bridge"
    applies_to: Annotated[str, Choices("all", "backlog"), "backlog: only what was accepted more than 10 s ago is held to it."] = (
        "all"
    )

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return self.messages_per_s is not None or self.bytes_per_s is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSettings:
    """A class of messages of a bridge, named by the priority of its rules; urgent, normal and bulk need not be listed."""

    name: Annotated[str, SettingForm.CLASS, "urgent, normal, bulk, or a name of one's own, of which there may be eight."]
    rate: Annotated[
        RateSettings | None,
        Without("per"),
        "How fast its messages may leave, instead of the bridge's rate; its lanes share it, in equal parts.",
    ] = None
    limits: Annotated[
        LimitSettings | None,
        Inherits("bridges[].limits"),
        Without("min_free_disk_bytes", "max_age_s"),
        "Limits of its own queue, where they differ from the bridge's; without any, it counts among the bridge's.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopPreventionSettings:
    """Keeps a message from going round bridges for ever."""

    enabled: Annotated[bool, "Count the bridges a message has crossed, in an MQTT 5 user property."] = True
    max_hops: Annotated[int, Number(1, 100, bound=False), "Bridges a message may cross; more are dropped and counted."] = 1
    hop_property: Annotated[
        str,
        Choices("bascule-hops", "hmq-bridge-hop-count"),
        "The user property that the bridge counts in; the second one is HiveMQ Edge's. Both are read.",
    ] = "bascule-hops"
    echo_window_s: Annotated[
        float,
        Duration(0, 3600),
        "An MQTT 3.1.1 remote that knows no bridge sends back what it is sent: equal messages are left out so long after; "
        "0s takes them.",
    ] = 30.0
    echo_max_messages: Annotated[int, Number(1, 10_000_000), "Most messages that are remembered for that, some 200 bytes each."] = (
        10_000
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkStateSettings:
    """The state of the link as a retained message: 1 while it stands, else 0. The first lane's stands for all."""

    topic: Annotated[
        str,
        SettingForm.FILLED,
        "Its topic; {client_id} is remote.client_id, {bridge} the bridge's name. The default is Mosquitto's.",
    ] = "$SYS/broker/connection/{client_id}/state"
    local: Annotated[bool, "Tell it here, to local clients."] = True
    remote: Annotated[bool, "Tell it at the remote, where 0 is the Will of the bridge's connection."] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinningSettings:
    """Memory of each lane for rules with ``only`` or ``keep_last``. A message for which there is none crosses as any other."""

    max_topics: Annotated[int, Number(1, 1_000_000), "Topics that are remembered."] = 10_000
    max_bytes: Annotated[
        int, Size(1024), "Bytes of the messages that wait for a newer one, for their period's end or the link."
    ] = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RingSettings:
    """A ring of bridges: the same message may come by several ways, and is taken once."""

    window_s: Annotated[
        float,
        Duration(0, 3600),
        "What a bridge brings is left out if an equal message was taken so long before and came by another way; 0s takes it.",
    ] = 0.0
    max_messages: Annotated[int, Number(1, 10_000_000), "Most messages that are remembered for that, some 400 bytes each."] = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeSettings:
    """A bridge: a remote broker and what crosses."""

    name: Annotated[str, SettingForm.NAME, "The bridge's name. Its queue is kept under it.", Effect.LIVE]
    remote: Annotated[RemoteSettings, "The remote broker."]
    persist: Annotated[bool, "false lowers every message to QoS 0, and nothing of it is on disk."] = True
    backoff: Annotated[BackoffSettings, "Delays between attempts to connect."] = BackoffSettings()
    lanes: Annotated[
        int, Number(1, 64), "Connections side by side; topics are spread over them, each topic stays in order.", Effect.LIVE
    ] = 1
    classes: Annotated[
        tuple[ClassSettings, ...], "Classes of messages, as far as there is something to say of them.", Effect.LIVE
    ] = ()
    backlog: Annotated[
        str,
        Choices(OLDEST_FIRST, LIVE_FIRST),
        "What leaves while a backlog drains: the oldest first; or what is accepted anew as well, by a lane beside it.",
        Effect.LIVE,
    ] = OLDEST_FIRST
    live_properties: Annotated[
        tuple[tuple[str, str], ...], SettingForm.PROPERTIES, "MQTT 5 user properties of what leaves by that lane."
    ] = ()
    isolated: Annotated[
        bool | None, "Whether its lanes have processes of their own; without it, as supervision.placement says."
    ] = None
    tier2: Annotated[Tier2Settings, "Memory of each lane."] = Tier2Settings()
    rate: Annotated[RateSettings, "How fast messages may leave for the remote.", Effect.LIVE] = RateSettings()
    limits: Annotated[
        LimitSettings,
        Inherits("limits"),
        Without("min_free_disk_bytes"),
        "Limits of this bridge's queue, where they differ from the node's.",
        Effect.LIVE,
    ] = LimitSettings()
    durability: Annotated[
        PersistenceSettings | None,
        Inherits("persistence"),
        Without("mode", "gather_s", "events"),
        "The strength of an acknowledgement of what goes to this bridge or comes by it, where it differs from persistence.",
        Effect.RESTART,
    ] = None
    dead_letter: Annotated[DeadLetterSettings, "Storage of messages that the remote refuses for good.", Effect.LIVE] = (
        DeadLetterSettings()
    )
    retention_s: Annotated[
        float,
        Duration(0, 10 * 366 * DAY_S),
        "How long messages are kept that have left the queue, for analysis; 0s keeps none. file-native only.",
        Effect.LIVE,
    ] = 0.0
    retention_max_bytes: Annotated[
        int,
        Size(1024),
        "Bytes of such messages. The oldest give way, as they do when the disk is nearly full.",
        Effect.LIVE,
    ] = 1 << 30
    local_subscriptions: Annotated[tuple[RuleSettings, ...], Without("shared"), "Messages to the remote.", Effect.LIVE] = ()
    remote_subscriptions: Annotated[
        tuple[RuleSettings, ...],
        Without("min_qos", "priority", "provenance", "retained", "only", "keep_last"),
        "Messages from the remote, by lane 0; those of a rule that is shared by each of lanes.",
    ] = ()
    thinning: Annotated[ThinningSettings, "Memory for rules that leave messages out.", Effect.LIVE] = ThinningSettings()
    loop_prevention: Annotated[LoopPreventionSettings, "Keeps messages from going round."] = LoopPreventionSettings()
    link_state: Annotated[LinkStateSettings | None, "The state of the link as a retained message; absent is off."] = None
    on_session_loss: Annotated[
        str,
        Choices("assume-delivered", "republish"),
        "The treatment of QoS 2 messages that the remote had received but not completed, when it has lost the session.",
    ] = "assume-delivered"
    on_refusal: Annotated[
        RefusalSettings,
        SettingForm.REFUSALS,
        "Treatment of a message that the remote refuses, by reason: retry later, dead-letter or drop. Codes are written as 0x99.",
    ] = RefusalSettings()

    @property
    def lane_labels(self) -> tuple[int | str, ...]:
        """Its lanes: by number those over which topics of the class ``NORMAL`` are spread, and by name one for each other class,
        and the one beside a backlog.
        """
        classes = dict.fromkeys(rule.priority for rule in self.local_subscriptions if rule.priority != NORMAL)
        return (*range(self.lanes), *classes, *((LIVE,) if self.backlog == LIVE_FIRST else ()))

    def lanes_of(self, rule: RuleSettings) -> tuple[int | str, ...]:
        """The lanes that messages of ``rule`` take."""
        return tuple(range(self.lanes)) if rule.priority == NORMAL else (rule.priority,)

    def taken_by(self, lane: int | str) -> tuple[RuleSettings, ...]:
        """The remote subscriptions of the lane with that label: the first has all, each other one of ``lanes`` what is shared."""
        if not isinstance(lane, int) or lane >= self.lanes:
            return ()
        return tuple(rule for rule in self.remote_subscriptions if not lane or rule.shared is not None)

    def may_take(self, lane: int | str) -> bool:
        """Whether that lane may get messages from the remote: where they are shared, one that is gone may have its part there."""
        shares = isinstance(lane, int) and any(rule.shared is not None for rule in self.remote_subscriptions)
        return shares or bool(self.taken_by(lane))

    def rate_of(self, lane: int | str) -> tuple[RateSettings, int]:
        """How fast the lane with that label may send, and how many lanes share that in equal parts."""
        own = {each.name: each.rate for each in self.classes if each.rate is not None}
        classes, name = [class_of(label) for label in self.lane_labels], class_of(lane)
        of_class = max(1, classes.count(name))  # one that is configured no more goes on by itself
        if name in own:
            return own[name], of_class
        shared_by = {"bridge": len([each for each in classes if each not in own]), "class": of_class, "lane": 1}
        return self.rate, max(1, shared_by[self.rate.per])

    def limits_of(self, lane: int | str) -> tuple[str, LimitSettings]:
        """The limits that hold for the lane with that label, and what they count for: the bridge, or the class with its own.

        That is told as the bridge's name, or ``BRIDGE:CLASS``.
        """
        name = class_of(lane)
        own = next((each.limits for each in self.classes if each.name == name), None)
        return (self.name, self.limits) if own is None else (f"{self.name}:{name}", own)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisionSettings:
    """How children are placed, watched and started again."""

    placement: Annotated[
        str,
        Choices("isolated", "together"),
        "isolated gives the store, the clients and each lane a process; together has them share one, which is lighter.",
        Effect.RESTART,
    ] = "isolated"
    heartbeat_period_s: Annotated[float, Duration(0.05, 3600), "How often each child reports."] = 2.0
    heartbeat_timeout_s: Annotated[float, Duration(0.1, 3600), "A child silent for so long is killed and started again."] = 10.0
    restarts_max: Annotated[
        int,
        Number(0, 1_000_000, bound=False),
        "Restarts of one child within restart_period; one more stops the node.",
    ] = 30
    restart_period_s: Annotated[float, Duration(0.1, DAY_S), "The period that restarts_max counts in."] = 60.0
    restart_backoff: Annotated[BackoffSettings, "Delays before a child is started again."] = BackoffSettings(
        initial_s=0.05, max_s=1.0, stable_s=5.0
    )
    stop_timeout_s: Annotated[float, Duration(0.1, 3600), "How long a child may take to stop before it is killed."] = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """The history of the node: how deep, how fast, how long and whether linked, for status --since and the page."""

    keep_s: Annotated[float, Duration(0, 366 * DAY_S), "How much running time is kept; 0s keeps none."] = 7 * DAY_S
    every_s: Annotated[float, Duration(1, 3600), "How often there is a record."] = 60.0
    max_bytes: Annotated[int, Size(64 << 10, 16 << 30), "The most that it takes on the disk; the oldest goes."] = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSettings:
    """Snapshots of the store, in the folder snapshots of data_dir; they go before intake stops for want of disk space."""

    every_s: Annotated[float, Duration(0, 31_536_000), "How often one is made; 0s is when asked only."] = 0.0
    keep: Annotated[int, Number(1, 100_000), "Snapshots kept; older ones are removed."] = 24
    max_bytes: Annotated[
        int | None,
        Size(1024),
        "Disk space of snapshots beyond what the store shares with them, or unlimited; the newest one is kept.",
    ] = 10 << 30
    to: Annotated[
        str | None,
        SettingForm.FOLDER,
        "A folder, such as a mounted share, to which each is copied, and which is made if need be.",
    ] = None
    keep_in_target: Annotated[int | None, Number(1, 1_000_000), "Snapshots of this node kept in that folder, or unlimited."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings(_Bound):
    """The HTTP interface: the page, health, metrics and a REST API of the commands. A process of its own; absent is off."""

    bind: Annotated[str, SettingForm.TCP_BIND, "Address and port; port 0 takes any free one."] = "127.0.0.1:8080"
    tls: Annotated[
        ListenerTlsSettings | None,
        Without("ca_file", "crl_file", "client_certificate", "identity", "ciphers"),
        "Without it, plain HTTP is spoken.",
    ] = None
    tokens_file: Annotated[
        str | None,
        SettingForm.FILE,
        "Tokens and their roles, made with bascule token; read again when it changes. "
        "Without it everybody on this machine may do everything, so bind must be loopback then.",
    ] = None
    hosts: Annotated[
        tuple[str, ...],
        SettingForm.FILLED,
        "Names by which browsers reach it, such as that of a proxy before it; those of bind and of loopback are known.",
    ] = ()
    login_limits: Annotated[LoginLimitSettings, "How often wrong tokens may come from one address."] = LoginLimitSettings()
    connections_max: Annotated[
        int,
        Number(1, 1000),
        "Connections at a time; a new one takes the place of that which has waited longest for a request.",
    ] = 64
    calls_max: Annotated[int, Number(1, 64), "Requests that ask the node something at a time; one more is answered 503."] = 8
    request_max_bytes: Annotated[int, Size(1024, 16 << 20), "Largest body of a request."] = 256 << 10
    request_timeout_s: Annotated[
        float, Duration(0.1, 3600), "How long a request may take to arrive, and its answer to be read."
    ] = 10.0
    idle_timeout_s: Annotated[float, Duration(0.1, 3600), "How long a connection may wait for its next request."] = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings(_Bound):
    """The control socket on the network, beside its file: encrypted, for those whose key is let in; absent is off."""

    bind: Annotated[
        str,
        SettingForm.CONTROL_BIND,
        "An address of this machine and a port, such as tcp://0.0.0.0:7000; port 0 takes any free one.",
    ]
    allowed_keys: Annotated[
        str,
        SettingForm.FOLDER,
        "The folder of the keys that are let in, kept with bascule key; looked at again when it changes.",
    ]
    connections_max: Annotated[int, Number(1, 1000), "Connections at a time; more are closed."] = 64
    handshake_timeout_s: Annotated[float, Duration(0.1, 60), "How long a new connection may take to show its key."] = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpSettings:
    """Metrics are sent to a collector by OTLP over HTTP. Nothing but these keys says whereto: no variables OTEL_*, no proxies."""

    endpoint: Annotated[
        str,
        SettingForm.COLLECTOR,
        "The collector, such as http://collector:4318; /v1/metrics is added where the path does not end with it.",
    ]
    headers: Annotated[
        tuple[tuple[str, str], ...],
        SettingForm.HEADERS,
        'Headers of each request, such as {authorization: "Bearer ${OTLP_TOKEN}"}; no plan, log or status tells them.',
    ] = ()
    interval_s: Annotated[float, Duration(1, 3600), "How often the metrics are sent."] = 15.0
    timeout_s: Annotated[
        float,
        Duration(0.1, 600),
        "How long one sending may take; while the collector is away it is repeated within that time.",
    ] = 10.0
    compression: Annotated[str, Choices("none", "gzip"), "How requests are compressed."] = "gzip"
    tls: Annotated[ClientTlsSettings, "For an endpoint with https."] = ClientTlsSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """Receivers of the node's metrics, which do not ask. A process of its own, which needs the extra otel; absent is off."""

    otlp: Annotated[OtlpSettings, "The collector of OpenTelemetry."]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """A web service that takes notices by HTTP POST. No variable of the environment and no proxy has a say in it."""

    url: Annotated[str | None, SettingForm.SECRET_URL, "Where it takes them, such as https://hooks.example/T0/B0; or url_file."] = (
        None
    )
    url_file: Annotated[str | None, SettingForm.FILE, "File with the URL in its first line, for one that is a secret."] = None
    format: Annotated[
        str,
        Choices("json", "slack", "teams", "pagerduty", "alertmanager"),
        "The form of a notice: our own JSON, or that of a service.",
    ] = "json"
    routing_key_file: Annotated[
        str | None, SettingForm.FILE, "For format pagerduty: file with the integration's key in its first line."
    ] = None
    headers: Annotated[
        tuple[tuple[str, str], ...], SettingForm.HEADERS, "Headers of each request; no plan, log or status tells them."
    ] = ()
    timeout_s: Annotated[float, Duration(0.1, 60), "How long one request may take."] = 10.0
    tls: Annotated[ClientTlsSettings, "For a URL with https."] = ClientTlsSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailSettings:
    """A mail server that takes notices."""

    server: Annotated[str, SettingForm.MAIL_SERVER, "The mail server, such as smtp.example:587."]
    to: Annotated[tuple[str, ...], SettingForm.FILLED, "Whom they are for."]
    sender: Annotated[str, Key("from"), SettingForm.FILLED, "Of whom they are."]
    security: Annotated[
        str,
        Choices("starttls", "tls", "none"),
        "How the connection is encrypted: once it is made, from its beginning, or not at all.",
    ] = "starttls"
    user: Annotated[str | None, SettingForm.USER, "The user at the server."] = None
    password_file: Annotated[str | None, SettingForm.FILE, "File with the user's password in its first line."] = None
    timeout_s: Annotated[float, Duration(0.1, 60), "How long one mail may take."] = 20.0
    ca_file: Annotated[str | None, SettingForm.FILE, "Authorities to trust; without it, the system's."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeSettings:
    """A trouble that somebody is told of, once when it begins and once when it is over."""

    name: Annotated[str, SettingForm.NAME, "The rule's name, in notices and status; without one, its first trouble's."] = ""
    when: Annotated[
        tuple[str, ...],
        Choices(*map(str, TroubleKind)),
        "The troubles; docs/guides/notify.md says what each is.",
    ]
    for_s: Annotated[
        float,
        Duration(0, 30 * DAY_S),
        Key("for"),
        "How long a trouble has to last until it is told; a single event is told at once.",
    ] = 60.0
    bridges: Annotated[tuple[str, ...], SettingForm.FILLED, "Only those of these bridges; without it, of all."] = ()
    age_s: Annotated[float, Duration(1), "For queue_age: how long the oldest message may wait."] = 600.0
    full_percent: Annotated[int, Number(1, 100, bound=False), "For queue_full: how full a bridge's queue may be."] = 80
    free_bytes: Annotated[
        int | None, Key("free"), Size(1, bound=False), "For disk: tell also when less than this is free; unlimited does not."
    ] = None
    within_s: Annotated[float, Duration(60), "For certificate and credential: how long before its end."] = 14 * DAY_S
    per_minute: Annotated[int, Number(1, 1_000_000, bound=False), "For refused_clients: so many refused within a minute."] = 10
    webhook: Annotated[WebhookSettings | None, "A web service."] = None
    command: Annotated[
        tuple[str, ...],
        SettingForm.FILLED,
        "A program and its arguments, without a shell; it reads the notice as JSON.",
    ] = ()
    email: Annotated[EmailSettings | None, "A mail."] = None
    topic: Annotated[
        str | None,
        SettingForm.FILLED,
        "A topic below which the node itself publishes: events, and retained state/TROUBLE/WHAT; {node} is its name.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimSettings:
    """For how long the log waits for a member that is behind. One that is further behind begins with the leader's store."""

    max_bytes: Annotated[int | None, Size(1 << 20), "Bytes on the log, or unlimited."] = 10 << 30
    max_age_s: Annotated[
        float | None, Duration(60), "A member that has said nothing for so long is not waited for; or unlimited."
    ] = DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings:
    """The log that the members of a cluster share, a stream of NATS JetStream. Needs the extra replicated."""

    servers: Annotated[tuple[str, ...], SettingForm.LOG_SERVER, "The NATS servers, such as nats://10.0.0.1:4222."]
    stream: Annotated[
        str, SettingForm.STREAM_NAME, "The name of the stream; it is made if it is not there. Each cluster has its own."
    ]
    member: Annotated[str, SettingForm.STREAM_NAME, "The name of this node in its cluster; each has its own."]
    address: Annotated[
        str, "The address to which this node's clients go while it leads, such as 10.0.0.1:1883; sent to other members."
    ] = ""
    replicas: Annotated[
        int, Choices(1, 3, 5), "Servers that keep the log; a majority of them acknowledges. 1 is for trying it out."
    ] = 3
    lease_s: Annotated[
        float,
        Duration(2, 3600),
        "How long a leader is believed to be there after its newest record; then another member takes over.",
    ] = 10.0
    standby: Annotated[
        str,
        Choices("closed", "redirect"),
        "For clients while the node stands by: closed ports, or a redirection to the leader's address (MQTT 5, TCP and TLS).",
    ] = "closed"
    trim: Annotated[TrimSettings, "How long the log waits for a member that is behind."] = TrimSettings()
    user: Annotated[str | None, SettingForm.USER, "The user at the servers."] = None
    password_file: Annotated[str | None, SettingForm.FILE, "A file with the user's password on its first line."] = None
    token_file: Annotated[str | None, SettingForm.FILE, "A file with a token on its first line."] = None
    credentials_file: Annotated[str | None, SettingForm.FILE, "A file of NATS credentials (.creds)."] = None
    nkey_file: Annotated[str | None, SettingForm.FILE, "A file with an NKey seed."] = None
    tls: Annotated[ClientTlsSettings | None, "TLS towards the servers; absent is none, unless a server wants it."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Logs, on standard error."""

    level: Annotated[str, Choices("debug", "info", "warning", "error"), "The least that is logged."] = "info"
    format: Annotated[
        str, Choices("auto", "text", "json"), "Lines of text for people, or of JSON; auto: text where it goes to a terminal."
    ] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """A Bascule node.

    run_dir: the folder of its sockets. number: which settings of this run of the node these are; those that it began with are 1,
    and each change adds one. files: those that the configuration is made of, and those that it names, each with a digest of what
    was in it when it was read; of a folder whose files are included, one of their names. apart: the lanes, as children, that have a
    process of their own because they failed. remote_batch: ``largest_remote_batch``, for a process that knows one bridge only.
    """

    include: Annotated[
        tuple[str, ...],
        SettingForm.FILLED,
        "Files of which each adds bridges and listeners, or keys that stand nowhere else; such as bridges.d/*.yaml.",
        Effect.LIVE,
    ] = ()
    node: Annotated[NodeItself, "The node itself.", Effect.NODE_RESTART]
    listeners: Annotated[tuple[ListenerSettings, ...], "Sockets for local clients.", Effect.LIVE]
    access: Annotated[AccessSettings, "Access to the listeners.", Effect.LIVE]
    clients: Annotated[ClientLimitSettings, "Limits of a local client.", Effect.LIVE] = ClientLimitSettings()
    sessions: Annotated[SessionSettings, "Stored data of local clients.", Effect.LIVE] = SessionSettings()
    persistence: Annotated[PersistenceSettings, "The strength of an acknowledgement.", Effect.RESTART] = PersistenceSettings()
    limits: Annotated[
        LimitSettings, "Limits of all queues of the node together, and of each bridge without limits of its own.", Effect.LIVE
    ] = LimitSettings()
    bridges: Annotated[
        tuple[BridgeSettings, ...], "Bridges to remote brokers; without one, this is a broker alone.", Effect.RECONNECT
    ] = ()
    rings: Annotated[RingSettings, "Messages that come by several bridges.", Effect.LIVE] = RingSettings()
    supervision: Annotated[SupervisionSettings, "How processes are watched and started again.", Effect.LIVE] = SupervisionSettings()
    history: Annotated[HistorySettings, "The history of the node.", Effect.LIVE] = HistorySettings()
    snapshots: Annotated[SnapshotSettings, "Snapshots of the store.", Effect.LIVE] = SnapshotSettings()
    http: Annotated[HttpSettings | None, "The HTTP interface; absent is off.", Effect.RESTART] = None
    telemetry: Annotated[
        TelemetrySettings | None, "Sends the metrics to a collector of OpenTelemetry; absent is off.", Effect.RESTART
    ] = None
    notify: Annotated[
        tuple[NoticeSettings, ...],
        "Troubles that somebody is told of; a process of its own, only where there are any.",
        Effect.RESTART,
    ] = ()
    control: Annotated[ControlSettings | None, "The control socket on the network; absent is off.", Effect.LIVE] = None
    replication: Annotated[
        ReplicationSettings | None, "The cluster of a node whose persistence.mode is replicated.", Effect.NODE_RESTART
    ] = None
    log: Annotated[LogSettings, "Logs.", Effect.LIVE] = LogSettings()
    run_dir: str = ""
    number: int = 1
    files: tuple[tuple[str, str], ...] = ()
    apart: tuple[str, ...] = ()
    remote_batch: tuple[int | None, int | None] | None = None

    @property
    def largest_remote_batch(self) -> tuple[int | None, int | None]:
        """How many messages and bytes a batch may have to fit into each queue that refuses, and all its copies into the node."""
        of_bridges = (limits for bridge in self.bridges for _, limits in map(bridge.limits_of, bridge.lane_labels))
        refusing = [(limits, 1) for limits in of_bridges if limits.overflow == "reject"]
        if self.limits.overflow == "reject":
            refusing.append((self.limits, max(1, len(self.bridges))))
        rows = [limits.max_messages // copies for limits, copies in refusing if limits.max_messages is not None]
        sizes = [limits.max_bytes // copies for limits, copies in refusing if limits.max_bytes is not None]
        return min(rows, default=None), min(sizes, default=None)

    @property
    def authenticates_users(self) -> bool:
        """Whether a client can prove at any listener who its user is. If none can, every session is anybody's."""
        return any(
            (listener.access or self.access).password_file is not None
            or (listener.tls is not None and listener.tls.identity != "none")
            for listener in self.listeners
        )

    def bridge(self, name: str) -> BridgeSettings:
        """The bridge called ``name``; KeyError if there is none."""
        for bridge in self.bridges:
            if bridge.name == name:
                return bridge
        raise KeyError(name)


class SettingsNow:
    """The settings that hold ``now``. Parts of an actor keep this, read them where they use them, and copy nothing.

    The actor puts others in between two turns.
    """

    __slots__ = ("now",)

    def __init__(self, settings: NodeSettings) -> None:
        self.now = settings

    def change(self, settings: NodeSettings) -> None:
        """Others hold from here on."""
        self.now = settings


def dump(settings: NodeSettings) -> bytes:
    """The settings as msgpack, for the file that children read."""
    told = asdict(settings)
    told["remote_batch"] = settings.largest_remote_batch
    told["bridges"] = {bridge["name"]: msgpack.packb(bridge) for bridge in told["bridges"]}
    packed: bytes = msgpack.packb(told)
    return packed


def load(data: bytes, *, bridge: str | None = None) -> NodeSettings:
    """The settings that ``dump`` made; with the name of a ``bridge``, without all others.

    They are not even unpacked: a process of each of two hundred bridges would have the settings of two hundred.
    """
    told = msgpack.unpackb(data, use_list=False)
    wanted = told["bridges"] if bridge is None else told["bridges"].keys() & {bridge}
    if bridge is None:
        told["remote_batch"] = None  # it follows from all bridges
    told["bridges"] = [msgpack.unpackb(told["bridges"][name], use_list=False) for name in wanted]
    settings = build(NodeSettings, told)
    assert isinstance(settings, NodeSettings)
    return settings


def prepare(kind: Any = None) -> None:
    """Find out what settings hold, once: that costs more than all else that ``load`` does."""
    for _, hint in field_types(kind or NodeSettings):
        for held in _held(hint):
            prepare(held)


def _held(hint: Any) -> list[Any]:
    if is_dataclass(hint):
        return [hint]
    return [held for option in get_args(hint) for held in _held(option)]
