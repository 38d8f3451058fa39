"""Settings as a test wants them: a bridge that nothing crosses, a node without listeners, and what differs from that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wire.config_settings import (
    SESSION_NEVER_EXPIRES_S,
    AccessSettings,
    BackoffSettings,
    BridgeSettings,
    ClientLimitSettings,
    HttpSettings,
    LimitSettings,
    LoginLimitSettings,
    LoopPreventionSettings,
    NodeItself,
    NodeSettings,
    OtlpSettings,
    PersistenceSettings,
    RemoteSettings,
    SessionSettings,
    SupervisionSettings,
    Tier2Settings,
)

BACKOFF = BackoffSettings(initial_s=0.05, max_s=0.2, stable_s=5.0)
NO_LOGIN_LIMITS = LoginLimitSettings(failures_max=None)

_LIMITS = LimitSettings(max_messages=None, max_bytes=None, min_free_disk_bytes=0, volatile_max_bytes=1 << 20)
_REMOTE = RemoteSettings(
    addresses=(("127.0.0.1", 1),),
    protocol=4,
    connect_timeout_s=1.0,
    session_expiry_s=0,
    receive_maximum=100,
    qos2_maximum=20,
    stall_timeout_s=10.0,
)
_BRIDGE = BridgeSettings(
    name="",
    remote=_REMOTE,
    backoff=BACKOFF,
    tier2=Tier2Settings(max_messages=100, max_bytes=1 << 20),
    loop_prevention=LoopPreventionSettings(enabled=False),
    limits=_LIMITS,
)
_NODE = NodeSettings(
    node=NodeItself(name="test", data_dir="/nonexistent"),
    run_dir="/nonexistent",
    listeners=(),
    access=AccessSettings(allow_anonymous=True, login_limits=NO_LOGIN_LIMITS),
    clients=ClientLimitSettings(
        connections_max=10,
        connect_timeout_s=5.0,
        output_max_bytes=1 << 20,
        subscriptions_max=10,
        keep_alive_max_s=60,
        receive_maximum=100,
        sys_period_s=0.0,
    ),
    sessions=SessionSettings(expiry_max_s=SESSION_NEVER_EXPIRES_S),
    persistence=PersistenceSettings(mode="in-memory", sync="os"),
    limits=_LIMITS,
    supervision=SupervisionSettings(
        heartbeat_period_s=0.1, heartbeat_timeout_s=20.0, restarts_max=50, restart_backoff=BACKOFF, stop_timeout_s=30.0
    ),
)

OTLP = OtlpSettings(endpoint="http://127.0.0.1:4318")
HTTP = HttpSettings(bind="127.0.0.1:0", login_limits=NO_LOGIN_LIMITS)


def limits(**changed: Any) -> LimitSettings:
    """No limits but those ``changed``."""
    return replace(_LIMITS, **changed)


def bridge(name: str = "cloud", lanes: int = 1, **changed: Any) -> BridgeSettings:
    """A bridge to where nobody listens, without rules. Its client identifier is ``name``."""
    plain = replace(_BRIDGE, name=name, lanes=lanes, remote=replace(_REMOTE, client_id=name))
    return replace(plain, **changed)


def node(*bridges: BridgeSettings, **changed: Any) -> NodeSettings:
    """A node of these bridges; nothing is kept, and its folder does not exist. It beats fast and restarts at once.

    changed: settings of the node, its name and folder among them.
    """
    own = {key: changed.pop(key) for key in ("name", "data_dir") if key in changed}
    return itself(replace(_NODE, bridges=bridges, **changed), **own)


def itself(settings: NodeSettings, **changed: Any) -> NodeSettings:
    """``settings`` with other keys of ``node``: its name, its folder."""
    return replace(settings, node=replace(settings.node, **changed))
