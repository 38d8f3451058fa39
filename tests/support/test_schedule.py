"""What took longest comes first, and what stays together comes together."""

from __future__ import annotations

from itertools import groupby

from tests.support.node import ROOT
from tests.support.schedule import RECORDED, rank, read_durations, together, write_durations


def test_the_slowest_file_comes_first_and_what_is_not_recorded_last() -> None:
    recorded = list(read_durations(RECORDED.read_text(encoding="utf-8")))
    ordered = sorted((f"{path}::test_it[a::b]" for path in (*reversed(recorded), "tests/wire/test_new.py")), key=rank)

    assert ordered[-1].startswith("tests/wire/test_new.py")
    groups = [group for group, _ in groupby(ordered, key=together)]
    assert len(groups) == len(set(groups)), "nothing lies between them"
    assert [group.partition("::")[0] for group in groups].index(recorded[0]) <= 1  # those that share a session may take longer


def test_what_was_recorded_is_there() -> None:
    recorded = read_durations(RECORDED.read_text(encoding="utf-8"))

    assert len(recorded) > 20
    assert [path for path in recorded if not (ROOT / path).is_file()] == []


def test_durations_are_summed_by_file_and_read_again() -> None:
    text = write_durations({"tests/a.py::one": 1.0, "tests/b.py::one[x]": 4.25, "tests/a.py::two": 2.0, "tests/c.py::one": 0.9})

    assert text == "4.2 tests/b.py\n3.0 tests/a.py\n"
    assert read_durations(text) == {"tests/b.py": 4.2, "tests/a.py": 3.0}


def test_a_file_stays_together_and_all_that_use_one_spark_session_or_one_page() -> None:
    there = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    sessions = {path for path in there if "spark: SparkSession" in (ROOT / path).read_text(encoding="utf-8")}
    sessions.discard("tests/support/test_schedule.py")
    assert {path for path in there if together(f"{path}::test_it") == "tests/spark"} == sessions
    assert len(sessions) == 4
    page = {path for path in there if path.startswith("tests/supervisor/http/page/")}
    assert {path for path in there if together(f"{path}::test_it") == "tests/supervisor/http/page"} == page
    assert together("tests/wire/frames/test_frames.py::test_it[a::b]") == "tests/wire/frames/test_frames.py"
