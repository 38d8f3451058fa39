"""Sends the metrics of a status to a collector by OTLP over HTTP. The owner of opentelemetry, and of requests and protobuf,
by which that sends.

The metrics, their names and values are those of ``supervisor/metrics/table.py``. A counter is called without ``_total``: whoever
makes Prometheus's series of it adds that, so that they are called as those of ``/metrics``.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

import requests
from google.protobuf.message import DecodeError
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as OtlpMetric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from supervisor.metrics.metric import Labels, Metric, Value
from supervisor.metrics.table import METRICS
from supervisor.telemetry.start_times import StartTimes
from wire.config_settings import OtlpSettings
from wire.errors import Unavailable
from wire.status.histogram import HistogramFigures
from wire.status.node_status import Status
from wire.status.states import CollectorFault

PATH = "/v1/metrics"
ANSWER_BYTES_MAX = 64 * 1024
_WORDS_MAX = 200
_CUMULATIVE = AggregationTemporality.CUMULATIVE

logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # what it says of a failed export, ``NotTaken`` says


class NotTaken(Unavailable):
    """The collector did not take an export, or nobody knows whether it did; ``message`` says why."""


class OtlpCollector:
    """The collector of ``settings``. resource: what is told of the node with each export, by OpenTelemetry's names."""

    def __init__(self, settings: OtlpSettings, resource: Mapping[str, str]) -> None:
        self._resource = Resource(dict(resource))
        self._scope = InstrumentationScope("bascule", resource["service.version"])
        self._starts = StartTimes()
        self._session = _Session()
        system = ssl.get_default_verify_paths()
        self._exporter = OTLPMetricExporter(
            endpoint=url_of(settings.endpoint),
            certificate_file=settings.tls.ca_file or system.cafile or system.capath,
            client_certificate_file=settings.tls.cert_file or None,
            client_key_file=settings.tls.key_file or None,
            headers=dict(settings.headers),
            timeout=settings.timeout_s,
            compression=Compression.Gzip if settings.compression == "gzip" else Compression.NoCompression,
            session=self._session,
        )

    def send(self, status: Status, at_ns: int) -> tuple[int, str]:
        """Send the metrics of ``status``, the answer of ``at_ns``, Unix time. How many values it left out, and what it has to say.

        Raises:
            NotTaken: they are lost; the next ones tell as much.
        """
        self._session.fault, self._session.why = "the metrics cannot be encoded", CollectorFault.OTHER
        taken = self._exporter.export(self._data(status, at_ns))
        if self._session.fault or taken is not MetricExportResult.SUCCESS:
            raise NotTaken(self._session.fault or "not taken", why=self._session.why)
        partly = self._session.answer.partial_success
        return partly.rejected_data_points, _printable(partly.error_message)

    def _data(self, status: Status, at_ns: int) -> MetricsData:
        self._starts.begin(at_ns)
        metrics = [
            OtlpMetric(metric.name.removesuffix("_total"), metric.text, metric.unit, _points(metric, values, self._starts, at_ns))
            for metric in METRICS
            if (values := metric.values(status))
        ]
        return MetricsData([ResourceMetrics(self._resource, [ScopeMetrics(self._scope, metrics, "")], "")])


def url_of(endpoint: str) -> str:
    """The URL to which metrics are sent for ``endpoint``."""
    base = endpoint.rstrip("/")
    return base if base.endswith(PATH) else base + PATH


def _points(metric: Metric, values: Mapping[Labels, Value], starts: StartTimes, at_ns: int) -> Sum | Gauge | Histogram:
    if metric.kind == "histogram":
        return Histogram(list(_histograms(metric, values, starts, at_ns)), _CUMULATIVE)
    counts = metric.kind == "counter"
    points = [
        NumberDataPoint(
            dict(zip(metric.labels, labels, strict=True)), starts.of((metric.name, labels), value) if counts else 0, at_ns, value
        )
        for labels, value in values.items()
        if not isinstance(value, HistogramFigures)
    ]
    return Sum(points, _CUMULATIVE, is_monotonic=True) if counts else Gauge(points)


def _histograms(metric: Metric, values: Mapping[Labels, Value], starts: StartTimes, at_ns: int) -> Iterator[HistogramDataPoint]:
    for labels, value in values.items():
        if isinstance(value, HistogramFigures):
            count = sum(value.counts)
            yield HistogramDataPoint(
                attributes=dict(zip(metric.labels, labels, strict=True)),
                start_time_unix_nano=starts.of((metric.name, labels), count),
                time_unix_nano=at_ns,
                count=count,
                sum=value.sum,
                bucket_counts=value.counts,
                explicit_bounds=value.bounds,
                min=None,  # type: ignore[arg-type]  # nobody knows it, and the encoder leaves it out
                max=None,  # type: ignore[arg-type]  # likewise
            )


class _Session(requests.Session):
    """Keeps what became of the last request, because the exporter tells no more than whether one was answered.

    fault: why it was not taken, in words; empty if it was. why: in a word. answer: what the collector says, if it was.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False  # no proxies, no .netrc, no REQUESTS_CA_BUNDLE
        self.fault, self.why = "", CollectorFault.OTHER
        self.answer = ExportMetricsServiceResponse()

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """As that of ``requests``. No more of an answer is read than a collector has to say."""
        try:
            response = super().request(*args, **{**kwargs, "stream": True})
            body = _body(response)
        except requests.RequestException as error:
            self.fault, self.why = _words(error)
            raise
        self.fault, self.why = self._judge(response, body)
        return response

    def _judge(self, response: requests.Response, body: bytes) -> tuple[str, CollectorFault]:
        said = f"{response.status_code} {_printable(response.reason or '')}".rstrip()
        if response.is_redirect:
            to = _printable(response.headers["location"])
            return f"it answered {said}, to {to}: write that as endpoint", CollectorFault.REDIRECTED
        if not response.ok or response.status_code >= 300:
            detail = _printable(body.decode(errors="replace"))
            why = CollectorFault.FORBIDDEN if response.status_code in (401, 403) else CollectorFault.OTHER
            return f"it answered {said}" + (f": {detail}" if detail else ""), why
        self.answer = ExportMetricsServiceResponse()
        try:
            self.answer.ParseFromString(body)
        except DecodeError:
            return f"it answered {said}, and nothing that a collector says", CollectorFault.OTHER
        return "", CollectorFault.OTHER


def _body(response: requests.Response) -> bytes:
    body = b""
    for piece in response.iter_content(4096):
        body += piece
        if len(body) > ANSWER_BYTES_MAX:
            response.close()
            break
    return body


def _words(error: requests.RequestException) -> tuple[str, CollectorFault]:
    """The cause of a failed request: the words of the system or of OpenSSL, at the end of the chain of errors; and in a word."""
    if isinstance(error, requests.ConnectTimeout):
        return "no connection in time", CollectorFault.OTHER
    chain: list[BaseException] = [error]
    while (inner := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(inner)
    for each in reversed(chain):
        if isinstance(each, ssl.SSLCertVerificationError):
            return f"its certificate is refused: {each.verify_message}", CollectorFault.CERTIFICATE
        if isinstance(each, OSError) and each.strerror:
            return each.strerror, CollectorFault.NAME if isinstance(each, socket.gaierror) else CollectorFault.OTHER
        if isinstance(each, TimeoutError):
            return "no answer in time", CollectorFault.OTHER
    return _printable(str(chain[-1])) or type(chain[-1]).__name__, CollectorFault.OTHER


def _printable(text: str) -> str:
    """``text`` of a collector for a line of ours: short, on one line, nothing but what can be shown."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).replace("�", " ").split())
    return line if len(line) <= _WORDS_MAX else line[: _WORDS_MAX - 3] + "..."
