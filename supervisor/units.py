"""Durations, sizes, addresses and words as an operator writes them, and what to say when one is wrong.

Pure: text in, a plain value out; ``ValueError`` carries a sentence for the operator. Which key takes what is the business of
``wire/config_settings.py``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from datetime import UTC, datetime, time, timedelta

UNLIMITED = "unlimited"
AUTO = "auto"

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"B": 1} | {
    f"{prefix}{suffix}": base**power
    for suffix, base in (("B", 1000), ("iB", 1024))
    for power, prefix in enumerate(("k" if suffix == "B" else "K", "M", "G", "T"), start=1)
}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)
_PASSWORD = re.compile(r"(?<=:)(?!//)\S+@")  # behind user: of a URL
_CLOCK = re.compile(r"\d\d:\d\d")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252}[A-Za-z0-9])?\.?", re.ASCII)


def shown(value: object) -> str:
    """``value`` for a message: as YAML has it, short, and without the password of a URL."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            value = _PASSWORD.sub("...@", value)
            return f'"{value}"' if len(value) <= 60 else f'"{value[:57]}..."'
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            return str(value)


def counted(count: int, noun: str) -> str:
    """``1 message``, ``2 messages``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def parse_duration(value: object) -> float:
    """Seconds of a duration such as ``250ms``, ``2m``, ``7d`` or ``0s``.

    Raises:
        ValueError: it has no unit, an unknown one, or is no duration.
    """
    return _parse_amount(value, "duration", _SECONDS, "60s, 250ms, 2m, 1h or 7d")


def parse_moment(text: str, now_ms: int) -> int:
    """Milliseconds since the epoch of ``24h`` ago, the last ``14:00``, ``yesterday 14:00``, ``2026-03-01 06:00+01:00`` or such a
    number; UTC where no offset is said. now_ms: the time.

    Raises:
        ValueError: it is no time.
    """
    text = " ".join(text.split())
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    day, _, clock = text.lower().partition(" ")
    if re.fullmatch(r"\d{9,11}", text, re.ASCII):
        raise ValueError(f"{shown(text)} would be seconds; write milliseconds, or so long ago, such as 24h")
    try:
        if re.fullmatch(r"\d{12,}", text, re.ASCII):
            write_time(int(text))
            return int(text)
        if day in ("today", "yesterday"):
            at = _at_clock(now, clock or "00:00") - timedelta(days=day == "yesterday")
        elif _CLOCK.match(text):
            at = _at_clock(now, text)
            at -= timedelta(days=at > now)
        elif text[4:5] == "-":
            at = datetime.fromisoformat(text)
            at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        else:
            return max(0, now_ms - int(parse_duration(text) * 1000))
        return max(0, round(at.astimezone(UTC).timestamp() * 1000))
    except (ValueError, OverflowError, OSError) as error:
        wanted = "24h for so long ago, 14:00, yesterday 14:00 or 2026-03-01T06:00, which are UTC unless they say otherwise"
        raise ValueError(f"{shown(text)} is not a time; write it such as {wanted}") from error


def _at_clock(now: datetime, clock: str) -> datetime:
    """That time of the day, of its own zone, that ``now`` is in."""
    at = time.fromisoformat(clock)
    zone = at.tzinfo or UTC
    return datetime.combine(now.astimezone(zone).date(), at.replace(tzinfo=zone))


def parse_size(value: object) -> int:
    """Bytes of a size such as ``64MiB``, ``50GiB`` or ``1kB``; powers of 1000 without ``i``, of 1024 with it.

    Raises:
        ValueError: it has no unit, an unknown one, is no size, or no whole number of bytes.
    """
    size_bytes = _parse_amount(
        value, "size", {unit: float(factor) for unit, factor in _BYTES.items()}, "512B, 64KiB, 64MiB or 50GiB"
    )
    if not size_bytes.is_integer():
        raise ValueError(f"{shown(value)} is no whole number of bytes")
    return int(size_bytes)


def _parse_amount(value: object, what: str, units: dict[str, float], example: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{shown(value)} is not a {what}; write a number with a unit, such as {example}")
    match = _AMOUNT.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"{shown(value)} is not a {what}; write a number with a unit, such as {example}")
    number, unit = match.groups()
    if not unit:
        raise ValueError(f"{shown(value)} has no unit; a {what} is written such as {example}")
    if unit not in units:
        near = {known.lower(): known for known in units}.get(unit.lower())
        guess = f"did you mean {number}{near}? " if near else ""
        raise ValueError(f"{shown(value)} has an unknown unit; {guess}units of a {what} are {', '.join(units)}, such as {example}")
    return float(number) * units[unit]


def write_duration(seconds: float) -> str:
    """The shortest text that ``parse_duration`` reads as ``seconds``, to the nearest millisecond."""
    milliseconds = round(seconds * 1000)
    for unit in ("d", "h", "m", "s"):
        unit_ms = round(_SECONDS[unit] * 1000)
        if milliseconds % unit_ms == 0 and (milliseconds or unit == "s"):
            return f"{milliseconds // unit_ms}{unit}"
    return f"{milliseconds}ms"


def write_size(size_bytes: int) -> str:
    """The shortest text that ``parse_size`` reads as ``size_bytes``, in powers of 1024 where it can be."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size_bytes >= _BYTES[unit] and size_bytes % _BYTES[unit] == 0:
            return f"{size_bytes // _BYTES[unit]}{unit}"
    return f"{size_bytes}B"


def parse_address(value: object, *, port_min: int = 1) -> tuple[str, int]:
    """(host, port) of ``broker.example:1883``, ``127.0.0.1:1883`` or ``[::1]:1883``.

    Raises:
        ValueError: no port, a port out of range, or no host name or address.
    """
    example = "such as 127.0.0.1:1883, broker.example:8883 or [::1]:1883"
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is not an address; write host:port in quotes, {example}")
    host, colon, port_text = value.rpartition(":")
    if "://" in value:
        raise ValueError(f"{shown(value)} is not an address; write host:port without a scheme, {example}")
    if not colon or not host or (":" in host and not host.startswith("[")) or value.endswith("]"):
        what = "an IPv6 address wants brackets" if value.count(":") > 1 else "the host or the port is missing"
        raise ValueError(f"{shown(value)} is not host:port ({what}); write it {example}")
    if not (port_text.isascii() and port_text.isdigit() and len(port_text) <= 5) or not port_min <= int(port_text) <= 65535:
        raise ValueError(f"{shown(value)} has no port from {port_min} to 65535; write it {example}")
    return _parse_host(host, value), int(port_text)


def _parse_host(host: str, value: str) -> str:
    if host.startswith("["):
        try:
            return str(ipaddress.IPv6Address(host[1:-1] if host.endswith("]") else ""))
        except ValueError:
            raise ValueError(f"{shown(value)}: {host} is not an IPv6 address; write it such as [::1]:1883") from None
    if re.fullmatch(r"[\d.]+", host, re.ASCII):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise ValueError(f"{shown(value)}: {host} is not an IPv4 address; write it such as 127.0.0.1:1883") from None
    if not _HOST.fullmatch(host):
        raise ValueError(f"{shown(value)}: {host} is not a host name; write it such as broker.example:1883")
    return host


def check_name(value: str) -> str:
    """``value``, if it may name a node, a bridge or a rule: files, processes and logs carry it.

    Raises:
        ValueError: it is empty, longer than 64 characters, or has others than letters, digits, ``_`` and ``-``.
    """
    if not _NAME.fullmatch(value):
        suggestion = re.sub(r"[^A-Za-z0-9_-]+", "-", value)[:64].strip("-")
        hint = f', such as "{suggestion}"' if suggestion else ""
        raise ValueError(f"{shown(value)} cannot be a name; use 1 to 64 of A-Z a-z 0-9 _ -{hint}")
    return value


def nearest(word: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` when ``word`` looks like one of ``known``, else nothing."""
    from difflib import get_close_matches  # no node that runs needs it

    matches = get_close_matches(word.lower().replace("_", "-"), [name.lower().replace("_", "-") for name in known], n=1, cutoff=0.6)
    names = {name.lower().replace("_", "-"): name for name in known}
    return f"; did you mean {names[matches[0]]}?" if matches else ""


def no_such_bridge(name: str, known: Iterable[str]) -> str:
    """What is wrong with a bridge's ``name`` that is not among those that are ``known``."""
    names = sorted(known)
    return f"there is no bridge {name!r}{nearest(name, names)}; known: {', '.join(names) or 'none'}"


def duration(seconds: float) -> str:
    """Seconds for people: the two largest units."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, whole = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {whole} s"


def write_time(at_ms: int) -> str:
    """UTC for people: ``2026-11-21 20:15:00Z``.

    Raises:
        ValueError, OverflowError, OSError: no calendar goes so far.
    """
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00") + "Z"
