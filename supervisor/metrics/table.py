"""All metrics, by the figures of which they are made. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from supervisor.metrics.metric import Labels, Metric
from wire.figure import FigureMetric, held
from wire.status.node_status import Status
from wire.typed_values import field_types

PREFIX = "bascule_"


def sections(kind: Any = Status, path: str = "", labels: Labels = ()) -> Iterator[tuple[str, type, tuple[Metric, ...]]]:
    """The path of figures that belong together, what they are, and their metrics; then those of what is below them."""
    below, metrics = [], [_metric(measure, path, "", labels) for measure in getattr(kind, "METRICS", ())]
    for each, (_, hint) in zip(fields(kind), field_types(kind), strict=True):
        declared, place = each.metadata, f"{path}.{each.name}".lstrip(".")
        metrics += [_metric(measure, place, declared["text"], labels) for measure in declared["metrics"]]
        part, within = held(hint)
        if part is not None:
            kept = tuple(label for label in labels if not declared["per"] or label in declared["per"])
            if within is dict:
                below.append((part, f"{place}{{{declared['by']}}}", (*kept, declared["by"])))
            else:
                rows = f"{place}[]" if within is tuple else place
                below.append((part, rows, (*kept, *getattr(part, "LABELS", {}))))
    yield path, kind, tuple(metrics)
    for part, place, names in below:
        yield from sections(part, place, names)


def _metric(measure: FigureMetric, path: str, text: str, labels: Labels) -> Metric:
    by = (measure.by,) if measure.by else ()
    return Metric(
        PREFIX + measure.name,
        measure.kind,
        path + (f"{{{measure.by}}}" if measure.by and measure.kind != "states" else ""),
        measure.text or text,
        (*labels, *by, *(word for word, _ in measure.words)),
        measure.known,
        measure.beside,
        measure.words,
    )


METRICS = tuple(metric for _, _, metrics in sections() for metric in metrics)
