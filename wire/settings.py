"""What each process is told of the configuration: plain frozen values, durations in seconds, sizes in bytes.

``supervisor/config/loading.py`` validates what the operator wrote and makes these; children read them from a msgpack file, so that
no child pays for the validation library. Defaults stand only in ``supervisor/config/loading.py``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, get_args

import msgpack

from wire.typed_values import build, field_types


@dataclass(frozen=True, slots=True)
class AclRuleSettings:
    """One rule of an access control list. Without users and anonymous it is for everyone, without clients for every client."""

    allow: bool
    publish: bool
    subscribe: bool
    users: tuple[str, ...]
    anonymous: bool
    clients: tuple[str, ...]
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginLimitSettings:
    """After failures_max failed logins within period_s, an address (a user: from as many) is refused for block_s; None: never."""

    failures_max: int | None
    period_s: float
    block_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSettings:
    """Who may connect, and what a client may do. acl: None is everything; acl_file: where its rules are from, if not given here."""

    allow_anonymous: bool
    login_limits: LoginLimitSettings
    password_file: str | None = None
    acl: tuple[AclRuleSettings, ...] | None = None
    acl_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerTlsSettings:
    """TLS towards local clients; files are PEM, empty strings mean not set.

    client_certificate: none | optional | required. identity, the user name it gives: none | common-name | subject.
    min_version: 1.2 | 1.3. ciphers: OpenSSL's list for TLS 1.2.
    """

    cert_file: str
    key_file: str
    ca_file: str = ""
    client_certificate: str = "none"
    identity: str = "none"
    min_version: str = "1.2"
    ciphers: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyProtocolSettings:
    """Connections from the networks ``sources`` begin with a PROXY header. identity, the user name it gives: none | common-name."""

    sources: tuple[str, ...]
    identity: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """One listening socket for local clients: ``host`` and ``port``, or ``unix_path`` with its file mode.

    protocol: tcp | tls | ws | wss; tcp and ws on a Unix socket are the same without TCP. origins: empty is any.
    access: None is the node's.
    """

    host: str
    port: int
    protocol: str
    unix_path: str = ""
    unix_mode: int = 0o660
    tls: ListenerTlsSettings | None = None
    websocket_path: str = "/mqtt"
    origins: tuple[str, ...] = ()
    connections_max: int | None = None
    proxy_protocol: ProxyProtocolSettings | None = None
    access: AccessSettings | None = None

    @property
    def bind(self) -> str:
        """Where it listens, for logs."""
        return f"unix:{self.unix_path}" if self.unix_path else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimitSettings:
    """What a local client may ask for; None is unlimited. sys_period_s: of the ``$SYS`` topics, 0 is never.

    response_information: a pattern as in access control lists, of what response topics begin with; None: nothing is told.
    stall_timeout_s: how long a client's messages may wait for one that it has not acknowledged.
    """

    connections_max: int
    connect_timeout_s: float
    packet_max_bytes: int
    output_max_bytes: int
    subscriptions_max: int
    keep_alive_max_s: int
    receive_maximum: int
    connections_per_address: int | None = None
    connections_per_user: int | None = None
    half_open_max: int | None = None
    publish_messages_per_s: int | None = None
    publish_bytes_per_s: int | None = None
    topic_levels_max: int | None = None
    topic_max_bytes: int | None = None
    will_max_bytes: int = 64 << 10
    subscriptions_max_bytes: int = 4 << 20
    client_id_max_bytes: int = 1 << 10
    sys_period_s: float = 0.0
    response_information: str | None = None
    input_max_bytes: int = 256 << 20
    stall_timeout_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistenceSettings:
    """Durability: mode file-native | in-memory; acknowledge after-commit | fast; sync full | os; flush_period_s 0 = each cycle.

    gather_s: how long after one batch the next leaves, at the soonest, while commits follow each other closely.
    events_max, events_max_age_s: what is kept of the node's events; where the mode is in-memory, or the first is 0, none are.
    """

    mode: str
    acknowledge: str
    flush_period_s: float
    sync: str
    gather_s: float = 0.001
    events_max: int = 100_000
    events_max_age_s: float = 30 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """Limits of a queue or of the node; None is unlimited. overflow: reject | drop-oldest | drop-newest.

    volatile_max_bytes bounds what is kept in memory of QoS 0 messages.
    """

    max_messages: int | None
    max_bytes: int | None
    max_age_s: float | None
    min_free_disk_bytes: int
    volatile_max_bytes: int
    overflow: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSettings:
    """Limits of a bridge's dead-letter queue; None is unlimited. The oldest give way."""

    max_messages: int | None = None
    max_bytes: int | None = None
    max_age_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffSettings:
    """Delays between connection attempts; a connection that lasted ``stable_s`` starts the series anew."""

    initial_s: float
    max_s: float
    factor: float
    jitter: float
    stable_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """TLS towards the remote; files are PEM, empty strings mean not set (ca_file: the system's own store)."""

    ca_file: str
    cert_file: str
    key_file: str
    verify: bool
    server_name: str
    alpn: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSettings:
    """The remote broker of a bridge. protocol: 4 is MQTT 3.1.1, 5 is MQTT 5.0. transport: tcp | tls | ws | wss.

    packet_max_bytes: the largest packet that it takes; one of MQTT 5 may say that it takes less. primary_retry_s: how often the
    first of ``addresses`` is probed while a later one is used; None is never.
    """

    addresses: tuple[tuple[str, int], ...]
    protocol: int
    transport: str
    client_id: str
    keep_alive_s: int
    connect_timeout_s: float
    clean_start: bool
    session_expiry_s: int
    username: str | None
    password_file: str | None
    tls: TlsSettings
    websocket_path: str
    receive_maximum: int
    qos2_maximum: int
    stall_timeout_s: float
    packet_max_bytes: int | None = None
    primary_retry_s: float | None = 300.0

    @property
    def secure(self) -> bool:
        """Whether it is reached over TLS."""
        return self.transport in ("tls", "wss")

    @property
    def web(self) -> bool:
        """Whether it is reached over WebSocket."""
        return self.transport in ("ws", "wss")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSettings:
    """One rule of a bridge. name: what people read, given or made of its filters. destination: a template, its names filled in."""

    name: str
    filters: tuple[str, ...]
    excludes: tuple[str, ...]
    destination: str
    max_qos: int
    preserve_retain: bool
    user_properties: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalSettings:
    """What is done with a message that the remote refuses: retry | dead-letter | drop, by reason code, else ``default``.

    0x95 is the code of a message larger than the remote takes, 0x100 of one for which it closes the connection, 0x101 of one that
    it acknowledges wrongly.
    """

    default: str
    codes: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeSettings:
    """One bridge: a remote broker, its lanes, and what crosses. retention_s: settled messages are kept so long, if above 0."""

    name: str
    remote: RemoteSettings
    persist: bool
    backoff: BackoffSettings
    lanes: int
    tier2_max_messages: int
    tier2_max_bytes: int
    local_subscriptions: tuple[RuleSettings, ...]
    remote_subscriptions: tuple[RuleSettings, ...]
    loop_prevention: bool
    max_hops: int
    on_session_loss: str
    on_refusal: RefusalSettings
    limits: LimitSettings
    dead_letter: DeadLetterSettings = DeadLetterSettings()
    retention_s: float = 0.0
    retention_max_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """What is kept for local clients: sessions that outlive their connection, their queues, retained messages.

    user_share_percent: of ``sessions_max``, ``filters_max_bytes``, ``retained_max_messages`` and ``retained_max_bytes``, for one
    user, or for one address without a user; what is retained also for one bridge.
    expiry_max_s: 0xFFFFFFFF is no limit. overflow: drop-newest | drop-oldest, when a session's queue is full. in_flight_max: QoS 1
    and 2 messages on their way to one client.
    """

    sessions_max: int = 10_000
    user_share_percent: int = 50
    expiry_max_s: int = 0xFFFF_FFFF
    queue_max_messages: int = 10_000
    queue_max_bytes: int = 16 << 20
    overflow: str = "drop-newest"
    in_flight_max: int = 100
    retained_max_messages: int = 200_000
    retained_max_bytes: int = 512 << 20
    wills_max_bytes: int = 64 << 20
    filters_max_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisionSettings:
    """How children are watched and restarted."""

    heartbeat_period_s: float
    heartbeat_timeout_s: float
    restarts_max: int
    restart_period_s: float
    restart_backoff: BackoffSettings
    stop_timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSettings:
    """Snapshots of the node. every_s: 0 is only when asked. to: where each is copied, None is nowhere; None is unlimited else."""

    every_s: float = 0.0
    keep: int = 24
    max_bytes: int | None = 10 << 30
    to: str | None = None
    keep_in_target: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """The HTTP interface. tokens_file: None lets everybody on loopback do everything. hosts: names besides its own.

    calls_max: requests that ask the node something at a time. request_timeout_s: for a request to be complete, and for an answer
    to be read. idle_timeout_s: until the next request.
    """

    host: str
    port: int
    tls: ListenerTlsSettings | None = None
    tokens_file: str | None = None
    hosts: tuple[str, ...] = ()
    login_limits: LoginLimitSettings
    connections_max: int = 64
    calls_max: int = 8
    request_max_bytes: int = 262_144
    request_timeout_s: float = 10.0
    idle_timeout_s: float = 60.0

    @property
    def bind(self) -> str:
        """Where it listens, for people."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlSettings:
    """The control socket's address on the network. allowed_keys: the folder of the public keys that are let in."""

    host: str
    port: int
    allowed_keys: str
    connections_max: int = 64
    handshake_timeout_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorTlsSettings:
    """TLS towards a collector; files are PEM, empty strings mean not set (ca_file: the system's own store)."""

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpSettings:
    """The collector to which metrics are sent. headers: names and values, which are nobody's business.

    timeout_s: for one sending, with its repetitions. compression: none | gzip.
    """

    endpoint: str
    headers: tuple[tuple[str, str], ...] = ()
    interval_s: float = 15.0
    timeout_s: float = 10.0
    compression: str = "gzip"
    tls: CollectorTlsSettings = CollectorTlsSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """Who is told of the node without asking."""

    otlp: OtlpSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationTlsSettings:
    """TLS towards the servers of the log; files are PEM, empty strings mean not set (ca_file: the system's own store)."""

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings:
    """The log that the members of a cluster share. member: what this node is called in it. address: where its clients are to go.

    lease_s: how long nobody else leads after a leader's newest record. trim_max_bytes, trim_max_age_s: beyond these the log does
    not wait for a member that is behind; None is without limit. standby: closed | redirect, as clients find it.
    """

    servers: tuple[str, ...]
    stream: str
    member: str
    replicas: int = 3
    address: str = ""
    lease_s: float = 10.0
    trim_max_bytes: int | None = 10 << 30
    trim_max_age_s: float | None = 86400.0
    standby: str = "closed"
    user: str | None = None
    password_file: str | None = None
    token_file: str | None = None
    credentials_file: str | None = None
    nkey_file: str | None = None
    tls: ReplicationTlsSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Everything. Paths are absolute; ``run_dir`` holds the sockets.

    new_store: allow | refuse: whether a node that finds no store may begin one without being told to.

    number: which settings of this run of the node these are; those that it began with are 1, and each change adds one.
    files: those that the configuration is made of, and those that it names, each with a digest of what was in it when it was read;
    of a folder whose files are included, one of their names.
    """

    name: str
    data_dir: str
    run_dir: str
    log_level: str
    listeners: tuple[ListenerSettings, ...]
    access: AccessSettings
    clients: ClientLimitSettings
    persistence: PersistenceSettings
    limits: LimitSettings
    bridges: tuple[BridgeSettings, ...]
    supervision: SupervisionSettings
    sessions: SessionSettings = SessionSettings()
    snapshots: SnapshotSettings = SnapshotSettings()
    http: HttpSettings | None = None
    telemetry: TelemetrySettings | None = None
    control: ControlSettings | None = None
    replication: ReplicationSettings | None = None
    new_store: str = "allow"
    number: int = 1
    files: tuple[tuple[str, str], ...] = ()

    @property
    def tells_users_apart(self) -> bool:
        """Whether a client can prove at any listener who its user is. Where none can, every session is anybody's."""
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


def dump(settings: NodeSettings) -> bytes:
    """The settings as msgpack, for the file that children read."""
    told = asdict(settings)
    told["bridges"] = {bridge["name"]: msgpack.packb(bridge) for bridge in told["bridges"]}
    packed: bytes = msgpack.packb(told)
    return packed


def load(data: bytes, *, bridge: str | None = None) -> NodeSettings:
    """The settings that ``dump`` made; with the name of a ``bridge``, without all others.

    They are not even unpacked: a process of each of two hundred bridges would have the settings of two hundred.
    """
    told = msgpack.unpackb(data, use_list=False)
    wanted = told["bridges"] if bridge is None else told["bridges"].keys() & {bridge}
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
