"""The table of faults in the troubleshooting guide, and which test plants which: each row has a test, and each test a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from supervisor.doctor.findings import Finding
from tests.support.waiting import wait_until

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "troubleshooting.md"
_ROW = re.compile(r"^\| (?!fault )(?P<fault>[a-z0-9-]+) \| (?P<what>[^|]+) \| (?P<says>[^|]+) \| (?P<cure>[^|]+) \|$", re.MULTILINE)

Test = TypeVar("Test", bound=Callable[..., Any])
PLANTED: dict[str, str] = {}  # fault -> the test that plants it


@dataclass(frozen=True, slots=True)
class Row:
    """One row: what is said, and the cure as the product says it; ``...`` in either may be anything."""

    fault: str
    says: str
    cure: str

    def fits(self, finding: Finding) -> bool:
        """Whether ``finding`` says what the row says."""
        said, cure = (".*".join(map(re.escape, text.split("..."))) for text in (self.says, self.cure))
        return re.search(said, finding.found) is not None and re.fullmatch(cure, finding.cure) is not None


def rows() -> dict[str, Row]:
    """All rows of the guide, by fault."""
    found = {}
    for match in _ROW.finditer(GUIDE.read_text()):
        says, cure = match["says"].strip().strip("`"), match["cure"].strip()
        assert match["fault"] not in found, f"{match['fault']} has two rows"
        found[match["fault"]] = Row(match["fault"], says, cure)
    return found


def plants(*faults: str) -> Callable[[Test], Test]:
    """The test plants these faults."""

    def note(test: Test) -> Test:
        for fault in faults:
            assert fault not in PLANTED, f"{fault} is planted twice"
            PLANTED[fault] = test.__name__
        return test

    return note


def told(fault: str, findings: Callable[[], Iterable[Finding]], *, about: str = "") -> Finding:
    """Wait until one of ``findings`` about ``about`` says what the guide's row of ``fault`` does, with its cure."""
    row = rows().get(fault)
    seen: list[Finding] = []

    def look() -> Finding | None:
        seen[:] = [finding for finding in findings() if about in finding.about and finding.verdict != "ok"]
        return next((finding for finding in seen if row is not None and row.fits(finding)), None)

    def said() -> str:
        return f"{row} told; " + "\n".join(f"| {fault} | {one.about} | `{one.found}` | {one.cure} |" for one in seen)

    finding = wait_until(look, 20.0, said, period_s=0.05)
    assert finding is not None
    return finding
