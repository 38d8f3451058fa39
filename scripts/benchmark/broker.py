"""Bascule and Mosquitto as brokers of many clients: ``scripts/bench --clients`` and ``--fan-out``.

Clients: each publishes at QoS 1 once a second into the queue of a bridge whose remote is away, so what is measured is intake and
acknowledgement; ours acknowledges after a synced commit. Fan-out: one publisher and many subscribers, at QoS 0 and 1 to sessions
that end with the connection, and at QoS 1 to sessions that last; as fast as it goes, and one message at a time. The load is
``load.c``; the systems are ``systems.py``'s.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from measure import Figures, compile_load, end
from systems import Bascule, BenchError, Mosquitto, MosquittoBridge, System, free_port

START_TIMEOUT_S = 60.0
RUN_TIMEOUT_S = 180.0
PAYLOAD_BYTES = 64
FAN_OUT_WINDOW = 1000
BASCULE, MOSQUITTO, PERSISTENT = "bascule", "mosquitto", "mosquitto, persistence true"
CASES = (  # of the fan-out
    ("qos_0", "QoS 0"),
    ("qos_1", "QoS 1"),
    ("qos_1_kept", "QoS 1, lasting sessions"),
    ("qos_0_steady", "QoS 0, 100 messages/s"),
    ("qos_1_steady", "QoS 1, 100 messages/s"),
)
STEADY_RATE_PER_S = 100

WRONG = ("missing", "duplicates", "out_of_order", "foreign")

Starter = Callable[[Path], System]


@dataclass(frozen=True, slots=True)
class Size:
    """``clients`` for ``seconds``, ``subscribers`` of ``messages``; where there are 0, that case is left out."""

    clients: int
    seconds: int
    subscribers: int
    messages: int


def measure(folder: Path, size: Size, pairs: int, say: Callable[[str], None]) -> Figures:
    """All systems in turn, ``pairs`` times. ``lost`` in the result counts what was not acknowledged or not delivered."""
    load = compile_load(folder)
    report: Figures = {"size": {"clients": size.clients, "seconds": size.seconds, "subscribers": size.subscribers}, "lost": 0}
    if size.clients:
        report["clients"] = _turns(folder / "clients", pairs, _clients_runs(load, size), say)
    if size.subscribers:
        for case, _ in CASES:
            report[case] = _turns(folder / case, pairs, _fan_out_runs(load, size, case), say)
    report["lost"] = sum(run["missing"] for case in report.values() if isinstance(case, list) for run in case)
    return report


def _clients_runs(load: Path, size: Size) -> dict[str, tuple[Starter, list[str]]]:
    words = [str(load), "clients", "--clients", str(size.clients), "--seconds", str(size.seconds), "--size", str(PAYLOAD_BYTES)]
    away = free_port()
    return {
        BASCULE: (lambda folder: Bascule(folder, away), words),
        MOSQUITTO: (lambda folder: MosquittoBridge(folder, away), words),
        PERSISTENT: (lambda folder: MosquittoBridge(folder, away, persistent=True), words),
    }


def _fan_out_runs(load: Path, size: Size, case: str) -> dict[str, tuple[Starter, list[str]]]:
    steady = case.endswith("steady")
    options = {
        "clients": size.subscribers,
        "messages": size.messages // 40 if steady else size.messages,
        "rate": STEADY_RATE_PER_S if steady else 0,
        "qos": int(case.startswith("qos_1")),
        "kept": int(case == "qos_1_kept"),
        "window": FAN_OUT_WINDOW,
        "size": PAYLOAD_BYTES,
    }
    words = [str(load), "fanout", *(word for name, value in options.items() for word in (f"--{name}", str(value)))]
    runs: dict[str, tuple[Starter, list[str]]] = {BASCULE: (lambda folder: Bascule(folder, None), words)}
    if case != "qos_1_kept":
        runs[MOSQUITTO] = (lambda folder: Mosquitto(folder, no_delay=steady), words)
    else:
        runs[PERSISTENT] = (lambda folder: Mosquitto(folder, persistent=True, no_delay=False), words)
    return runs


def _turns(folder: Path, pairs: int, runs: dict[str, tuple[Starter, list[str]]], say: Callable[[str], None]) -> list[Figures]:
    """Each run ``pairs`` times, in turn, every time with a system freshly started."""
    found = []
    for turn in range(pairs):
        for number, (name, (starter, words)) in enumerate(runs.items()):
            figures = _run(starter(folder / f"{turn}-{number}"), words)
            found.append({"system": name, **figures})
            say(f"{folder.name}, turn {turn + 1} of {pairs}, {name}: {_line(figures)}")
    return found


def _line(figures: Figures) -> str:
    return ", ".join(f"{key} {value:,.1f}" for key, value in figures.items() if isinstance(value, int | float))


def _run(system: System, words: list[str]) -> Figures:
    """One load through ``system``; CPU is counted from when every client stands to the last acknowledgement or delivery."""
    try:
        system.start()
        command = [*words, "--port", str(system.port)]
        load = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            _next(load, "connected")
            cpu_s, begun_s = system.cpu_s(), time.monotonic()
            assert load.stdin is not None
            load.stdin.write("go\n")
            load.stdin.flush()
            figures = _next(load, "seconds")
            took_s = time.monotonic() - begun_s
            time.sleep(0.2)  # the last settlements are part of the work
            cpu_s = system.cpu_s() - cpu_s
            rss_mb = sum(system.rss_bytes().values()) / 1e6
        finally:
            end(load)
    finally:
        system.stop()
    if "sent" in figures:
        figures["missing"] = figures["sent"] - figures["acknowledged"]
    units = figures["sent"] if "sent" in figures else figures["deliveries"]
    return {
        **figures,
        "cpu_percent": 100.0 * cpu_s / took_s,
        "cpu_us": 1e6 * cpu_s / units if units else 0.0,
        "rss_mb": rss_mb,
        "load_average": os.getloadavg()[0],
    }


def _next(load: subprocess.Popen[str], key: str) -> Figures:
    """The next line of the load generator, which has ``key``."""
    assert load.stdout is not None
    line = load.stdout.readline()  # the load generator has a deadline of its own
    if not line:
        raise BenchError(f"the load generator failed with exit status {load.wait(RUN_TIMEOUT_S)}")
    figures: Figures = json.loads(line)
    if key not in figures and figures.get("event") != key:
        raise BenchError(f"the load generator said {line.strip()!r}")
    return figures


def medians(report: Figures) -> dict[str, dict[str, Figures]]:
    """Case -> system -> the middle of each figure over the turns; counts of what went wrong are sums."""
    table: dict[str, dict[str, Figures]] = {}
    for case, runs in report.items():
        if not isinstance(runs, list):
            continue
        for system in dict.fromkeys(run["system"] for run in runs):
            own = [run for run in runs if run["system"] == system]
            table.setdefault(case, {})[system] = {
                key: sum(run[key] for run in own) if key in WRONG else statistics.median(run[key] for run in own)
                for key in own[0]
                if key != "system"
            }
    return table


# (heading, width, figure, format)
Columns = tuple[tuple[str, int, str, str], ...]
CLIENTS_COLUMNS: Columns = (
    ("acknowledged", 14, "acknowledged", ",.0f"),
    ("missing", 9, "missing", ",d"),
    ("p50 us", 9, "ack_p50_us", ",.0f"),
    ("p99 us", 9, "ack_p99_us", ",.0f"),
    ("max us", 11, "ack_max_us", ",.0f"),
    ("CPU %", 8, "cpu_percent", ".1f"),
    ("us/message", 12, "cpu_us", ".1f"),
    ("RSS MB", 8, "rss_mb", ".1f"),
    ("load", 6, "load_average", ".1f"),
)
FAN_OUT_COLUMNS: Columns = (
    ("deliveries/s", 14, "deliveries_per_s", ",.0f"),
    ("us/delivery", 13, "cpu_us", ".2f"),
    ("p50 us", 10, "transit_p50_us", ",.0f"),
    ("p99 us", 10, "transit_p99_us", ",.0f"),
    ("missing", 9, "missing", ",d"),
    ("twice", 7, "duplicates", ",d"),
    ("disorder", 10, "out_of_order", ",d"),
    ("RSS MB", 8, "rss_mb", ".1f"),
    ("load", 6, "load_average", ".1f"),
)


def print_report(report: Figures) -> None:
    """The tables, medians over the turns."""
    table, size = medians(report), report["size"]
    if "clients" in table:
        print(f"\n{size['clients']:,} clients, each a QoS 1 PUBLISH of {PAYLOAD_BYTES} bytes a second for {size['seconds']} s")
        print("queued for a remote that is away; bascule acknowledges after a synced commit, mosquitto from memory")
        print(f"{'':28}{_headings(CLIENTS_COLUMNS)}")
        for system, row in table["clients"].items():
            print(f"{system:28}{_cells(CLIENTS_COLUMNS, row)}")
    if not size["subscribers"]:
        return
    print(f"\n1 publisher, {size['subscribers']} subscribers, {PAYLOAD_BYTES} bytes, at most {FAN_OUT_WINDOW} messages on the way")
    print(f"{'':52}{_headings(FAN_OUT_COLUMNS)}{'ratio':>7}")
    for case, title in CASES:
        theirs = next(row["deliveries_per_s"] for system, row in table[case].items() if system != BASCULE)
        for system, row in table[case].items():
            ratio = f"{row['deliveries_per_s'] / theirs:>7.2f}" if theirs and system == BASCULE else ""
            print(f"{title + ', ' + system:52}{_cells(FAN_OUT_COLUMNS, row)}{ratio}")


def _headings(columns: Columns) -> str:
    return "".join(f"{heading:>{width}}" for heading, width, _, _ in columns)


def _cells(columns: Columns, row: Figures) -> str:
    return "".join(f"{format(row[figure], form):>{width}}" for _, width, figure, form in columns)
