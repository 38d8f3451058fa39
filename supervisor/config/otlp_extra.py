"""Whether the extra ``otel`` is installed, which the section ``telemetry`` needs; nothing of it is imported."""

from __future__ import annotations

from importlib.util import find_spec

MISSING = "the libraries of OpenTelemetry are not installed; install them with: pip install 'bascule[otel]'"
_NEEDED = ("opentelemetry.sdk.metrics", "opentelemetry.exporter.otlp.proto.http", "requests")


def is_installed() -> bool:
    """Whether everything is there that sends by OTLP."""
    try:
        return all(find_spec(name) is not None for name in _NEEDED)
    except (ImportError, ValueError):
        return False
