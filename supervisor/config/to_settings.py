"""Turns a configuration that holds into what the processes are told of it, ``wire.settings.NodeSettings``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from supervisor.config.keys import (
    DEFAULT_REASON,
    Access,
    AclRule,
    Backoff,
    Bridge,
    BridgeLimits,
    Clients,
    Configuration,
    Control,
    Http,
    Limits,
    Listener,
    ListenerAccess,
    LoginLimits,
    Otlp,
    Remote,
    Replication,
    Rule,
    Snapshots,
)
from supervisor.config.value_kinds import TCP, UNIX
from supervisor.running_node import RUN_NAME
from supervisor.units import parse_address
from wire.exchange.refusal_policy import code_of
from wire.mqtt.packets import SESSION_NEVER_EXPIRES_S
from wire.routing.topic_mapping import Template
from wire.settings import (
    AccessSettings,
    AclRuleSettings,
    BackoffSettings,
    BridgeSettings,
    ClientLimitSettings,
    ControlSettings,
    DeadLetterSettings,
    HttpSettings,
    LimitSettings,
    ListenerSettings,
    LoginLimitSettings,
    NodeSettings,
    OtlpSettings,
    PersistenceSettings,
    ProxyProtocolSettings,
    RefusalSettings,
    RemoteSettings,
    ReplicationSettings,
    RuleSettings,
    SessionSettings,
    SnapshotSettings,
    SupervisionSettings,
    TelemetrySettings,
    TlsSettings,
)

RULE_NAME_MAX = 64
IN_MEMORY_MAX_BYTES = 256 * 1024 * 1024  # limits.max_bytes where the queue is in memory and the operator named none


def to_settings(configuration: Configuration) -> NodeSettings:
    """What the processes are told of ``configuration``."""
    data_dir = Path(configuration.node.data_dir)
    limits = _limits(configuration.limits, configuration.limits, configuration.persistence.mode)
    supervision = configuration.supervision
    sessions = configuration.sessions
    return NodeSettings(
        name=configuration.node.name,
        data_dir=str(data_dir),
        run_dir=run_dir(configuration.node.data_dir),
        log_level=configuration.log.level,
        new_store=configuration.node.new_store,
        listeners=tuple(_listener(listener, configuration.access) for listener in configuration.listeners),
        access=_access(configuration.access),
        clients=_clients(configuration.clients),
        sessions=SessionSettings(
            sessions_max=sessions.sessions_max,
            user_share_percent=sessions.user_share_percent,
            expiry_max_s=SESSION_NEVER_EXPIRES_S if sessions.expiry_max is None else int(sessions.expiry_max),
            queue_max_messages=sessions.queue_max_messages,
            queue_max_bytes=sessions.queue_max_bytes,
            overflow=sessions.overflow,
            in_flight_max=sessions.in_flight_max,
            retained_max_messages=sessions.retained_max_messages,
            retained_max_bytes=sessions.retained_max_bytes,
            wills_max_bytes=sessions.wills_max_bytes,
            filters_max_bytes=sessions.filters_max_bytes,
        ),
        persistence=PersistenceSettings(
            mode=configuration.persistence.mode,
            acknowledge=configuration.persistence.acknowledge,
            flush_period_s=configuration.persistence.flush_period,
            sync=configuration.persistence.sync,
            gather_s=configuration.persistence.gather,
            events_max=configuration.persistence.events.max,
            events_max_age_s=configuration.persistence.events.max_age,
        ),
        limits=limits,
        bridges=tuple(_bridge(bridge, configuration) for bridge in configuration.bridges),
        supervision=SupervisionSettings(
            heartbeat_period_s=supervision.heartbeat_period,
            heartbeat_timeout_s=supervision.heartbeat_timeout,
            restarts_max=supervision.restarts_max,
            restart_period_s=supervision.restart_period,
            restart_backoff=_backoff(supervision.restart_backoff),
            stop_timeout_s=supervision.stop_timeout,
        ),
        snapshots=_snapshots(configuration.snapshots),
        http=None if configuration.http is None else _http(configuration.http),
        telemetry=None if configuration.telemetry is None else TelemetrySettings(otlp=_otlp(configuration.telemetry.otlp)),
        control=None if configuration.control is None else _control(configuration.control),
        replication=None if configuration.replication is None else _replication(configuration.replication),
    )


def run_dir(data_dir: str) -> str:
    """Where the sockets of a node are whose data is in ``data_dir``."""
    return str(Path(data_dir) / RUN_NAME)


def _clients(clients: Clients) -> ClientLimitSettings:
    return ClientLimitSettings(
        connections_max=clients.connections_max,
        connect_timeout_s=clients.connect_timeout,
        packet_max_bytes=clients.packet_max_bytes,
        output_max_bytes=clients.output_max_bytes,
        subscriptions_max=clients.subscriptions_max,
        keep_alive_max_s=int(clients.keep_alive_max),
        receive_maximum=clients.receive_maximum,
        connections_per_address=clients.connections_per_address,
        half_open_max=clients.half_open_max,
        publish_messages_per_s=clients.publish_messages_per_s,
        publish_bytes_per_s=clients.publish_bytes_per_s,
        topic_levels_max=clients.topic_levels_max,
        connections_per_user=clients.connections_per_user,
        topic_max_bytes=clients.topic_max_bytes,
        will_max_bytes=clients.will_max_bytes,
        subscriptions_max_bytes=clients.subscriptions_max_bytes,
        client_id_max_bytes=clients.client_id_max_bytes,
        sys_period_s=clients.sys_period,
        response_information=clients.response_information,
        input_max_bytes=clients.input_max_bytes,
        stall_timeout_s=clients.stall_timeout,
    )


def _snapshots(snapshots: Snapshots) -> SnapshotSettings:
    return SnapshotSettings(
        every_s=snapshots.every,
        keep=snapshots.keep,
        max_bytes=snapshots.max_bytes,
        to=snapshots.to,
        keep_in_target=snapshots.keep_in_target,
    )


def _listener(listener: Listener, node: Access) -> ListenerSettings:
    on_unix = listener.bind.startswith(UNIX)
    host, port = ("", 0) if on_unix else parse_address(listener.bind, port_min=0)
    proxies = listener.proxy_protocol
    return ListenerSettings(
        host=host,
        port=port,
        unix_path=listener.bind.removeprefix(UNIX) if on_unix else "",
        unix_mode=int(listener.unix_mode, 8),
        protocol=listener.protocol,
        tls=listener.tls.settings() if listener.tls is not None else None,
        websocket_path=listener.websocket_path,
        origins=listener.origins,
        connections_max=listener.connections_max,
        proxy_protocol=None if proxies is None else ProxyProtocolSettings(sources=proxies.sources, identity=proxies.identity),
        access=_listener_access(listener.access, node),
    )


def _access(access: Access) -> AccessSettings:
    return AccessSettings(
        allow_anonymous=access.allow_anonymous,
        login_limits=_login_limits(access.login_limits),
        password_file=access.password_file,
        acl=None if access.acl is None else acl_rules(access.acl),
        acl_file=access.acl_file,
    )


def _login_limits(limits: LoginLimits) -> LoginLimitSettings:
    return LoginLimitSettings(failures_max=limits.failures_max, period_s=limits.period, block_s=limits.block)


def _control(control: Control) -> ControlSettings:
    host, port = parse_address(control.bind.removeprefix(TCP), port_min=0)
    return ControlSettings(
        host=host,
        port=port,
        allowed_keys=control.allowed_keys,
        connections_max=control.connections_max,
        handshake_timeout_s=control.handshake_timeout,
    )


def _http(http: Http) -> HttpSettings:
    host, port = parse_address(http.bind, port_min=0)
    return HttpSettings(
        host=host,
        port=port,
        tls=None if http.tls is None else http.tls.settings(),
        tokens_file=http.tokens_file,
        hosts=http.hosts,
        login_limits=_login_limits(http.login_limits),
        connections_max=http.connections_max,
        calls_max=http.calls_max,
        request_max_bytes=http.request_max_bytes,
        request_timeout_s=http.request_timeout,
        idle_timeout_s=http.idle_timeout,
    )


def _otlp(otlp: Otlp) -> OtlpSettings:
    return OtlpSettings(
        endpoint=otlp.endpoint,
        headers=tuple(otlp.headers.items()),
        interval_s=otlp.interval,
        timeout_s=otlp.timeout,
        compression=otlp.compression,
        tls=otlp.tls.settings(),
    )


def _replication(replication: Replication) -> ReplicationSettings:
    return ReplicationSettings(
        servers=replication.servers,
        stream=replication.stream,
        member=replication.member,
        address=replication.address,
        replicas=replication.replicas,
        lease_s=replication.lease,
        standby=replication.standby,
        trim_max_bytes=replication.trim.max_bytes,
        trim_max_age_s=replication.trim.max_age,
        user=replication.user,
        password_file=replication.password_file,
        token_file=replication.token_file,
        credentials_file=replication.credentials_file,
        nkey_file=replication.nkey_file,
        tls=None if replication.tls is None else replication.tls.settings(),
    )


def _listener_access(own: ListenerAccess | None, node: Access) -> AccessSettings | None:
    """The access of one listener with the node's for what it leaves out; None if it leaves out everything."""
    if own is None:
        return None
    settings = _access(node)
    if own.allow_anonymous is not None:
        settings = replace(settings, allow_anonymous=own.allow_anonymous)
    if own.password_file is not None:
        settings = replace(settings, password_file=own.password_file)
    if own.acl is not None or own.acl_file is not None:
        acl = None if own.acl is None else acl_rules(own.acl)
        settings = replace(settings, acl=acl, acl_file=own.acl_file)
    return settings


def acl_rules(rules: Sequence[AclRule]) -> tuple[AclRuleSettings, ...]:
    """Rules as the processes are told of them."""
    return tuple(
        AclRuleSettings(
            allow=rule.permission == "allow",
            publish=rule.action != "subscribe",
            subscribe=rule.action != "publish",
            users=rule.users,
            anonymous=rule.anonymous,
            clients=rule.clients,
            topics=rule.topics,
        )
        for rule in rules
    )


def _bridge(bridge: Bridge, configuration: Configuration) -> BridgeSettings:
    return BridgeSettings(
        name=bridge.name,
        remote=_remote(bridge.remote),
        persist=bridge.persist,
        backoff=_backoff(bridge.backoff),
        lanes=bridge.lanes,
        tier2_max_messages=bridge.tier2.max_messages,
        tier2_max_bytes=bridge.tier2.max_bytes,
        local_subscriptions=tuple(_rule(rule, bridge.name, configuration.node.name) for rule in bridge.local_subscriptions),
        remote_subscriptions=tuple(_rule(rule, bridge.name, configuration.node.name) for rule in bridge.remote_subscriptions),
        loop_prevention=bridge.loop_prevention.enabled,
        max_hops=bridge.loop_prevention.max_hops,
        on_session_loss=bridge.on_session_loss,
        on_refusal=RefusalSettings(
            default=bridge.on_refusal[DEFAULT_REASON],
            codes=tuple((code_of(reason), action) for reason, action in bridge.on_refusal.items() if reason != DEFAULT_REASON),
        ),
        limits=_limits(bridge.limits or configuration.limits, configuration.limits, configuration.persistence.mode),
        dead_letter=DeadLetterSettings(
            max_messages=bridge.dead_letter.max_messages,
            max_bytes=bridge.dead_letter.max_bytes,
            max_age_s=bridge.dead_letter.max_age,
        ),
        retention_s=bridge.retention,
        retention_max_bytes=bridge.retention_max_bytes,
    )


def _remote(remote: Remote) -> RemoteSettings:
    tls = remote.tls
    return RemoteSettings(
        addresses=remote.places(),
        protocol={"mqtt5": 5, "mqtt311": 4}[remote.protocol],
        transport=remote.way.transport,
        client_id=remote.client_id,
        keep_alive_s=int(remote.keep_alive),
        connect_timeout_s=remote.connect_timeout,
        clean_start=remote.clean_start,
        session_expiry_s=SESSION_NEVER_EXPIRES_S if remote.session_expiry is None else int(remote.session_expiry),
        username=remote.way.username,
        password_file=remote.password_file,
        tls=TlsSettings(
            ca_file=tls.ca_file or "",
            cert_file=tls.cert_file or "",
            key_file=tls.key_file or "",
            verify=tls.verify,
            server_name=tls.server_name or "",
            alpn=tls.alpn,
        ),
        websocket_path=remote.way.path,
        receive_maximum=remote.receive_maximum,
        qos2_maximum=remote.qos2_maximum,
        stall_timeout_s=remote.stall_timeout,
        primary_retry_s=remote.primary_retry,
        packet_max_bytes=remote.packet_max_bytes,
    )


def _rule(rule: Rule, bridge: str, node: str) -> RuleSettings:
    return RuleSettings(
        name=rule.name or _named_by(rule.filters),
        filters=rule.filters,
        excludes=rule.excludes,
        destination=Template.parse(rule.destination).named(bridge=bridge, node=node).text,
        max_qos=rule.max_qos,
        preserve_retain=rule.preserve_retain,
        user_properties=tuple(rule.user_properties.items()),
    )


def _backoff(backoff: Backoff) -> BackoffSettings:
    return BackoffSettings(
        initial_s=backoff.initial,
        max_s=backoff.max,
        factor=float(backoff.factor),
        jitter=float(backoff.jitter),
        stable_s=backoff.stable,
    )


def _limits(own: BridgeLimits, node: Limits, mode: str) -> LimitSettings:
    """The limits of ``own``, with the node's for each key that ``own`` does not have."""

    def value(name: str) -> Any:
        return getattr(own if name in own.model_fields_set else node, name)

    named = "max_bytes" in own.model_fields_set | node.model_fields_set
    return LimitSettings(
        max_messages=value("max_messages"),
        max_bytes=value("max_bytes") if named or mode == "file-native" else IN_MEMORY_MAX_BYTES,
        max_age_s=value("max_age"),
        min_free_disk_bytes=node.min_free_disk,
        volatile_max_bytes=value("volatile_max_bytes"),
        overflow=value("overflow"),
    )


def _named_by(filters: Sequence[str]) -> str:
    """What a rule without a name is called, wherever it stands in the file."""
    name = ", ".join(filters)
    return name if len(name) <= RULE_NAME_MAX else name[: RULE_NAME_MAX - 3] + "..."
