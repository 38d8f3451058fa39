"""The metrics as Prometheus reads them: in its text format, or as OpenMetrics. The owner of prometheus_client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import prometheus_client.exposition as exposition
import prometheus_client.openmetrics.exposition as openmetrics
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from supervisor.metrics.metric import Labels, Metric, Value
from supervisor.metrics.table import METRICS
from wire.status.histogram import HistogramFigures
from wire.status.node_status import Status

TEXT = exposition.CONTENT_TYPE_PLAIN_0_0_4
OPENMETRICS = openmetrics.CONTENT_TYPE_LATEST


class ExpositionCollector(Collector):
    """The metrics of one answer to ``status``."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterator[Family]:
        """A family for each metric that has a value."""
        for metric in METRICS:
            values = metric.values(self._status)
            if values:
                yield _family(metric, values)


def format_for(accept: str) -> str:
    """In which content type to answer the header ``Accept``: OpenMetrics to those who name it, the text format to others."""
    named = {part.partition(";")[0].strip() for part in accept.split(",")}
    return OPENMETRICS if "application/openmetrics-text" in named else TEXT


def render(status: Status, content_type: str = TEXT) -> bytes:
    """The metrics of an answer to ``status``: in Prometheus's text format 0.0.4, or in OpenMetrics 1.0."""
    write: Callable[[Collector], bytes] = openmetrics.generate_latest if content_type == OPENMETRICS else exposition.generate_latest
    return write(ExpositionCollector(status))


def _family(metric: Metric, values: Mapping[Labels, Value]) -> Family:
    """``values`` as the library has them."""
    if metric.kind == "info":
        info = InfoMetricFamily(metric.name.removesuffix("_info"), metric.text)
        for labels in values:
            info.add_metric([], dict(zip(metric.labels, labels, strict=True)))
        return info
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.text, labels=metric.labels)
        for labels, value in values.items():
            if isinstance(value, HistogramFigures):
                buckets = [(_bound(bound), float(count)) for bound, count in value.cumulative()]
                histogram.add_metric(labels, buckets, value.sum)
        return histogram
    single = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = single(metric.name, metric.text, labels=metric.labels)
    for labels, value in values.items():
        if not isinstance(value, HistogramFigures):
            family.add_metric(labels, value)
    return family


def _bound(value: float) -> str:
    """As Prometheus writes the label ``le``."""
    return "+Inf" if value == float("inf") else str(float(value))
