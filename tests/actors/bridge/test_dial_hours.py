"""Hours of a week on the clock on the wall, also on the days on which that is put forward or back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.bridge.dial_hours import DAYS, DialHours, parse

BERLIN, LORD_HOWE = "Europe/Berlin", "Australia/Lord_Howe"  # the second moves its clocks by half an hour


def ms(text: str) -> int:
    """A time in UTC."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def changes(entries: list[str], zone: str, since: str, count: int) -> list[tuple[bool, str]]:
    """Whether it is open from ``since`` on, and the next ``count`` changes, in UTC."""
    hours, at_ms, found = DialHours(entries, zone), ms(since), []
    for _ in range(count):
        now = hours.at(at_ms)
        assert now.until_ms is not None
        assert now.until_ms > at_ms
        found.append((now.is_open, datetime.fromtimestamp(now.until_ms / 1000, UTC).strftime("%a %d %H:%M")))
        at_ms = now.until_ms
    return found


def test_a_night_ends_on_the_next_day_and_days_are_those_on_which_it_begins() -> None:
    assert changes(["fri 22:00-04:00"], BERLIN, "2026-06-01T12:00", 3) == [
        (False, "Fri 05 20:00"),
        (True, "Sat 06 02:00"),
        (False, "Fri 12 20:00"),
    ]
    assert changes(["sat-mon 00:00-24:00"], BERLIN, "2026-06-04T12:00", 2) == [(False, "Fri 05 22:00"), (True, "Mon 08 22:00")]
    assert changes(["08:00-12:00", "11:00-13:00", "13:00-14:00"], "UTC", "2026-06-01T00:00", 3) == [
        (False, "Mon 01 08:00"),
        (True, "Mon 01 14:00"),
        (False, "Tue 02 08:00"),
    ]


@pytest.mark.parametrize(
    ("entry", "zone", "since", "found"),
    [
        # 02:00 becomes 03:00 on 29 March: what is left out begins and ends as if the clock had not been put forward
        ("02:15-02:45", BERLIN, "2026-03-28T12:00", [(False, "Sun 29 01:15"), (True, "Sun 29 01:45"), (False, "Mon 30 00:15")]),
        ("22:00-04:00", BERLIN, "2026-03-28T12:00", [(False, "Sat 28 21:00"), (True, "Sun 29 02:00"), (False, "Sun 29 20:00")]),
        # 03:00 becomes 02:00 on 25 October: the hour that comes twice belongs to it both times
        ("02:15-02:45", BERLIN, "2026-10-24T12:00", [(False, "Sun 25 00:15"), (True, "Sun 25 01:45"), (False, "Mon 26 01:15")]),
        ("22:00-04:00", BERLIN, "2026-10-24T12:00", [(False, "Sat 24 20:00"), (True, "Sun 25 03:00"), (False, "Sun 25 21:00")]),
        ("01:00-01:45", LORD_HOWE, "2026-04-04T00:00", [(False, "Sat 04 14:00"), (True, "Sat 04 15:15"), (False, "Sun 05 14:30")]),
    ],
)
def test_days_on_which_the_clock_is_moved(entry: str, zone: str, since: str, found: list[tuple[bool, str]]) -> None:
    assert changes([entry], zone, since, len(found)) == found


def test_a_week_that_is_open_throughout_never_changes() -> None:
    assert DialHours(["mon-sun 00:00-24:00"], BERLIN).at(ms("2026-03-28T12:00")) == (True, None)
    assert DialHours(["00:00-12:00", "12:00-24:00"], None).at(0) == (True, None)


def test_until_when_is_told_as_a_clock_there_shows_it() -> None:
    assert DialHours(["08:00-09:00"], BERLIN).shown(ms("2026-06-05T20:00")) == "Fri 2026-06-05 22:00 CEST"


ENTRIES = st.builds(
    lambda days, begins, length: (days, begins, length),
    st.frozensets(st.integers(0, 6), min_size=1),
    st.integers(0, 1439),
    st.integers(1, 1439),
)


@given(entries=st.lists(ENTRIES, min_size=1, max_size=3), minute=st.integers(0, 7 * 1440 - 1))
def test_it_is_open_when_an_entry_holds_the_minute(entries: list[tuple[frozenset[int], int, int]], minute: int) -> None:
    """Against a plain model of a week of minutes, where no clock is moved."""
    texts, held = [], set[int]()
    for days, begins, length in entries:
        ends = (begins + length) % 1440
        texts.append(f"{','.join(DAYS[day] for day in days)} {begins // 60:02}:{begins % 60:02}-{ends // 60:02}:{ends % 60:02}")
        held |= {(day * 1440 + begins + passed) % (7 * 1440) for day in days for passed in range(length)}
    monday = datetime(2026, 6, 1, tzinfo=ZoneInfo("UTC"))
    hours = DialHours(texts, "UTC")

    now = hours.at(round((monday + timedelta(minutes=minute)).timestamp() * 1000))

    assert now.is_open == (minute in held)
    ahead = next((count for count in range(1, 7 * 1440) if ((minute + count) % (7 * 1440) in held) != now.is_open), None)
    wanted = None if ahead is None else round((monday + timedelta(minutes=minute + ahead)).timestamp() * 1000)
    assert now.until_ms == wanted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not like"),
        ("8:00-9:00", "is not like"),
        ("08:00", "is not like"),
        ("08:00-08:00", "begins when it ends"),
        ("24:00-08:00", "a time of day that there is not"),
        ("08:00-24:01", "a time of day that there is not"),
        ("08:61-09:00", "is not like"),
        ("mo 08:00-09:00", "a day that there is not"),
        ("mon- 08:00-09:00", "a day that there is not"),
        ("mon-fri-sat 08:00-09:00", "a day that there is not"),
    ],
)
def test_what_is_no_entry_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(text)
