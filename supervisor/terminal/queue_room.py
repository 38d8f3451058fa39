"""How full a queue is, since when or when it will be, and what happens once it has no room, in words."""

from __future__ import annotations

from supervisor.units import counted, duration, write_time
from wire.status.bridges import RoomFigures

_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))


def fullness(room: RoomFigures, full_s: float | None = None, *, now_ms: int | None = None) -> str:
    """``93 % full, 1877 of 2000 messages; once it is full, new messages are ...``; ``full`` where there is hardly any room.

    With the time ``now_ms`` it says since when the queue is full, or when it will be, in ``full_s`` seconds.
    """
    if room.limit == "max_messages":
        figures = f"{room.used} of {counted(room.most, 'message')}"
    else:
        unit, size = next((unit, size) for unit, size in _UNITS if size <= max(1, room.most))
        figures = f"{room.used / size:.2f} of {room.most / size:g} {unit}"
    if room.is_full:
        since = "" if now_ms is None or room.full_for_s is None else f" since {_clock(now_ms, -room.full_for_s)}"
        return f"full{since}, {figures}: {room.when_full}"
    share = f"{100 * room.used // room.most} % full, {figures}"
    if now_ms is not None and full_s is not None:
        share += f"; full {when_full(full_s, now_ms)}"
    return f"{share}; once it is full, {room.when_full}"


def when_full(full_s: float, now_ms: int) -> str:
    """``at about 2026-11-21 20:15:00Z, in 1 min 27 s``."""
    return f"at about {_clock(now_ms, full_s)}, in {duration(full_s)}"


def _clock(now_ms: int, after_s: float) -> str:
    return write_time(now_ms + round(after_s * 1000))
