"""Queued messages and dead letters for people and programs: what the store answers, as JSON values and as short text. Pure."""

from __future__ import annotations

import codecs
from base64 import b64encode
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from supervisor.units import write_time
from wire.errors import PeerViolation
from wire.mqtt.properties import Place, decode_properties

_SHOWN_CHARACTERS = 60
_SHOWN_BYTES = 24


def message_json(queue: str, row: dict[str, Any], now_ms: int, *, payload: bool) -> dict[str, Any]:
    """One message of ``queue`` as the store's ``peek`` has it. payload: all of it, in base64 and, if it is UTF-8, as text."""
    if row.get("damaged"):
        return {"queue": queue, "seq": row["seq"], "damaged": True}
    said = {name: value for name, value in row.items() if name not in ("topic", "payload", "properties", "at_ms", "queue")}
    said = {"queue": queue, **said, "topic": row["topic"].decode(errors="replace")}
    said["age_s"] = max(0.0, (now_ms - row["accepted_ms"]) / 1000)
    said["properties"] = properties_of(row["properties"])
    if "at_ms" in row:
        said["dead_at"] = when(row["at_ms"])
        said["from_queue"] = row["queue"]
    if payload:
        said["payload_base64"] = b64encode(row["payload"]).decode()
        text = text_of(row["payload"], whole=True)
        if text is not None:
            said["payload_text"] = text
    else:
        said["payload"] = shown(row["payload"], row["size"])
    return said


def properties_of(encoded: bytes) -> dict[str, Any]:
    """MQTT 5 properties by name; binary ones in hex."""
    if not encoded:
        return {}
    try:
        decoded = decode_properties(encoded, Place.PUBLISH)
    except PeerViolation:
        return {"undecodable": encoded.hex()}
    found = {field.name: getattr(decoded, field.name) for field in fields(decoded)}
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in found.items() if value not in (None, ())}


def text_of(payload: bytes, *, whole: bool) -> str | None:
    """``payload`` as text, or None if it is not UTF-8. If it is not the ``whole``, it may end inside a character."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(payload, final=whole)
    except UnicodeDecodeError:
        return None


def shown(payload: bytes, size: int) -> str:
    """The beginning of a payload of ``size`` bytes on one line: as text, or else in hex."""
    text = text_of(payload, whole=len(payload) == size)
    if text is not None and all(character.isprintable() or character in "\t\r\n" for character in text):
        line = text.replace("\r", "\\r").replace("\n", "\\n").replace("\t", "\\t")
        return line if len(line) <= _SHOWN_CHARACTERS and len(payload) == size else line[:_SHOWN_CHARACTERS] + "..."
    return "0x" + payload[:_SHOWN_BYTES].hex() + ("..." if size > _SHOWN_BYTES else "")


def when(at_ms: int) -> str:
    """A time of UTC milliseconds as ISO 8601."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def kept_lines(kept: list[dict[str, Any]]) -> list[str]:
    """The messages that a purge has left in each lane, and why, a line each; nothing if it left nothing."""
    lines = []
    for row in kept:
        up = "in an earlier life of the store" if row["link_up_ms"] is None else f"last at {write_time(row['link_up_ms'])}"
        remote = f" to {row['remote']}" if row["remote"] else ""
        why = f"the link{remote} came up {up}"
        if not remote and row["link_up_ms"] is None:
            why = "no session is on record, but a loss of power may have taken that record (persistence.sync: os)"
        lines.append(f"  lane {row['lane']}: {row['messages']} stay and may have been sent; {why}")
    return [*lines, "  --in-flight removes them too, and ends the remote's session"] if lines else []


def printable(text: str) -> str:
    """``text`` with whatever does not print escaped, so that a publisher cannot speak to the operator's terminal."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
