"""Grafana's dashboard: all that it asks for exists, and Prometheus understands each question."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from supervisor.metrics.table import METRICS
from tests.supervisor.metrics.named import named
from tests.support.programs import run

DASHBOARD = Path(__file__).resolve().parents[3] / "configs" / "grafana" / "bascule.json"
LABELS = {metric.name: {*metric.labels, "instance", "job", "le"} for metric in METRICS}


def board() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return loaded


def questions() -> list[str]:
    asked = [target["expr"] for panel in board()["panels"] for target in panel.get("targets", ())]
    return asked + [note["expr"] for note in board()["annotations"]["list"]]


def test_each_metric_and_each_label_that_it_names_exists() -> None:
    metrics = {metric.name for metric in METRICS}
    assert named(DASHBOARD.read_text()) <= metrics
    for panel in board()["panels"]:
        for target in panel.get("targets", ()):
            known = set().union(*(LABELS[name] for name in named(target["expr"])))
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= known, target
            assert set(re.findall(r"[{,](\w+)=~?\"", target["expr"])) <= known, target


def test_panels_have_a_title_and_a_place_of_their_own() -> None:
    panels = board()["panels"]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] for panel in panels)


@pytest.mark.process
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_understands_each_question(tmp_path: Path) -> None:
    rules = [
        {"record": f"question:{number}", "expr": text.replace("$__rate_interval", "5m")} for number, text in enumerate(questions())
    ]
    path = tmp_path / "questions.yml"
    path.write_text(json.dumps({"groups": [{"name": "questions", "rules": rules}]}))

    done = run(["promtool", "check", "rules", path], timeout_s=60.0)

    assert done.returncode == 0, done.stdout + done.stderr
