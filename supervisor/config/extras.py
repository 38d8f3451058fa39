"""Whether the libraries of an extra are installed that some settings need; nothing of them is imported."""

from __future__ import annotations

from importlib.util import find_spec

from storage.installation import how_to_install

NO_OTEL = f"the libraries of OpenTelemetry are not installed: {how_to_install('otel')}"
NO_NATS = f"the client of NATS is not installed: {how_to_install('replicated')}"


def has_otel() -> bool:
    """Whether everything is there that sends by OTLP."""
    return _are_there("opentelemetry.sdk.metrics", "opentelemetry.exporter.otlp.proto.http", "requests")


def has_nats() -> bool:
    """Whether everything is there that talks to the replicated log."""
    return _are_there("nats.js")


def _are_there(*names: str) -> bool:
    try:
        return all(find_spec(name) is not None for name in names)
    except (ImportError, ValueError):
        return False
