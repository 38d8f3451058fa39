"""Settings for tests of the supervisor: one bridge with one lane, short periods."""

from __future__ import annotations

from pathlib import Path

from wire.settings import (
    AccessSettings,
    BackoffSettings,
    BridgeSettings,
    ClientLimitSettings,
    LimitSettings,
    LoginLimitSettings,
    NodeSettings,
    PersistenceSettings,
    RefusalSettings,
    RemoteSettings,
    SupervisionSettings,
    TlsSettings,
)

LIMITS = LimitSettings(
    max_messages=None, max_bytes=None, max_age_s=None, min_free_disk_bytes=0, volatile_max_bytes=1 << 20, overflow="reject"
)
BACKOFF = BackoffSettings(initial_s=0.05, max_s=0.2, factor=2.0, jitter=0.25, stable_s=5.0)


def bridge(name: str, lanes: int = 1) -> BridgeSettings:
    """A bridge that nothing crosses."""
    remote = RemoteSettings(
        addresses=(("127.0.0.1", 1),),
        protocol=4,
        transport="tcp",
        client_id=name,
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
    return BridgeSettings(
        name=name,
        remote=remote,
        persist=True,
        backoff=BACKOFF,
        lanes=lanes,
        tier2_max_messages=100,
        tier2_max_bytes=1 << 20,
        local_subscriptions=(),
        remote_subscriptions=(),
        loop_prevention=False,
        max_hops=1,
        on_session_loss="assume-delivered",
        on_refusal=RefusalSettings(default="dead-letter", codes=((0x91, "retry"), (0x97, "retry"))),
        limits=LIMITS,
    )


def node_settings(
    folder: Path, *bridges: BridgeSettings, restarts_max: int = 50, heartbeat_timeout_s: float = 5.0, stop_timeout_s: float = 5.0
) -> NodeSettings:
    """A node in ``folder``."""
    return NodeSettings(
        name="test",
        data_dir=str(folder / "data"),
        run_dir=str(folder / "data" / "run"),
        log_level="info",
        listeners=(),
        access=AccessSettings(
            allow_anonymous=True, login_limits=LoginLimitSettings(failures_max=None, period_s=60.0, block_s=60.0)
        ),
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
        limits=LIMITS,
        bridges=bridges,
        supervision=SupervisionSettings(
            heartbeat_period_s=0.1,
            heartbeat_timeout_s=heartbeat_timeout_s,
            restarts_max=restarts_max,
            restart_period_s=60.0,
            restart_backoff=BACKOFF,
            stop_timeout_s=stop_timeout_s,
        ),
    )
