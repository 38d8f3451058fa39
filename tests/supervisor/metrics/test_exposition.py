"""Prometheus reads what is written: its own parser, and ``promtool``, take all of it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from supervisor.metrics.exposition import OPENMETRICS, TEXT, format_for, render
from wire.figure import of_map
from wire.status.node_status import Status

STATUS: dict[str, Any] = {
    "node": "edge",
    "version": "1",
    "bridges": [
        {
            "name": 'cl"ou\\d',
            "lane": 0,
            "state": "backoff",
            "reason": 'the remote says "no"\nand goes',
            "accepted": 2**53,
            "dropped": {"overflow": 3},
            "depth": 0,
            "end_to_end_seconds": {"bounds": [0.5, 1], "counts": [1, 2, 3], "sum": 4.5},
        }
    ],
    "store": {"mode": "file-native", "disk_free_bytes": 1 << 62},
}
LABELS = {"bridge": 'cl"ou\\d', "lane": "0"}


@pytest.mark.parametrize(
    ("content_type", "parse"), [(TEXT, text_families), (OPENMETRICS, openmetrics_families)], ids=["text", "om"]
)
def test_a_parser_reads_back_what_was_written(content_type: str, parse: Any) -> None:
    families = {family.name: family for family in parse(render(of_map(Status, STATUS), content_type).decode())}
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families.values()
        for sample in family.samples
    }

    def value(name: str, **labels: str) -> float:
        return float(samples[name, tuple(sorted({**LABELS, **labels}.items()))])

    assert value("bascule_bridge_accepted_messages_total") == 2**53
    assert value("bascule_bridge_dropped_messages_total", reason="overflow") == 3
    assert value("bascule_bridge_dropped_messages_total", reason="purged") == 0
    assert value("bascule_bridge_state", state="backoff") == 1
    assert value("bascule_bridge_reason_info", reason='the remote says "no"\nand goes', last_error="") == 1
    assert [value("bascule_bridge_end_to_end_seconds_bucket", le=le) for le in ("0.5", "1.0", "+Inf")] == [1, 3, 6]
    assert value("bascule_bridge_end_to_end_seconds_count") == 6
    assert math.isclose(value("bascule_bridge_end_to_end_seconds_sum"), 4.5)
    assert samples["bascule_disk_free_bytes", ()] == 1 << 62
    assert samples["bascule_build_info", (("mode", "file-native"), ("node", "edge"), ("version", "1"))] == 1


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain", TEXT),
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;q=0.5",
            OPENMETRICS,
        ),
        ("application/openmetrics-text; version=bad", OPENMETRICS),
        ("application/json", TEXT),
    ],
    ids=str,
)
def test_openmetrics_is_for_those_who_ask_for_it(accept: str, content_type: str) -> None:
    assert format_for(accept) == content_type
