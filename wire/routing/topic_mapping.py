"""Destination templates: the remote topic of a message that crosses a bridge. Pure.

``{#}`` is the whole topic, ``{2}`` its second level, ``{2-4}`` levels two to four, ``{2-#}`` all from the second on; a level that a
topic does not have is empty. ``${bridge.name}`` and ``${node.name}`` are names. A backslash makes a brace, ``$`` or itself plain.
Templates are checked, and names filled in, when the configuration is read, so that mapping a message hardly ever fails; when it
does, it says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wire.errors import ConfigError
from wire.mqtt.primitives import BINARY_MAX_BYTES

CACHE_TOPICS_MAX = 20_000
CACHED_TOPIC_BYTES_MAX = 512  # a longer topic is mapped each time: the cache must not be a way to fill the memory
VARIABLES = ("bridge.name", "node.name")

_LEVELS = re.compile(r"(?P<first>[0-9]+)(?:-(?P<last>[0-9]+|#))?\Z")
_ESCAPABLE = "{}$\\"
_PLAIN = re.compile(r"[{}$\\]")


class _Levels(NamedTuple):
    """Levels ``first`` to ``last`` of the topic, counted from 1; None is up to the end."""

    first: int
    last: int | None


class _Variable(NamedTuple):
    name: str


_Part = str | _Levels | _Variable


@dataclass(frozen=True, slots=True)
class TopicTemplate:
    """A parsed destination: literal text, levels of the topic, and names that ``named`` fills in. ``text`` writes it."""

    text: str
    parts: tuple[_Part, ...]

    @classmethod
    def parse(cls, text: str, *, filters: Sequence[str] = ()) -> TopicTemplate:
        """The template that ``text`` writes, for topics that match any of ``filters``.

        Raises:
            ConfigError: what is wrong and, where it has a place, at which character (counted from 1).
        """
        if not text:
            raise ConfigError("empty destination: the remote topic would be empty; {#} keeps the local topic")
        parts = tuple(_parse(text))
        if filters:
            _check_levels(text, parts, filters)
        return cls(text, parts)

    def named(self, *, bridge: str, node: str) -> TopicTemplate:
        """The template with its ``${...}`` filled in.

        Raises:
            ConfigError: a name that is used would bring in a wildcard, or makes it too long.
        """
        values = {"bridge.name": bridge, "node.name": node}
        parts = (_name(part, values) if isinstance(part, _Variable) else part for part in self.parts)
        return TopicTemplate.parse("".join(map(_written, parts)))

    def map(self, topic: bytes) -> bytes:
        """The remote topic of ``topic``; empty only where all the template asks for is levels that are empty or missing."""
        levels: list[bytes] | None = None
        mapped: list[bytes] = []
        for part in self.parts:
            if isinstance(part, str):
                mapped.append(part.encode())
            elif isinstance(part, _Levels):
                if levels is None:
                    levels = topic.split(b"/")
                mapped.append(b"/".join(levels[part.first - 1 : part.last]))
            else:
                raise AssertionError(f"{part} was not filled in")
        return b"".join(mapped)


def _written(part: str | _Levels) -> str:
    """``part`` as a template has it."""
    if isinstance(part, str):
        return _PLAIN.sub(r"\\\g<0>", part)
    if part.last is None:
        return "{#}" if part.first == 1 else f"{{{part.first}-#}}"
    return f"{{{part.first}}}" if part.first == part.last else f"{{{part.first}-{part.last}}}"


def _name(variable: _Variable, values: dict[str, str]) -> str:
    value = values[variable.name]
    if not value or any(sign in value for sign in "+#\0"):
        raise ConfigError(f"${{{variable.name}}} in a destination: the name {value!r} is empty or has a wildcard in it")
    return value


def _parse(text: str) -> list[_Part]:
    parts: list[_Part] = []
    literal: list[str] = []
    position = 0
    while position < len(text):
        sign = text[position]
        opening = 2 if text.startswith("${", position) else 1 if sign == "{" else 0
        if opening:
            end = text.find("}", position)
            if end < 0:
                raise _wrong(text, position, "'{' without '}'; write \\{ for the sign itself")
            if literal:
                parts.append("".join(literal))
                literal.clear()
            inside = text[position + opening : end]
            parts.append(_variable(text, position, inside) if opening == 2 else _levels(text, position, inside))
            position = end + 1
            continue
        if sign == "\\":
            position += 1
            if position >= len(text) or text[position] not in _ESCAPABLE:
                raise _wrong(text, position - 1, "'\\' that is not before '{', '}', '$' or '\\'")
        elif sign == "}":
            raise _wrong(text, position, "'}' without '{'; write \\} for the sign itself")
        elif sign in "+#":
            raise _wrong(text, position, f"wildcard {sign!r}: a topic that is published to has none")
        elif sign == "\0" or "\ud800" <= sign <= "\udfff":
            raise _wrong(text, position, "a character that no topic may have")
        literal.append(text[position])
        position += 1
    if literal:
        parts.append("".join(literal))
    if len("".join(part for part in parts if isinstance(part, str)).encode()) > BINARY_MAX_BYTES:
        raise ConfigError(f"destination of more than {BINARY_MAX_BYTES} bytes")
    return parts


def _variable(text: str, position: int, name: str) -> _Variable:
    if name not in VARIABLES:
        raise _wrong(text, position, f"unknown name {name!r}; there are ${{bridge.name}} and ${{node.name}}")
    return _Variable(name)


def _levels(text: str, position: int, inside: str) -> _Levels:
    if inside == "#":
        return _Levels(1, None)
    found = _LEVELS.match(inside)
    if found is None:
        raise _wrong(text, position, f"{{{inside}}} is none of {{#}}, {{2}}, {{2-4}}, {{2-#}}")
    first, last = int(found["first"]), found["last"]
    if first == 0:
        raise _wrong(text, position, "levels are counted from 1")
    if last == "#":
        return _Levels(first, None)
    if last is not None and int(last) < first:
        raise _wrong(text, position, f"{{{inside}}} ends before it begins")
    return _Levels(first, int(last) if last is not None else first)


def _check_levels(text: str, parts: Sequence[_Part], filters: Sequence[str]) -> None:
    """Refuse levels that not every topic of ``filters`` has, but for the end of an open range; ``#`` counts as one level."""
    for topic_filter in filters:
        given, is_open = topic_filter.count("/") + 1, topic_filter.endswith("#")
        for part in parts:
            if isinstance(part, _Levels) and (missing := max(part.first - (is_open and part.last is None), part.last or 0)) > given:
                raise ConfigError(f"destination {text!r} asks for level {missing}, which not every topic of {topic_filter} has")


def _wrong(text: str, position: int, what: str) -> ConfigError:
    return ConfigError(f"destination {text!r}, character {position + 1}: {what}")


class Mapped(NamedTuple):
    """The topic on the other side. unmapped: it is unchanged, because it would be empty or too long; the caller logs that, once."""

    topic: bytes
    unmapped: bool


class TopicMapper:
    """Maps topics by destinations, with a bounded cache."""

    def __init__(self, *, cache_topics_max: int = CACHE_TOPICS_MAX) -> None:
        self._templates: dict[str, TopicTemplate] = {}
        self._cache_topics_max = cache_topics_max
        self._cache: dict[tuple[bytes, str], Mapped] = {}

    def map(self, topic: bytes, destination: str) -> Mapped:
        """The topic that the template ``destination``, whose names are filled in, makes of ``topic``."""
        key = (topic, destination)
        mapped = self._cache.get(key)
        if mapped is None:
            remote = self._template(destination).map(topic)
            unmapped = not 0 < len(remote) <= BINARY_MAX_BYTES
            mapped = Mapped(topic if unmapped else remote, unmapped)
            if len(topic) <= CACHED_TOPIC_BYTES_MAX:
                if len(self._cache) >= self._cache_topics_max:
                    self._cache.clear()
                    self._templates.clear()
                self._cache[key] = mapped
        return mapped

    def _template(self, destination: str) -> TopicTemplate:
        template = self._templates.get(destination)
        if template is None:
            template = self._templates[destination] = TopicTemplate.parse(destination)
        return template
