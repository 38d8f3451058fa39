"""The report as a program: what ``bascule report`` and ``scripts/analyze`` run, and ``spark-submit`` can.

    bascule report SNAPSHOT... [--to DIR]
    spark-submit --py-files bascule-analysis.zip analysis/job.py SNAPSHOT... --to s3a://bucket/reports

Exit statuses: 0 done; 1 with ``--check``: something does not add up; 2 wrong usage; 65 a snapshot is damaged, and left out of the
report; 75 there is none; 78 no Java or Spark, or a snapshot of a newer version.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from analysis.report_output import Format, write
from analysis.reports.build import REPORTS, Finished, build
from analysis.reports.context import Context, NoSnapshots, Period
from analysis.reports.report_model import Report
from analysis.reports.sources import open_source
from analysis.spark.session import spark_session
from storage.snapshots.manifest import find_snapshots
from wire.errors import BasculeError, ConfigError, StorageDamaged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMATS: tuple[Format, ...] = ("table", "json", "parquet", "html")
NO_SNAPSHOT_STATUS = 75
SMALL_BYTES, SMALL_SNAPSHOTS = 32 << 20, 20  # below both, Java's compiling takes longer than the work
_DAMAGE_WORDS = ("SnapshotDamaged:", "StorageDamaged:", "ManifestDamaged:", "Unavailable:", "NoManifest:")
_LACKS = 'ImportError: the data source "bascule" needs'


def main(argv: Sequence[str] | None = None, prog: str = "analyze") -> int:
    """Make the report; the exit status."""
    return run(arguments(prog).parse_args(argv), prog)


def run(given: argparse.Namespace, prog: str) -> int:
    """``main`` for arguments that are parsed already."""
    formats: tuple[Format, ...] = tuple(given.format or (FORMATS if given.to else ("table",)))
    if not given.to and set(formats) & {"parquet", "html"}:
        print(f"{prog}: --format parquet and html want --to DIR", file=sys.stderr)
        return 2
    try:
        spark = spark_session("bascule report", cores=given.cores, memory_mb=given.memory_mb, quick=is_small(given.inputs))
        try:
            return _report(spark, given, formats)
        except StorageDamaged as error:
            if given.damaged == "skip":
                raise
            print(f"{prog}: {error}; the report is made without what cannot be read", file=sys.stderr)
            _report(spark, argparse.Namespace(**(vars(given) | {"damaged": "skip"})), formats)
            return error.exit_status
    except NoSnapshots as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return NO_SNAPSHOT_STATUS
    except BasculeError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return error.exit_status


def is_small(inputs: Sequence[str]) -> bool:
    """Whether Spark had better start fast than work fast; not if in doubt, as with what is not in a folder here."""
    try:
        manifests = [found.manifest for place in inputs for found in find_snapshots(place)]
    except (BasculeError, OSError):
        return False
    known = [manifest.size_bytes for manifest in manifests if manifest is not None]
    return len(known) <= SMALL_SNAPSHOTS and sum(known) < SMALL_BYTES


def _report(spark: SparkSession, given: argparse.Namespace, formats: Sequence[Format]) -> int:
    from pyspark.errors import PySparkException

    period = Period(since_us=_us(given.since), until_us=_us(given.until))
    source = open_source(spark, given.inputs, damaged=given.damaged, newer=given.newer)
    try:
        context = Context(spark, source, period)
        try:
            problems = [*source.problems, *(source.damage() if given.damaged == "skip" else [])]
            finished = build(
                context, names=given.report or (), title=given.title, made_at_ms=time.time_ns() // 1_000_000, problems=problems
            )
            _deliver(spark, finished, given, formats)
        finally:
            context.close()
    except PySparkException as error:
        raise _ours(error) from error
    return 1 if given.check and not adds_up(finished.report) else 0


def _deliver(spark: SparkSession, finished: Finished, given: argparse.Namespace, formats: Sequence[Format]) -> None:
    if given.to:
        for where in write(spark, finished, given.to.rstrip("/"), formats):
            print(f"written: {where}", file=sys.stderr)
    elif "json" in formats:
        print(finished.report.to_json())
    if "table" in formats:
        from analysis.console import show

        show(finished.report)


def adds_up(report: Report) -> bool:
    """Whether no section found a problem, and everything could be read."""
    return not report.problems and all(section.verdict != "problem" for section in report.sections)


def _ours(error: Exception) -> Exception:
    """An error of a Python worker comes back as text in Spark's error: damage is said as damage."""
    lines = [line.strip() for line in str(error).splitlines()]
    lacks = next((line for line in lines if _LACKS in line), None)
    if lacks is not None:
        return ConfigError(lacks.partition(": ")[2])
    said = next((line for line in lines if any(word in line for word in _DAMAGE_WORDS)), None)
    return error if said is None else StorageDamaged(f"a snapshot cannot be read: {said.partition(': ')[2]}")


def _us(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1_000_000)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 2026-01-31T12:00:00Z") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def arguments(prog: str) -> argparse.ArgumentParser:
    """The arguments of the program; ``bascule report`` has its options from here."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Say what waits where, what was slow, what was lost and why, and whether everything adds up, from snapshots.",
    )
    parser.add_argument(
        "inputs", nargs="+", metavar="SNAPSHOT", help="a snapshot, a folder or a glob of them, or what bascule export wrote"
    )
    parser.add_argument("--to", metavar="DIR", help="write Parquet, report.json and report.html there, then _SUCCESS")
    parser.add_argument("--format", action="append", choices=FORMATS, help="what to make (default: all with --to, else table)")
    parser.add_argument("--report", action="append", choices=tuple(REPORTS), help="make this one only; may be given again")
    parser.add_argument("--since", type=_moment, metavar="TIME", help="history from this time on; UTC unless it says otherwise")
    parser.add_argument("--until", type=_moment, metavar="TIME", help="history and snapshots up to this time")
    parser.add_argument(
        "--damaged", choices=("fail", "skip"), default="fail", help="leave damage out, with status 65 or 0 (default: fail)"
    )
    parser.add_argument("--newer", choices=("fail", "skip"), default="fail", help="and about snapshots of a newer version")
    parser.add_argument("--check", action="store_true", help="exit with 1 if something does not add up")
    parser.add_argument("--title", default="Bascule report", help="the title of the page")
    parser.add_argument("--cores", type=int, help="threads of Spark on this machine (default: all)")
    parser.add_argument("--memory-mb", type=int, help="memory of its Java, in MiB")
    return parser


if __name__ == "__main__":
    sys.exit(main())
