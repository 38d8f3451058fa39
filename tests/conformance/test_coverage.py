"""Each normative statement of both specifications is shown by a test or left out with a reason, and never both."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

from tests.conformance.left_out import LEFT_OUT
from tests.conformance.statements import NAMES, SHOWN, STATEMENTS, V5, V311

_FOLDER = Path(__file__).parent


def _collect() -> None:
    for path in sorted(_FOLDER.glob("test_*.py")):
        if path.stem != Path(__file__).stem:
            import_module(f"tests.conformance.{path.stem}")


@pytest.mark.parametrize("version", [V311, V5], ids=["3.1.1", "5.0"])
def test_every_statement_is_shown_or_left_out_with_a_reason(version: int) -> None:
    _collect()
    shown, left_out = set(SHOWN[version]), LEFT_OUT[version]
    assert all(left_out.values())
    assert not shown & set(left_out)
    assert not set(left_out) - set(STATEMENTS[version])
    assert [number for number in STATEMENTS[version] if number not in shown and number not in left_out] == []


def test_the_specifications_have_as_many_statements_as_their_appendix() -> None:
    assert {NAMES[version]: len(numbers) for version, numbers in STATEMENTS.items()} == {"MQTT 3.1.1": 141, "MQTT 5.0": 251}


def report() -> str:
    """A summary for a reader: what is shown, by how many tests, and what is not."""
    _collect()
    lines = []
    for version, numbers in STATEMENTS.items():
        left_out = LEFT_OUT[version]
        lines.append(f"{NAMES[version]}: {len(numbers)} statements, {len(numbers) - len(left_out)} shown, {len(left_out)} left out")
        lines += [f"  {number}: {', '.join(SHOWN[version].get(number, ['-']))}" for number in numbers if number not in left_out]
        lines += [f"  {count} left out: {reason}" for reason, count in Counter(left_out.values()).items()]
    return "\n".join(lines)
