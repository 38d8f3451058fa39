"""When and where a message was accepted, told to who gets it: user properties for MQTT 5, an envelope of JSON for 3.1.1. Pure.

What is told of a message is the same each time it is formed, but for ``stored``: that says whether the message was accepted before
the connection by which it leaves was made, thus whether it has waited for the remote.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import NamedTuple

from wire.frames.names import LaneLabel
from wire.mqtt.publish_properties import append_user_properties

NOT_TOLD, USER_PROPERTIES, ENVELOPE = "none", "user-properties", "envelope"
TEXT_MAX_BYTES = 64 << 20  # text may double in JSON, and must fit a packet then; a longer payload is told in base64

_PREFIX = "bascule-"
_NOT_IN_TEXT = bytes(range(0x20)).translate(None, b"\t\n\r")


class QueuePlace(NamedTuple):
    """The queue that a message waited in: by it a sequence names one message for good."""

    node: str
    bridge: str
    lane: LaneLabel


class Provenance(NamedTuple):
    """The provenance of one message. accepted_ms: when this node took it, in UTC. sequence: its number in its lane's queue."""

    place: QueuePlace
    accepted_ms: int
    sequence: int
    stored: bool

    def user_properties(self) -> bytes:
        """The encoded user properties that tell it, in a fixed order."""
        told = ((_PREFIX + name, value if isinstance(value, str) else json.dumps(value)) for name, value in self._told().items())
        return append_user_properties(b"", told)

    def envelope(self, topic: bytes, payload: bytes) -> bytes:
        """A JSON object in UTF-8: ``topic``, what is told, and ``payload`` as text, or ``payload_base64`` where it is none.

        Text is UTF-8 without control characters other than tab and line ends, of at most ``TEXT_MAX_BYTES``.
        """
        text = _as_text(payload)
        body = {"payload_base64": b64encode(payload).decode()} if text is None else {"payload": text}
        whole = {"topic": topic.decode(), **self._told(), **body}
        return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()

    def _told(self) -> dict[str, str | int | bool]:
        time = utc_text(self.accepted_ms)
        return {"time": time, **self.place._asdict(), "sequence": self.sequence, "stored": self.stored}


def utc_text(at_ms: int) -> str:
    """Milliseconds since the epoch as ISO 8601 has them, in UTC: ``2026-03-01T06:00:00.250Z``. Any number has a text."""
    days, of_day = divmod(at_ms, 86_400_000)
    # Years begin in March here, so that the day that some have more is their last; 400 of them have 146,097 days.
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    year, month = (400 * era + year, month + 3) if month < 10 else (400 * era + year + 1, month - 9)
    minutes, ms = divmod(of_day, 60_000)
    return f"{year:04}-{month:02}-{day + 1:02}T{minutes // 60:02}:{minutes % 60:02}:{ms // 1000:02}.{ms % 1000:03}Z"


def _as_text(payload: bytes) -> str | None:
    if len(payload) > TEXT_MAX_BYTES or len(payload.translate(None, _NOT_IN_TEXT)) != len(payload):
        return None
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None
