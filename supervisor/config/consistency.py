"""Consistency of several settings together, and values that stand for something that the file says otherwise.

``CHECKS`` has a function for a dataclass of ``wire/config_settings.py``. It is called with values that hold one by one, and with
the mapping that the file has; it returns the settings, or raises ``Inconsistent`` with sentences for the operator.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import replace
from email.utils import parseaddr
from ipaddress import ip_address
from pathlib import PurePath
from typing import Any, TypeVar, cast

from actors.system.certificates import CertificateFault
from actors.system.tls import server_context, show, trust
from supervisor.config.extras import NO_NATS, NO_OTEL, has_nats, has_otel
from supervisor.inconsistent_settings import Fault, Inconsistent
from supervisor.running_node import run_dir_of
from supervisor.units import nearest, write_duration, write_size
from wire.config_settings import (
    AUTO_PROTOCOL,
    CLASSES,
    LIVE,
    LIVE_FIRST,
    OLDEST_FIRST,
    WHEN_NEEDED,
    AccessSettings,
    AuthenticationSettings,
    BackoffSettings,
    BridgeSettings,
    ClassSettings,
    ClientLimitSettings,
    ClientTlsSettings,
    EmailSettings,
    HttpSettings,
    LimitSettings,
    ListenerSettings,
    ListenerTlsSettings,
    NodeSettings,
    NoticeSettings,
    OtlpSettings,
    PersistenceSettings,
    ProxySettings,
    RefusalSettings,
    RemoteSettings,
    ReplicationSettings,
    RuleSettings,
    SnapshotSettings,
    SupervisionSettings,
    TelemetrySettings,
    TlsSettings,
    WebhookSettings,
)
from wire.errors import BasculeError
from wire.exchange.failback import place_of
from wire.exchange.refusal_policy import DEFAULT_REASON, WITHOUT_CODE, code_of
from wire.frames.names import remote_client_id
from wire.mqtt.topics import covers, overlap, topic_fault
from wire.routing.link_states import link_state_topic, told_here
from wire.routing.node_topics import notice_topic
from wire.routing.provenance import ENVELOPE, USER_PROPERTIES
from wire.routing.sys_topics import is_reserved
from wire.routing.topic_mapping import TopicTemplate

RULE_NAME_MAX = 64
IN_MEMORY_MAX_BYTES = 256 * 1024 * 1024  # limits.max_bytes where the queue is in memory and the operator named none

BESIDE_A_MESSAGE_BYTES = 4 << 10  # what a dead letter or a retained message has beside the message, at most about

CLASSES_MAX = 8  # of a bridge, besides those that there are without being listed
CLIENT_ID_MAX_BYTES = 65_535  # [MQTT5-1.5.4]

_File = Mapping[str, Any]  # a section as it is written
_Promises = TypeVar("_Promises", ListenerSettings, BridgeSettings)


def _raise(problems: list[Fault]) -> None:
    if problems:
        raise Inconsistent(problems)


def _access(access: AccessSettings, _: _File) -> AccessSettings:
    _one_acl(access.acl, access.acl_file)
    return access


def _one_acl(acl: object, acl_file: object) -> None:
    if acl is not None and acl_file is not None:
        raise Inconsistent([(("acl_file",), "cannot stand beside acl; keep one of them")])


def _listener_tls(tls: ListenerTlsSettings, _: _File) -> ListenerTlsSettings:
    problems: list[Fault] = []
    if tls.client_certificate != "none" and tls.ca_file is None:
        problems.append((("ca_file",), "must be given: without authorities no client's certificate could be checked"))
    if tls.client_certificate == "none" and tls.ca_file is not None:
        problems.append((("ca_file",), "has no effect while client_certificate is none; write optional or required"))
    if tls.client_certificate == "none" and tls.crl_file is not None:
        problems.append((("crl_file",), "has no effect while client_certificate is none; write optional or required"))
    if tls.client_certificate == "none" and tls.identity != "none":
        problems.append((("identity",), "needs client_certificate: optional or required"))
    _raise(problems)
    try:
        server_context(tls)
    except CertificateFault as fault:
        raise Inconsistent([((fault.key,), fault.message)]) from fault
    return tls


def _listener(listener: ListenerSettings, written: _File) -> ListenerSettings:
    problems: list[Fault] = []
    if listener.protocol in ("tls", "wss") and listener.tls is None:
        message = f"is missing; protocol {listener.protocol} needs tls: {{cert_file: server.pem, key_file: server.key}}"
        problems.append((("tls",), message))
    if listener.protocol in ("tcp", "ws") and listener.tls is not None:
        secure = {"tcp": "tls", "ws": "wss"}[listener.protocol]
        problems.append((("tls",), f"has no effect with protocol {listener.protocol}; write protocol: {secure}, or remove it"))
    if listener.protocol in ("tcp", "tls"):
        problems += [
            ((key,), f"has no effect with protocol {listener.protocol}; write protocol: ws or wss, or remove it")
            for key in ("websocket_path", "origins")
            if key in written
        ]
    if "unix_mode" in written and not listener.unix_path:
        problems.append((("unix_mode",), "has no effect without a Unix socket; write bind: unix:/path, or remove it"))
    if listener.proxy_protocol is not None and listener.unix_path:
        problems.append((("proxy_protocol",), "has no effect on a Unix socket, where a proxy has no address; bind 127.0.0.1"))
    identities = [each.identity for each in (listener.tls, listener.proxy_protocol) if each is not None]
    if len(identities) == 2 and "none" not in identities:
        problems.append((("proxy_protocol", "identity"), "and tls.identity give two names; keep the one that is seen first"))
    if own := _own(listener.access):
        try:
            _one_acl(own.get("acl"), own.get("acl_file"))
        except Inconsistent as error:
            problems += [(("access", *key), message) for key, message in error.problems]
    _raise(problems)
    return listener


def _own(inherited: object) -> dict[str, Any]:
    """The settings of its own of a section that has the node's for those that it leaves out, before it was given them."""
    return cast("dict[str, Any]", inherited or {})


def _clients(clients: ClientLimitSettings, _: _File) -> ClientLimitSettings:
    problems: list[Fault] = []
    if clients.input_max_bytes < clients.packet_max_bytes:
        problems.append((("input_max_bytes",), "is below packet_max_bytes, so the largest packet could never be taken; raise it"))
    if clients.output_max_bytes < 2 * clients.packet_max_bytes:
        words = "is below twice packet_max_bytes, so who is sent the largest message could be closed for having to read it"
        problems.append((("output_max_bytes",), f"{words}; raise it"))
    _raise(problems)
    return clients


def _backoff(backoff: BackoffSettings, _: _File) -> BackoffSettings:
    if backoff.max_s < backoff.initial_s:
        raise Inconsistent([(("max",), f"is below initial ({write_duration(backoff.initial_s)}); write the same or longer")])
    return backoff


def _client_tls(tls: ClientTlsSettings, _: _File) -> ClientTlsSettings:
    if tls.key_file and not tls.cert_file:
        raise Inconsistent([(("key_file",), "needs cert_file beside it")])
    if tls.cert_file and not tls.key_file:
        raise Inconsistent([(("cert_file",), "needs key_file beside it")])
    return tls


def _tls(tls: TlsSettings, written: _File) -> TlsSettings:
    _client_tls(tls, written)
    problems = _one_source(tls, "key_passphrase") + _psk(tls, written)
    for key in _SOURCES:
        if getattr(tls, f"key_passphrase_{key}") and not tls.key_file:
            problems.append(((f"key_passphrase_{key}",), "needs key_file beside it"))
    if not tls.verify:
        problems += [
            ((key,), "has no effect with verify: false; remove one of them")
            for key in ("verify_name", "crl_file")
            if key in written
        ]
    _raise(problems)
    return tls


def _psk(tls: TlsSettings, written: _File) -> list[Fault]:
    given = [f"psk_{key}" for key in _SOURCES if getattr(tls, f"psk_{key}")]
    problems = _one_source(tls, "psk")
    if tls.psk_identity is None:
        return problems + [((key,), "needs psk_identity beside it") for key in given]
    if not given:
        problems.append((("psk_identity",), "needs the key beside it: psk_file, psk_env or psk_command"))
    return problems + [
        ((key,), "has no effect with psk_identity: no certificate takes part; remove one of them")
        for key in ("cert_file", "ca_file", "ca_path", "crl_file", "verify", "verify_name", "server_name")
        if key in written
    ]


def _remote(remote: RemoteSettings, written: _File) -> RemoteSettings:
    """The remote as its keys or, where they are left out, its addresses say that it is reached."""
    addresses, said = written["addresses"], cast("tuple[Any, ...]", remote.addresses)
    transport = next((each.transport for each in said if each.transport and "transport" not in written), remote.transport)
    reached = replace(
        remote,
        addresses=tuple(each.at(transport) for each in said),
        transport=transport,
        username=next((each.username for each in said if each.username and remote.username is None), remote.username),
        websocket_path=next((each.path for each in said if each.path and "websocket_path" not in written), remote.websocket_path),
    )
    problems: list[Fault] = []
    if not remote.clean_start and not remote.client_id:
        problems.append((("client_id",), "must be given while clean_start is false: the remote keeps the session under it"))
    for index, (address, each) in enumerate(zip(addresses, said, strict=True)):
        for one, other, key in (
            (each.transport, transport, "transport"),
            (each.username, reached.username, "username"),
            (each.path, reached.websocket_path, "websocket_path"),
        ):
            if one is not None and one != other:
                message = f"{address} says {key} {one}, and it is {other} already; all addresses of a bridge have the same"
                problems.append((("addresses", index), message))
    if transport in ("tcp", "ws") and "tls" in written:
        secure = {"tcp": "tls", "ws": "wss"}[transport]
        problems.append((("tls",), f"has no effect with transport {transport}; write transport: {secure}, or remove it"))
    if not reached.web:
        problems += [
            ((key,), f"has no effect with transport {transport}; write transport: ws or wss, or remove it")
            for key in ("websocket_path", "websocket_headers", "websocket_subprotocol")
            if key in written
        ]
    if remote.protocol == 4 and "session_expiry" in written:
        problems.append((("session_expiry",), "is not in MQTT 3.1.1; write protocol: mqtt5, or remove it"))
    problems += _one_source(remote, "password")
    for key in _SOURCES:
        if getattr(remote, f"password_{key}") and reached.username is None:
            problems.append(((f"password_{key}",), "needs username beside it; a password alone is not sent"))
    if remote.authentication is not None and 4 in remote.levels:
        problems.append((("authentication",), "is not in MQTT 3.1.1; write protocol: mqtt5, or remove it"))
    if reached.bind_address is not None and remote.ip_version not in ("any", f"ipv{ip_address(reached.bind_address).version}"):
        problems.append((("ip_version",), f"does not fit bind_address ({reached.bind_address}); remove it"))
    if remote.protocol == 4:
        problems += [
            ((key,), "is not in MQTT 3.1.1; write protocol: mqtt5, or remove it")
            for key in ("user_properties", "topic_aliases", "retain_handling", "follow")
            if key in written
        ]
    problems += _dialled(remote, written)
    if remote.round_robin and "primary_retry" in written:
        problems.append((("primary_retry",), "has no effect with round_robin; remove one of the two"))
    if len(addresses) == 1 and remote.round_robin:
        problems.append((("round_robin",), "has no effect with one address; give a second one, or remove it"))
    if len(addresses) == 1 and "primary_retry" in written:
        problems.append((("primary_retry",), "has no effect with one address; give a second one, or remove it"))
    for index, place in enumerate(reached.addresses):
        if place in reached.addresses[:index]:
            problems.append((("addresses", index), f"{addresses[index]} is given twice; keep one"))
    _raise(problems)
    return reached


def _dialled(remote: RemoteSettings, written: _File) -> list[Fault]:
    problems: list[Fault] = []
    if remote.dial != WHEN_NEEDED and "when_needed" in written:
        problems.append((("when_needed",), f"has no effect without dial: {WHEN_NEEDED}; write that, or remove it"))
    if not remote.hours and "time_zone" in written:
        problems.append((("time_zone",), "has no effect without hours; write some, or remove it"))
    return problems


_SOURCES = ("file", "env", "command")


def _one_source(settings: RemoteSettings | AuthenticationSettings | TlsSettings, what: str) -> list[Fault]:
    """At most one of file, environment and command says a secret."""
    given = [f"{what}_{key}" for key in _SOURCES if getattr(settings, f"{what}_{key}")]
    return [((key,), f"cannot stand beside {given[0]}; keep one of them") for key in given[1:]]


def _proxy(proxy: ProxySettings, _: _File) -> ProxySettings:
    if (proxy.username is None) != (proxy.password_file is None):
        said, missing = ("username", "password_file") if proxy.username else ("password_file", "username")
        raise Inconsistent([((said,), f"needs {missing} beside it")])
    return proxy


def _authentication(authentication: AuthenticationSettings, _: _File) -> AuthenticationSettings:
    _raise(_one_source(authentication, "data"))
    return authentication


def _rule(rule: RuleSettings, _: _File) -> RuleSettings:
    try:
        TopicTemplate.parse(rule.destination, filters=rule.filters)
    except BasculeError as error:
        raise Inconsistent([(("destination",), error.message)]) from error
    if rule.shared is not None and set("/+#") & set(rule.shared):
        raise Inconsistent([(("shared",), f"{rule.shared} is not the name of a group; it has no /, + or #")])
    if rule.min_qos > rule.max_qos:
        raise Inconsistent([(("min_qos",), f"is above max_qos ({rule.max_qos}); lower it, or raise max_qos")])
    return rule if rule.name else replace(rule, name=_named_by(rule.filters))


_PROVENANCE_REFUSED = {
    (4, USER_PROPERTIES): "MQTT 3.1.1 carries no user properties; write envelope, or protocol: mqtt5",
    (5, ENVELOPE): "an envelope is for remotes of MQTT 3.1.1; write user-properties",
    **dict.fromkeys(
        ((AUTO_PROTOCOL, USER_PROPERTIES), (AUTO_PROTOCOL, ENVELOPE)),
        "cannot stand beside protocol: auto, since each version has its own form of it; write mqtt5 or mqtt311",
    ),
}


def _named_by(filters: tuple[str, ...]) -> str:
    """The name of a rule without one, wherever it stands in the file."""
    name = ", ".join(filters)
    return name if len(name) <= RULE_NAME_MAX else name[: RULE_NAME_MAX - 3] + "..."


def _bridge(bridge: BridgeSettings, written: _File) -> BridgeSettings:
    problems: list[Fault] = []
    if not bridge.local_subscriptions and not bridge.remote_subscriptions:
        message = 'nothing crosses: write at least one rule, such as {filters: ["plant/#"]}, here or in remote_subscriptions'
        problems.append((("local_subscriptions",), message))
    problems += _doubles(bridge)
    problems += _classes(bridge)
    problems += _live_first(bridge)
    longest = max((len(remote_client_id(bridge.remote.client_id, lane).encode()) for lane in bridge.lane_labels), default=0)
    if longest > CLIENT_ID_MAX_BYTES:
        message = f"has {longest} bytes with the name of a lane behind it; MQTT allows {CLIENT_ID_MAX_BYTES}, so take a shorter one"
        problems.append((("remote", "client_id"), message))
    if not bridge.persist:
        problems += [
            (("local_subscriptions", index, "min_qos"), "persist: false lowers every message to QoS 0; remove one of the two")
            for index, rule in enumerate(bridge.local_subscriptions)
            if rule.min_qos
        ]
    problems += _link_state(bridge)
    problems += _announcements(bridge, written)
    problems += [
        (("local_subscriptions", index, "provenance"), why)
        for index, rule in enumerate(bridge.local_subscriptions)
        if (why := _PROVENANCE_REFUSED.get((bridge.remote.protocol, rule.provenance)))
    ]
    if 4 in bridge.remote.levels:
        problems += [
            (
                ("local_subscriptions", index, "user_properties"),
                "MQTT 3.1.1 carries no user properties; write protocol: mqtt5, or remove them",
            )
            for index, rule in enumerate(bridge.local_subscriptions)
            if rule.user_properties
        ]
    if bridge.remote.protocol == 4:
        problems += [
            (("on_refusal", reason), f"MQTT 3.1.1 has no reason codes; only {', '.join(WITHOUT_CODE)} can be given")
            for reason, action in written.get("on_refusal", {}).items()
            if not _needs_no_code(reason, action)
        ]
    _raise(problems)
    return bridge


def _link_state(bridge: BridgeSettings) -> list[Fault]:
    topic, told = link_state_topic(bridge), bridge.link_state
    if topic is None or told is None:
        return []
    key = ("link_state", "topic")
    if "{client_id}" in told.topic and not bridge.remote.client_id:
        return [(key, "has the name of remote.client_id, and there is none; write that, or a topic of your own")]
    if (fault := topic_fault(topic)) is not None:
        return [(key, f"{topic} is no topic name: {fault}")]
    if told.local and is_reserved(topic.encode()):
        return [(key, f"{topic} is among the node's own topics; below $SYS/ only $SYS/broker/connection/ is for bridges")]
    if not told.local and not told.remote:
        return [(("link_state",), "is told to nobody: local and remote are false; write true for one, or remove it")]
    return []


def _announcements(bridge: BridgeSettings, written: _File) -> list[Fault]:
    remote = bridge.remote
    problems: list[Fault] = []
    for key, said in (("will", remote.will), ("birth", remote.birth)):
        if said is None:
            continue
        if (fault := topic_fault(said.topic)) is not None:
            problems.append((("remote", key, "topic"), f"{said.topic} is no topic name: {fault}"))
        problems += [
            (("remote", key, name), "is not in MQTT 3.1.1; write protocol: mqtt5, or remove it")
            for name in ("user_properties", "content_type", "expiry", "delay")
            if remote.protocol == 4 and name in written.get("remote", {}).get(key, {})
        ]
        if bridge.link_state is not None and bridge.link_state.remote:
            problems.append((("remote", key), "cannot stand beside link_state.remote, which says the same; remove one of them"))
    return problems


def _classes(bridge: BridgeSettings) -> list[Fault]:
    """Classes that are listed twice, are more than eight, or cannot be called so; and rules of classes that there are not."""
    problems: list[Fault] = []
    listed = [each.name for each in bridge.classes]
    for index, name in enumerate(listed):
        if name in listed[:index]:
            problems.append((("classes", index, "name"), f"{name} is listed twice; keep one"))
        if name == LIVE:
            problems.append((("classes", index, "name"), f"{LIVE} is what the lane beside a backlog is called; take another"))
    own = [name for name in dict.fromkeys(listed) if name not in CLASSES]
    if len(own) > CLASSES_MAX:
        problems.append((("classes",), f"has {len(own)} names of one's own, and a bridge may have {CLASSES_MAX}; join some"))
    known = list(dict.fromkeys((*CLASSES, *listed)))
    problems += [
        (
            ("local_subscriptions", index, "priority"),
            f"{rule.priority} is no class{nearest(rule.priority, known)}; known are {', '.join(known)}; others stand in classes",
        )
        for index, rule in enumerate(bridge.local_subscriptions)
        if rule.priority not in known
    ]
    return problems


def _live_first(bridge: BridgeSettings) -> list[Fault]:
    if bridge.backlog != LIVE_FIRST:
        return [(("live_properties",), f"has no effect without backlog: {LIVE_FIRST}")] if bridge.live_properties else []
    problems: list[Fault] = []
    if bridge.lanes > 1:
        problems.append((("lanes",), f"is for backlog: {OLDEST_FIRST}; with {LIVE_FIRST} there are one lane and the one beside it"))
    if bridge.live_properties and 4 in bridge.remote.levels:
        problems.append((("live_properties",), "MQTT 3.1.1 carries no user properties; write protocol: mqtt5, or remove them"))
    return problems


def _needs_no_code(reason: str, action: str) -> bool:
    """Whether a remote that says no reason can give it, or it says what holds anyway."""
    plain = RefusalSettings()
    if reason == DEFAULT_REASON:
        return action == plain.default
    return code_of(reason) in WITHOUT_CODE.values() or (code_of(reason), action) in plain.codes


def _doubles(bridge: BridgeSettings) -> list[Fault]:
    """Remote filters of which a remote may send one message twice; one inside another is subscribed to once, so it may stay."""
    problems: list[Fault] = []
    earlier: list[tuple[str, str | None]] = []
    for index, rule in enumerate(bridge.remote_subscriptions):
        for place, topic_filter in enumerate(rule.filters):
            for other, group in earlier:
                once = group == rule.shared and (covers(topic_filter, other) or covers(other, topic_filter))
                if overlap(topic_filter, other) and not once:
                    cure = "write one filter that covers both" if group == rule.shared else "let both be of one group, or of none"
                    message = f"overlaps {other}: a remote may send what both match twice; {cure}"
                    problems.append((("remote_subscriptions", index, "filters", place), message))
                    break
            earlier.append((topic_filter, rule.shared))
    return problems


def _supervision(supervision: SupervisionSettings, _: _File) -> SupervisionSettings:
    if supervision.heartbeat_timeout_s <= supervision.heartbeat_period_s:
        period = write_duration(supervision.heartbeat_period_s)
        raise Inconsistent([(("heartbeat_timeout",), f"must be longer than heartbeat_period ({period}), better three times it")])
    return supervision


def _snapshots(snapshots: SnapshotSettings, written: _File) -> SnapshotSettings:
    if snapshots.to is None and "keep_in_target" in written:
        raise Inconsistent([(("keep_in_target",), "has no effect without to; write to: FOLDER, or remove it")])
    return snapshots


def _http(http: HttpSettings, _: _File) -> HttpSettings:
    if http.tokens_file is None and not _on_loopback(http.host):
        message = f"must be given where bind is not loopback ({http.bind}): make a token with bascule token add FILE NAME"
        raise Inconsistent([(("tokens_file",), message)])
    return http


def _on_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name; what it stands for may change
        return host == "localhost"


def _otlp(otlp: OtlpSettings, written: _File) -> OtlpSettings:
    if "tls" in written and not otlp.endpoint.startswith("https:"):
        raise Inconsistent([(("tls",), "has no effect with http; write endpoint: https://..., or remove it")])
    _try_tls(otlp.tls)
    return otlp


def _telemetry(telemetry: TelemetrySettings, _: _File) -> TelemetrySettings:
    if not has_otel():
        raise Inconsistent([(("otlp",), NO_OTEL)])
    return telemetry


_OF_TROUBLES = {  # what only some troubles go by
    "age": ("queue_age",),
    "full_percent": ("queue_full",),
    "free": ("disk",),
    "within": ("certificate", "credential"),
    "per_minute": ("refused_clients",),
}
_OF_BRIDGES = frozenset({"link_down", "queue_age", "queue_full", "dead_letters", "messages_lost", "certificate", "credential"})


def _notice(notice: NoticeSettings, written: _File) -> NoticeSettings:
    problems: list[Fault] = []
    if not (notice.webhook or notice.command or notice.email or notice.topic):
        problems.append((("when",), "nobody is told: write webhook, command, email or topic"))
    problems += [
        ((key,), f"has no effect without when: [{troubles[0]}]; write that, or remove it")
        for key, troubles in _OF_TROUBLES.items()
        if key in written and not set(troubles) & set(notice.when)
    ]
    if notice.bridges and not _OF_BRIDGES & set(notice.when):
        problems.append((("bridges",), f"has no effect: {', '.join(notice.when)} is of no bridge; remove it"))
    if len(set(notice.when)) < len(notice.when):
        problems.append((("when",), "has the same trouble twice; keep one"))
    _raise(problems)
    return notice if notice.name else replace(notice, name=notice.when[0])


def _webhook(webhook: WebhookSettings, written: _File) -> WebhookSettings:
    problems: list[Fault] = []
    if webhook.url is not None and webhook.url_file is not None:
        problems.append((("url_file",), "cannot stand beside url; keep one of them"))
    if webhook.url is None and webhook.url_file is None and webhook.format != "pagerduty":
        problems.append((("url",), "is missing; write url: https://..., or url_file: FILE"))
    if webhook.format == "pagerduty" and webhook.routing_key_file is None:
        problems.append((("routing_key_file",), "is missing; PagerDuty wants the key of an integration (Events API v2)"))
    if webhook.format != "pagerduty" and webhook.routing_key_file is not None:
        problems.append((("routing_key_file",), "has no effect without format: pagerduty; write that, or remove it"))
    if "tls" in written and webhook.url is not None and not webhook.url.startswith("https:"):
        problems.append((("tls",), "has no effect with http; write url: https://..., or remove it"))
    _raise(problems)
    _try_tls(webhook.tls)
    return webhook


def _email(email: EmailSettings, _: _File) -> EmailSettings:
    problems: list[Fault] = []
    if (email.user is None) != (email.password_file is None):
        missing = "password_file" if email.password_file is None else "user"
        problems.append(((missing,), "is missing; user and password_file go together"))
    if email.security == "none" and email.ca_file is not None:
        problems.append((("ca_file",), "has no effect with security: none; write starttls or tls, or remove it"))
    problems += [
        ((key,), "is not one mail address; write it such as ops@example.com")
        for key, each in (("from", email.sender), *(("to", one) for one in email.to))
        if parseaddr(each)[1] != each or "@" not in each
    ]
    _raise(problems)
    return email


def _try_tls(tls: ClientTlsSettings) -> None:
    """Raises Inconsistent: a file of it does not hold what it should."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if tls.ca_file:
            trust(context, tls.ca_file)
        if tls.cert_file and tls.key_file:
            show(context, tls.cert_file, tls.key_file)
    except CertificateFault as fault:
        raise Inconsistent([(("tls", fault.key), fault.message)]) from fault


def _replication(replication: ReplicationSettings, _: _File) -> ReplicationSettings:
    problems: list[Fault] = []
    if not has_nats():
        problems.append((("servers",), NO_NATS))
    if (replication.user is None) != (replication.password_file is None):
        missing = "password_file" if replication.password_file is None else "user"
        problems.append(((missing,), "is missing; user and password_file go together"))
    ways = [key for key in ("user", "token_file", "credentials_file", "nkey_file") if getattr(replication, key) is not None]
    if len(ways) > 1:
        problems.append(((ways[1],), f"cannot stand beside {ways[0]}; keep one of them"))
    _raise(problems)
    return replication


def _node(node: NodeSettings, written: _File) -> NodeSettings:
    """The node with what its bridges and listeners inherit of it."""
    problems = [
        *_nobody_could_log_in(node),
        *_bridges(node),
        *_notices(node),
        *_too_small(node),
        *_no_snapshots(node),
        *_half_replicated(node),
    ]
    _raise(problems)
    if node.persistence.mode != "file-native" and "max_bytes" not in written.get("limits", {}):
        node = replace(node, limits=replace(node.limits, max_bytes=IN_MEMORY_MAX_BYTES))
    return replace(
        node,
        run_dir=run_dir_of(node.node.data_dir),
        listeners=tuple(_with_durability(_with_access(listener, node.access), node.persistence) for listener in node.listeners),
        bridges=tuple(
            _with_names(_with_durability(_with_limits(bridge, node.limits), node.persistence), node.node.name)
            for bridge in node.bridges
        ),
    )


def _with_access(listener: ListenerSettings, access: AccessSettings) -> ListenerSettings:
    """The listener with the node's access for what its own leaves out; a list of its own takes the place of both forms of one."""
    if listener.access is None:
        return listener
    own = _own(listener.access)
    if {"acl", "acl_file"} & own.keys():
        access = replace(access, acl=None, acl_file=None)
    return replace(listener, access=replace(access, **{name: value for name, value in own.items() if value is not None}))


def _with_limits(bridge: BridgeSettings, limits: LimitSettings) -> BridgeSettings:
    """The bridge with the node's limits, and its classes with its own, for what they leave out."""
    inherited = replace(limits, **_own(bridge.limits))

    def within(each: ClassSettings) -> ClassSettings:
        return each if each.limits is None else replace(each, limits=replace(inherited, **_own(each.limits)))

    return replace(bridge, limits=inherited, classes=tuple(map(within, bridge.classes)))


def _with_durability(one: _Promises, persistence: PersistenceSettings) -> _Promises:
    """The listener or bridge with the node's persistence for what its own durability leaves out."""
    if one.durability is None:
        return one
    return replace(one, durability=replace(persistence, **_own(one.durability)))


def _with_names(bridge: BridgeSettings, node: str) -> BridgeSettings:
    """The bridge with its own name and the node's in the destinations of its rules."""

    def named(rule: RuleSettings) -> RuleSettings:
        return replace(rule, destination=TopicTemplate.parse(rule.destination).named(bridge=bridge.name, node=node).text)

    local, remote = (tuple(map(named, rules)) for rules in (bridge.local_subscriptions, bridge.remote_subscriptions))
    return replace(bridge, local_subscriptions=local, remote_subscriptions=remote)


def _bridges(node: NodeSettings) -> list[Fault]:
    problems: list[Fault] = []
    for index, bridge in enumerate(node.bridges):
        if bridge.isolated is False and node.supervision.placement == "isolated":
            message = "has nobody to share a process with; write supervision.placement: together, or remove it"
            problems.append((("bridges", index, "isolated"), message))
        if bridge.retention_s and node.persistence.mode == "in-memory":
            message = "in memory nothing is kept; write 0s, or persistence.mode: file-native"
            problems.append((("bridges", index, "retention"), message))
        max_age_s = _own(bridge.limits).get("max_age_s", node.limits.max_age_s)
        for rank, rule in enumerate(bridge.local_subscriptions):
            if max_age_s is not None and rule.only.one_per_s >= max_age_s:
                message = f"nothing waits longer than limits.max_age ({write_duration(max_age_s)}); take less"
                problems.append((("bridges", index, "local_subscriptions", rank, "only"), message))
        for earlier, other in enumerate(node.bridges[:index]):
            if (topic := told_here(bridge)) is not None and topic == told_here(other):
                message = f"makes {topic}, which is bridges[{earlier}]'s, too: the state of two links would be one; take another"
                problems.append((("bridges", index, "link_state", "topic"), message))
            shared = set(bridge.remote.addresses) & set(other.remote.addresses)
            if shared and (same := _identifiers(bridge) & _identifiers(other)):
                whose = f"makes {min(same)}, which is bridges[{earlier}]'s at {place_of(min(shared))}"
                message = f"{whose}, so each would throw out the other; take another"
                problems.append((("bridges", index, "remote", "client_id"), message))
    return problems


def _notices(node: NodeSettings) -> list[Fault]:
    problems: list[Fault] = []
    bridges = [bridge.name for bridge in node.bridges]
    for index, rule in enumerate(node.notify):
        if rule.name in (earlier.name for earlier in node.notify[:index]):
            problems.append((("notify", index, "name"), f"is {rule.name}, as another rule's; give each its own"))
        topic = notice_topic(rule, node.node.name)
        if topic is not None and (fault := _notice_topic_fault(topic)) is not None:
            problems.append((("notify", index, "topic"), fault))
        if topic is not None and topic in (notice_topic(earlier, node.node.name) for earlier in node.notify[:index]):
            problems.append((("notify", index, "topic"), f"is {topic}, as another rule's; give each its own"))
        problems += [
            (("notify", index, "bridges", place), f"there is no bridge {name}{nearest(name, bridges)}")
            for place, name in enumerate(rule.bridges)
            if name not in bridges
        ]
    return problems


def _notice_topic_fault(topic: str) -> str | None:
    if (fault := topic_fault(topic)) is not None:
        return f"{topic} is no topic name: {fault}"
    return f"{topic} is among the topics of servers, which no bridge takes by #; take another" if topic.startswith("$") else None


def _identifiers(bridge: BridgeSettings) -> set[str]:
    """The client identifiers of its lanes at the remote; none that the remote makes."""
    return {remote_client_id(bridge.remote.client_id, lane) for lane in bridge.lane_labels} - {""}


def _too_small(node: NodeSettings) -> list[Fault]:
    """Limits that the largest message which a client may publish, or the largest Will, could never be within."""
    largest, largest_will = node.clients.packet_max_bytes, node.clients.will_max_bytes
    if node.sessions.wills_max_bytes < largest_will:
        said = f"is below clients.will_max_bytes ({write_size(largest_will)}), so the largest Will is never kept; raise it"
        return [(("sessions", "wills_max_bytes"), said)]
    percent = node.sessions.user_share_percent
    share = node.sessions.retained_max_bytes * percent // 100 - BESIDE_A_MESSAGE_BYTES
    limits: list[tuple[tuple[str | int, ...], int | None, str]] = [
        (("sessions", "queue_max_bytes"), node.sessions.queue_max_bytes, "delivered to a session that lasts"),
        (("sessions", "retained_max_bytes"), share, f"retained within {percent} % of it, a user's share"),
        (("limits", "max_bytes"), node.limits.max_bytes, "queued"),
        (("limits", "volatile_max_bytes"), node.limits.volatile_max_bytes, "queued at QoS 0"),
    ]
    for index, bridge in enumerate(node.bridges):
        place, own = ("bridges", index), _own(bridge.limits)
        limits.append(((*place, "tier2", "max_bytes"), bridge.tier2.max_bytes, "handed out"))
        letters = bridge.dead_letter.max_bytes
        letters = None if letters is None else letters - BESIDE_A_MESSAGE_BYTES
        limits.append(((*place, "dead_letter", "max_bytes"), letters, "kept as a dead letter"))
        limits.append(((*place, "limits", "max_bytes"), own.get("max_bytes"), "queued"))
        limits.append(((*place, "limits", "volatile_max_bytes"), own.get("volatile_max_bytes"), "queued at QoS 0"))
        for number, each in enumerate(bridge.classes):
            at, of_class = (*place, "classes", number, "limits"), _own(each.limits)
            limits.append(((*at, "max_bytes"), of_class.get("max_bytes"), "queued"))
            limits.append(((*at, "volatile_max_bytes"), of_class.get("volatile_max_bytes"), "queued at QoS 0"))
    return [
        (
            key,
            f"is too small for clients.packet_max_bytes ({write_size(largest)}): the largest message is never {what}; raise it",
        )
        for key, size_bytes, what in limits
        if size_bytes is not None and size_bytes < largest
    ]


def _half_replicated(node: NodeSettings) -> list[Fault]:
    replicated = node.persistence.mode == "replicated"
    if replicated and node.replication is None:
        return [(("replication",), "is missing; persistence.mode: replicated needs its servers, stream and member")]
    if not replicated and node.replication is not None:
        return [(("replication",), "has no effect without persistence.mode: replicated; write that, or remove it")]
    places: list[tuple[tuple[str | int, ...], Any]] = [(("persistence", "acknowledge"), node.persistence.acknowledge)]
    own = {"listeners": [one.durability for one in node.listeners], "bridges": [one.durability for one in node.bridges]}
    for key, each in own.items():
        places += [((key, n, "durability", "acknowledge"), _own(one).get("acknowledge")) for n, one in enumerate(each)]
    message = "cannot be fast with mode: replicated, which is for acknowledging later; remove it"
    return [(place, message) for place, acknowledge in places if replicated and acknowledge == "fast"]


def _no_snapshots(node: NodeSettings) -> list[Fault]:
    problems: list[Fault] = []
    if node.snapshots.every_s and node.persistence.mode == "in-memory":
        message = "there is nothing on the disk with persistence.mode in-memory; write every: 0s, or mode: file-native"
        problems.append((("snapshots", "every"), message))
    data_dir = PurePath(node.node.data_dir)
    if node.snapshots.to is not None and data_dir in (PurePath(node.snapshots.to), *PurePath(node.snapshots.to).parents):
        message = f"is in node.data_dir ({data_dir}), which holds the snapshots themselves; take another folder"
        problems.append((("snapshots", "to"), message))
    return problems


def _nobody_could_log_in(node: NodeSettings) -> list[Fault]:
    problems: list[Fault] = []
    for index, listener in enumerate(node.listeners):
        own = _own(listener.access)
        anonymous = node.access.allow_anonymous if own.get("allow_anonymous") is None else own["allow_anonymous"]
        certified = any(each is not None and each.identity != "none" for each in (listener.tls, listener.proxy_protocol))
        if not anonymous and not certified and not (own.get("password_file") or node.access.password_file):
            message = "nobody could log in: write password_file: PATH (see bascule user), or allow_anonymous: true"
            problems.append(((("listeners", index, "access") if own else ("access", "allow_anonymous")), message))
    return problems


CHECKS: dict[type, Callable[[Any, _File], Any]] = {
    AccessSettings: _access,
    AuthenticationSettings: _authentication,
    BackoffSettings: _backoff,
    BridgeSettings: _bridge,
    ClientLimitSettings: _clients,
    ClientTlsSettings: _client_tls,
    EmailSettings: _email,
    HttpSettings: _http,
    ListenerSettings: _listener,
    ListenerTlsSettings: _listener_tls,
    NodeSettings: _node,
    NoticeSettings: _notice,
    OtlpSettings: _otlp,
    ProxySettings: _proxy,
    RemoteSettings: _remote,
    ReplicationSettings: _replication,
    RuleSettings: _rule,
    SnapshotSettings: _snapshots,
    SupervisionSettings: _supervision,
    TelemetrySettings: _telemetry,
    TlsSettings: _tls,
    WebhookSettings: _webhook,
}
