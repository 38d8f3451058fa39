"""Costs of a message at the rates of real sites: ``scripts/bench --rates``.

At each rate, for one message in flight and while nothing comes: CPU by process, context switches, frames, turns and commits for
each message, and how long the acknowledgement and the way to the far end take. Then QoS 2 towards a remote with a small window and
with a large one. Every system is started afresh for each turn, and the turns interleave. Medians and tables: ``rates_report.py``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import processes
from measure import Bench, Figures, fdatasync_p50_us
from systems import Bascule, BasculeBeside, BasculeTogether, BenchError, MosquittoBridge, MosquittoSqlite, Remote, System

RATES = (10, 100, 1000, 2000, 5000, 10_000)
MESSAGES_MIN = 50  # at a low rate this takes longer than what was asked for
SECONDS_MAX = 100.0  # the load generator has a deadline
LONE_PER_S = 400  # so many messages for each second a rate is held
IDLE, LONE = "idle", "one in flight"

Starter = Callable[..., System]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """QoS 2 from a bridge that has ``in_flight_max`` on the way; ``publishers`` have ``window`` in flight together.

    The remote has no limit of its own: Mosquitto 2.0 throws away what a client has in flight beyond one. A
    Mosquitto allows each of its clients what it allows its bridge: so there are several publishers, and none has more.
    """

    title: str
    protocol: str
    in_flight_max: int
    publishers: int
    window: int
    per_s: int  # messages for each second a rate is held


EXCHANGES = (
    Exchange(title="QoS 2, MQTT 3.1.1, 20 in flight", protocol="mqtt311", in_flight_max=20, publishers=10, window=100, per_s=4000),
    Exchange(
        title="QoS 2, MQTT 3.1.1, 100 in flight", protocol="mqtt311", in_flight_max=100, publishers=10, window=1000, per_s=8000
    ),
    Exchange(title="QoS 2, MQTT 5, 1000 in flight", protocol="mqtt5", in_flight_max=1000, publishers=10, window=1000, per_s=8000),
)
FAR = "far broker alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``turns`` of each system; each rate, in messages a second, is held for ``seconds``. beside: another checkout."""

    rates: tuple[int, ...] = RATES
    seconds: float
    turns: int
    beside: Path | None = None


def measure(load: Path, folder: Path, plan: Plan, say: Callable[[str], None]) -> Figures:
    """All turns of all systems. ``runs`` has each of them, in the order in which they were made."""
    starters = systems(plan.beside)
    alone: dict[str, Starter | None] = {FAR: None}
    runs: list[Figures] = []
    for turn in range(plan.turns):
        for place, (name, starter) in enumerate(starters.items()):
            for row in _rows(Bench(load=load, qos=1), folder / f"{turn}-{place}", starter, plan):
                runs.append({"turn": turn, "system": name, **row})
                say(f"turn {turn + 1} of {plan.turns}, {name}, {_line(row)}")
        for number, exchange in enumerate(EXCHANGES):
            for place, (name, through) in enumerate((starters | alone).items()):
                own = folder / f"{turn}-{place}-{number}"
                row = _exchanged(Bench(load=load, qos=2), own, through, exchange, plan.seconds)
                runs.append({"turn": turn, "system": name, **row})
                say(f"turn {turn + 1} of {plan.turns}, {name}, {_line(row)}")
    return {
        "seconds": plan.seconds,
        "turns": plan.turns,
        "beside": None if plan.beside is None else str(plan.beside),
        "systems": list(starters),
        "runs": runs,
        "lost": sum(run.get("missing", 0) for run in runs),
    }


def systems(beside: Path | None) -> dict[str, Starter]:
    """The systems to measure, by name; ours first."""
    starters: dict[str, Starter] = {Bascule.name: Bascule, BasculeTogether.name: BasculeTogether}
    if beside is not None:
        starters[BasculeBeside.name] = lambda folder, port, **link: BasculeBeside(folder, port, checkout=beside, **link)
    starters[MosquittoBridge.name] = MosquittoBridge
    if MosquittoSqlite.is_there():
        starters[MosquittoSqlite.name] = MosquittoSqlite
    return starters


def _rows(bench: Bench, folder: Path, starter: Starter, plan: Plan) -> list[Figures]:
    """One turn of one system, freshly started: idle, each rate, and one in flight."""
    remote = Remote(folder / "remote", bench.qos)
    system = starter(folder / "system", remote.port)
    rows = []
    try:
        remote.start()
        system.start()
        bench.warm_up(system, remote)
        meter = Meter(system)
        rows.append(meter.over(IDLE, lambda: _idle(plan.seconds)))
        for rate in plan.rates:
            messages = max(round(rate * plan.seconds), MESSAGES_MIN)
            rows.append(meter.over(f"{rate}/s", partial(bench.through, system, remote, messages=messages, rate=rate)))
        quiet_us = fdatasync_p50_us(folder)
        messages = max(round(LONE_PER_S * plan.seconds), MESSAGES_MIN)
        lone = meter.over(LONE, lambda: bench.through(system, remote, messages=messages, window=1))
        synced_us = min(quiet_us, fdatasync_p50_us(folder))  # what else uses the disk slows one of them, and flatters the system
        rows.append({**lone, "fdatasync_p50_us": synced_us, "ack_fdatasyncs": lone["ack_p50_us"] / synced_us})
    finally:
        system.stop()
        remote.stop()
    return rows


def _exchanged(bench: Bench, folder: Path, starter: Starter | None, exchange: Exchange, seconds: float) -> Figures:
    """QoS 2 through one system, freshly started; without ``starter`` the publishers are the remote's own clients."""
    remote = Remote(folder / "remote", bench.qos)
    link = {"protocol": exchange.protocol, "in_flight_max": exchange.in_flight_max}
    system = remote if starter is None else starter(folder / "system", remote.port, **link)
    load = {"publishers": exchange.publishers, "window": exchange.window}
    messages = max(round(exchange.per_s * seconds), MESSAGES_MIN)
    try:
        remote.start()
        if system is not remote:
            system.start()
        bench.warm_up(system, remote, **load)
        return Meter(system).over(exchange.title, lambda: bench.through(system, remote, messages=messages, **load))
    finally:
        system.stop()
        remote.stop()


def _idle(seconds: float) -> Figures:
    """Nothing but time; what is used counts for each second of it."""
    begun_s = time.monotonic()
    time.sleep(seconds)
    return {"idle_s": time.monotonic() - begun_s}


class Meter:
    """Takes what a system has used, and what it tells of its frames and commits, before and after a run.

    A run begins with the figures at the end of the one before. To ask is one frame to each process and one back.
    """

    def __init__(self, system: System) -> None:
        self._system = system
        self._told = system.status()
        self._names = system.names(names_told(self._told))

    def over(self, row: str, run: Callable[[], Figures]) -> Figures:
        """The figures of ``run``, and beside them, for each of its messages or seconds of idleness, what the system used.

        Raises:
            BenchError: a process began or ended meanwhile, so that nothing can be said of it.
        """
        load_average, before = os.getloadavg()[0], self._system.usage()
        figures = run()
        after = self._system.usage()
        if before.keys() != after.keys() or after.keys() != self._names.keys():
            ended = [self._names.get(pid, str(pid)) for pid in before.keys() - after.keys()]
            raise BenchError(
                f"{self._system.name}: its processes changed while it was measured (ended: {', '.join(ended) or 'none'})"
            )
        then, self._told = self._told, self._system.status()
        units = figures.get("idle_s") or figures["messages"]
        spent = {pid: processes.spent(before[pid], usage) for pid, usage in after.items()}
        frames = frames_between(then, self._told)
        each = {
            name: {
                "user_us": spent[pid].user_s * 1e6 / units,
                "system_us": spent[pid].system_s * 1e6 / units,
                "voluntary": spent[pid].voluntary / units,
                "involuntary": spent[pid].involuntary / units,
                **{key: count / units for key, count in frames.get(pid, {}).items()},
            }
            for pid, name in self._names.items()
        }
        commits = commits_between(then, self._told)
        whole = whole_of(each)
        return {
            **figures,
            "row": row,
            **whole,
            "commits": None if commits is None else commits / units,
            "processes": each,
            "load_average": load_average,
        }


def names_told(status: Mapping[str, Any] | None) -> dict[int, str]:
    """By pid: what a node calls its processes, or the actors in them; nothing of a system that says nothing."""
    if status is None:
        return {}
    named: dict[int, list[str]] = {}
    for row in status.get("processes") or status["actors"]:
        if row["pid"] is not None:
            named.setdefault(row["pid"], []).append(row["name"])
    return {status["supervisor"]["pid"]: "supervisor", **{pid: "+".join(rows) for pid, rows in named.items()}}


def frames_told(status: Mapping[str, Any] | None) -> dict[int, dict[str, int]]:
    """By pid: frames sent and received, and turns, of each process that tells; one mailbox is told of once, however many use it."""
    found: dict[int, dict[str, int]] = {}
    for row in [] if status is None else [status["supervisor"], *(status.get("processes") or []), *status["actors"]]:
        if row["pid"] is not None and row.get("mailbox"):
            found.setdefault(row["pid"], dict(row["mailbox"]))
    return found


def frames_between(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> dict[int, dict[str, int]]:
    """The growth of ``frames_told``."""
    known = frames_told(before)
    return {
        pid: {key: count - known.get(pid, {}).get(key, 0) for key, count in counts.items()}
        for pid, counts in frames_told(after).items()
    }


def commits_between(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> int | None:
    """The commits of the store; None where nobody counts them."""
    if before is None or after is None or "commits" not in after["store"]:
        return None
    commits: int = after["store"]["commits"] - before["store"]["commits"]
    return commits


def whole_of(each: Mapping[str, Mapping[str, float]]) -> Figures:
    """The sums over the processes; None for frames and turns where no process tells of them."""
    sums: Figures = {key: sum(row[key] for row in each.values()) for key in ("user_us", "system_us", "voluntary", "involuntary")}
    for key in ("frames_sent", "frames_received", "turns"):
        told = [row[key] for row in each.values() if key in row]
        sums[key] = sum(told) if told else None
    sums["cpu_us"] = sums["user_us"] + sums["system_us"]
    sums["switches"] = sums["voluntary"] + sums["involuntary"]
    return sums


def _line(row: Figures) -> str:
    parts = [f"{row['row']}: CPU {row['cpu_us']:,.0f} us, {row['switches']:,.2f} switches"]
    if "messages" in row:
        parts.append(f"acknowledged p50 {row['ack_p50_us']:,.0f} us, end to end p50 {row['latency_p50_us']:,.0f} us")
        parts.append(f"{row['end_to_end_per_s']:,.0f}/s")
    return ", ".join(parts)
