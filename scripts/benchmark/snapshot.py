"""Intake beside snapshots: Bascule at full load and at a steady rate, without snapshots, with one a second and back to back.

The snapshots are made by the node's own schedule, so nothing but they differs. Behind ``scripts/bench --snapshot``.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path

from measure import Bench, Figures
from systems import Bascule, BenchError, Remote

STEADY_RATE_PER_S = 2000
KINDS = {"none": None, "one a second": "1s", "back to back": "1ms"}
ROWS = (
    ("intake at full load [1/s]", "full", "acknowledged_per_s"),
    ("PUBACK at full load, p50 [us]", "full", "ack_p50_us"),
    ("PUBACK at full load, p99 [us]", "full", "ack_p99_us"),
    ("PUBACK at full load, longest [us]", "full", "ack_max_us"),
    (f"PUBACK at {STEADY_RATE_PER_S}/s, p50 [us]", "steady", "ack_p50_us"),
    (f"PUBACK at {STEADY_RATE_PER_S}/s, p99 [us]", "steady", "ack_p99_us"),
    (f"PUBACK at {STEADY_RATE_PER_S}/s, longest [us]", "steady", "ack_max_us"),
    ("snapshots made", "snapshots", "count"),
    ("checkpoint: the store stands still, p50 [ms]", "snapshots", "pause_p50_ms"),
    ("checkpoint: the store stands still, longest [ms]", "snapshots", "pause_max_ms"),
    ("from order to whole, p50 [s]", "snapshots", "took_p50_s"),
)


def measure(
    bench: Bench, folder: Path, *, turns: int, messages: int, seconds: int, quick: bool, say: Callable[[str], None]
) -> Figures:
    """All kinds in turn, ``turns`` times; the medians. quick: without the kind in the middle."""
    kinds = {kind: every for kind, every in KINDS.items() if not quick or kind != "one a second"}
    runs: dict[str, list[Figures]] = {kind: [] for kind in kinds}
    for turn in range(turns):
        for place, (kind, every) in enumerate(kinds.items()):
            runs[kind].append(_one(bench, folder / f"{turn}-{place}", every, messages, seconds))
            line = ", ".join(f"{title} {runs[kind][-1][run][figure]:,.0f}" for title, run, figure in ROWS[1:3])
            say(f"turn {turn + 1} of {turns}, snapshots {kind}: {line}")
    medians = [
        {
            "figure": title,
            **{kind: statistics.median(each[run][figure] for each in runs[kind]) for kind in kinds},
        }
        for title, run, figure in ROWS
    ]
    lost = sum(each[run]["missing"] for kind in kinds for each in runs[kind] for run in ("full", "steady"))
    return {"qos": bench.qos, "turns": turns, "runs": runs, "medians": medians, "lost": lost}


def _one(bench: Bench, folder: Path, every: str | None, messages: int, seconds: int) -> Figures:
    """One freshly started node and its remote."""
    remote = Remote(folder / "remote", bench.qos)
    node = Bascule(folder / "bascule", remote.port, snapshots=every)
    try:
        remote.start()
        node.start()
        bench.warm_up(node, remote)
        full = bench.through(node, remote, messages=messages)
        steady = bench.through(node, remote, messages=STEADY_RATE_PER_S * seconds, rate=STEADY_RATE_PER_S)
        made = _made(node)
        if every is not None and not made:
            raise BenchError("no snapshot was made")
    finally:
        node.stop()
        remote.stop()
    pauses = [event["pause_ms"] for event in made] or [0.0]
    return {
        "full": full,
        "steady": steady,
        "snapshots": {
            "count": len(made),
            "pause_p50_ms": statistics.median(pauses),
            "pause_max_ms": max(pauses),
            "took_p50_s": statistics.median([event["took_s"] for event in made] or [0.0]),
        },
    }


def _made(node: Bascule) -> list[Figures]:
    """Lines of the node's log about the snapshots that it made."""
    lines = (node.folder / "output.log").read_text(errors="replace").splitlines()
    events = [json.loads(line) for line in lines if '"snapshot.made"' in line]
    return [event for event in events if event.get("event") == "snapshot.made"]


def print_report(report: Figures) -> None:
    """The table."""
    print(f"QoS {report['qos']}, 256 bytes, window 1000, to a bridge, medians of {report['turns']} turn(s); snapshots:")
    print(f"{'':50}" + "".join(f"{kind:>14}" for kind in report["runs"]))
    for row in report["medians"]:
        print(f"{row['figure']:50}" + "".join(f"{row[kind]:>14,.1f}" for kind in report["runs"]))
