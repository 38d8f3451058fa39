"""Queued messages and dead letters for people and programs: what the store answers, as JSON values and as short text. Pure."""

from __future__ import annotations

import codecs
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from supervisor.units import write_time
from wire.errors import PeerViolation
from wire.figure import figure, figures
from wire.mqtt.properties import Place, decode_properties
from wire.status.answers import HeldMessage, KeptLane

_SHOWN_CHARACTERS = 60
_SHOWN_BYTES = 24


@figures
class Message:
    """One message, or a damaged dead letter, of which only the sequence is known."""

    queue: str = figure("The queue, or that of the dead letters.")
    seq: int = figure("Its sequence there; of one that is held, its number among those.")
    damaged: bool | None = figure("Of a dead letter that cannot be read: true.", default=None)
    state: str | None = figure(
        "Of one in a queue: waiting (never sent), maybe sent, handed out (sent, or about to be), released, held (by its rule). "
        "Of one that has left, how: delivered, expired, dropped:REASON, dead:REASON, or left where that cannot be told.",
        default=None,
    )
    reason: str | None = figure("Of a dead letter: what it died of.", default=None)
    left_at: str | None = figure("Of one that has left: when.", default=None)
    dead_at: str | None = figure("Of a dead letter: when.", default=None)
    from_queue: str | None = figure("Of a dead letter: the queue that it was in.", default=None)
    queue_seq: int | None = figure("Of a dead letter: its sequence there.", default=None)
    remote: str | None = figure("Of a dead letter: the remote, if one refused it.", default=None)
    topic: str | None = figure("As it was published.", default=None)
    qos: int | None = figure("0, 1 or 2.", default=None)
    retain: bool | None = figure("Whether it is to be retained.", default=None)
    size: int | None = figure("Bytes of the payload.", default=None)
    rule: str | None = figure("The rule that it came by.", default=None)
    destination: str | None = figure("Of the rule.", default=None)
    accepted_ms: int | None = figure("When it was taken, UTC.", default=None)
    age_s: float | None = figure("How long ago that was.", default=None)
    properties: dict[str, Any] | None = figure("Of MQTT 5, by name.", default=None)
    payload: str | None = figure("The beginning of the payload, as text or in hex.", default=None)
    payload_base64: str | None = figure("With `whole`: all of it.", default=None)
    payload_text: str | None = figure("With `whole`, if it is UTF-8.", default=None)


@figures
class Messages:
    """A page of messages."""

    queue: str = figure("The queue, or that of the dead letters.")
    messages: tuple[Message, ...] = figure("By sequence.")
    next: int | None = figure("The `from` of the next page; null after the last.")
    tail: int = figure("One past the newest message.")
    damaged: int = figure("Of what has left: pieces of the history that cannot be read.")


def message_of(queue: str, row: HeldMessage, now_ms: int, *, whole: bool) -> Message:
    """``row`` of ``queue`` for people and programs. whole: with all of its payload, in base64 and, if it is UTF-8, as text."""
    if row.damaged:
        return Message(queue=queue, seq=row.seq, damaged=True)
    is_dead = row.reason is not None
    return Message(
        queue=queue,
        seq=row.seq,
        state=row.state,
        reason=row.reason,
        left_at=when(row.at_ms) if row.at_ms and not is_dead else None,
        dead_at=when(row.at_ms) if is_dead else None,
        from_queue=row.queue if is_dead else None,
        queue_seq=row.queue_seq if is_dead else None,
        remote=row.remote if is_dead else None,
        topic=row.topic.decode(errors="replace"),
        qos=row.qos,
        retain=row.retain,
        size=row.size,
        rule=row.rule,
        destination=row.destination,
        accepted_ms=row.accepted_ms,
        age_s=max(0.0, (now_ms - row.accepted_ms) / 1000),
        properties=properties_of(row.properties),
        payload=None if whole else shown(row.payload, row.size),
        payload_base64=b64encode(row.payload).decode() if whole else None,
        payload_text=text_of(row.payload, whole=True) if whole else None,
    )


def message_json(message: Message) -> dict[str, Any]:
    """``message`` in JSON: the fields that one of its kind has."""
    return {name: value for name, value in vars(message).items() if value is not None}


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


def kept_lines(kept: Sequence[KeptLane]) -> list[str]:
    """The messages that a purge has left in each lane, and why, a line each; nothing if it left nothing."""
    lines = []
    for row in kept:
        up = "in an earlier life of the store" if row.link_up_ms is None else f"last at {write_time(row.link_up_ms)}"
        remote = f" to {row.remote}" if row.remote else ""
        why = f"the link{remote} came up {up}"
        if not remote and row.link_up_ms is None:
            why = "no session is on record, but a loss of power may have taken that record (persistence.sync: os)"
        lines.append(f"  lane {row.lane}: {row.messages} stay and may have been sent; {why}")
    return [*lines, "  --in-flight removes them too, and ends the remote's session"] if lines else []


def printable(text: str) -> str:
    """``text`` with whatever does not print escaped, so that a publisher cannot speak to the operator's terminal."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
