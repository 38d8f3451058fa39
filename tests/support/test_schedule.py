"""What comes first is there, and what stays together comes together."""

from __future__ import annotations

from itertools import groupby

from tests.support.node import ROOT
from tests.support.schedule import SLOWEST_FIRST, rank, together


def test_the_slow_files_come_first_in_their_order() -> None:
    assert [path for path in SLOWEST_FIRST if not (ROOT / path).is_file()] == []
    ranks = [rank(f"{path}::test_it[a::b]") for path in (*SLOWEST_FIRST, "tests/test_layout.py")]
    assert ranks == sorted(set(ranks))
    assert rank("tests/wire/test_frames.py::test_it") == ranks[-1]


def test_a_file_stays_together_and_all_that_use_one_spark_session() -> None:
    there = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    sessions = {path for path in there if "spark: SparkSession" in (ROOT / path).read_text(encoding="utf-8")}
    sessions.discard("tests/support/test_schedule.py")
    assert {path for path in there if together(f"{path}::test_it") == "tests/spark"} == sessions
    assert len(sessions) == 3
    groups = [group for group, _ in groupby(together(f"{path}::test_it") for path in SLOWEST_FIRST)]
    assert len(groups) == len(set(groups)), "nothing lies between them"
    assert together("tests/wire/test_frames.py::test_it[a::b]") == "tests/wire/test_frames.py"
