"""The slowest come first, and those that stay together come together."""

from __future__ import annotations

from itertools import groupby

from tests.support.node import ROOT
from tests.support.schedule import RECORDED, rank, read_durations, together, write_durations


def test_the_slowest_group_comes_first_and_what_is_not_recorded_last() -> None:
    recorded = list(read_durations(RECORDED.read_text(encoding="utf-8")))
    tests = [group if "::" in group else f"{group}::test_it[a::b]" for group in (*reversed(recorded), "tests/wire/test_new.py")]
    ordered = sorted((test for test in tests if together(test) in (*recorded, "tests/wire/test_new.py")), key=rank)

    assert ordered[-1].startswith("tests/wire/test_new.py")
    groups = [group for group, _ in groupby(ordered, key=together)]
    assert len(groups) == len(set(groups)), "nothing lies between them"
    assert groups[0] in recorded[:2]


def test_what_was_recorded_is_there() -> None:
    recorded = read_durations(RECORDED.read_text(encoding="utf-8"))

    assert len(recorded) > 20
    assert [group for group in recorded if not (ROOT / group.partition("::")[0]).exists()] == []


def test_durations_are_summed_by_group_and_read_again() -> None:
    text = write_durations(
        {
            "tests/a.py::one": 1.0,
            "tests/b.py::one[x]": 4.25,
            "tests/a.py::two": 2.0,
            "tests/c.py::one": 0.9,
            "tests/spark/test_source.py::one": 7.0,
            "tests/spark/test_reports.py::one": 1.0,
            "tests/docs/test_guides.py::one": 6.0,
            "tests/docs/test_guides.py::two": 5.0,
        }
    )

    groups = {"tests/spark": 8.0, "tests/docs/test_guides.py::one": 6.0, "tests/docs/test_guides.py::two": 5.0}
    assert read_durations(text) == {**groups, "tests/b.py": 4.2, "tests/a.py": 3.0}
    assert list(read_durations(text)) == [*groups, "tests/b.py", "tests/a.py"]


def test_a_file_stays_together_and_all_that_use_one_spark_session_or_one_page() -> None:
    there = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    sessions = {path for path in there if "spark: SparkSession" in (ROOT / path).read_text(encoding="utf-8")}
    sessions.discard("tests/support/test_schedule.py")
    assert {path for path in there if together(f"{path}::test_it") == "tests/spark"} == sessions
    assert len(sessions) == 4
    page = {path for path in there if path.startswith("tests/supervisor/http/page/") and "test_picture" not in path}
    assert {path for path in there if together(f"{path}::test_it") == "tests/supervisor/http/page"} == page
    assert together("tests/wire/frames/test_frames.py::test_it[a::b]") == "tests/wire/frames/test_frames.py"
