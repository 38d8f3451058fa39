"""The numbers of all metrics, as the status has them, as Prometheus reads them, and as a collector gets them.

Some of them move while a node is at rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import HistogramDataPoint
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as OtlpMetric

from supervisor.metrics.metric import Labels, Metric
from supervisor.metrics.table import METRICS
from wire.figure import of_map
from wire.status.histogram import HistogramFigures
from wire.status.node_status import Status

Values = dict[tuple[str, Labels], float]

# Gauges that move while nothing happens: ages, what processes take, and whoever asks. Counters may grow anywhere.
MOVING = {
    "bascule_actor_heartbeat_age_seconds",
    "bascule_bridge_attempts_since_down",
    "bascule_bridge_down_seconds",
    "bascule_bridge_next_attempt_seconds",
    "bascule_bridge_queue_drain_at_best_seconds",
    "bascule_bridge_queue_drain_seconds",
    "bascule_bridge_queue_full_in_seconds",
    "bascule_bridge_queue_oldest_age_seconds",
    "bascule_bridge_state_age_seconds",
    "bascule_disk_free_bytes",
    "bascule_history_bytes",
    "bascule_http_open_connections",
    "bascule_otlp_export_timestamp_seconds",
    "bascule_process_pss_bytes",
}
# Counters that grow while nothing happens: the questions themselves, and what carries them.
GROWING = {
    "bascule_actor_frames_received_total",
    "bascule_actor_frames_sent_total",
    "bascule_actor_turns_total",
    "bascule_control_requests_total",
    "bascule_http_answers_total",
    "bascule_http_connections_total",
    "bascule_otlp_exports_total",
    "bascule_process_cpu_seconds_total",
    "bascule_supervisor_frames_received_total",
    "bascule_supervisor_frames_sent_total",
    "bascule_supervisor_turns_total",
}


def of_status(status: Mapping[str, Any]) -> Values:
    """The numbers of all metrics in an answer to ``status``; of a histogram those of its buckets, its sum and its count."""
    return {key: value for metric in METRICS for key, value in numbers(metric, of_map(Status, status))}


def numbers(metric: Metric, status: Status) -> Iterator[tuple[tuple[str, Labels], float]]:
    for labels, value in metric.values(status).items():
        if metric.kind == "info":
            continue
        if isinstance(value, HistogramFigures):
            for bound, count in value.cumulative():
                yield (f"{metric.name}_bucket", (*labels, f"{bound:g}")), float(count)
            yield (f"{metric.name}_sum", labels), value.sum
            yield (f"{metric.name}_count", labels), float(value.cumulative()[-1][1])
        else:
            yield (metric.name, labels), value


def of_text(text: str) -> Values:
    """The same from Prometheus's text format, as simply as can be."""
    found: Values = {}
    for line in text.splitlines():
        read = re.fullmatch(r"(\w+)(?:{(.*)})? (\S+)", line)
        if read is None or read[1].endswith("_info"):
            assert read or line.startswith("#"), line
            continue
        labels = in_order(read[1], re.findall(r'(\w+)="([^"]*)"', read[2] or ""))
        found[read[1], tuple(f"{float(text):g}" if key == "le" else text for key, text in labels)] = float(read[3])
    return found


def of_export(message: ExportMetricsServiceRequest) -> Values:
    """The same from an export, under the names that Prometheus gives them: a counter's ends with ``_total``."""
    found: Values = {}
    for metric in metrics_of(message):
        if metric.HasField("sum"):
            found |= {
                (f"{metric.name}_total", labels_of(f"{metric.name}_total", point.attributes)): point.as_double
                for point in metric.sum.data_points
            }
        elif metric.HasField("gauge") and not metric.name.endswith("_info"):
            found |= {
                (metric.name, labels_of(metric.name, point.attributes)): point.as_double for point in metric.gauge.data_points
            }
        for histogram in metric.histogram.data_points:
            found |= of_histogram(metric.name, histogram)
    return found


def metrics_of(message: ExportMetricsServiceRequest) -> list[OtlpMetric]:
    return [metric for resource in message.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics]


def labels_of(name: str, attributes: Iterable[KeyValue]) -> Labels:
    return tuple(text for _, text in in_order(name, [(one.key, one.value.string_value) for one in attributes]))


def of_histogram(name: str, point: HistogramDataPoint) -> Values:
    labels = labels_of(name, point.attributes)
    rising = zip((*point.explicit_bounds, float("inf")), accumulate(point.bucket_counts), strict=True)
    found = {(f"{name}_bucket", (*labels, f"{bound:g}")): float(count) for bound, count in rising}
    return found | {(f"{name}_sum", labels): point.sum, (f"{name}_count", labels): float(point.count)}


def in_order(name: str, labels: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """``labels`` in the order of the table, ``le`` last; the format leaves it open."""
    order = next((metric.labels for metric in METRICS if metric.name in (name, re.sub("_(bucket|sum|count)$", "", name))), ())
    return sorted(labels, key=lambda label: (*order, "le").index(label[0]))


def lasting(values: Values) -> Values:
    return {key: value for key, value in values.items() if key[0] not in MOVING | GROWING}
