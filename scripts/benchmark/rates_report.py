"""The medians, the ratios and the tables of ``rates.py``."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from measure import Figures
from rates import EXCHANGES, FAR, LONE
from systems import Bascule, BasculeTogether

OURS = (Bascule.name, BasculeTogether.name)
# (heading, figure): ours divided by another's
RATIOS = (
    ("CPU", "cpu_us"),
    ("switches", "switches"),
    ("ack p50", "ack_p50_us"),
    ("ack p99", "ack_p99_us"),
    ("end to end p50", "latency_p50_us"),
    ("end to end p99", "latency_p99_us"),
    ("end to end 1/s", "end_to_end_per_s"),
)
# (heading, width, figure, format)
COST = (
    ("ack p50", 10, "ack_p50_us", ",.0f"),
    ("p99", 9, "ack_p99_us", ",.0f"),
    ("p99.9", 9, "ack_p999_us", ",.0f"),
    ("e2e p50", 10, "latency_p50_us", ",.0f"),
    ("p99", 9, "latency_p99_us", ",.0f"),
    ("p99.9", 9, "latency_p999_us", ",.0f"),
    ("user", 9, "user_us", ",.0f"),
    ("system", 8, "system_us", ",.0f"),
    ("vol.", 8, "voluntary", ",.2f"),
    ("invol.", 8, "involuntary", ",.2f"),
    ("frames", 8, "frames_sent", ",.2f"),
    ("turns", 8, "turns", ",.2f"),
    ("commits", 9, "commits", ",.2f"),
)
THROUGHPUT = (
    ("end to end 1/s", 16, "end_to_end_per_s", ",.0f"),
    ("CPU us", 9, "cpu_us", ",.0f"),
    ("user", 9, "user_us", ",.0f"),
    ("system", 8, "system_us", ",.0f"),
    ("ack p50", 10, "ack_p50_us", ",.0f"),
    ("p99", 9, "ack_p99_us", ",.0f"),
    ("vol.", 8, "voluntary", ",.2f"),
    ("invol.", 8, "involuntary", ",.2f"),
    ("frames", 8, "frames_sent", ",.2f"),
    ("commits", 9, "commits", ",.2f"),
)
BY_PROCESS = (
    ("CPU, user + system [us]", "user_us", "system_us", ",.0f"),
    ("context switches, voluntary + involuntary", "voluntary", "involuntary", ",.2f"),
    ("frames sent, turns", "frames_sent", "turns", ",.2f"),
)
WRONG = ("missing", "duplicates", "out_of_order")
HELD = 0.95  # of its rate: what is acknowledged more slowly shows how long the queue is, and is marked

Medians = dict[str, dict[str, Figures]]


def summed_up(report: Figures) -> Figures:
    """The report with ``medians``, by row and system, and ``ratios``."""
    medians: Medians = {}
    for run in report["runs"]:
        medians.setdefault(run["row"], {}).setdefault(run["system"], {})
    for row, found in medians.items():
        for system in found:
            found[system] = median_of([run for run in report["runs"] if (run["row"], run["system"]) == (row, system)])
    return {**report, "medians": medians, "ratios": ratios(medians)}


def median_of(runs: Sequence[Mapping[str, Any]]) -> Figures:
    """The middle of each figure, also of those inside; what went wrong is summed up, and what nobody told is None."""
    found: Figures = {}
    for key in dict.fromkeys(key for run in runs for key in run):
        values = [run[key] for run in runs if run.get(key) is not None]
        if not values:
            found[key] = None
        elif key in WRONG:
            found[key] = sum(values)
        elif isinstance(values[0], Mapping):
            found[key] = median_of(values)
        elif isinstance(values[0], str) or key == "turn":
            continue
        else:
            found[key] = statistics.median(values)
    return found


def ratios(medians: Medians) -> list[Figures]:
    """For each row, each of ours and each other system: ours divided by theirs, of each figure that both have."""
    found = []
    for row, by_system in medians.items():
        for name in OURS:
            for other, theirs in by_system.items():
                if name not in by_system or other in (*OURS, FAR):
                    continue
                ours = by_system[name]
                both = [figure for _, figure in RATIOS if ours.get(figure) is not None and theirs.get(figure)]
                compared = {figure: ours[figure] / theirs[figure] for figure in both}
                found.append({"row": row, "of": name, "beside": other, **compared})
    return found


def lines(report: Figures) -> list[str]:
    """The tables of a report that is summed up."""
    medians, systems = report["medians"], report["systems"]
    told = [
        f"QoS 1, 256 bytes, one publisher, {report['seconds']:g} s a rate, medians of {report['turns']} turn(s)",
        "bascule commits with fdatasync before it acknowledges; mosquitto keeps everything in memory",
        *([f"before: the code in {report['beside']}"] if report["beside"] else []),
        "for each message (idle: each second): latencies and CPU in us, context switches, frames, turns, commits",
    ]
    rates = [row for row in medians if row not in {exchange.title for exchange in EXCHANGES}]
    told += ["", *_table(medians, rates, COST)]
    if any(_is_behind(row, figures) for row in rates for figures in medians[row].values()):
        told.append("* behind its rate: the latencies are those of a queue")
    for system in systems:
        told += _by_process(system, {row: medians[row][system] for row in rates})
    told += [
        "",
        "QoS 2 from end to end, for each message",
        *_table(medians, [x.title for x in EXCHANGES if x.title in medians], THROUGHPUT),
    ]
    for other in systems:
        for name in OURS:
            told += _ratio_table(name, other, [row for row in report["ratios"] if (row["of"], row["beside"]) == (name, other)])
    load = [run["load_average"] for run in report["runs"]]
    noise = [f"load average before the runs: {min(load):.1f} to {max(load):.1f}"] if load else []
    return [*told, "", *_lone(medians.get(LONE, {})), *_wrong(medians, systems), *noise]


def _table(medians: Medians, rows: Sequence[str], columns: Sequence[tuple[str, int, str, str]]) -> list[str]:
    first = max((len(row) for row in rows), default=0) + 2
    told = [f"{'':{first}}{'':22}" + "".join(f"{heading:>{width}}" for heading, width, _, _ in columns)]
    for row in rows:
        for number, (system, figures) in enumerate(medians[row].items()):
            cells = "".join(f"{_cell(figures.get(figure), form):>{width}}" for _, width, figure, form in columns)
            mark = " *" if _is_behind(row, figures) else ""
            told.append(f"{row if not number else '':{first}}{system:22}{cells}{mark}")
    return told


def _by_process(system: str, rows: Mapping[str, Figures]) -> list[str]:
    """The share of each process of ``system``; nothing of a system with one process."""
    names = list(next(iter(rows.values()))["processes"])
    if len(names) < 2:
        return []
    told = []
    for title, one, two, form in BY_PROCESS:
        if not any(figures["processes"][name].get(one) is not None for figures in rows.values() for name in names):
            continue
        told += ["", f"{f'{system}: {title}':64}" + "".join(f"{row:>15}" for row in rows)]
        for name in names:
            pairs = [(figures["processes"][name].get(one), figures["processes"][name].get(two)) for figures in rows.values()]
            told.append(f"  {name:62}" + "".join(f"{f'{_cell(a, form)} + {_cell(b, form)}':>15}" for a, b in pairs))
    return told


def _ratio_table(name: str, other: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    told = ["", f"{f'ratio: {name} / {other}':36}" + "".join(f"{heading:>16}" for heading, _ in RATIOS)]
    for row in rows:
        told.append(f"{row['row']:36}" + "".join(f"{_cell(row.get(figure), '.2f'):>16}" for _, figure in RATIOS))
    return told


def _lone(by_system: Mapping[str, Figures]) -> list[str]:
    return [
        f"{LONE}, {system}: acknowledged in {figures['ack_fdatasyncs']:.1f} fdatasyncs"
        f" (p50 {figures['ack_p50_us']:,.0f} us, fdatasync in the same folder {figures['fdatasync_p50_us']:,.0f} us)"
        for system, figures in by_system.items()
    ]


def _wrong(medians: Medians, systems: Sequence[str]) -> list[str]:
    told = []
    for system in systems:
        counts = {key: sum(found[system].get(key) or 0 for found in medians.values()) for key in WRONG}
        told.append(f"{system}: " + ", ".join(f"{count} {key.replace('_', ' ')}" for key, count in counts.items()))
    return told


def _is_behind(row: str, figures: Figures) -> bool:
    rate = row.removesuffix("/s")
    return rate.isdecimal() and figures["acknowledged_per_s"] < HELD * int(rate)


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
