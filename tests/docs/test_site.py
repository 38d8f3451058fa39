"""The site builds without a warning, links lead somewhere, and pages name files that are there."""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.support import programs
from tests.support.chromium import Chromium
from tests.support.chromium import chromium as chromium
from tests.support.waiting import PATIENCE_S, wait_until

SITE = ROOT / "zensical.toml"
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})

PICTURE_MAX_BYTES = 300_000

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PATH = re.compile(r"`((?:wire|storage|actors|supervisor|tests|scripts|configs)/[\w./-]*)`")
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)

_SEARCH = """
    const all = Array.from(document.querySelectorAll("*"));
    const field = all.map((one) => one.shadowRoot?.querySelector("input[role=combobox]")).find(Boolean);
    if (!field) return false;
    field.value = arguments[0];
    return field.dispatchEvent(new Event("input", { bubbles: true }));"""


def anchors(page: Path) -> set[str]:
    """The name of a heading of ``page`` in a link, here and on the site."""
    headings = re.findall(r"^#+ (.*)$", _CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built where no network is: a link, or an anchor, that leads nowhere ends that with status 1."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(SITE, folder)
    nobody = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:1")

    done = programs.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, env=nobody, timeout_s=120.0)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr
    return folder / "build" / "site"


def test_the_site_has_all_pages_without_a_warning(site: Path) -> None:
    assert {path.relative_to(site).with_suffix(".md") for path in site.rglob("*.html")} >= {
        path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")
    }


def test_each_page_has_one_place_in_the_navigation() -> None:
    def pages(entries: list[Any]) -> Iterator[str]:
        for entry in entries:
            for each in entry.values() if isinstance(entry, dict) else [entry]:
                if isinstance(each, str):
                    yield each
                else:
                    yield from pages(each)

    listed = list(pages(tomllib.loads(SITE.read_text())["project"]["nav"]))

    assert sorted(listed) == sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md"))


def _options(chromium: Chromium) -> list[str]:
    """The titles that the search has found."""
    return [node["name"]["value"] for node in chromium.accessibility() if node["role"]["value"] == "option"]


@pytest.mark.process
def test_a_page_that_is_opened_as_a_file_is_searched_and_its_commands_are_copied(site: Path, chromium: Chromium) -> None:
    chromium.offline(True)
    chromium.open(site / "guides" / "first-steps.html")

    wait_until(
        lambda: chromium.seen(".md-code__button") >= len(chromium.all(".highlight")), PATIENCE_S, "code has a button to copy it"
    )
    chromium.click("button.md-search__button")
    wait_until(lambda: chromium.ask(_SEARCH, "a process dies"), PATIENCE_S, "there is no field to search by")
    wait_until(lambda: "A process dies" in _options(chromium), PATIENCE_S, lambda: f"found: {_options(chromium)}")

    assert [line for line in chromium.console() if "SEVERE" in line] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for link in _LINK.findall(_CODE.sub("", page.read_text())):
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        if "://" in link:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)

    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page: Path) -> None:
    wrong = [path for path in _PATH.findall(_CODE.sub("", page.read_text())) if not (ROOT / path).exists()]

    assert wrong == []


def test_each_picture_is_small_used_and_told_in_words() -> None:
    used: dict[Path, str] = {}
    for page in PAGES:
        used |= {(page.parent / place).resolve(): words for words, place in _PICTURE.findall(_CODE.sub("", page.read_text()))}

    assert set(used) == {path for kind in ("png", "webp") for path in (ROOT / "docs").rglob(f"*.{kind}")}
    assert [path.name for path in used if path.stat().st_size > PICTURE_MAX_BYTES] == []
    assert [path.name for path, words in used.items() if len(words.split()) < 5] == []
