"""The report as a program: what ``bascule report`` and ``scripts/analyze`` run, and ``spark-submit`` can.

    bascule report SNAPSHOT... [--to DIR]
    spark-submit --py-files bascule-analysis.zip analysis/job.py SNAPSHOT... --to s3a://bucket/reports

DuckDB makes it, in this process. Spark does where it is asked for, under ``spark-submit``, for places that are not of this machine,
and for several nodes if it is installed.

Exit statuses: 0 done; 1 with ``--check``: something does not add up; 2 wrong usage; 65 a snapshot is damaged, and left out of the
report; 75 there is none; 78 something is not installed, or a snapshot is of a newer version.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from analysis.engines.engine import Engine
from analysis.node_minutes import section
from analysis.progress import Progress
from analysis.report_output import Format, write
from analysis.reports.build import REPORTS, Finished, build
from analysis.reports.context import Context, NoSnapshots, Period
from analysis.reports.report_model import Report
from analysis.reports.report_parts import plural, size
from analysis.reports.sources import ExportSource, SnapshotSource, is_here, open_source
from analysis.spark.session import JavaMissing, find_spark, java_version, spark_session, under_spark_submit
from storage import files
from storage.installation import find_extras, how_to_install
from wire.errors import BasculeError, ConfigError, StorageDamaged, Unavailable

if TYPE_CHECKING:
    from analysis.engines.duckdb_engine import DuckDbEngine

FORMATS: tuple[Format, ...] = ("table", "json", "parquet", "html")
NO_SNAPSHOT_STATUS = 75
SMALL_BYTES, SMALL_SNAPSHOTS = 32 << 20, 20  # below both, Java's compiling takes longer than the work
_DAMAGE_WORDS = ("SnapshotDamaged:", "StorageDamaged:", "ManifestDamaged:", "Unavailable:", "NoManifest:")
Result = TypeVar("Result")
_LACKS = 'ImportError: the data source "bascule" needs'


def main(argv: Sequence[str] | None = None, prog: str = "analyze") -> int:
    """Make the report; the exit status."""
    return run(arguments(prog).parse_args(argv), prog)


def run(given: argparse.Namespace, prog: str, make_input: Callable[[], object] | None = None) -> int:
    """``main`` for arguments that are parsed already.

    make_input: called before anything is read, if what makes the report is installed.
    """
    formats: tuple[Format, ...] = tuple(given.format or (FORMATS if given.to else ("table",)))
    if not given.to and set(formats) & {"parquet", "html"}:
        print(f"{prog}: --format parquet and html want --to DIR", file=sys.stderr)
        return 2
    find_extras()
    try:
        if make_input is not None:
            _find_engine(given)
            make_input()
        try:
            return _report(given, formats)
        except StorageDamaged as error:
            if given.damaged == "skip":
                raise
            print(f"{prog}: {error}; the report is made without what cannot be read", file=sys.stderr)
            _report(argparse.Namespace(**(vars(given) | {"damaged": "skip"})), formats)
            return error.exit_status
    except NoSnapshots as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return NO_SNAPSHOT_STATUS
    except BasculeError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return error.exit_status


def wants_spark(source: SnapshotSource | ExportSource, given: argparse.Namespace) -> bool:
    """Whether Spark is to make the report of ``source``."""
    if _is_for_spark(given) or not source.are_here:
        return True
    if len(source.nodes) < 2:
        return False
    try:
        return find_spec("pyspark") is not None and java_version() > 0
    except JavaMissing:
        return False


def _is_for_spark(given: argparse.Namespace) -> bool:
    """Whether Spark is to make the report, of whatever it is."""
    return given.spark or under_spark_submit() or not is_here(given.to or "")


def _find_engine(given: argparse.Namespace) -> None:
    """Refuse a report of one node's snapshots on this machine that nothing could make.

    Raises:
        ConfigError: what makes the report is not installed.
    """
    if _is_for_spark(given):
        find_spark()
    else:
        _duckdb_engine()


def is_small(source: SnapshotSource | ExportSource) -> bool:
    """Whether Spark had better start fast than work fast; not if in doubt, as with exports."""
    return isinstance(source, SnapshotSource) and len(source) <= SMALL_SNAPSHOTS and source.size_bytes < SMALL_BYTES


def _counted(source: SnapshotSource | ExportSource) -> str:
    """How much there is to read."""
    nodes = plural(len(source.nodes), "node")
    if isinstance(source, SnapshotSource):
        return f"{plural(len(source), 'snapshot')} of {nodes} ({size(source.size_bytes)})"
    return f"exports of {nodes}" if source.are_here else "exports"


def _engine(source: SnapshotSource | ExportSource, given: argparse.Namespace, progress: Progress) -> Engine:
    if wants_spark(source, given):
        progress.say(f"{_counted(source)}: starting Spark")
        spark = spark_session("bascule report", cores=given.cores, memory_mb=given.memory_mb, quick=is_small(source))
        from analysis.engines.spark_engine import SparkEngine

        return SparkEngine(spark)
    progress.say(f"{_counted(source)}: reading with DuckDB")
    return _duckdb_engine()(cores=given.cores, memory_mb=given.memory_mb)


def _duckdb_engine() -> type[DuckDbEngine]:
    try:
        from analysis.engines.duckdb_engine import DuckDbEngine
    except ImportError as error:
        raise ConfigError(f"a report needs {error.name}: {how_to_install('report')}") from error
    return DuckDbEngine


def _report(given: argparse.Namespace, formats: Sequence[Format]) -> int:
    period = Period(since_us=_us(given.since), until_us=_us(given.until))
    with Progress() as progress:
        source = open_source(given.inputs, damaged=given.damaged, newer=given.newer)
        engine = _engine(source, given, progress)
        try:
            finished = _translated(lambda: _made(engine, source, period, given, progress))
            if given.data_dir and not given.report:
                finished = _with_minutes(finished, Path(given.data_dir), period)
            if given.to:
                progress.step("writing")
                for where in _translated(lambda: _written(engine, finished, given.to.rstrip("/"), formats)):
                    progress.say(f"written: {where}")
        finally:
            engine.release()
    _show(finished.report, formats, given)
    return 1 if given.check and not adds_up(finished.report) else 0


def _written(engine: Engine, finished: Finished, to: str, formats: Sequence[Format]) -> list[str]:
    try:
        return write(engine, finished, to, formats)
    except OSError as error:
        raise files.unwritable(Path(to), error) from error


def _made(
    engine: Engine, source: SnapshotSource | ExportSource, period: Period, given: argparse.Namespace, progress: Progress
) -> Finished:
    names = given.report or tuple(REPORTS)
    progress.step("reading")
    context = Context(engine, source, period)
    problems = [*source.problems, *(source.damage(engine) if given.damaged == "skip" else [])]
    done: list[str] = []

    def on_report(name: str) -> None:
        done.append(name)
        progress.step(f"report {len(done)} of {len(names)}: {name}")

    return build(
        context, names=names, title=given.title, made_at_ms=time.time_ns() // 1_000_000, problems=problems, on_report=on_report
    )


def _with_minutes(finished: Finished, data_dir: Path, period: Period) -> Finished:
    """``finished`` with what the node has on record of each minute, at its end."""
    try:
        minutes = section(data_dir, period)
    except OSError as error:
        raise Unavailable("the history of the node cannot be read", data_dir=str(data_dir), error=str(error)) from error
    return replace(finished, report=replace(finished.report, sections=(*finished.report.sections, minutes)))


def _show(report: Report, formats: Sequence[Format], given: argparse.Namespace) -> None:
    if "json" in formats and not given.to:
        print(report.to_json())
    if "table" in formats:
        from analysis.console import show

        show(report)


def adds_up(report: Report) -> bool:
    """Whether no section found a problem, and everything could be read."""
    return not report.problems and all(section.verdict != "problem" for section in report.sections)


def _translated(work: Callable[[], Result]) -> Result:
    """``work``, whose errors from Spark are ours where they tell of ours."""
    if "pyspark" not in sys.modules:
        return work()
    from pyspark.errors import PySparkException

    try:
        return work()
    except PySparkException as error:
        raise _ours(error) from error


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
    parser.add_argument("--spark", action="store_true", help="have Spark make it, as of several nodes if it is installed")
    parser.add_argument("--data-dir", metavar="DIR", help="a node's data folder, whose history by the minute is shown as well")
    parser.add_argument("--check", action="store_true", help="exit with 1 if something does not add up")
    parser.add_argument("--title", default="Bascule report", help="the title of the page")
    parser.add_argument("--cores", type=int, help="threads on this machine (default: all)")
    parser.add_argument("--memory-mb", type=int, help="memory of DuckDB before it uses the disk, or of Spark's Java, in MiB")
    return parser


if __name__ == "__main__":
    sys.exit(main())
