"""The events of a node: what happened to its processes, links and queues, as rows of the column family ``history``. Bounded.

    key    ``E`` u8 | number of the event u64, big endian
    value  msgpack ``(1, at_ms, kind, bridge, lane, actor, reason, count, details)``

Events are numbered from 0, and a number is never given twice; a gap in the numbers is a loss. ``at_ms`` is UTC epoch, and that of
the event, not of its writing. Fields that do not apply are ``""`` (``bridge``, ``actor``, ``reason``), -1 (``lane``), 0 (``count``)
or ``{}`` (``details``: text -> text, number or truth value). Events never hold up a commit or an acknowledgement, and are not
synced by themselves: those on their way may be lost when a process is killed, those of the last second when the power goes. The
kinds are in ``wire/status/event_kinds.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgpack

from wire.errors import ConfigError, StorageDamaged
from wire.frames.names import LaneLabel

EVENT_VERSION = 1

_KIND = b"E"

Detail = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One row."""

    at_ms: int
    kind: str
    bridge: str = ""
    lane: LaneLabel = -1
    actor: str = ""
    reason: str = ""
    count: int = 0
    details: Mapping[str, Detail] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The row's value."""
        fields = (self.at_ms, self.kind, self.bridge, self.lane, self.actor, self.reason, self.count, dict(self.details))
        packed: bytes = msgpack.packb((EVENT_VERSION, *fields))
        return packed

    @classmethod
    def decode(cls, value: bytes) -> Event:
        """The row that ``encode`` made.

        Raises:
            StorageDamaged: it is not a row.
            ConfigError: a newer build wrote it.
        """
        try:
            version, *fields = msgpack.unpackb(value, use_list=False, strict_map_key=False)
            version += 0
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise StorageDamaged("an event is damaged") from error
        if version != EVENT_VERSION:
            raise ConfigError("an event was written by another version", version=version, known=EVENT_VERSION)
        try:
            at_ms, kind, bridge, lane, actor, reason, count, details = fields
            return cls(
                at_ms=at_ms, kind=kind, bridge=bridge, lane=lane, actor=actor, reason=reason, count=count, details=dict(details)
            )
        except (ValueError, TypeError) as error:
            raise StorageDamaged("an event is damaged") from error


def event_key(number: int) -> bytes:
    """The key of event ``number``."""
    return _KIND + number.to_bytes(8, "big")


def event_number(key: bytes) -> int:
    """The number of the event under ``key``."""
    return int.from_bytes(key[1:9], "big")
