"""Exports to a collector, and the reports on its answers; the collector is a real HTTP server, without a node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE as CUMULATIVE
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from supervisor.telemetry.otlp import NotTaken, OtlpCollector, url_of
from tests.supervisor.metrics.values import metrics_of
from tests.supervisor.telemetry.receiver import Answer, Receiver
from tests.support.authority import Authority
from tests.support.ports import free_port
from wire.config_settings import ClientTlsSettings, OtlpSettings
from wire.figure import of_map
from wire.status.node_status import Status

RESOURCE = {"service.name": "bascule", "service.instance.id": "edge", "service.version": "1.2", "host.name": "box"}
STATUS: dict[str, Any] = {
    "node": "edge",
    "version": "1.2",
    "store": {
        "mode": "file-native",
        "commits": 4,
        "written_bytes": 900,
        "commit_seconds": {"bounds": [0.1, 1.0], "counts": [2, 1, 3], "sum": 9.5},
        "disk_free_bytes": 77,
    },
    "bridges": [{"name": "cloud", "lane": 0, "depth": 3, "state": "backoff", "full": 0.5}],
}
SECOND_NS = 1_000_000_000


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def settings(endpoint: str, **keys: Any) -> OtlpSettings:
    return OtlpSettings(endpoint=endpoint, **{"timeout_s": 0.5, **keys})


def sent(receiver: Receiver, *statuses: dict[str, Any], **keys: Any) -> dict[str, Metric]:
    """The metrics of the last of several exports, a second apart."""
    collector = OtlpCollector(settings(receiver.endpoint, timeout_s=30.0, **keys), RESOURCE)
    for number, status in enumerate(statuses, 1):
        assert collector.send(of_map(Status, status), number * SECOND_NS) == (0, "")
    return {metric.name: metric for metric in metrics_of(receiver.exports[-1].message)}


def test_each_kind_of_metric_is_sent_as_its_own_with_unit_and_description(receiver: Receiver) -> None:
    metrics = sent(receiver, STATUS, {**STATUS, "store": {**STATUS["store"], "commits": 9}})

    commits = metrics["bascule_store_commits"]
    assert (commits.sum.is_monotonic, commits.sum.aggregation_temporality, commits.unit) == (True, CUMULATIVE, "")
    (point,) = commits.sum.data_points
    assert (point.as_double, point.start_time_unix_nano, point.time_unix_nano) == (9.0, SECOND_NS, 2 * SECOND_NS)
    assert commits.description == "Commits since the process began."
    assert metrics["bascule_store_written_bytes"].unit == "By"

    took = metrics["bascule_store_commit_seconds"]
    (buckets,) = took.histogram.data_points
    assert (took.unit, took.histogram.aggregation_temporality) == ("s", CUMULATIVE)
    assert (list(buckets.explicit_bounds), list(buckets.bucket_counts)) == ([0.1, 1.0], [2, 1, 3])
    assert (buckets.count, buckets.sum, buckets.HasField("min"), buckets.HasField("max")) == (6, 9.5, False, False)
    assert (buckets.start_time_unix_nano, buckets.time_unix_nano) == (SECOND_NS, 2 * SECOND_NS)

    waits = metrics["bascule_bridge_queue_messages"]
    (value,) = waits.gauge.data_points
    assert (value.as_double, waits.unit) == (3.0, "{message}")
    assert {one.key: one.value.string_value for one in value.attributes} == {"bridge": "cloud", "lane": "0"}
    assert metrics["bascule_bridge_queue_full_ratio"].unit == "1"
    states = {
        next(one.value.string_value for one in point.attributes if one.key == "state"): point.as_double
        for point in metrics["bascule_bridge_state"].gauge.data_points
    }
    assert (states["backoff"], states["connected"]) == (1.0, 0.0)
    assert "bascule_clients" not in metrics, "the status does not have it"


def test_a_request_says_which_node_it_is_of_and_has_the_headers(receiver: Receiver) -> None:
    sent(receiver, STATUS, headers=(("Authorization", "Bearer me"), ("x-tenant", "plant")))

    (export,) = receiver.exports
    (resource,) = export.message.resource_metrics
    assert {one.key: one.value.string_value for one in resource.resource.attributes} == RESOURCE
    assert [(scope.scope.name, scope.scope.version) for scope in resource.scope_metrics] == [("bascule", "1.2")]
    assert (export.path, export.headers["content-type"]) == ("/v1/metrics", "application/x-protobuf")
    assert (export.headers["authorization"], export.headers["x-tenant"]) == ("Bearer me", "plant")
    assert export.headers["content-encoding"] == "gzip"
    sent(receiver, STATUS, compression="none")
    assert "content-encoding" not in receiver.exports[-1].headers


def test_the_environment_has_no_say(receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login other password other\n")
    for name, value in {"HTTP_PROXY": nobody, "http_proxy": nobody, "ALL_PROXY": nobody, "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)

    sent(receiver, STATUS, headers=(("Authorization", "Bearer me"),))

    assert receiver.exports[-1].headers["authorization"] == "Bearer me"


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://collector:4318", "http://collector:4318/v1/metrics"),
        ("http://collector:4318/", "http://collector:4318/v1/metrics"),
        ("https://gateway.example/otlp", "https://gateway.example/otlp/v1/metrics"),
        ("https://gateway.example/v1/metrics", "https://gateway.example/v1/metrics"),
    ],
)
def test_the_path_is_that_of_otlp(endpoint: str, url: str) -> None:
    assert url_of(endpoint) == url


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(401), "it answered 401 Unauthorized"),
        (Answer(400, b"\x08\x03\x12\x10no such metric\n\0"), "it answered 400 Bad Request: no such metric"),
        (Answer(503, b"busy"), "it answered 503 Service Unavailable: busy"),
        (Answer(429, headers={"Retry-After": "3600"}), "it answered 429 Too Many Requests"),
        (Answer(302, headers={"Location": "/elsewhere"}), "it answered 302 Found, to /elsewhere: write that as endpoint"),
        (Answer(304), "it answered 304 Not Modified"),
        (Answer(200, b"<html>Welcome!</html>"), "it answered 200 OK, and nothing that a collector says"),
        (Answer(500, b"x" * 5_000_000), f"it answered 500 Internal Server Error: {'x' * 197}..."),
        (Answer(200, b"", {"Content-Length": "7"}), "no answer in time"),
        (Answer(late=True), "no answer in time"),
        (Answer(200, b"no gzip at all", {"Content-Encoding": "gzip"}), "incorrect header check"),
    ],
    ids=["401", "400", "503", "429", "302", "304", "page", "large", "cut", "late", "gzip"],
)
def test_what_is_no_collectors_yes_is_told_in_words(receiver: Receiver, answer: Answer, words: str) -> None:
    receiver.answer = answer
    collector = OtlpCollector(settings(receiver.endpoint), RESOURCE)

    with pytest.raises(NotTaken) as refused:
        collector.send(of_map(Status, STATUS), SECOND_NS)
    assert words in refused.value.message

    receiver.answer = Answer()
    receiver.close()
    receiver.open()
    assert collector.send(of_map(Status, STATUS), 2 * SECOND_NS) == (0, "")


def test_what_a_collector_leaves_out_is_told_beside(receiver: Receiver) -> None:
    partly = ExportMetricsPartialSuccess(rejected_data_points=2, error_message="too\nold")
    receiver.answer = Answer(body=ExportMetricsServiceResponse(partial_success=partly).SerializeToString())

    assert OtlpCollector(settings(receiver.endpoint), RESOURCE).send(of_map(Status, STATUS), SECOND_NS) == (2, "too old")


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [("http://127.0.0.1:{port}", "Connection refused"), ("http://no.such.host.invalid:4318", "Name or service not known")],
    ids=["nobody", "no-name"],
)
def test_a_collector_that_is_away_is_told_in_the_words_of_the_system(endpoint: str, words: str) -> None:
    collector = OtlpCollector(settings(endpoint.format(port=free_port())), RESOURCE)

    with pytest.raises(NotTaken) as refused:
        collector.send(of_map(Status, STATUS), SECOND_NS)

    if "invalid" not in endpoint or "resolution" not in refused.value.message:  # a machine without a name server says that
        assert refused.value.message == words


@pytest.mark.process
def test_over_tls_each_side_sees_whether_the_other_is_the_right_one(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    own = authority.issue("edge", "/CN=edge")
    with Receiver(authority.issue("collector"), clients_ca=authority.ca_file) as receiver:
        right = settings(
            receiver.endpoint,
            timeout_s=30.0,
            tls=ClientTlsSettings(ca_file=str(authority.ca_file), cert_file=str(own.cert_file), key_file=str(own.key_file)),
        )
        assert OtlpCollector(right, RESOURCE).send(of_map(Status, STATUS), SECOND_NS) == (0, "")

        for tls, words in (
            (replace(right.tls, ca_file=str(other.ca_file)), "its certificate is refused: "),
            (replace(right.tls, ca_file=""), "its certificate is refused: "),
            (replace(right.tls, cert_file="", key_file=""), ""),  # the receiver's end may come before its word
        ):
            with pytest.raises(NotTaken) as refused:
                OtlpCollector(replace(right, tls=tls, timeout_s=0.5), RESOURCE).send(of_map(Status, STATUS), SECOND_NS)
            assert words in refused.value.message != ""
    assert len(receiver.exports) == 1
