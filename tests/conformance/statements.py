"""The numbers of all normative statements of both specifications (their Appendix B), and what each test says it shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pytest

_Test = TypeVar("_Test", bound=Callable[..., None])

V311, V5 = 4, 5
_SECTIONS_311 = """
1.5.3:3 2.2.2:2 2.3.1:7 3.1.0:2 3.1.2:24 3.1.3:11 3.1.4:5 3.2.0:1 3.2.2:6 3.3.1:12 3.3.2:3 3.3.4:1 3.3.5:2 3.6.1:1
3.8.1:1 3.8.3:4 3.8.4:6 3.9.3:2 3.10.1:1 3.10.3:2 3.10.4:6 3.12.4:1 3.14.1:1 3.14.4:3 4.1.0:2 4.3.1:1 4.3.2:2 4.3.3:2
4.4.0:1 4.5.0:2 4.6.0:6 4.7.1:3 4.7.2:1 4.7.3:4 4.8.0:2 6.0.0:4 7.0.0:2 7.1.1:1 7.1.2:1
"""
_SECTIONS_5 = """
1.5.4:3 1.5.5:1 1.5.7:1 2.1.3:1 2.2.1:6 2.2.2:1 3.1.0:2 3.1.2:30 3.1.3:12 3.1.4:6 3.2.0:2 3.2.2:22 3.3.1:13 3.3.2:20
3.3.4:10 3.4.2:3 3.5.2:3 3.6.1:1 3.6.2:3 3.7.2:3 3.8.1:1 3.8.3:5 3.8.4:8 3.9.2:2 3.9.3:2 3.10.1:1 3.10.3:2 3.10.4:6
3.11.2:2 3.11.3:2 3.12.4:1 3.14.0:1 3.14.1:1 3.14.2:4 3.14.4:3 3.15.1:1 3.15.2:3 4.1.0:2 4.2.0:1 4.3.1:1 4.3.2:5
4.3.3:13 4.4.0:2 4.5.0:2 4.6.0:6 4.7.0:1 4.7.1:2 4.7.2:1 4.7.3:4 4.8.2:6 4.9.0:3 4.12.0:7 4.12.1:2 4.13.1:1 4.13.2:1
6.0.0:4
"""
_NEVER_GIVEN = {"MQTT-2.2.1-1"}  # MQTT 5.0 counts from 2 there


def _numbers(sections: str) -> tuple[str, ...]:
    counted = (entry.split(":") for entry in sections.split())
    return tuple(f"MQTT-{section}-{number}" for section, count in counted for number in range(1, int(count) + 1))


STATEMENTS: dict[int, tuple[str, ...]] = {
    V311: _numbers(_SECTIONS_311),
    V5: tuple(number for number in _numbers(_SECTIONS_5) if number not in _NEVER_GIVEN),
}
_KNOWN = {version: frozenset(numbers) for version, numbers in STATEMENTS.items()}
NAMES = {V311: "MQTT 3.1.1", V5: "MQTT 5.0"}

SHOWN: dict[int, dict[str, list[str]]] = {version: {} for version in STATEMENTS}


@dataclass(frozen=True, slots=True)
class Deviation:
    """A broker other than ours fails a test: known, and why."""

    broker: str
    reason: str
    cases: str
    always: bool


def _named(test: Callable[..., None], v311: str, v5: str, case: str = "") -> list[int]:
    """The versions that have any of these statements, which ``case`` of the test shows from now on."""
    named = {version: words.split() for version, words in ((V311, v311), (V5, v5)) if words}
    for version, numbers in named.items():
        unknown = [number for number in numbers if number not in _KNOWN[version]]
        if unknown:
            raise ValueError(f"{NAMES[version]} has no {unknown}")
        for number in numbers:
            SHOWN[version].setdefault(number, []).append(f"{test.__module__.rpartition('.')[2]}::{test.__name__}{case}")
    return list(named)


def _words(version: int) -> str:
    return NAMES[version].replace(" ", "-")


def clause(*, v311: str = "", v5: str = "") -> Callable[[_Test], _Test]:
    """The test shows these statements, numbers with spaces between; it runs with each ``version`` that has any."""

    def mark(test: _Test) -> _Test:
        versions = _named(test, v311, v5)
        marked: _Test = pytest.mark.parametrize("version", versions, ids=map(_words, versions))(test)
        return marked

    return mark


@dataclass(frozen=True, slots=True)
class Wrong:
    """Packets, by version, that break the same rule; the reason codes that may tell of it; and the statements, as for ``clause``.

    mosquitto: why that broker takes them, where it does.
    """

    what: str
    packets: Iterable[Callable[[int], bytes]]
    codes: tuple[int, ...]
    v311: str = ""
    v5: str = ""
    mosquitto: str = ""


def clauses(rows: Sequence[Wrong]) -> Callable[[_Test], _Test]:
    """The test shows the statements of each row: it runs with each ``version``, ``packet`` and the row's ``codes``."""

    def mark(test: _Test) -> _Test:
        cases = []
        for row in rows:
            packets = list(row.packets)
            for version in _named(test, row.v311, row.v5, f"[{row.what}]"):
                names = (f"{row.what}-{index}-{_words(version)}" for index in range(len(packets)))
                cases += [pytest.param(version, packet, row.codes, id=name) for packet, name in zip(packets, names, strict=True)]
            if row.mosquitto:
                test = deviates("mosquitto", row.mosquitto, re.escape(f"[{row.what}-"))(test)
        marked: _Test = pytest.mark.parametrize(("version", "packet", "codes"), cases)(test)
        return marked

    return mark


def deviates(broker: str, reason: str, cases: str = "", *, always: bool = True) -> Callable[[_Test], _Test]:
    """``broker`` fails the test where its name has ``cases``, a regular expression: ``always``, or this line is wrong."""

    def mark(test: _Test) -> _Test:
        known: list[Deviation] = getattr(test, "deviations", [])
        test.__dict__["deviations"] = [*known, Deviation(broker, reason, cases, always)]
        return test

    return mark
