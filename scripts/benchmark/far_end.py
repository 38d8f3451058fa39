"""A bridge's own limit: to a far end that acknowledges at once, so that no remote broker is measured. ``scripts/bench --far-end``.

Bascule with 1, 2 and 4 lanes, as far as the machine has processors for them beside the store, the clients and the load; and
Mosquitto's bridge. QoS 1, and QoS 2 with a small window and with a large one.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

from measure import Bench, Figures
from systems import Bascule, BasculeTogether, FarEnd, MosquittoBridge, System

PUBLISHERS = 10
LANES = (1, 2, 4)
BESIDE = 3  # processors for what is not a lane
# (QoS, most in flight, most in flight of all publishers). A Mosquitto allows each of its clients what it allows its bridge.
EXCHANGES = ((1, 1000, 1000), (2, 20, 100), (2, 100, 1000), (2, 1000, 1000))
ROWS = (
    ("end to end [1/s]", "end_to_end_per_s"),
    ("acknowledged [1/s]", "acknowledged_per_s"),
    ("CPU a message [us]", "cpu_us"),
)

Starter = Callable[..., System]


def starters() -> dict[str, Starter]:
    """The systems to measure, by name; ours with one lane first."""
    lanes = [count for count in LANES if count == 1 or count + BESIDE <= (os.cpu_count() or 1)]
    ours: dict[str, Starter] = {
        Bascule.name if count == 1 else f"{Bascule.name}, {count} lanes": partial(Bascule, lanes=count) for count in lanes
    }
    return {**ours, BasculeTogether.name: BasculeTogether, MosquittoBridge.name: MosquittoBridge}


def measure(load: Path, folder: Path, *, turns: int, messages: int, say: Callable[[str], None]) -> Figures:
    """All systems in turn, ``turns`` times, each started afresh for each exchange; the medians, and their ratio to ours."""
    runs: list[Figures] = []
    systems = starters()
    for turn in range(turns):
        for qos, in_flight_max, window in EXCHANGES:
            for place, (name, starter) in enumerate(systems.items()):
                own = folder / f"{turn}-{qos}-{in_flight_max}-{place}"
                row = _one(Bench(load=load, qos=qos), own, starter, in_flight_max, window, messages)
                runs.append({"system": name, "exchange": f"QoS {qos}, {in_flight_max} in flight", **row})
                figures = f"{row['end_to_end_per_s']:,.0f}/s, {row['cpu_us']:.0f} us"
                say(f"turn {turn + 1} of {turns}, {runs[-1]['exchange']}, {name}: {figures}")
    medians = []
    for exchange in dict.fromkeys(run["exchange"] for run in runs):
        for title, figure in ROWS:
            of = {
                name: statistics.median(run[figure] for run in runs if (run["system"], run["exchange"]) == (name, exchange))
                for name in systems
            }
            medians.append({"exchange": exchange, "figure": title, **of})
    return {"turns": turns, "systems": list(systems), "runs": runs, "medians": medians, "lost": sum(run["missing"] for run in runs)}


def _one(bench: Bench, folder: Path, starter: Starter, in_flight_max: int, window: int, messages: int) -> Figures:
    far = FarEnd(bench.load)
    system = starter(folder, far.port, in_flight_max=in_flight_max)
    try:
        far.start()
        system.start()
        bench.warm_up(system, far, publishers=PUBLISHERS, window=window)
        return bench.through(system, far, messages=messages, publishers=PUBLISHERS, window=window)
    finally:
        system.stop()
        far.stop()


def print_report(report: Figures) -> None:
    """The table."""
    names, theirs = report["systems"], MosquittoBridge.name
    print(f"{PUBLISHERS} publishers, 256 bytes, to a far end that acknowledges at once; medians of {report['turns']} turn(s)")
    print(f"{'':46}" + "".join(f"{name:>18}" for name in names) + f"{'ratio':>8}")
    for row in report["medians"]:
        ratio = f"{row[names[0]] / row[theirs]:.2f}" if row[theirs] else "-"
        title = f"{row['exchange']}: {row['figure']}"
        print(f"{title:46}" + "".join(f"{row[name]:>18,.1f}" for name in names) + f"{ratio:>8}")
    for name in names:
        runs = [run for run in report["runs"] if run["system"] == name]
        wrong = {key: sum(run[key] for run in runs) for key in ("missing", "duplicates", "out_of_order")}
        print(f"{name}: " + ", ".join(f"{count} {key.replace('_', ' ')}" for key, count in wrong.items()))
