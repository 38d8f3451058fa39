"""How the HTML page writes values and foreign text. Owns wording and escaping; the page's script writes values the same way.

``page/format.js`` has the same rules for what scripts show; a test in Chromium compares the two.
"""

from __future__ import annotations

import json
import math
import unicodedata
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from html import escape

from analysis.reports.report_model import Cell

UNKNOWN = "–"
STATES = {"ok": "OK", "attention": "Attention", "problem": "Problem", "none": "Not judged"}
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_DAY_S = 86_400
_YEAR_S = 31_557_600
# Control, format (directions, zero width), surrogate, line and paragraph separators: none is left to a browser's discretion.
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def visible(text: str) -> str:
    """``text`` with every character that cannot be seen, or turns the direction of others, as its code: ``\\u202e``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_code(one) if unicodedata.category(one) in _INVISIBLE else one for one in text)


def markup(text: str) -> str:
    """``text`` for use between tags and in quoted attributes."""
    return escape(visible(text), quote=True)


def script_json(value: object) -> str:
    """``value`` as JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def shown(kind: str, value: Cell) -> str:
    """``value`` of ``kind`` (a column's kind or an axis' unit) as people read it."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return UNKNOWN
    if isinstance(value, str):
        return STATES.get(value, visible(value)) if kind == "state" else visible(value)
    if kind == "time":
        return moment(value)
    sign, size = ("−", -value) if value < 0 else ("", value)
    match kind:
        case "bytes":
            return sign + _bytes(size)
        case "duration_s":
            return sign + _duration(size)
        case "percent":
            return sign + ("<0.1 %" if 0 < size < 0.1 else f"{_trimmed(size, 1)} %")
        case "per_s":
            return f"{sign}{_trimmed(size, 0 if size >= 100 else 1 if size >= 10 else 2)}/s"
        case _:
            return sign + _trimmed(size, 0 if size >= 1000 else 2)


def short(kind: str, value: float, step: float = 1.0) -> str:
    """``value`` as an axis has it, on which the next is ``step`` away: large counts in thousands and millions."""
    sign, size = ("−", -value) if value < 0 else ("", value)
    digits = max(-math.floor(math.log10(step) + 1e-9), 0)
    if kind in ("count", "per_s"):
        unit, name = (1e9, "G") if size >= 1e9 else (1e6, "M") if size >= 1e6 else (1e3, "k") if size >= 1e4 else (1.0, "")
        text = _trimmed(size / unit, max(-math.floor(math.log10(step / unit) + 1e-9), 0))
        return f"{sign}{text}{name}{'/s' if kind == 'per_s' else ''}"
    if kind == "percent":
        return f"{sign}{_trimmed(size, digits)} %"
    if kind == "duration_s" and 0 < size < 0.001:
        return f"{sign}{_trimmed(size * 1e6, max(digits - 6, 0))} µs"
    return shown(kind, value)


def moment(at_ms: float) -> str:
    """``2026-11-21 10:14:05``, in UTC, to the second."""
    try:
        return datetime.fromtimestamp(math.floor(at_ms / 1000), UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


def _code(one: str) -> str:
    return f"\\u{ord(one):04x}" if ord(one) < 0x10000 else f"\\U{ord(one):08x}"


def _fixed(value: float, digits: int) -> str:
    """As JavaScript's toFixed: halves go up."""
    return f"{Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP):,f}"


def _trimmed(value: float, digits: int) -> str:
    text = _fixed(value, digits)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _bytes(size: float) -> str:
    unit = 0
    while size >= 1024 and unit < len(_BYTES) - 1:
        size, unit = size / 1024, unit + 1
    return f"{_trimmed(size, 0 if unit == 0 else 2 if size < 10 else 1 if size < 100 else 0)} {_BYTES[unit]}"


def _duration(seconds: float) -> str:
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995:
        ms = seconds * 1000
        return f"{_trimmed(ms, 2 if ms < 1 else 1 if ms < 10 else 0)} ms"
    if seconds < 59.95:
        return f"{_trimmed(seconds, 2 if seconds < 9.995 else 1)} s"
    whole = math.floor(seconds + 0.5)
    if whole < 3600:
        return _two(whole // 60, "min", whole % 60, "s")
    if whole < _DAY_S:
        return _two(whole // 3600, "h", whole % 3600 // 60, "min")
    if whole >= 1000 * _DAY_S:
        return f"{_trimmed(whole / _YEAR_S, 0)} years"
    return _two(whole // _DAY_S, "d", whole % _DAY_S // 3600, "h")


def _two(more: int, more_unit: str, less: int, less_unit: str) -> str:
    return f"{more:,} {more_unit} {less} {less_unit}" if less else f"{more:,} {more_unit}"
