"""Members' reports of themselves, and how much of the log is kept for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.replication.members import ID_NAME, MemberReport, keep_from, member_id, read_reports
from wire.errors import StorageDamaged

NUMBERS = st.integers(0, 1000)
REPORTS = st.lists(
    st.builds(
        MemberReport,
        node=st.text("abc", min_size=1),
        role=st.sampled_from(("leader", "standby")),
        sequence=NUMBERS,
        synced=NUMBERS,
        number=NUMBERS,
        term=NUMBERS,
        at_ms=st.integers(0, 20_000),
        needs_base=st.booleans(),
        base_sequence=st.one_of(st.just(0), NUMBERS),
    ),
    max_size=5,
)
REPORT = MemberReport(node="n", role="standby", sequence=9, synced=7, number=5, term=2, at_ms=1000, address="h:1", wants=True)


@given(REPORTS, NUMBERS, st.one_of(st.none(), st.floats(0, 20)), st.booleans())
def test_the_log_keeps_what_somebody_lacks_who_is_waited_for(
    reports: list[MemberReport], synced: int, max_age_s: float | None, waits: bool
) -> None:
    """replication.trimmed-when-kept"""
    now_ms = 20_000

    first = keep_from(reports, synced=synced, now_ms=now_ms, max_age_s=max_age_s, waits=waits)

    waited_for = [one for one in reports if waits and (max_age_s is None or now_ms - one.at_ms <= max_age_s * 1000)]
    needed = [synced, *(one.synced for one in waited_for if not one.needs_base)]
    needed += [one.base_sequence for one in waited_for if one.base_sequence]
    assert all(first <= one + 1 for one in needed)  # nobody misses anything
    assert first - 1 in needed  # and no more is kept than that


def test_neither_a_member_that_is_gone_nor_what_it_offered_is_waited_for() -> None:
    gone = replace(REPORT, base="at-3", base_sequence=3)

    assert keep_from([gone], synced=100, now_ms=12_000, max_age_s=10.0, waits=True) == 101
    assert keep_from([gone], synced=100, now_ms=10_000, max_age_s=10.0, waits=True) == 4
    assert keep_from([gone], synced=100, now_ms=10_000, max_age_s=None, waits=False) == 101


@given(REPORTS)
def test_reports_are_read_as_they_were_told(reports: list[MemberReport]) -> None:
    named = {f"m{place}": report for place, report in enumerate(reports)}

    assert read_reports({name: report.encode() for name, report in named.items()}) == named


def test_what_a_later_version_says_is_read_as_far_as_it_is_known() -> None:
    later = msgpack.packb({**msgpack.unpackb(REPORT.encode()), "weather": "fine"})
    less = msgpack.packb({"node": "n"})

    found = read_reports({"later": later, "less": less, "list": b"\x91\x01", "number": b"\x01", "none": b"", "damaged": b"\xc1"})

    assert found == {"later": REPORT}


def test_a_data_folder_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first = member_id(tmp_path)

    assert len(first) == 16
    assert member_id(tmp_path) == first
    assert member_id(tmp_path / "other") != first
    (tmp_path / ID_NAME).write_bytes(b"\xff")
    with pytest.raises(StorageDamaged):
        member_id(tmp_path)
