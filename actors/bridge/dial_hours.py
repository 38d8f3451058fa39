"""The hours in which a link may stand, in local time, and when that changes next. Pure, but for the rules of time zones.

An entry is ``18:00-06:00``, which is each day, or ``mon-fri 18:00-06:00`` or ``sat,sun 00:00-24:00``: the days on which it begins.
One that does not end after its beginning ends on the next day. Hours are those of a clock on the wall. Where that is put forward,
what is left out there begins or ends as if it had not been. Where it is put back, the hour that comes twice belongs to it both
times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_ENTRY = re.compile(r"(?:(?P<days>[a-z,-]+) +)?(?P<begins>[0-2]\d:[0-5]\d)-(?P<ends>[0-2]\d:[0-5]\d)")
_DAY_MINUTES = 1440
_AHEAD_DAYS = 8  # every entry begins at least once in that


class Entry(NamedTuple):
    """days: those of the week on which it begins, Monday is 0. begins, ends: in minutes from the midnight before it begins."""

    days: frozenset[int]
    begins: int
    ends: int


class Change(NamedTuple):
    """is_open: whether a link may stand now. until_ms: that changes then, in UTC; None: never."""

    is_open: bool
    until_ms: int | None


def parse(text: str) -> Entry:
    """The entry that is written so.

    Raises:
        ValueError: it is none.
    """
    found = _ENTRY.fullmatch(text)
    if found is None:
        raise ValueError("is not like 18:00-06:00 or mon-fri 08:00-18:00")
    begins, ends = (int(part[:2]) * 60 + int(part[3:]) for part in (found["begins"], found["ends"]))
    if begins >= _DAY_MINUTES or ends > _DAY_MINUTES:
        raise ValueError("has a time of day that there is not; the last is 24:00, as an end")
    if begins == ends:
        raise ValueError("begins when it ends; a whole day is 00:00-24:00")
    return Entry(_days(found["days"]), begins, ends if ends > begins else ends + _DAY_MINUTES)


def _days(text: str | None) -> frozenset[int]:
    if text is None:
        return frozenset(range(7))
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if first not in DAYS or (last if dash else first) not in DAYS:
            raise ValueError(f"has a day that there is not; they are {', '.join(DAYS)}")
        begin, end = DAYS.index(first), DAYS.index(last or first)
        found.update((begin + day) % 7 for day in range((end - begin) % 7 + 1))
    return frozenset(found)


class DialHours:
    """The hours of one remote."""

    def __init__(self, entries: Sequence[str], time_zone: str | None) -> None:
        """time_zone: such as Europe/Berlin; None: that of the machine."""
        self._entries = [parse(text) for text in entries]
        self._zone = None if time_zone is None else ZoneInfo(time_zone)

    def at(self, wall_ms: int) -> Change:
        """Whether a link may stand at ``wall_ms``, UTC, and until when."""
        open_until_ms = wall_ms
        for begins_ms, ends_ms in self._stretches(wall_ms):
            if begins_ms > open_until_ms:
                return Change(True, open_until_ms) if open_until_ms > wall_ms else Change(False, begins_ms)
            open_until_ms = max(open_until_ms, ends_ms)
        return Change(True, None)

    def shown(self, at_ms: int) -> str:
        """That time as a clock there shows it."""
        return datetime.fromtimestamp(at_ms / 1000, self._zone).astimezone(self._zone).strftime("%a %Y-%m-%d %H:%M %Z")

    def _stretches(self, wall_ms: int) -> Iterator[tuple[int, int]]:
        """(begin, end) of each that may hold ``wall_ms`` or follows, in the order of their beginnings."""
        today = datetime.fromtimestamp(wall_ms / 1000, self._zone).date()
        found = []
        for offset in range(-2, _AHEAD_DAYS + 1):
            day = today + timedelta(days=offset)
            for entry in self._entries:
                if day.weekday() in entry.days:
                    ends_ms = max(self._utc_ms(day, entry.ends, fold) for fold in (0, 1))
                    found.append((self._utc_ms(day, entry.begins, 0), ends_ms))
        return iter(sorted(found))

    def _utc_ms(self, day: date, minutes: int, fold: int) -> int:
        shown = datetime.combine(day, time()) + timedelta(minutes=minutes)
        return round(shown.replace(tzinfo=self._zone, fold=fold).timestamp() * 1000)
