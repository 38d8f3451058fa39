"""How full a queue is, and what happens once it has no room, in words."""

from __future__ import annotations

from supervisor.units import counted
from wire.status.bridges import RoomFigures

FULL = 0.99
NEARLY_FULL = 0.8
_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))


def is_full(room: RoomFigures) -> bool:
    """Whether the next message may find no room."""
    return room.used >= FULL * room.most


def fullness(room: RoomFigures) -> str:
    """``93 % full, 1877 of 2000 messages; once it is full, new messages are ...``; ``full`` where there is hardly any room."""
    if room.limit == "max_messages":
        figures = f"{room.used} of {counted(room.most, 'message')}"
    else:
        unit, size = next((unit, size) for unit, size in _UNITS if size <= max(1, room.most))
        figures = f"{room.used / size:.2f} of {room.most / size:g} {unit}"
    if is_full(room):
        return f"full, {figures}: {room.when_full}"
    return f"{100 * room.used // room.most} % full, {figures}; once it is full, {room.when_full}"
