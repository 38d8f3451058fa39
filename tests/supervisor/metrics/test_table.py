"""The table of metrics: its names are by convention, and none is given twice."""

from __future__ import annotations

import re

import pytest

from supervisor.metrics.metric import Metric
from supervisor.metrics.table import METRICS

# Units of OpenTelemetry as they are called at the end of a name in Prometheus; a part in braces is left out.
UNITS = {"s": "_seconds", "By": "_bytes", "1": "_ratio"}
EACH = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)


def test_no_two_metrics_are_of_one_family() -> None:
    """In OpenMetrics a counter is called without ``_total``, and an info without ``_info``."""
    families = [re.sub("_(total|info)$", "", metric.name) for metric in METRICS]

    assert sorted(families) == sorted(set(families))


@EACH
def test_names_are_by_convention(metric: Metric) -> None:
    assert re.fullmatch(r"bascule(_[a-z0-9]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.name.endswith("_info") == (metric.kind == "info")
    assert not re.search(r"_(count|sum|bucket|ms|milliseconds|kib|mib)(_|$)", metric.name)
    assert re.search(r"\.$", metric.text)


@EACH
def test_the_unit_is_that_of_the_status(metric: Metric) -> None:
    if metric.path.endswith(("_s", "_ms", "_seconds")) and metric.kind != "given":
        assert "_seconds" in metric.name
    if metric.path.endswith("bytes"):
        assert "_bytes" in metric.name


@EACH
def test_who_makes_series_for_prometheus_of_an_export_calls_them_as_we_do(metric: Metric) -> None:
    """By OpenTelemetry's rule: the unit, where the name does not have it, and ``_total`` behind a counter."""
    exported = metric.name.removesuffix("_total")
    unit = UNITS.get(metric.unit, "")

    assert exported + ("" if exported.endswith(unit) else unit) + ("_total" if metric.kind == "counter" else "") == metric.name
