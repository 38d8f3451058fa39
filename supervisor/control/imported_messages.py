"""Messages of a file that ``bascule queue export`` wrote, on their way into a queue again: checked, line by line.

Whoever reads a file checks each line before the first one is sent, and the node checks them again: it knows nothing of who asks. A
line may come from anybody. It is a message, or it is refused with what is wrong; nothing of it is guessed.
"""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as NotBase64
from hashlib import sha256
from typing import Any, BinaryIO

from supervisor.control.control_socket import LINES_MAX_BYTES
from supervisor.units import shown
from wire.errors import ConfigError, PeerViolation
from wire.frames.batch import RETAIN
from wire.mqtt.primitives import BINARY_MAX_BYTES
from wire.mqtt.properties import Place, Properties, decode_properties, encode_properties
from wire.mqtt.topics import topic_fault
from wire.routing.topic_mapping import TopicTemplate

RULE_MAX_BYTES = 256
FILE_LINE_MAX_BYTES = 4 << 20
DIGEST_CHARACTERS = 16

ImportedMessage = tuple[bytes, int, bytes, bytes, str, str]  # topic, flags, payload, encoded properties, rule, destination

_NEEDED = ("topic", "qos", "retain", "payload_base64")
_SENT = (*_NEEDED, "properties", "rule", "destination")
_TEXTS = ("content_type", "response_topic")
_NUMBERS = {"payload_format_indicator": 1, "message_expiry_interval": 0xFFFF_FFFF}


def read_lines(text: str) -> list[ImportedMessage]:
    """The messages of ``text``, one a line.

    Raises:
        ValueError: which line of it is none, counted from 1, and why.
    """
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            found.append(message_of(line))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    return found


class ExportedMessages:
    """The messages of a file, one a line, of which pages are read one after the other."""

    def __init__(self, file: BinaryIO) -> None:
        """Check the whole of ``file``.

        Raises:
            ValueError: which line of it is no message, counted from 1, and why.
        """
        self._file = file
        self._line = 0  # at which the file stands, counted from 0
        digest = sha256()
        while line := file.readline(FILE_LINE_MAX_BYTES):
            self._line += 1
            digest.update(line)
            try:
                _check(line)
            except ValueError as error:
                raise ValueError(f"line {self._line}: {error}") from error
        self.messages = self._line
        self.digest = digest.hexdigest()[:DIGEST_CHARACTERS]

    def page(self, start: int, count: int) -> list[str]:
        """Lines from ``start`` on: ``count``, or as many as one request takes."""
        if start != self._line:
            self._file.seek(0)
            for _ in range(start):
                self._file.readline()
        lines: list[str] = []
        size_bytes = 0
        while len(lines) < count:
            place = self._file.tell()
            line = self._file.readline()
            if not line:
                break
            text = _compact(line.decode())
            size_bytes += len(text) + 1
            if lines and size_bytes > LINES_MAX_BYTES:
                self._file.seek(place)
                break
            lines.append(text)
        self._line = start + len(lines)
        return lines


def _check(line: bytes) -> None:
    if len(line) == FILE_LINE_MAX_BYTES:
        raise ValueError(f"it has {FILE_LINE_MAX_BYTES} bytes or more")
    text = line.decode()
    message_of(text)
    if len(_compact(text)) > LINES_MAX_BYTES:
        raise ValueError(f"its message takes more than {LINES_MAX_BYTES} bytes in base64, and cannot be imported")


def _compact(line: str) -> str:
    """``line``, which is a message, with what is sent of it alone; in ASCII."""
    told = json.loads(line)
    return json.dumps({name: told[name] for name in _SENT if name in told}, separators=(",", ":"))


def message_of(line: str) -> ImportedMessage:
    """The message that ``line`` is.

    Raises:
        ValueError: it is none: why.
    """
    try:
        told = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is not JSON, as queue export writes it") from error
    if not isinstance(told, dict):
        raise ValueError("it is not a JSON object")
    if told.get("damaged"):
        raise ValueError("it is a damaged dead letter, of which there is nothing")
    missing = [name for name in _NEEDED if name not in told]
    if missing:
        raise ValueError(f"{', '.join(missing)} missing: a file of queue export has it, what queue peek prints has not")
    topic, qos, retain = told["topic"], told["qos"], told["retain"]
    if not isinstance(topic, str) or (fault := _topic_fault(topic)) is not None:
        raise ValueError(f"topic {shown(topic)} is none" + (f" ({fault})" if isinstance(topic, str) else ""))
    if type(qos) is not int or not 0 <= qos <= 2:
        raise ValueError(f"qos {shown(qos)} is not 0, 1 or 2")
    if type(retain) is not bool:
        raise ValueError(f"retain {shown(retain)} is not true or false")
    try:
        payload = b64decode(told["payload_base64"], validate=True)
    except (NotBase64, TypeError, ValueError) as error:
        raise ValueError("payload_base64 is not base64") from error
    rule, destination = (told.get(name, "") for name in ("rule", "destination"))
    if not isinstance(rule, str) or len(rule.encode(errors="replace")) > RULE_MAX_BYTES:
        raise ValueError(f"rule is not a text of at most {RULE_MAX_BYTES} bytes")
    flags = qos | (RETAIN if retain else 0)
    return topic.encode(), flags, payload, _properties(told.get("properties", {})), rule or "imported", _destination(destination)


def _topic_fault(topic: str) -> str | None:
    try:
        return topic_fault(topic)
    except UnicodeEncodeError:
        return "half a character"


def _destination(text: Any) -> str:
    try:
        template = TopicTemplate.parse(text or "{#}") if isinstance(text, str) else None
    except (ConfigError, UnicodeEncodeError) as error:
        raise ValueError(str(error)) from error
    if template is None or "${" in template.text.replace("\\$", ""):
        raise ValueError(f"destination {shown(text)} is none whose names are filled in")
    return template.text


def _properties(told: Any) -> bytes:
    """Properties by name, as an export has them."""
    if not isinstance(told, dict):
        raise ValueError("properties are not a JSON object")
    try:
        encoded = encode_properties(Properties(**{name: _value(name, value) for name, value in told.items()}))
        if len(encoded) > BINARY_MAX_BYTES:
            raise ValueError(f"properties of more than {BINARY_MAX_BYTES} bytes")
        decode_properties(encoded, Place.PUBLISH)
    except (PeerViolation, UnicodeEncodeError) as error:
        raise ValueError(f"properties that no PUBLISH may have: {error}") from error
    return encoded


def _value(name: str, value: Any) -> Any:
    if name in _TEXTS and isinstance(value, str) and len(value.encode()) <= BINARY_MAX_BYTES:
        return value
    if name in _NUMBERS and type(value) is int and 0 <= value <= _NUMBERS[name]:
        return value
    if name == "correlation_data" and isinstance(value, str) and len(value) <= 2 * BINARY_MAX_BYTES:
        return bytes.fromhex(value)
    if name == "user_properties" and isinstance(value, list):
        return tuple(_pair(pair) for pair in value)
    raise ValueError(f"property {shown(name)} is not one that a message brings, or has another value than it may")


def _pair(pair: Any) -> tuple[str, str]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise ValueError("user_properties are not pairs of texts")
    for text in pair:
        if not isinstance(text, str) or len(text.encode()) > BINARY_MAX_BYTES:
            raise ValueError("user_properties are not pairs of texts")
    return pair[0], pair[1]
