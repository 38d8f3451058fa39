"""In which order several processes take the files of the tests, and which of them stay together.

pytest-xdist takes those with most tests first, which are the quickest here: the slow ones, of few tests each, would come last and
run on alone. So those that took longest begin. ``scripts/test --all --record-durations`` writes how long they took.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

RECORDED = Path(__file__).resolve().parents[1] / "durations.txt"
_SHARING = {  # a Spark session, a node with its page in Chromium
    "tests/spark": ("test_source.py", "test_stream_losses.py", "test_reports.py", "test_report_command.py", "test_engines.py"),
    "tests/supervisor/http/page": ("test_bridge_text.py", "test_judgement.py", "test_live_page.py", "test_page_is_read_by_all.py"),
}
_GROUP_OF = {f"{folder}/{name}": folder for folder, names in _SHARING.items() for name in names}
_EACH_ALONE = ("tests/docs/test_guides.py", "tests/simulation/test_simulation.py")  # long ones, which share nothing
_LEAST_S = 1.0  # what takes less needs no place of its own


def read_durations(text: str) -> dict[str, float]:
    """Seconds by group, of lines such as ``12.5 tests/bridge/test_cli.py``."""
    lines = (line.split(maxsplit=1) for line in text.splitlines())
    return {group: float(seconds) for seconds, group in lines}


def write_durations(tests: Mapping[str, float]) -> str:
    """The file's text for the seconds that each test took; the slowest group first."""
    groups: dict[str, float] = defaultdict(float)
    for test, seconds in tests.items():
        groups[together(test)] += seconds
    slow = sorted(((seconds, group) for group, seconds in groups.items() if seconds >= _LEAST_S), reverse=True)
    return "".join(f"{seconds:.1f} {group}\n" for seconds, group in slow)


_RECORDED_S = read_durations(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}


def rank(test: str) -> tuple[float, str]:
    """The place of a test: by how long those that stay with it took together, the slowest first."""
    group = together(test)
    return -_RECORDED_S.get(group, 0.0), group


def together(test: str) -> str:
    """Tests of which this is the same run in the same process: those of one file, and those that share what is dear to start."""
    path = test.partition("::")[0]
    if path in _EACH_ALONE:
        return test
    return _GROUP_OF.get(path, path)
