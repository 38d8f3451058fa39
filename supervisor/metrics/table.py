"""All metrics, in the order in which they are told, below headings for people. Pure."""

from __future__ import annotations

from supervisor.metrics.bridge_metrics import DEAD_LETTERS, EXCHANGE, LINKS, QUEUES, REMOTE_SUBSCRIPTIONS
from supervisor.metrics.client_metrics import ACCESS, CLIENTS, ROUTING
from supervisor.metrics.metric import Metric
from supervisor.metrics.node_metrics import INTERFACES, NODE, PROCESSES, SNAPSHOTS
from supervisor.metrics.replication_metrics import REPLICATION
from supervisor.metrics.store_metrics import DISK, ROCKSDB, SESSIONS

SECTIONS: dict[str, tuple[Metric, ...]] = {
    "The node": NODE,
    "Queues of bridges": QUEUES,
    "Dead letters": DEAD_LETTERS,
    "Links of bridges": LINKS,
    "Exchanges with remotes": EXCHANGE,
    "What comes from remotes": REMOTE_SUBSCRIPTIONS,
    "The cluster": REPLICATION,
    "Store and disk": DISK,
    "RocksDB": ROCKSDB,
    "Sessions and retained messages": SESSIONS,
    "Local clients": CLIENTS,
    "Access": ACCESS,
    "Routing": ROUTING,
    "Processes and actors": PROCESSES,
    "HTTP, telemetry and control": INTERFACES,
    "Snapshots": SNAPSHOTS,
}

METRICS = tuple(metric for metrics in SECTIONS.values() for metric in metrics)
