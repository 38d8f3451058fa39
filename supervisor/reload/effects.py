"""How a running node takes a change of each key of its configuration: the table that the plan, and the reference, read. Pure.

Keys are those of the configuration file, without the places in lists: ``bridges.remote.client_id``. A key that is not in the table
is taken for what the whole node hangs on.
"""

from __future__ import annotations

from typing import Literal

How = Literal["live", "reconnect", "restart", "destructive", "node-restart"]

LIVE: How = "live"  # nobody notices
RECONNECT: How = "reconnect"  # the processes of a bridge begin anew; its queue stays
RESTART: How = "restart"  # a process begins anew
DESTRUCTIVE: How = "destructive"  # something that is kept goes, or may arrive twice
NODE_RESTART: How = "node-restart"  # not while the node runs

# The longest key that a change is below says how. Which of these give something up besides, depends on the values: the plan's.
EFFECTS: dict[str, How] = {
    "node": NODE_RESTART,
    "node.new_store": LIVE,
    "log": LIVE,
    "listeners": LIVE,
    "access": LIVE,
    "clients": LIVE,
    "sessions": LIVE,
    "persistence.mode": NODE_RESTART,
    "persistence.acknowledge": RESTART,
    "persistence.flush_period": RESTART,
    "persistence.gather": RESTART,
    "persistence.sync": RESTART,
    "persistence.events": RESTART,
    "replication": NODE_RESTART,
    "limits": LIVE,
    "supervision": LIVE,
    "snapshots": LIVE,
    "http": RESTART,
    "telemetry": RESTART,
    "control": LIVE,
    "bridges.name": LIVE,
    "bridges.remote": RECONNECT,
    "bridges.persist": RECONNECT,
    "bridges.backoff": RECONNECT,
    "bridges.lanes": LIVE,
    "bridges.tier2": RECONNECT,
    "bridges.limits": LIVE,
    "bridges.limits.max_age": RECONNECT,
    "bridges.dead_letter": LIVE,
    "bridges.retention": LIVE,
    "bridges.retention_max_bytes": LIVE,
    "bridges.local_subscriptions": LIVE,
    "bridges.remote_subscriptions": RECONNECT,
    "bridges.loop_prevention": RECONNECT,
    "bridges.on_session_loss": RECONNECT,
    "bridges.on_refusal": RECONNECT,
}


def how_taken(key: str) -> How:
    """How a change of ``key``, or of what is below it, is taken at least."""
    parts = key.split(".")
    for length in range(len(parts), 0, -1):
        if (found := EFFECTS.get(".".join(parts[:length]))) is not None:
            return found
    return NODE_RESTART


# What a field of the settings is called in the configuration, where that is not its name without a unit.
_KEYS = {
    "name": "node.name",
    "data_dir": "node.data_dir",
    "run_dir": "node.data_dir",
    "new_store": "node.new_store",
    "log_level": "log.level",
    "persistence.events_max": "persistence.events.max",
    "persistence.events_max_age_s": "persistence.events.max_age",
    "listeners.host": "listeners.bind",
    "listeners.port": "listeners.bind",
    "listeners.unix_path": "listeners.bind",
    "listeners.proxy_protocol.sources": "listeners.proxy_protocol.from",
    "http.host": "http.bind",
    "http.port": "http.bind",
    "control.host": "control.bind",
    "control.port": "control.bind",
    "limits.min_free_disk_bytes": "limits.min_free_disk",
    "bridges.limits.min_free_disk_bytes": "limits.min_free_disk",
    "replication.trim_max_bytes": "replication.trim.max_bytes",
    "replication.trim_max_age_s": "replication.trim.max_age",
    "bridges.tier2_max_messages": "bridges.tier2.max_messages",
    "bridges.tier2_max_bytes": "bridges.tier2.max_bytes",
    "bridges.loop_prevention": "bridges.loop_prevention.enabled",
    "bridges.on_refusal.default": "bridges.on_refusal",
    "bridges.on_refusal.codes": "bridges.on_refusal",
    "bridges.max_hops": "bridges.loop_prevention.max_hops",
}
_PER_SECOND = "_per_s"


def key_of(field: str) -> str:
    """The key that the ``field`` of ``wire.settings.NodeSettings`` is made of; both are paths without places in lists."""
    if field in _KEYS:
        return _KEYS[field]
    if field.startswith("listeners.access.login_limits"):
        field = field.removeprefix("listeners.")  # no listener has its own
    return field.removesuffix("_s") if not field.endswith(_PER_SECOND) else field
