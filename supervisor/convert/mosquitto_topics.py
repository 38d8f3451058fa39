"""``topic`` lines of a Mosquitto connection as rules of a bridge. Pure.

Mosquitto's prefixes are text before a pattern, and may end inside a level. It takes the text of one prefix from the topic and puts
that of the other before it. A destination says the same by levels: what is literal is written out, ``{2-#}`` stands for the rest.

A message that several lines match crosses once here; there, once for each, always under the topic that the first of them with a
prefix makes. So those with a prefix come first, in their order, and then the others, by QoS.

A pattern with $share/GROUP/ is a shared subscription at the remote. Mosquitto 2.0 exchanges no prefix of its messages, since it
looks for their topics under the whole pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from supervisor.convert.draft import Line
from wire.mqtt.topics import filter_fault, is_shared, parse_shared

_WORDS = re.compile(r'"([^"]*)"|(\S+)')
_NUMBER = re.compile(r"[-+]?[0-9]{1,9}")
_ESCAPED = re.compile(r"[{}$\\]")
_DIRECTIONS = {"out": ("out",), "in": ("in",), "both": ("out", "in")}


class TopicRule(NamedTuple):
    """What one line takes in one direction, and the topic that it makes of that. shared: the group of a shared subscription."""

    line: Line
    direction: str
    filters: tuple[str, ...]
    destination: str
    max_qos: int
    prefixed: bool
    shared: str | None = None


def rules_of(line: Line) -> list[TopicRule]:
    """The rules of a ``topic`` line.

    Raises:
        ValueError: the line is wrong; the sentence says why.
    """
    words = [quoted or bare for quoted, bare in _WORDS.findall(line.value)]
    comment = next((place for place, word in enumerate(words) if place and word.startswith("#")), len(words))
    pattern, direction, level, local, remote = (*words[:comment], *("", "out", "0", "", "")[len(words[:comment]) :])[:5]
    qos = int(found[0]) if (found := _NUMBER.match(level)) else 0  # as C reads it: a prefix in its place is QoS 0
    if direction.lower() not in _DIRECTIONS or not 0 <= qos <= 2:
        raise ValueError(f"{direction} {level}: not out, in or both, and a QoS from 0 to 2")
    if not pattern and not (local and remote):
        raise ValueError("an empty pattern asks for both prefixes")
    if wrong := next((one for one in (local + pattern, remote + pattern) if filter_fault(one) is not None), None):
        raise ValueError(f"{wrong} is not a topic filter ({filter_fault(wrong)})")
    ways = _DIRECTIONS[direction.lower()]
    if "out" in ways and is_shared(local + pattern):
        raise ValueError("$share/ is for what comes in: a bridge sends all that a rule takes here, not a share of it")
    rules: list[TopicRule] = []
    for way in ways:
        if way == "in" and (shared := parse_shared(remote + pattern)) is not None:
            rules.append(TopicRule(line, way, (shared.topic_filter,), "{#}", qos, prefixed=False, shared=shared.share_name))
            continue
        taken, given = (local, remote) if way == "out" else (remote, local)
        for topic_filter, destination in _mapped(pattern, taken, given):
            rules.append(TopicRule(line, way, (topic_filter,), destination, qos, bool(local or remote)))
    return rules


def in_order(rules: Iterable[TopicRule]) -> list[TopicRule]:
    """``rules`` so that the first that takes a topic does with it what Mosquitto does."""
    return sorted(rules, key=lambda rule: (not rule.prefixed, 0 if rule.prefixed else -rule.max_qos))


def _mapped(pattern: str, taken: str, given: str) -> list[tuple[str, str]]:
    """Filter and destination of what ``pattern`` matches behind the prefix ``taken``, which gives way to the prefix ``given``."""
    topic_filter = taken + pattern
    if not pattern:
        return [(topic_filter, _literal(given))]
    whole, inside = taken.count("/"), taken.rpartition("/")[2]
    if not inside:  # it ends with a level, or there is none
        mapped = (topic_filter, _literal(given) + ("{#}" if whole == 0 else f"{{{whole + 1}-#}}"))
        if (
            taken and pattern == "#" and not filter_fault(taken[:-1])
        ):  # it also matches the level above, from which nothing is taken
            return [(taken[:-1], _literal(given + taken[:-1])), mapped]
        return [mapped]
    first, slash, rest = pattern.partition("/")
    begin = _literal(given + first)
    if not slash:
        return [(topic_filter, begin)]
    mapped = (topic_filter, f"{begin}/{{{whole + 2}-#}}")
    return [(taken + first, begin), mapped] if rest == "#" else [mapped]


def _literal(text: str) -> str:
    return _ESCAPED.sub(r"\\\g<0>", text)
