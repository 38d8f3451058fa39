"""Bascule beside Mosquitto 2.0, in turn, on one machine: the command behind ``scripts/bench``. As brokers: ``broker.py``;
at fixed rates: ``rates.py``.

Topology: publisher -> system under test -> remote Mosquitto -> subscriber. Only ratios within one run are worth comparing.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import broker
import far_end
import rates
import rates_report
import snapshot
from measure import Bench, Figures, compile_load, fdatasync_p50_us
from systems import SQLITE_PLUGIN, SQLITE_PROGRAM, Bascule, BasculeTogether, BenchError, MosquittoBridge, Remote, System

STDOUT = "-"
STEADY_RATE_PER_S = 2000
SYSTEMS: tuple[Callable[[Path, int], System], ...] = (Bascule, BasculeTogether, MosquittoBridge)


def main(argv: list[str] | None = None) -> int:
    """Measure, print the table, and return 0; 1 when the measurement could not be made or messages were lost."""
    arguments = _arguments(argv)
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        with tempfile.TemporaryDirectory(prefix="bascule-bench-", dir=arguments.dir) as name:
            report = _measure_kind(arguments, Path(name))
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130
    if arguments.json == STDOUT:
        print(json.dumps(report))
        return 1 if report["lost"] else 0
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(report) + "\n")
    if arguments.rates is not None:
        print("\n".join(rates_report.lines(report)))
    elif arguments.brokers:
        broker.print_report(report)
    elif arguments.snapshot:
        snapshot.print_report(report)
    elif arguments.far_end:
        far_end.print_report(report)
    elif arguments.replicated:
        import replicated

        replicated.print_report(report)
    else:
        _print_report(report)
    return 1 if report["lost"] else 0


def _interrupted(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Bascule beside Mosquitto's bridge in the same run.")
    parser.add_argument("--pairs", "--repeat", type=int, default=5, help="measure each system this many times, in turn (default 5)")
    parser.add_argument("--messages", type=int, default=200_000, help="messages in each run (default 200000)")
    parser.add_argument("--qos", type=int, choices=(0, 1, 2), default=1)
    parser.add_argument("--quick", action="store_true", help="one pair of short runs; too noisy to judge by")
    parser.add_argument(
        "--backlog",
        type=int,
        nargs="?",
        const=1_000_000,
        metavar="N",
        help="also: fill N with the remote down, restart, drain; with --replicated: a member that was away, and a take-over",
    )
    parser.add_argument("--only-backlog", action="store_true", help="leave the pairs out")
    parser.add_argument(
        "--clients",
        type=int,
        nargs="?",
        const=2000,
        default=0,
        metavar="N",
        help="instead, as brokers: N clients (2000), each publishing at QoS 1 once a second",
    )
    parser.add_argument(
        "--fan-out",
        type=int,
        nargs="?",
        const=50,
        default=0,
        metavar="N",
        help="instead, as brokers: one publisher and N subscribers (50), at QoS 0 and 1",
    )
    parser.add_argument(
        "--snapshot", action="store_true", help="instead: intake of Bascule alone, without snapshots and while they are made"
    )
    parser.add_argument(
        "--far-end",
        action="store_true",
        help="instead: bridges to a far end that acknowledges at once, at QoS 1 and 2; with lanes, where there are processors",
    )
    parser.add_argument(
        "--replicated", action="store_true", help="instead: a node alone and one of a cluster; needs the development environment"
    )
    parser.add_argument(
        "--rates",
        type=int,
        nargs="*",
        metavar="R",
        help="instead: what a message costs at R, ... messages a second (10 to 10000) and one in flight: CPU by process, context "
        f"switches, frames, commits, latencies; and at QoS 2. Beside Mosquitto 2.1 with SQLite, where {SQLITE_PROGRAM} and "
        f"{SQLITE_PLUGIN} name its program and its plug-in",
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="with --rates: how long each rate is held (default 5)")
    parser.add_argument(
        "--beside", type=Path, metavar="DIR", help="with --rates: measure the Bascule of another checkout too, by its own .venv"
    )
    parser.add_argument(
        "--dir", help="where data is kept while measuring: the file system that is measured (default: the temporary folder)"
    )
    parser.add_argument(
        "--json",
        nargs="?",
        const=STDOUT,
        metavar="FILE",
        help="print one JSON object instead of tables; with FILE: write it there, and print the tables",
    )
    arguments = parser.parse_args(argv)
    arguments.brokers = bool(arguments.clients or arguments.fan_out)
    if min(arguments.clients, arguments.fan_out) < 0 or (arguments.brokers and (arguments.backlog or arguments.only_backlog)):
        parser.error("--clients and --fan-out take a number of clients, and run without --backlog")
    if arguments.snapshot and (arguments.brokers or arguments.backlog or arguments.only_backlog):
        parser.error("--snapshot is a measurement of its own")
    if arguments.replicated and (arguments.brokers or arguments.only_backlog or arguments.snapshot):
        parser.error("--replicated is a measurement of its own")
    if arguments.far_end and (arguments.brokers or arguments.backlog or arguments.only_backlog or arguments.snapshot):
        parser.error("--far-end is a measurement of its own")
    _check_rates(parser, arguments)
    if arguments.json and arguments.json != STDOUT and not Path(arguments.json).absolute().parent.is_dir():
        parser.error(f"--json {arguments.json}: there is no such folder")
    if arguments.quick:
        arguments.pairs, arguments.messages = 1, min(arguments.messages, 20_000)
        arguments.seconds = min(arguments.seconds, 1.0)
    if arguments.pairs < 1 or arguments.messages < 1000:
        parser.error("at least 1 pair of 1000 messages")
    if arguments.only_backlog and not arguments.backlog:
        arguments.backlog = 1_000_000
    return arguments


def _check_rates(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if arguments.rates is None:
        if arguments.beside is not None:
            parser.error("--beside goes with --rates")
        return
    if arguments.brokers or arguments.snapshot or arguments.backlog or arguments.only_backlog:
        parser.error("--rates is a measurement of its own")
    if not 0 < arguments.seconds <= rates.SECONDS_MAX or any(rate < 1 for rate in arguments.rates):
        parser.error(f"--rates takes numbers above 0, and --seconds one up to {rates.SECONDS_MAX:g}")


def _measure(arguments: argparse.Namespace, folder: Path) -> Figures:
    bench = Bench(load=compile_load(folder), qos=arguments.qos)
    report: Figures = {"qos": arguments.qos, "pairs": [], "backlog": None, "lost": 0, "fdatasync_p50_us": fdatasync_p50_us(folder)}
    for number in range(0 if arguments.only_backlog else arguments.pairs):
        pair: Figures = {}
        for kind in SYSTEMS:
            figures = _one_system(bench, kind, folder / f"{number}-{kind.__name__}", arguments)
            pair[figures.pop("name")] = figures
            report["lost"] += sum(run["missing"] for run in figures.values() if isinstance(run, dict) and "missing" in run)
        report["pairs"].append(pair)
        _say(f"pair {number + 1} of {arguments.pairs}: {_pair_line(pair)}")
    if report["pairs"]:
        report["medians"] = _medians(report["pairs"])
    if arguments.backlog:
        report["backlog"] = bench.backlog(folder / "backlog", messages=arguments.backlog)
        report["lost"] += report["backlog"]["missing"]
    return report


def _measure_kind(arguments: argparse.Namespace, folder: Path) -> Figures:
    if arguments.rates is not None:
        chosen = tuple(arguments.rates) or rates.RATES
        plan = rates.Plan(rates=chosen, seconds=arguments.seconds, turns=arguments.pairs, beside=arguments.beside)
        return rates_report.summed_up(rates.measure(compile_load(folder), folder, plan, _say))
    if arguments.brokers:
        return _measure_brokers(arguments, folder)
    if arguments.snapshot:
        bench = Bench(load=compile_load(folder), qos=arguments.qos)
        seconds = 1 if arguments.quick else 10
        return snapshot.measure(
            bench, folder, turns=arguments.pairs, messages=arguments.messages, seconds=seconds, quick=arguments.quick, say=_say
        )
    if arguments.far_end:
        load = compile_load(folder)
        return far_end.measure(load, folder, turns=arguments.pairs, messages=arguments.messages, say=_say)
    if arguments.replicated:
        import replicated  # it has the client of NATS, which not every environment has

        seconds = 1 if arguments.quick else 5
        bench = Bench(load=compile_load(folder), qos=arguments.qos)
        if arguments.backlog:
            return replicated.backlog(bench, folder, messages=arguments.backlog, say=_say)
        return replicated.measure(bench, folder, turns=arguments.pairs, messages=arguments.messages, seconds=seconds, say=_say)
    return _measure(arguments, folder)


def _measure_brokers(arguments: argparse.Namespace, folder: Path) -> Figures:
    size = broker.Size(
        clients=arguments.clients,
        seconds=3 if arguments.quick else 30,
        subscribers=arguments.fan_out,
        messages=min(arguments.messages, 20_000) // (10 if arguments.quick else 1),
    )
    return broker.measure(folder, size, arguments.pairs, _say)


def _one_system(bench: Bench, kind: Callable[[Path, int], System], folder: Path, arguments: argparse.Namespace) -> Figures:
    """All runs of one turn through one freshly started system."""
    remote = Remote(folder / "remote", bench.qos)
    system = kind(folder / "system", remote.port)
    seconds = 1 if arguments.quick else 5
    try:
        remote.start()
        started_s = system.start()
        bench.warm_up(system, remote)
        quiet_bytes = system.pss_bytes()
        figures: Figures = {
            "name": system.name,
            "publishers_1": bench.through(system, remote, messages=arguments.messages),
            "publishers_10": bench.through(system, remote, messages=arguments.messages, publishers=10),
            "steady": bench.through(system, remote, messages=STEADY_RATE_PER_S * seconds, rate=STEADY_RATE_PER_S),
        }
        if bench.qos:
            figures["lone"] = bench.publish(system.port, messages=500 if arguments.quick else 2000, window=1)
        saturated_bytes = system.pss_bytes()
        figures["process"] = {"start_ms": started_s * 1e3, "quiet_mb": quiet_bytes / 1e6, "saturated_mb": saturated_bytes / 1e6}
    finally:
        system.stop()
        remote.stop()
    return figures


# (title, run, figure)
ROWS = (
    ("end to end, 1 publisher [1/s]", "publishers_1", "end_to_end_per_s"),
    ("end to end, 10 publishers [1/s]", "publishers_10", "end_to_end_per_s"),
    ("acknowledged, 1 publisher [1/s]", "publishers_1", "acknowledged_per_s"),
    ("acknowledged, 10 publishers [1/s]", "publishers_10", "acknowledged_per_s"),
    ("CPU a message, 1 publisher [us]", "publishers_1", "cpu_us"),
    ("CPU a message, 10 publishers [us]", "publishers_10", "cpu_us"),
    ("latency at 2000/s, p50 [us]", "steady", "latency_p50_us"),
    ("latency at 2000/s, p99 [us]", "steady", "latency_p99_us"),
    ("CPU a message at 2000/s [us]", "steady", "cpu_us"),
    ("one in flight, acknowledged p50 [us]", "lone", "ack_p50_us"),
    ("start, to accepting clients [ms]", "process", "start_ms"),
    ("memory before the runs, PSS [MB]", "process", "quiet_mb"),
    ("memory after the runs, PSS [MB]", "process", "saturated_mb"),
)
OURS, THEIRS = (Bascule.name, BasculeTogether.name), MosquittoBridge.name


def _medians(pairs: list[Figures]) -> list[Figures]:
    """For each row the median of each system over the pairs, and the ratios of ours to Mosquitto's."""
    rows = []
    for title, run, figure in ROWS:
        if run not in pairs[0][THEIRS]:
            continue
        medians = {name: statistics.median(pair[name][run][figure] for pair in pairs) for name in (*OURS, THEIRS)}
        ratios = {name: medians[name] / medians[THEIRS] if medians[THEIRS] else None for name in OURS}
        rows.append({"figure": title, **medians, "ratios": ratios})
    return rows


def _pair_line(pair: Figures) -> str:
    parts = []
    for title, run, figure in ROWS[:6]:
        told = " / ".join(f"{pair[name][run][figure]:,.0f}" for name in (*OURS, THEIRS))
        parts.append(f"{title.partition(' [')[0]} {told}")
    return "; ".join(parts)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _print_report(report: Figures) -> None:
    if report["pairs"]:
        print(f"QoS {report['qos']}, 256 bytes, window 1000, medians of {len(report['pairs'])} pair(s)")
        print("bascule commits with fdatasync before it acknowledges; mosquitto keeps everything in memory")
        print(f"{'':40}" + "".join(f"{name:>12}" for name in (*OURS, THEIRS)) + f"{'ratios':>18}")
        for row in report["medians"]:
            ratios = ", ".join("-" if ratio is None else f"{ratio:.2f}" for ratio in row["ratios"].values())
            print(f"{row['figure']:40}" + "".join(f"{row[name]:>12,.1f}" for name in (*OURS, THEIRS)) + f"{ratios:>18}")
        for name in (*OURS, THEIRS):
            runs = [pair[name][run] for pair in report["pairs"] for run in ("publishers_1", "publishers_10", "steady")]
            missing, duplicates, out_of_order = (sum(run[key] for run in runs) for key in ("missing", "duplicates", "out_of_order"))
            print(f"{name}: {missing} missing, {duplicates} duplicates, {out_of_order} out of order")
    print(f"fdatasync in the same folder, p50: {report['fdatasync_p50_us']:.0f} us")
    if report["backlog"]:
        _print_backlog(report)


def _print_backlog(report: Figures) -> None:
    backlog = report["backlog"]
    print(f"\nbacklog of {backlog['messages']:,} messages, remote down, then restarted")
    for title, key, unit in (
        ("acknowledged while filling", "fill_acknowledged_per_s", "1/s"),
        ("stop with the backlog", "stop_s", "s"),
        ("start when empty, to accepting clients", "start_empty_s", "s"),
        ("start with the backlog, to accepting clients", "start_to_accepting_s", "s"),
        ("start with the backlog, to first bridged", "start_to_first_bridged_s", "s"),
        ("drained", "drained_per_s", "1/s"),
    ):
        print(f"  {title:46}{backlog[key]:>12,.3f} {unit}")
    if report["pairs"]:
        live = report["medians"][0]["bascule"]
        print(f"  {'drained / live with 1 publisher':46}{backlog['drained_per_s'] / live:>12.2f}")
    print(f"  {backlog['missing']} missing, {backlog['duplicates']} duplicates, {backlog['out_of_order']} out of order")
    for name, after in backlog["rss_after_bytes"].items():
        before = backlog["rss_before_bytes"].get(name, 0)
        print(f"  resident memory of {name:27}{before / 1e6:>10,.1f} MB -> {after / 1e6:,.1f} MB")


if __name__ == "__main__":
    sys.exit(main())
