"""Durations, sizes and addresses as an operator writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.units import duration, nearest, parse_address, parse_duration, parse_moment, parse_size, write_duration, write_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0.0), ("250ms", 0.25), ("1.5s", 1.5), ("60s", 60.0), ("2m", 120.0), ("1h", 3600.0), ("7d", 604800.0), ("5 s", 5.0)],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0B", 0),
        ("512B", 512),
        ("1kB", 1000),
        ("1KiB", 1024),
        ("64MiB", 64 << 20),
        ("1.5GiB", 3 << 29),
        ("50GB", 50 * 10**9),
        ("2TiB", 2 << 40),
    ],
)
def test_a_size_is_a_number_and_a_unit_of_1000_or_1024(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "s", "1", "-1s", "1 s s", "1e3s", "1S", "1w", "٣s", "1h30m", True, None, [], 5])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "MiB", "1", "-1B", "1Mib", "1 M", "64MBit", "0.5B", False, None, {}, 1024])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"size|whole number of bytes"):
        parse_size(text)


@given(st.integers(min_value=0, max_value=10**12))
def test_a_written_duration_reads_back(milliseconds: int) -> None:
    assert parse_duration(write_duration(milliseconds / 1000)) == pytest.approx(milliseconds / 1000, rel=1e-12)


@given(st.integers(min_value=0, max_value=1 << 50))
def test_a_written_size_reads_back(size_bytes: int) -> None:
    assert parse_size(write_size(size_bytes)) == size_bytes


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:1883", ("127.0.0.1", 1883)),
        ("broker.example:8883", ("broker.example", 8883)),
        ("localhost:1", ("localhost", 1)),
        ("broker_1:65535", ("broker_1", 65535)),
        ("[::1]:1883", ("::1", 1883)),
        ("[::]:1883", ("::", 1883)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":1883",
        "host",
        "host:",
        "host:x",
        "host:0",
        "host:65536",
        "host:١",
        "::1:1883",
        "[::1]",
        "[::1:1883",
        "[x]:1",
        "1.2.3:1",
        "a b:1",
        "-a:1",
        "tcp://a:1",
        "a/b:1",
        1883,
        None,
    ],
)
def test_what_is_no_address_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="write"):
        parse_address(text)


def test_a_word_is_compared_without_case_and_dashes() -> None:
    assert nearest("Max-Bytes", ["max_bytes", "max_messages"]) == "; did you mean max_bytes?"
    assert nearest("colour", ["max_bytes", "max_messages"]) == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.9, "59.9 s"), (61, "1 min 1 s"), (3_660, "1 h 1 min"), (90_000, "1 d 1 h")]
)
def test_durations_are_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


NOON_MS = 1_795_867_200_000  # 2026-11-28 12:00 UTC


@pytest.mark.parametrize(
    ("text", "hours_before"),
    [
        ("24h", 24.0),
        ("90m", 1.5),
        ("11:00", 1.0),
        ("14:00", 22.0),
        ("11:30:00", 0.5),
        ("today", 12.0),
        ("yesterday", 36.0),
        ("yesterday 14:00", 22.0),
        ("yesterday 14:00+02:00", 24.0),
        ("2026-11-28", 12.0),
        ("2026-11-28T10:00", 2.0),
        ("2026-11-28 10:00+01:00", 3.0),
        ("1795867200000", 0.0),
        (" yesterday  14:00 ", 22.0),
    ],
)
def test_a_time_is_said_as_long_ago_by_the_clock_or_by_the_calendar(text: str, hours_before: float) -> None:
    assert parse_moment(text, NOON_MS) == NOON_MS - hours_before * 3_600_000


@pytest.mark.parametrize(
    "text", ["soon", "yesterday noon", "25:00", "2026-13-01", "", "-1h", "24", "9" * 20, "9999-12-31T23:59:59-23:00"]
)
def test_what_is_no_time_is_refused_with_what_would_be_one(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time; write it such as 24h"):
        parse_moment(text, NOON_MS)


def test_a_time_in_seconds_is_not_taken_for_milliseconds() -> None:
    """It would be of January 1970, and all that is kept would be after it."""
    with pytest.raises(ValueError, match="would be seconds; write milliseconds"):
        parse_moment(str(NOON_MS // 1000), NOON_MS)
