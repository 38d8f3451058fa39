"""Every option of Mosquitto and of HiveMQ Edge's bridges: the key that it becomes, or why there is none.

``bascule convert`` goes by these tables, and the manual's are made of them (``scripts/documents/bridge_options.py``), so both say
the same. How an option becomes a key that it does not fit one to one, a function says in ``supervisor/convert/mosquitto.py`` or
``hivemq_edge.py``; the sentence here tells the operator.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Fate(StrEnum):
    """What becomes of an option."""

    KEY = "key"
    NEEDLESS = "needs none"  # what it asks for is so anyway, or there is nothing that it could be about; nothing is lost
    NEVER = "no key"


@dataclass(frozen=True, slots=True)
class Option:
    """One option. key: ours, as ``bridges[].remote.keep_alive``. says: how it becomes that, or why it does not.

    default: what it has when nobody writes it; written out, that asks for nothing. zero: 0 and less stand for no limit. fatal: what
    it belongs to cannot do without it, a listener or a connection, and is left out whole.
    """

    name: str
    key: str = ""
    says: str = ""
    fate: Fate = Fate.KEY
    default: str | None = None
    zero: bool = False
    fatal: bool = False


def _needless(name: str, says: str) -> Option:
    return Option(name, says=says, fate=Fate.NEEDLESS)


def _never(name: str, says: str, default: str | None = None, *, fatal: bool = False) -> Option:
    return Option(name, says=says, fate=Fate.NEVER, default=default, fatal=fatal)


_REMOTE = "bridges[].remote"
_TLS = f"{_REMOTE}.tls"
_OUT, _IN = "bridges[].local_subscriptions", "bridges[].remote_subscriptions"
_ON_DISK = "what waits is on disk when it is acknowledged, in node.data_dir"
_TO_STDERR = "logs are JSON lines on standard error, which the service manager keeps"
_NO_CLIENT = "the bridge is part of the node and no client of it; its rules say what it may take and bring"
_PSK = "pre-shared keys are spoken to remotes only, and without them it would not be encrypted"
TLS_1_3 = "Python's ssl offers the ciphers of TLS 1.3 that OpenSSL has, all of them"
_EVERY_QOS = f"clients may publish at every QoS; for what a bridge takes write {_OUT}[].max_qos"
_PLUGIN = "plug-ins are not loaded; where one decides who may come in, nobody comes in until there is a password file"
_ENGINE = "a key in a TPM or on a token stands in listeners[].tls.key_file, as its provider's PEM file says where it is"

NODE_OPTIONS = (
    _needless("allow_duplicate_messages", "a client gets a message once, however many of its filters match"),
    _needless("autosave_interval", _ON_DISK),
    _needless("autosave_on_changes", _ON_DISK),
    _never("check_retain_source", "a retained message stays, also when its publisher loses the right to the topic", "false"),
    _never("clientid_prefixes", "write the identifiers into access.acl, as clients: [prefix*]"),
    _needless("connection_messages", _TO_STDERR),
    _never("enable_control_api", "commands and the REST API take the place of $CONTROL", "false"),
    Option("global_max_clients", "sessions.sessions_max", zero=True),
    Option("global_max_connections", "clients.connections_max", zero=True),
    Option("include_dir", says="its files are read where it stands, in the order of their names"),
    _needless("log_dest", _TO_STDERR),
    _needless("log_facility", _TO_STDERR),
    _needless("log_timestamp", _TO_STDERR),
    _needless("log_timestamp_format", _TO_STDERR),
    Option("log_type", "log.level", "the most talkative of them"),
    _never("max_inflight_bytes", "sessions.in_flight_max counts messages", "0"),
    Option("max_inflight_messages", "sessions.in_flight_max", zero=True),
    Option("max_keepalive", "clients.keep_alive_max", zero=True),
    Option("max_packet_size", "clients.packet_max_bytes", "at most 16 MiB: larger ones ask for other limits to be raised, too"),
    Option("max_queued_bytes", "sessions.queue_max_bytes", "without a limit there: the default of here"),
    Option("max_queued_messages", "sessions.queue_max_messages", "of sessions; a bridge has limits.max_messages", zero=True),
    _never("memory_limit", "each part has a limit of its own: clients.input_max_bytes, clients.output_max_bytes, sessions", "0"),
    Option("message_size_limit", "clients.packet_max_bytes", "as max_packet_size"),
    _needless("packet_buffer_size", "buffers grow as they are needed, within clients.input_max_bytes"),
    Option("per_listener_settings", says="access of each listener becomes listeners[].access", default="false"),
    _needless("persistence", _ON_DISK),
    _needless("persistence_file", _ON_DISK),
    _needless("persistence_location", _ON_DISK),
    Option("persistent_client_expiration", "sessions.expiry_max"),
    _needless("pid_file", "commands find the node by its control socket"),
    _never(
        "queue_qos0_messages",
        f"QoS 0 waits for a bridge in memory, within limits.volatile_max_bytes, or on disk by {_OUT}[].min_qos; and for no client",
        "false",
    ),
    _never("retain_available", "messages are always retained; access.acl says who may publish to which topics", "true"),
    _never("retain_expiry_interval", "a retained message goes when its own expiry (MQTT 5) says so"),
    _needless("retained_persistence", _ON_DISK),
    _needless("retry_interval", "Mosquitto does not know it any more: MQTT resends after a new connection only"),
    _needless("set_tcp_nodelay", "it is always so"),
    Option("sys_interval", "clients.sys_period"),
    _never(
        "upgrade_outgoing_qos", f"for a bridge write {_OUT}[].min_qos; a subscriber gets a message at its own QoS at most", "false"
    ),
    _needless("user", "the service unit names the user"),
    _needless("websockets_headers_size", "a header has a limit of its own"),
    _needless("websockets_log_level", _TO_STDERR),
)

ACCESS_OPTIONS = (
    Option("acl_file", "access.acl", "its rules, in the order in which Mosquitto asks them"),
    Option("allow_anonymous", "access.allow_anonymous"),
    _never("allow_zero_length_clientid", "a client without an identifier is given one, as MQTT says", "true"),
    _needless("auto_id_prefix", "an identifier that the node makes has no prefix"),
    _never("auth_plugin", _PLUGIN),
    _never("auth_plugin_deny_special_chars", "a name with a wildcard in it never widens what is allowed"),
    _never("auth_opt_*", _PLUGIN),
    _never("global_plugin", _PLUGIN),
    Option("listener_allow_anonymous", "listeners[].access.allow_anonymous"),
    _needless("listener_auto_id_prefix", "an identifier that the node makes has no prefix"),
    Option("password_file", "access.password_file", "lines with hashes of argon2id and PBKDF2 ($7$) as they are, into secrets/"),
    _never("plugin", _PLUGIN),
    _never("plugin_load", _PLUGIN),
    _never("plugin_opt_*", _PLUGIN),
    _never("plugin_use", _PLUGIN),
    _never("psk_file", "pre-shared keys are spoken to remotes only"),
)

LISTENER_OPTIONS = (
    _never("accept_protocol_versions", "every listener speaks MQTT 3.1.1 and 5.0, none 3.1"),
    Option("bind_address", "listeners[].bind"),
    _never("bind_interface", "a listener has an address: write the interface's into listeners[].bind"),
    Option("cafile", "listeners[].tls.ca_file", "where require_certificate is true"),
    _never("capath", "write one file with the authorities into listeners[].tls.ca_file"),
    Option("certfile", "listeners[].tls.cert_file"),
    Option("ciphers", "listeners[].tls.ciphers"),
    _never("ciphers_tls1.3", TLS_1_3),
    Option("crlfile", "listeners[].tls.crl_file", "where require_certificate is true"),
    _needless("dhparamfile", "OpenSSL chooses"),
    _never("disable_client_cert_date_checks", "a certificate that has ended lets nobody in", "false"),
    _never(
        "enable_proxy_protocol", "write listeners[].proxy_protocol: {from: [ADDRESS]}; Mosquitto believes everybody", fatal=True
    ),
    _never("http_dir", "no files are served"),
    Option("keyfile", "listeners[].tls.key_file"),
    Option("listener", "listeners[].bind"),
    Option("max_connections", "listeners[].connections_max", zero=True),
    _never("max_qos", _EVERY_QOS, "2"),
    _needless("max_topic_alias", "MQTT 5 clients may use aliases, which change nothing but bytes"),
    _needless("max_topic_alias_broker", "topics are sent by aliases where a client allows it, which changes nothing but bytes"),
    _never("maximum_qos", _EVERY_QOS, "2"),
    _never("mount_point", "topics have no prefix by listener, so its clients would be among all others", fatal=True),
    Option("port", "listeners[].bind"),
    Option("protocol", "listeners[].protocol", "mqtt: tcp or tls; websockets: ws or wss, at the path /mqtt alone"),
    _needless("proxy_protocol_v2_require_tls", "see enable_proxy_protocol"),
    _never("psk_hint", _PSK, fatal=True),
    Option("require_certificate", "listeners[].tls.client_certificate"),
    Option("socket_domain", "listeners[].bind", "0.0.0.0 or [::]"),
    _never("tls_engine", _ENGINE),
    _never("tls_engine_kpass_sha1", _ENGINE),
    _never("tls_keyform", _ENGINE, "pem"),
    Option("tls_version", "listeners[].tls.min_version", "1.2 at least"),
    Option("use_identity_as_username", "listeners[].tls.identity", "common-name"),
    Option("use_subject_as_username", "listeners[].tls.identity", "subject"),
    _never("use_username_as_clientid", "a client has the identifier that it brings, and its session is its user's alone", "false"),
    Option("websockets_origin", "listeners[].origins"),
)

BRIDGE_OPTIONS = (
    Option("address", f"{_REMOTE}.addresses"),
    Option("addresses", f"{_REMOTE}.addresses"),
    Option("bridge_alpn", f"{_TLS}.alpn"),
    _needless("bridge_attempt_unsubscribe", "a filter is given up at the remote when it was subscribed to before, and only then"),
    Option("bridge_bind_address", f"{_REMOTE}.bind_address"),
    Option("bridge_cafile", f"{_TLS}.ca_file"),
    Option("bridge_capath", f"{_TLS}.ca_path", "/etc/ssl/certs needs none"),
    Option("bridge_certfile", f"{_TLS}.cert_file"),
    Option("bridge_ciphers", f"{_TLS}.ciphers"),
    _never("bridge_ciphers_tls1.3", TLS_1_3),
    Option("bridge_identity", f"{_TLS}.psk_identity", "with Python 3.13"),
    _never(
        "bridge_insecure",
        f"write the name in the remote's certificate into {_TLS}.server_name, or {_TLS}.verify_name: false",
        "false",
    ),
    Option("bridge_keyfile", f"{_TLS}.key_file"),
    Option("bridge_max_packet_size", f"{_REMOTE}.packet_max_bytes", default="0"),
    Option("bridge_max_topic_alias", f"{_REMOTE}.topic_aliases", "with MQTT 5"),
    Option("bridge_outgoing_retain", f"{_OUT}[].preserve_retain"),
    Option("bridge_protocol_version", f"{_REMOTE}.protocol", "mqttv31 becomes mqtt311"),
    Option("bridge_psk", f"{_TLS}.psk_file", "into a file in secrets/; with Python 3.13"),
    Option("bridge_receive_maximum", f"{_REMOTE}.receive_maximum"),
    _needless("bridge_reload_type", "a reload takes what has changed, when one asks for it"),
    _never("bridge_require_ocsp", "Python's ssl cannot ask", "false"),
    Option("bridge_session_expiry_interval", f"{_REMOTE}.session_expiry", "with MQTT 5"),
    Option("bridge_tcp_keepalive", f"{_REMOTE}.tcp_keep_alive"),
    Option("bridge_tcp_user_timeout", f"{_REMOTE}.tcp_user_timeout", "milliseconds there", default="-1"),
    Option("bridge_tls_use_os_certs", f"{_REMOTE}.transport", "tls without ca_file: the system's authorities"),
    Option("bridge_tls_version", f"{_TLS}.min_version", "1.2 at least"),
    Option("cleansession", f"{_REMOTE}.clean_start"),
    Option("clientid", f"{_REMOTE}.client_id"),
    Option("connection", "bridges[].name", "other signs than A-Z a-z 0-9 _ - become a dash"),
    Option("idle_timeout", f"{_REMOTE}.when_needed.idle", "with start_type lazy", default="60"),
    Option("keepalive_interval", f"{_REMOTE}.keep_alive"),
    _needless("local_cleansession", "the queue of a bridge never depends on its link"),
    _needless("local_clientid", _NO_CLIENT),
    _needless("local_password", _NO_CLIENT),
    _needless("local_username", _NO_CLIENT),
    Option("notification_topic", "bridges[].link_state.topic"),
    Option("notifications", "bridges[].link_state", "where it is not false, as there"),
    Option("notifications_local_only", "bridges[].link_state.remote"),
    Option("password", f"{_REMOTE}.password_file", "as remote_password"),
    Option("remote_clientid", f"{_REMOTE}.client_id", "without it HOST.CONNECTION, as there"),
    Option("remote_password", f"{_REMOTE}.password_file", "into a file in secrets/"),
    Option("remote_username", f"{_REMOTE}.username"),
    Option("restart_timeout", "bridges[].backoff", "one number: always that; two or three: initial, max and stable"),
    Option("round_robin", f"{_REMOTE}.round_robin", "with several addresses"),
    Option("start_type", f"{_REMOTE}.dial", "lazy: when-needed; once is not taken"),
    Option("threshold", f"{_REMOTE}.when_needed.messages", "with start_type lazy; fewer wait for when_needed.age at most"),
    Option("topic", _OUT, f"out: {_OUT}; in: {_IN}; both: one rule in each; prefixes in destination, $share/GROUP/ in shared"),
    Option("try_private", f"{_REMOTE}.try_private", "with MQTT 3.1.1; with 5.0 there are no local and retain as published"),
    Option("username", f"{_REMOTE}.username"),
)

_JKS = "keys and authorities are PEM files: keytool -importkeystore to PKCS12, then openssl pkcs12 -nodes"
_RULES = (
    ("filters/mqtt-topic-filter", "filters", ""),
    ("destination", "destination", "written the same"),
    ("max-qos", "max_qos", ""),
    ("preserve-retain", "preserve_retain", "false where it is left out, as there"),
    ("custom-user-properties/user-property", "user_properties", ""),
)

# By the path of the element below mqtt-bridge.
HIVEMQ_EDGE_OPTIONS = (
    Option("id", "bridges[].name", f"other signs than A-Z a-z 0-9 _ - become a dash; {_REMOTE}.client_id without a client-id"),
    Option("persist", "bridges[].persist"),
    Option("remote-broker/host", f"{_REMOTE}.addresses"),
    Option("remote-broker/port", f"{_REMOTE}.addresses"),
    Option("remote-broker/mqtt/client-id", f"{_REMOTE}.client_id"),
    Option("remote-broker/mqtt/clean-start", f"{_REMOTE}.clean_start"),
    Option("remote-broker/mqtt/session-expiry", f"{_REMOTE}.session_expiry"),
    Option("remote-broker/mqtt/keep-alive", f"{_REMOTE}.keep_alive"),
    Option("remote-broker/authentication/mqtt-simple-authentication/username", f"{_REMOTE}.username"),
    Option(
        "remote-broker/authentication/mqtt-simple-authentication/password",
        f"{_REMOTE}.password_file",
        "into a file in secrets/; a variable becomes password_env",
    ),
    Option("remote-broker/tls/enabled", f"{_REMOTE}.transport", "tls, or wss"),
    *(
        _never(f"remote-broker/tls/{store}/{part}", _JKS)
        for store, parts in (("keystore", ("path", "password", "private-key-password")), ("truststore", ("path", "password")))
        for part in parts
    ),
    Option("remote-broker/tls/protocols/protocol", f"{_TLS}.min_version", "the oldest of them, 1.2 at least"),
    Option("remote-broker/tls/cipher-suites/cipher-suite", f"{_TLS}.ciphers", "of TLS 1.2, by OpenSSL's names"),
    Option("remote-broker/tls/handshake-timeout", f"{_REMOTE}.connect_timeout"),
    Option("remote-broker/tls/verify-hostname", f"{_TLS}.verify_name", default="true"),
    Option("remote-broker/websocket/enabled", f"{_REMOTE}.transport", "ws, or wss"),
    Option("remote-broker/websocket/server-path", f"{_REMOTE}.websocket_path"),
    Option("remote-broker/websocket/subprotocol", f"{_REMOTE}.websocket_subprotocol"),
    *(Option(f"forwarded-topics/forwarded-topic/{path}", f"{_OUT}[].{key}", says) for path, key, says in _RULES),
    Option("forwarded-topics/forwarded-topic/excludes/mqtt-topic-filter", f"{_OUT}[].excludes"),
    _never("forwarded-topics/forwarded-topic/queue-limit", "a bridge has limits, not a rule: bridges[].limits"),
    *(Option(f"remote-subscriptions/remote-subscription/{path}", f"{_IN}[].{key}", says) for path, key, says in _RULES),
    Option("loop-prevention/enabled", "bridges[].loop_prevention.enabled"),
    Option("loop-prevention/hop-count-limit", "bridges[].loop_prevention.max_hops", "with hop_property: hmq-bridge-hop-count"),
)
