"""A node's own state for those who started it: a line on standard output, and in the log."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime

from supervisor.terminal.failures import try_print
from wire.settings import NodeSettings

log = logging.getLogger("bascule")


def announce(settings: NodeSettings, took_s: float, *, stands_by: bool) -> None:
    """Say that the node works, or stands by for another: ``node.ready`` or ``node.stands_by``."""
    event = "node.stands_by" if stands_by else "node.ready"
    listeners = [] if stands_by else [listener.bind for listener in settings.listeners]
    facts = {"pid": os.getpid(), "listeners": listeners, "took_s": round(took_s, 3)}
    log.info(event, extra=facts)
    ts = datetime.now(UTC).isoformat(timespec="milliseconds")
    refusal = try_print(json.dumps({"ts": ts, "event": event, "node": settings.node.name, **facts}))
    if refusal is not None:
        log.warning("output.refused", extra={"error": refusal, "why": f"standard output did not take the line {event}"})
