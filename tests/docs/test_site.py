"""The site builds without a warning, links lead somewhere, and pages name files that are there."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.support import programs

PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})

PICTURE_MAX_BYTES = 300_000

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PATH = re.compile(r"`((?:wire|storage|actors|supervisor|tests|scripts|configs)/[\w./-]*)`")
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The name of a heading of ``page`` in a link, here and on the site."""
    headings = re.findall(r"^#+ (.*)$", _CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    for name in ("docs", "mkdocs.yml"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    nobody = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:1")

    words = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    done = programs.run(words, cwd=tmp_path, env={"NO_MKDOCS_2_WARNING": "1", **nobody}, timeout_s=120.0)

    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    site = tmp_path / "build" / "site"
    assert {path.relative_to(site).with_suffix(".md") for path in site.rglob("*.html")} >= {
        path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")
    }


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
