"""How fast snapshots are read: the command behind ``scripts/bench --spark``.

One checkpoint is read to its last row in each way, in turn: row by row with rocksdict in one process, with Bascule's reader in one
process, with Spark from the checkpoint, and with Spark from the same rows as Parquet. Only ratios within one run are worth
comparing.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from rocksdict import AccessType, Options, Rdict, ReadOptions

from analysis.spark.session import spark_session
from analysis.tables.reader import plan, read
from analysis.tables.schemas import columns_of
from storage.queue.chunk import Chunk
from storage.queue.history import Settlement, settlement_of
from storage.snapshots.manifest import MANIFEST_NAME, STORE_NAME, Manifest, QueueFacts, find_snapshots, read_manifest, snapshot_id
from tests.support.made_snapshots import traffic
from tests.support.made_snapshots.generate import Wanted, generate
from wire.frames.batch import QOS_MASK, RETAIN, Batch
from wire.mqtt.publish_properties import message_expiry_s
from wire.routing.message_route import MessageRoute

TABLE = "messages"
CORES = 2
GROWTH = 10
SMALL_SNAPSHOTS = 200
SAMPLE_S = 0.1
WARM_UPS = 4
SMALL_MESSAGES = 2000
ROW_GROUP_ROWS = 128 << 10

Figures = dict[str, Any]


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and return 0; 1 if the ways do not find the same rows."""
    parser = argparse.ArgumentParser(prog="scripts/bench --spark", description="How fast snapshots are read.")
    parser.add_argument("--spark", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--messages", type=int, default=1_000_000, help="messages in the large snapshot (default 1000000)")
    parser.add_argument("--turns", type=int, default=3, help="read in each way this many times, in turn (default 3)")
    parser.add_argument(
        "--turn", type=int, default=1000, help="messages a turn of the store: a busy node's chunks are long (default 1000)"
    )
    parser.add_argument("--snapshots", type=int, default=SMALL_SNAPSHOTS, help="small snapshots in one job (default 200)")
    parser.add_argument("--memory-mb", type=int, default=2048, help="what Spark's Java may take (default 2048)")
    parser.add_argument("--dir", help="where data is kept while measuring (default: the temporary folder)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    arguments = parser.parse_args(argv)
    logging.getLogger("bascule").setLevel(logging.ERROR)  # what happens to the generated messages is no news
    traffic.ROWS_A_TURN = arguments.turn
    with tempfile.TemporaryDirectory(prefix="bascule-bench-", dir=arguments.dir) as name:
        report = _measure(arguments, Path(name))
    if arguments.json:
        print(json.dumps(report))
    else:
        _print(report)
    return 0 if report["equal"] else 1


def _measure(arguments: argparse.Namespace, folder: Path) -> Figures:
    _say(f"making a snapshot of {arguments.messages} messages, one of a tenth of it, and {arguments.snapshots} small ones")
    large = _make(folder / "large", arguments.messages)
    tenth = _make(folder / "tenth", arguments.messages // GROWTH)
    small = _copies(_make(folder / "one", SMALL_MESSAGES), folder / "small", arguments.snapshots)
    spark = spark_session("bench", cores=CORES, memory_mb=arguments.memory_mb)
    try:
        _warm_up(spark, large)
        ways = _ways(spark, large, folder)
        report: Figures = {
            "messages": arguments.messages,
            "messages_a_turn": arguments.turn,
            "cores": CORES,
            "ways": [],
            "growth": [],
            "equal": True,
        }
        rows = {}
        for name, measured in _in_turn(ways, arguments.turns).items():
            rows[name] = measured["rows"]
            report["ways"].append({"way": name, **measured})
        report["equal"] = len(set(rows.values())) == 1
        report["growth"] = [
            {"payload": payload, **_growth(spark, tenth, large, arguments.turns, payload=payload)} for payload in (False, True)
        ]
        report["small"] = _many(spark, small, arguments)
    finally:
        spark.stop()
    return report


# --- what is read ---


def _make(folder: Path, messages: int) -> Path:
    (made,) = generate(Wanted(messages=messages), folder).snapshots
    return made


def _copies(snapshot: Path, target: Path, count: int) -> Path:
    """``count`` nodes' snapshots in ``target``: the files are links to those of one."""
    manifest = read_manifest(snapshot)
    for number in range(count):
        node = f"box-{number}"
        copied = replace(manifest, node=node, id=snapshot_id(node, manifest.at_ms, manifest.epoch))
        for entry in manifest.files:
            (target / copied.id / entry.name).parent.mkdir(parents=True, exist_ok=True)
            (target / copied.id / entry.name).hardlink_to(snapshot / entry.name)
        (target / copied.id / MANIFEST_NAME).write_bytes(copied.to_json())
    return target


# --- the ways ---


def _ways(spark: SparkSession, snapshot: Path, folder: Path) -> dict[str, Callable[[], int]]:
    as_parquet = _as_parquet(snapshot, folder / "parquet")
    ways: dict[str, Callable[[], int]] = {}
    for payload in (False, True):
        suffix = ", with payload" if payload else ""
        ways["rocksdict into Python rows" + suffix] = lambda payload=payload: _plain(snapshot, payload=payload)
        ways["reader, one process" + suffix] = lambda payload=payload: _reader(snapshot, payload=payload)
        ways[f"Spark local[{CORES}], checkpoint" + suffix] = lambda payload=payload: _consumed(
            _load(spark, snapshot, payload=payload)
        )
        ways[f"Spark local[{CORES}], Parquet" + suffix] = lambda payload=payload: _consumed(
            spark.read.parquet(str(as_parquet)).select(_names(payload=payload))
        )
    return ways


def _names(*, payload: bool) -> list[str]:
    return [column.name for column in columns_of(TABLE, payload=payload)]


def _load(spark: SparkSession, path: Path, *, payload: bool) -> DataFrame:
    return spark.read.format("bascule").options(table=TABLE, payload=str(payload)).load(str(path))


def _consumed(frame: DataFrame) -> int:
    """Read every column of every row; how many rows there were."""
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    seen = Observation()
    frame.observe(seen, count(lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return int(seen.get["rows"])


def _reader(snapshot: Path, *, payload: bool) -> int:
    names = _names(payload=payload)
    return sum(batch.num_rows for split in plan(find_snapshots(snapshot), TABLE) for batch in read(split, names))


def _plain(snapshot: Path, *, payload: bool) -> int:
    """Rows without Bascule's reader: for each message a tuple of what the table has of it."""
    manifest = read_manifest(snapshot)
    queues = {queue.number: queue for queue in manifest.queues}
    found = 0
    db = Rdict(str(snapshot / STORE_NAME), Options(raw_mode=True), access_type=AccessType.read_only(False))
    settled = _settled(db, manifest)
    whole = (manifest.node, manifest.id, datetime.fromtimestamp(manifest.at_ms / 1000, UTC))
    for key, value in _scanned(db, "msg"):
        queue = queues.get(int.from_bytes(key[:4], "big"))
        if queue is not None:
            rows = list(_rows(whole, queue, key, value, settled[queue.number], payload=payload))
            found += len(rows)
    db.close()
    return found


def _scanned(db: Rdict, family: str) -> Iterator[tuple[bytes, bytes]]:
    column = db.get_column_family(family)
    options = ReadOptions()
    options.set_readahead_size(2 << 20)
    scan = column.iter(options)
    scan.seek_to_first()
    while scan.valid():
        yield scan.key(), scan.value()
        scan.next()
    scan.status()
    del scan
    column.close()


def _settled(db: Rdict, manifest: Manifest) -> dict[int, dict[int, tuple[object, ...]]]:
    """By queue and sequence: when it was settled, how, by whom, and the number of the settlement."""
    settled: dict[int, dict[int, tuple[object, ...]]] = {queue.number: {} for queue in manifest.queues}
    for key, value in _scanned(db, "history"):
        if key[:1] != b"T":
            continue
        number, place = settlement_of(key)
        row = Settlement.decode(value)
        at = datetime.fromtimestamp(row.settled_ms / 1000, UTC)
        for outcome, ranges in row.outcomes:
            if outcome != "redelivered":
                for start, stop in ranges:
                    for seq in range(start, stop):
                        settled[number][seq] = (at, outcome, row.by, place)
    return settled


def _rows(
    whole: tuple[object, ...],
    queue: QueueFacts,
    key: bytes,
    value: bytes,
    settled: dict[int, tuple[object, ...]],
    *,
    payload: bool,
) -> Iterator[tuple[object, ...]]:
    chunk = Chunk.decode(value, queue="", seq=int.from_bytes(key[4:], "big"))
    batch = Batch.decode(chunk.body)
    accepted_at = datetime.fromtimestamp(batch.accepted_ms / 1000, UTC)
    topics = [topic.decode() for topic in batch.topics]
    ways = [MessageRoute.decode(way)[:2] if way else (None, None) for way in batch.routes_of_topics()]
    common = [
        (len(each), _expires_at(batch.accepted_ms, each)) for each in batch.topic_properties or [b""] * len(topics)
    ]  # of the rows that have no properties of their own
    own = {row: (len(each), _expires_at(batch.accepted_ms, each)) for row, each in batch.properties.items()}
    same = (*whole, queue.name, queue.bridge, queue.lane)
    ends = list(accumulate(batch.lengths, initial=0))
    columns = zip(chunk.seqs(), batch.topic_of, batch.flags, pairwise(ends), strict=True)
    for row, (seq, topic, flags, (start, end)) in enumerate(columns):
        was = settled.get(seq)
        state = "settled" if was is not None else "in_flight" if _within(seq, queue.in_flight) else "queued"
        properties_bytes, expires_at = own.get(row) or common[topic]
        message = (
            *(seq, state, topics[topic], *ways[topic], flags & QOS_MASK, bool(flags & RETAIN), accepted_at, expires_at),
            *(was or (None, None, None, None)),
            *(end - start, properties_bytes),
        )
        yield (*same, *message, batch.payloads[start:end]) if payload else (*same, *message)


def _expires_at(accepted_ms: int, properties: bytes) -> datetime | None:
    """By the Message Expiry Interval in the encoded ``properties``; None without one."""
    interval_s = message_expiry_s(properties) if properties else None
    return None if interval_s is None else datetime.fromtimestamp(accepted_ms / 1000 + interval_s, UTC)


def _within(seq: int, ranges: Iterable[tuple[int, int]]) -> bool:
    return any(start <= seq < stop for start, stop in ranges)


def _as_parquet(snapshot: Path, folder: Path) -> Path:
    folder.mkdir()
    for number, split in enumerate(plan(find_snapshots(snapshot), TABLE)):
        batches = list(read(split))
        rows = pa.Table.from_batches(batches)
        parquet.write_table(rows, folder / f"{number}.parquet", compression="zstd", row_group_size=ROW_GROUP_ROWS)
    return folder


# --- measuring ---


def _in_turn(ways: dict[str, Callable[[], int]], turns: int) -> dict[str, Figures]:
    times: dict[str, list[float]] = {name: [] for name in ways}
    worked: dict[str, list[float]] = {name: [] for name in ways}
    rows: dict[str, int] = {}
    for turn in range(turns):
        for name, way in ways.items():
            gc.collect()
            began_s, began_cpu_s = time.monotonic(), _cpu_s()
            rows[name] = way()
            times[name].append(time.monotonic() - began_s)
            worked[name].append(_cpu_s() - began_cpu_s)
            _say(f"turn {turn + 1} of {turns}: {name}: {times[name][-1]:.2f} s, {worked[name][-1]:.2f} s of processors")
    return {
        name: {
            "rows": rows[name],
            "seconds": took,
            "median_s": statistics.median(took),
            "cpu_s": statistics.median(worked[name]),
            "rows_per_s": rows[name] / statistics.median(took),
        }
        for name, took in times.items()
    }


def _warm_up(spark: SparkSession, snapshot: Path) -> None:
    """A session that is asked more than once is what is measured: its Python workers run, and Java has compiled what is used."""
    for _ in range(WARM_UPS):
        for payload in (False, True):
            _consumed(_load(spark, snapshot, payload=payload))


def _growth(spark: SparkSession, tenth: Path, large: Path, turns: int, *, payload: bool) -> Figures:
    """Time and memory of one query on a snapshot and on one ten times as large."""
    figures: Figures = {}
    for name, path in (("tenth", tenth), ("large", large)):
        times = []
        with _memory() as peak:
            for _ in range(turns):
                began_s = time.monotonic()
                rows = _consumed(_load(spark, path, payload=payload))
                times.append(time.monotonic() - began_s)
        figures[name] = {"rows": rows, "median_s": statistics.median(times), **peak}
    _say(f"growth: {figures}")
    return figures


def _many(spark: SparkSession, folder: Path, arguments: argparse.Namespace) -> Figures:
    times = []
    with _memory() as peak:
        for _ in range(arguments.turns):
            began_s = time.monotonic()
            frame = _load(spark, folder, payload=False)
            nodes = frame.groupBy("node").count().collect()
            times.append(time.monotonic() - began_s)
    rows = sum(row["count"] for row in nodes)
    partitions = frame.rdd.getNumPartitions()
    return {"snapshots": len(nodes), "rows": rows, "partitions": partitions, "median_s": statistics.median(times), **peak}


@contextmanager
def _memory() -> Iterator[dict[str, int]]:
    """The peaks of what Java and the largest Python worker take (PSS: pages that several have count in parts)."""
    peak = {"java_bytes": 0, "worker_bytes": 0}
    done = threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLE_S):
            for pid, command in _below(os.getpid()):
                kind = "java_bytes" if "java" in command else "worker_bytes"
                peak[kind] = max(peak[kind], _pss_bytes(pid))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def _below(pid: int) -> Iterator[tuple[int, str]]:
    """The processes that ``pid`` started, and those that they did."""
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(word) for word in tasks.read_text().split()]
        except OSError:
            continue
        for child in children:
            try:
                yield child, Path(f"/proc/{child}/comm").read_text().strip()
            except OSError:
                continue
            yield from _below(child)


def _cpu_s() -> float:
    """Processor time of this process and those below it so far; of a process that has ended, if it was waited for."""
    ticks = 0
    for pid in (os.getpid(), *(pid for pid, _ in _below(os.getpid()))):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _pss_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


# --- saying ---


def _print(report: Figures) -> None:
    print(f"{'way':52} {'rows':>10} {'s':>8} {'cpu s':>8} {'rows/s':>10}   of rocksdict")
    base = {payload: way["rows_per_s"] for way in report["ways"] if way["way"].startswith("rocksdict") for payload in [_with(way)]}
    for way in report["ways"]:
        ratio = way["rows_per_s"] / base[_with(way)]
        took = f"{way['median_s']:>8.2f} {way['cpu_s']:>8.2f} {way['rows_per_s']:>10.0f}"
        print(f"{way['way']:52} {way['rows']:>10} {took}   {ratio:.2f}")
    print()
    for growth in report["growth"]:
        tenth, large = growth["tenth"], growth["large"]
        print(
            f"{large['rows'] / tenth['rows']:.1f} times the rows{', with payload' if growth['payload'] else ''}:"
            f" {large['median_s'] / tenth['median_s']:.1f} times the time ({tenth['median_s']:.2f} s, {large['median_s']:.2f} s);"
            f" Java {_mb(tenth['java_bytes'])}, then {_mb(large['java_bytes'])};"
            f" a worker {_mb(tenth['worker_bytes'])}, then {_mb(large['worker_bytes'])}"
        )
    small = report["small"]
    print(
        f"{small['snapshots']} small snapshots, {small['rows']} rows, {small['partitions']} partitions: {small['median_s']:.2f} s;"
        f" Java {_mb(small['java_bytes'])}, a worker {_mb(small['worker_bytes'])}"
    )
    if not report["equal"]:
        print("the ways did not find the same rows", file=sys.stderr)


def _with(way: Figures) -> bool:
    return str(way["way"]).endswith("with payload")


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.0f} MB"


def _say(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
