"""Each rule has one name, is stated once, is broken by a test or a planted bug, and stands in the index of rules."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.simulation.mutations import MUTATIONS

ROOT = Path(__file__).resolve().parents[1]
INDEX = ROOT / "scripts/documents/rules.py"

# A tree in which nothing is wrong.
SOUND = {
    "wire/access/limits.py": '"""Limits.\n\naccess.count-bounded [P5, alive]: the count has a limit,\n    and no more come.\n"""\n',
    "actors/access/watch.py": '"""Watches what holds (access.count-bounded)."""\n',
    "tests/wire/test_limits.py": 'def test_one_more_is_refused() -> None:\n    """access.count-bounded"""\n',
    "tests/simulation/mutations.py": '_mutation("access.count-bounded/not-counted", "nobody is counted")\n',
    "tests/simulation/oracle.py": '"""P5, access.count-bounded."""\n',
    "docs/design/overview.md": "A door counts (`access.count-bounded`).\n",
}
MODULE, TEST = SOUND["wire/access/limits.py"], SOUND["tests/wire/test_limits.py"]


def _main() -> Callable[[list[str]], int]:
    """That of the script, which is no module of a package."""
    spec = importlib.util.spec_from_file_location("rules_index", INDEX)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    main: Callable[[list[str]], int] = module.main
    return main


MAIN = _main()


def index(root: Path, *words: str) -> tuple[int, str]:
    """Exit status and output of the script for the tree at ``root``."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        status = MAIN(["--root", str(root), *words])
    return status, output.getvalue()


def planted(root: Path, changes: Mapping[str, str | None] = MappingProxyType({})) -> list[str]:
    """The faults of the sound tree once files of it have been changed, and its page been made anew."""
    for name, text in {**SOUND, **changes}.items():
        if text is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
    index(root)
    return index(root, "--check")[1].splitlines()


def test_each_rule_is_stated_once_and_tested_each_name_is_a_rules_and_the_index_is_complete() -> None:
    assert index(ROOT, "--check") == (0, "")


def test_the_index_has_each_planted_bug() -> None:
    text = (ROOT / "docs/design/rules.md").read_text(encoding="utf-8")

    assert [name for name in MUTATIONS if f"`{name}`" not in text] == []


def test_a_sound_tree_is_indexed(tmp_path: Path) -> None:
    assert planted(tmp_path) == []

    page = (tmp_path / "docs/design/rules.md").read_text(encoding="utf-8")
    assert "the count has a limit, and no more come." in page
    for line in (
        "- checked in `wire/access/limits.py`, `actors/access/watch.py`",
        "- judged by `tests/simulation/oracle.py`",
        "- test `tests/wire/test_limits.py`: `test_one_more_is_refused`",
        "- planted bug `access.count-bounded/not-counted`: nobody is counted",
    ):
        assert line in page.splitlines()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"wire/access/other.py": MODULE}, "access.count-bounded is stated in wire/access/limits.py:3 already"),
        ({"wire/access/limits.py": MODULE.replace("P5", "P9")}, "'P9', which is neither a promise nor"),
        ({"wire/access/limits.py": None, "wire/routing/limits.py": MODULE}, "is stated in the room 'routing'"),
        ({"wire/access/limits.py": MODULE.replace("Limits.\n", "Limits.\n\nA1  a number.\n")}, "a rule has a name, not a number"),
        ({"actors/access/watch.py": '"""access.count-unbounded"""\n'}, "no rule is called access.count-unbounded"),
        ({"docs/design/overview.md": "`access.counts-bounded`"}, "no rule is called access.counts-bounded"),
        ({"tests/wire/test_limits.py": "", "tests/simulation/mutations.py": ""}, "no test names access.count-bounded"),
        ({"tests/simulation/mutations.py": '_mutation("not-counted", "x")\n'}, "'not-counted' is not called after a rule"),
        ({"tests/simulation/mutations.py": '_mutation("P9/not-counted", "x")\n'}, "'P9/not-counted' is not called after a rule"),
    ],
    ids=[
        "stated twice",
        "no promise",
        "wrong room",
        "numbered",
        "unknown",
        "unknown in a page",
        "untested",
        "no rule",
        "no such rule",
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, changes: dict[str, str | None], told: str) -> None:
    (wrong,) = planted(tmp_path, changes)

    assert told in wrong


def test_a_page_that_is_out_of_date_is_told(tmp_path: Path) -> None:
    planted(tmp_path)
    (tmp_path / "wire/access/limits.py").write_text(MODULE.replace("a limit", "a bound"), encoding="utf-8")

    assert index(tmp_path, "--check") == (1, "docs/design/rules.md is out of date; run: python scripts/documents/rules.py\n")
