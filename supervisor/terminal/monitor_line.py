"""The state of a node for a monitor: one line by the rules of Nagios plug-ins, with the measured values behind it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from supervisor.terminal.cluster_text import lasting
from supervisor.units import counted
from wire.status.bridges import BridgeLane
from wire.status.node_status import Status
from wire.status.states import StoreState

Limits = tuple[float | None, float | None]  # warning and critical from this value on; None: never
KINDS = ("down", "age", "dead", "full")
_UNITS = {"down": "s", "age": "s", "dead": "", "full": "%"}


class MonitorLevel(IntEnum):
    """The exit status."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


def line(level: MonitorLevel, text: str) -> str:
    """The line that a monitor shows; a bar would begin what was measured."""
    return f"BASCULE {level.name} - {' '.join(text.replace('|', '/').split())}"


def judged(status: Status, limits: Mapping[str, Limits]) -> tuple[MonitorLevel, str]:
    """How the node that answered ``status`` is by ``limits``, one for each of ``KINDS``, and the line that says so."""
    found = [(MonitorLevel.CRITICAL, text) for text in _faults(status)]
    measured = []
    for row in status.bridges:
        for kind, name, value, text in _values(row):
            level = _level(value, limits[kind])
            if level:
                found.append((level, f"{name} {text}"))
            measured.append(f"'{name} {kind}'={value:g}{_UNITS[kind]};{';'.join(_shown(limit) for limit in limits[kind])};0")
    paused = sorted({row.name for row in status.bridges if row.paused_since_ms is not None})
    worst = max((level for level, _ in found), default=MonitorLevel.OK)
    texts = [text for _, text in sorted(found, key=lambda each: -each[0])]
    texts = texts or [f"node {status.node}: {counted(len(status.bridges), 'link')}, nothing wrong"]
    said = line(worst, "; ".join([*texts, *([f"paused: {', '.join(paused)}"] if paused else [])]))
    return worst, f"{said} | {' '.join(measured)}" if measured else said


def _faults(status: Status) -> list[str]:
    """Faults that count whatever the limits are."""
    faults = []
    if not status.ready:
        rows = [f"{row.name} {row.state}" for row in status.processes if row.state != "ready"]
        faults.append(f"node {status.node} is not ready: {', '.join(rows) or 'starting'}")
    store = status.store
    if store is not None and store.state not in (None, StoreState.RUNNING):
        faults.append(f"store {store.state}: {store.error}".rstrip(": "))
    faults += [f"{row.name}:{row.lane} ledger does not add up" for row in status.bridges if row.ledger_closes is False]
    return faults


def _values(row: BridgeLane) -> list[tuple[str, str, float, str]]:
    """(kind, of what, value, in words) of one lane, and with its first one of the whole bridge."""
    lane, down_s, age_s = f"{row.name}:{row.lane}", row.down_s or 0.0, row.oldest_age_s or 0.0
    reason = row.last_error or row.reason
    values = [
        ("down", lane, down_s, f"down for {lasting(down_s)}{f' ({reason})' if reason else ''}"),
        ("age", lane, age_s, f"oldest message waits for {lasting(age_s)}"),
    ]
    if row.lane == 0:
        held = 0 if row.dead_letters is None else row.dead_letters.held
        full = round((row.full or 0.0) * 100, 2)
        values += [("dead", row.name, held, counted(held, "dead letter")), ("full", row.name, full, f"queue {full:g} % full")]
    return values


def _level(value: float, limits: Limits) -> MonitorLevel:
    warning, critical = limits
    if critical is not None and value >= critical:
        return MonitorLevel.CRITICAL
    return MonitorLevel.WARNING if warning is not None and value >= warning else MonitorLevel.OK


def _shown(limit: float | None) -> str:
    return "" if limit is None else f"{limit:g}"
