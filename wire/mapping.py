"""Destination templates: the remote topic of a message that crosses a bridge. Pure.

``{#}`` is the whole topic, ``{2}`` its second level, ``{2-4}`` levels two to four, ``{2-#}`` all from the second on; a level that a
topic does not have is empty. ``${bridge.name}`` and ``${node.name}`` are names. A backslash makes a brace, ``$`` or itself plain.
Templates are checked when the configuration is read, so that mapping a message hardly ever fails; when it does, it says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wire.errors import ConfigError
from wire.mqtt.primitives import BINARY_MAX_BYTES
from wire.mqtt.topics import matches
from wire.settings import BridgeSettings, RuleSettings

CACHE_TOPICS_MAX = 20_000
CACHED_TOPIC_BYTES_MAX = 512  # a longer topic is mapped each time: the cache must not be a way to fill the memory
NO_RULE = -1  # the number of no rule: the first one that has the topic is taken
VARIABLES = ("bridge.name", "node.name")

_LEVELS = re.compile(r"(?P<first>[0-9]+)(?:-(?P<last>[0-9]+|#))?\Z")
_ESCAPABLE = "{}$\\"


class _Levels(NamedTuple):
    """Levels ``first`` to ``last`` of the topic, counted from 1; None is up to the end."""

    first: int
    last: int | None


class _Variable(NamedTuple):
    name: str


_Part = str | _Levels | _Variable


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed destination: literal text, levels of the topic, and names that ``named`` fills in."""

    text: str
    parts: tuple[_Part, ...]

    @classmethod
    def parse(cls, text: str, *, filters: Sequence[str] = ()) -> Template:
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

    def named(self, *, bridge: str, node: str) -> Template:
        """The template with its ``${...}`` filled in.

        Raises:
            ConfigError: a name that is used would bring in a wildcard.
        """
        values = {"bridge.name": bridge, "node.name": node}
        return Template(self.text, tuple(_name(part, values) if isinstance(part, _Variable) else part for part in self.parts))

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
    """Refuse levels that no topic of ``filters`` can have."""
    if any(topic_filter.split("/")[-1] == "#" for topic_filter in filters):
        return
    deepest = max(topic_filter.count("/") + 1 for topic_filter in filters)
    for part in parts:
        if isinstance(part, _Levels) and (part.first > deepest or (part.last or 0) > deepest):
            missing = part.first if part.first > deepest else part.last
            raise ConfigError(f"destination {text!r} asks for level {missing}; the filters give at most {deepest}")


def _wrong(text: str, position: int, what: str) -> ConfigError:
    return ConfigError(f"destination {text!r}, character {position + 1}: {what}")


class Mapped(NamedTuple):
    """The remote topic, and the rule that made it (None: no rule of the bridge has this topic now).

    unknown_rule: the rule number is not configured any more. unmapped: the topic is unchanged, because no rule has it or because
    the mapped topic would be empty or too long. The caller logs both, once.
    """

    topic: bytes
    rule: RuleSettings | None
    unknown_rule: bool
    unmapped: bool


class TopicMapper:
    """Maps the topics of one bridge by its ``rules`` (its local subscriptions, unless told), with a bounded cache."""

    def __init__(
        self,
        bridge: BridgeSettings,
        *,
        node: str,
        rules: Sequence[RuleSettings] | None = None,
        cache_topics_max: int = CACHE_TOPICS_MAX,
    ) -> None:
        self._rules = bridge.local_subscriptions if rules is None else rules
        self._by_number = {rule.number: rule for rule in self._rules}
        self._templates = {
            rule.number: Template.parse(rule.destination, filters=rule.filters).named(bridge=bridge.name, node=node)
            for rule in self._rules
        }
        self._cache_topics_max = cache_topics_max
        self._cache: dict[tuple[bytes, int], Mapped] = {}

    def map(self, topic: bytes, rule_number: int) -> Mapped:
        """What becomes of ``topic``, which came by rule ``rule_number``.

        Where that rule is gone, the first one that has the topic now takes its place; where there is none, the topic is unchanged.
        """
        key = (topic, rule_number)
        mapped = self._cache.get(key)
        if mapped is None:
            mapped = self._decide(topic, rule_number)
            if len(topic) <= CACHED_TOPIC_BYTES_MAX:
                if len(self._cache) >= self._cache_topics_max:
                    self._cache.clear()
                self._cache[key] = mapped
        return mapped

    def _decide(self, topic: bytes, rule_number: int) -> Mapped:
        rule = self._by_number.get(rule_number)
        unknown = rule is None
        if rule is None:
            rule = self._first_match(topic.decode())
        if rule is None:
            return Mapped(topic, None, unknown_rule=True, unmapped=True)
        remote = self._templates[rule.number].map(topic)
        unmapped = not 0 < len(remote) <= BINARY_MAX_BYTES
        return Mapped(topic if unmapped else remote, rule, unknown, unmapped)

    def _first_match(self, topic: str) -> RuleSettings | None:
        for rule in self._rules:
            wanted = any(matches(topic_filter, topic) for topic_filter in rule.filters)
            if wanted and not any(matches(topic_filter, topic) for topic_filter in rule.excludes):
                return rule
        return None
