"""The fenced blocks of a page of Markdown, with what the page says of each.

A block is a file where its opening line has ``title="NAME"``. A comment right above a block is for the test, and for readers of the
source: ``<!-- not run: REASON -->``, or ``<!-- needs prometheus -->``, ``<!-- needs java, a soak -->``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
SYS_TOPICS = ROOT / "docs" / "reference" / "sys-topics.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *GUIDES, SYS_TOPICS]

_OPENING = re.compile(r'^```(?P<kind>\w+)(?: +title="(?P<title>[^"]+)")?\s*$')
_COMMENT = re.compile(r"^<!-- (?P<text>.*) -->$")
_NOT_RUN, _NEEDS = "not run: ", "needs "
_INDENTED = re.compile(
    r"^ {4,}\$? ?(?:sudo )?(?:bascule|mosquitto\w*|scripts/\w+|curl|podman|docker|systemctl|apt) (?!.*\[OPTIONS\])", re.MULTILINE
)
_SPAN = re.compile(r"(?<!`)`(bascule [^`]+)`(?!`)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block. title: the file that it is, or nothing. not_run: why the test leaves it out, or nothing."""

    page: Path
    line: int
    kind: str
    title: str
    text: str
    comment: str

    @property
    def not_run(self) -> str:
        return self.comment.removeprefix(_NOT_RUN) if self.comment.startswith(_NOT_RUN) else ""

    @property
    def needs(self) -> list[str]:
        return self.comment.removeprefix(_NEEDS).split(", ") if self.comment.startswith(_NEEDS) else []

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of ``page``, in order."""
    kind, title, begin, comment = "", "", 0, ""
    inside: list[str] | None = None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if inside is not None:
            if line.startswith("```"):
                text = "".join(f"{each}\n" for each in inside)
                yield Block(page=page, line=begin, kind=kind, title=title, text=text, comment=comment)
                inside, comment = None, ""
            else:
                inside.append(line)
        elif line.startswith("```"):
            opening = _OPENING.match(line)
            assert opening is not None, f"{page}:{number}: {line!r} opens no block that the test knows"
            kind, title, begin, inside = opening["kind"], opening["title"] or "", number, []
        elif found := _COMMENT.match(line):
            comment = found["text"]
        elif line.strip():
            comment = ""


def indented_commands(page: Path) -> list[str]:
    """The lines of ``page`` that are commands, and stand in an indented block, which no test runs."""
    return _INDENTED.findall(re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL))


def mentioned_commands(page: Path) -> set[str]:
    """The ``bascule ...`` that the prose of ``page`` has in backticks."""
    return set(_SPAN.findall(page.read_text()))
