"""The reference: generated pages are what the generator prints, and the written ones name all that there is."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import supervisor
from supervisor.config.setting_annotations import each_setting
from tests.docs.pages import ROOT
from tests.support import programs
from tests.support.waiting import PATIENCE_S
from wire.errors import BasculeError

REFERENCE = ROOT / "docs" / "reference"
OUTSIDE = {0, 3, 74, 130, 141}  # of no error of ours: done, converted in part, no output, interrupted, no reader


@pytest.mark.parametrize("generator", ["reference.py", "limits.py"])
def test_generated_pages_are_what_the_generator_prints(generator: str) -> None:
    words = [sys.executable, str(ROOT / "scripts" / "documents" / generator), "--check"]

    done = programs.run(words, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, timeout_s=PATIENCE_S)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_exit_status_is_explained() -> None:
    for module in pkgutil.walk_packages(supervisor.__path__, "supervisor."):
        if module.name.startswith(("supervisor.cli.", "supervisor.control.", "supervisor.config.")):
            importlib.import_module(module.name)

    def below(kind: type[BasculeError]) -> Iterator[type[BasculeError]]:
        yield kind
        for each in kind.__subclasses__():
            yield from below(each)

    lines = (REFERENCE / "exit-statuses.md").read_text().splitlines()
    explained = {int(found[1]) for line in lines if (found := re.match(r"\| (\d+) \|", line))}

    assert explained == OUTSIDE | {kind.exit_status for kind in below(BasculeError)}


def test_pages_are_listed() -> None:
    for folder in (REFERENCE, ROOT / "docs" / "guides"):
        listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (folder / "index.md").read_text()))
        assert listed == {path.name for path in Path(folder).glob("*.md")} - {"index.md"}


def test_every_option_of_other_bridges_has_a_key_of_ours_or_a_reason() -> None:
    listed: dict[str, set[str]] = {}
    title = ""
    for line in Path(__file__).with_name("bridge_options.txt").read_text().splitlines():
        if line.startswith("["):
            title = line.strip("[]")
        elif not line.startswith("#"):
            listed.setdefault(title, set()).update(line.split())
    keys = {key for key, _ in each_setting()}

    told: dict[str, set[str]] = {}
    for part in (REFERENCE / "bridge-options.md").read_text().split("\n## ")[1:]:
        title, *lines = part.splitlines()
        for names, key, says in (line[2:-2].split(" | ") for line in lines if line.startswith("| `")):
            told.setdefault(title, set()).update(name.strip("`") for name in names.split(", "))
            assert key or says, f"{title}: {names} has neither a key nor a reason"
            assert not key or set(key.strip("`").split(", ")) <= keys, f"{title}: {names}: {key} is no key of ours"

    assert told.keys() == (listed.keys() - {""})
    assert {title: names - told[title] for title, names in listed.items() if title and names - told[title]} == {}
