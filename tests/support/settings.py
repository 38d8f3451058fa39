"""Settings as a test wants them: a bridge that nothing crosses, a node without listeners, and what differs from that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wire.settings import (
    AccessSettings,
    BackoffSettings,
    BridgeSettings,
    ClientLimitSettings,
    HttpSettings,
    LimitSettings,
    LoginLimitSettings,
    NodeSettings,
    OtlpSettings,
    PersistenceSettings,
    RefusalSettings,
    RemoteSettings,
    SupervisionSettings,
    TlsSettings,
)

BACKOFF = BackoffSettings(initial_s=0.05, max_s=0.2, factor=2.0, jitter=0.25, stable_s=5.0)

_LIMITS = LimitSettings(
    max_messages=None, max_bytes=None, max_age_s=None, min_free_disk_bytes=0, volatile_max_bytes=1 << 20, overflow="reject"
)
_REMOTE = RemoteSettings(
    addresses=(("127.0.0.1", 1),),
    protocol=4,
    transport="tcp",
    client_id="",
    keep_alive_s=60,
    connect_timeout_s=1.0,
    clean_start=False,
    session_expiry_s=0,
    username=None,
    password_file=None,
    tls=TlsSettings(ca_file="", cert_file="", key_file="", verify=True, server_name="", alpn=()),
    websocket_path="/mqtt",
    receive_maximum=100,
    qos2_maximum=20,
    stall_timeout_s=10.0,
)
_BRIDGE = BridgeSettings(
    name="",
    remote=_REMOTE,
    persist=True,
    backoff=BACKOFF,
    lanes=1,
    tier2_max_messages=100,
    tier2_max_bytes=1 << 20,
    local_subscriptions=(),
    remote_subscriptions=(),
    loop_prevention=False,
    max_hops=1,
    on_session_loss="assume-delivered",
    on_refusal=RefusalSettings(default="dead-letter", codes=((0x91, "retry"), (0x97, "retry"))),
    limits=_LIMITS,
)
_NODE = NodeSettings(
    name="test",
    data_dir="/nonexistent",
    run_dir="/nonexistent",
    log_level="info",
    listeners=(),
    access=AccessSettings(allow_anonymous=True, login_limits=LoginLimitSettings(failures_max=None, period_s=60.0, block_s=60.0)),
    clients=ClientLimitSettings(
        connections_max=10,
        connect_timeout_s=5.0,
        packet_max_bytes=1 << 20,
        output_max_bytes=1 << 20,
        subscriptions_max=10,
        keep_alive_max_s=60,
        receive_maximum=100,
    ),
    persistence=PersistenceSettings(mode="in-memory", acknowledge="after-commit", flush_period_s=0.0, sync="os"),
    limits=_LIMITS,
    bridges=(),
    supervision=SupervisionSettings(
        heartbeat_period_s=0.1,
        heartbeat_timeout_s=20.0,
        restarts_max=50,
        restart_period_s=60.0,
        restart_backoff=BACKOFF,
        stop_timeout_s=30.0,
    ),
)

OTLP = OtlpSettings(endpoint="http://127.0.0.1:4318")
HTTP = HttpSettings(host="127.0.0.1", port=0, login_limits=LoginLimitSettings(failures_max=None, period_s=60.0, block_s=60.0))


def limits(**changed: Any) -> LimitSettings:
    """No limits but those ``changed``."""
    return replace(_LIMITS, **changed)


def bridge(name: str = "cloud", lanes: int = 1, **changed: Any) -> BridgeSettings:
    """A bridge to where nobody listens, without rules. Its client identifier is ``name``."""
    plain = replace(_BRIDGE, name=name, lanes=lanes, remote=replace(_REMOTE, client_id=name))
    return replace(plain, **changed)


def node(*bridges: BridgeSettings, **changed: Any) -> NodeSettings:
    """A node of these bridges; nothing is kept, and its folder does not exist. It beats fast and restarts at once."""
    return replace(_NODE, bridges=bridges, **changed)
