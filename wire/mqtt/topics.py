"""Topic names and topic filters: what is well formed, and what a shared subscription says. Matching many:
``wire/routing/topic_filter_tree.py``.

Source: MQTT 5.0 sections 4.7 and 4.8.2.
"""

from __future__ import annotations

from typing import NamedTuple

from wire.config_settings import ClientLimitSettings
from wire.errors import PeerViolation
from wire.mqtt.primitives import BINARY_MAX_BYTES, decode_string
from wire.mqtt.reason_codes import ReasonCode, malformed

_SHARE = "$share/"


class SharedFilter(NamedTuple):
    """``$share/<share name>/<topic filter>`` in its parts."""

    share_name: str
    topic_filter: str


class TopicLimits(NamedTuple):
    """How long and how deep a client's topic names and filters may be; None is as far as MQTT goes."""

    levels_max: int | None = None
    max_bytes: int | None = None

    @classmethod
    def of(cls, clients: ClientLimitSettings) -> TopicLimits:
        """Those of the settings."""
        return cls(clients.topic_levels_max, clients.topic_max_bytes)

    def allow(self, topic: str) -> bool:
        """Whether well-formed ``topic``, a name or a filter, is within the limits."""
        if self.levels_max is not None and topic.count("/") >= self.levels_max:
            return False
        return self.max_bytes is None or len(topic.encode()) <= self.max_bytes

    def check(self, topic: str) -> None:
        """Raises PeerViolation with reason code 0x90 if topic name ``topic`` is beyond the limits."""
        if not self.allow(topic):
            raise PeerViolation(
                "MQTT-3.3.2.1 topic name beyond the server's limits",
                reason_code=ReasonCode.TOPIC_NAME_INVALID,
                levels=topic.count("/") + 1,
                topic_bytes=len(topic.encode()),
            )


NO_TOPIC_LIMITS = TopicLimits()


def topic_fault(topic: str) -> str | None:
    """The fault of ``topic`` as a topic name, clause first; None if it has none."""
    if not topic:
        return "MQTT-4.7.3-1 empty topic name"
    if "\0" in topic:
        return "MQTT-4.7.3-2 U+0000 in a topic name"
    if "+" in topic or "#" in topic:
        return "MQTT-3.3.2-2 wildcard in a topic name"
    if len(topic.encode()) > BINARY_MAX_BYTES:
        return "MQTT-4.7.3-3 topic name of more than 65,535 bytes"
    return None


def has_wildcard(topic_filter: str) -> bool:
    """Whether ``topic_filter``, which is well formed, has a wildcard."""
    return "+" in topic_filter or "#" in topic_filter


def filter_fault(topic_filter: str) -> str | None:
    """The fault of ``topic_filter``, plain or shared, clause first; None if it has none."""
    if is_shared(topic_filter):
        share_name, slash, topic_filter = topic_filter[len(_SHARE) :].partition("/")
        if not share_name:
            return "MQTT-4.8.2-1 shared subscription without a share name"
        if "+" in share_name or "#" in share_name:
            return "MQTT-4.8.2-2 wildcard in a share name"
        if not slash or not topic_filter:
            return "MQTT-4.8.2-2 shared subscription without a topic filter"
    if not topic_filter:
        return "MQTT-4.7.3-1 empty topic filter"
    if "\0" in topic_filter:
        return "MQTT-4.7.3-2 U+0000 in a topic filter"
    if len(topic_filter.encode()) > BINARY_MAX_BYTES:
        return "MQTT-4.7.3-3 topic filter of more than 65,535 bytes"
    if "#" in topic_filter or "+" in topic_filter:
        levels = topic_filter.split("/")
        if any("#" in level and (level != "#" or depth != len(levels)) for depth, level in enumerate(levels, 1)):
            return "MQTT-4.7.1-1 '#' is not the whole last level of a topic filter"
        if any("+" in level and level != "+" for level in levels):
            return "MQTT-4.7.1-2 '+' is not a whole level of a topic filter"
    return None


def check_topic(topic: bytes) -> str:
    """The text of topic name ``topic``.

    Raises:
        PeerViolation: it is not a topic name that may be published to (MQTT-3.3.2-1, MQTT-3.3.2-2, MQTT-4.7.3-1).
    """
    text = decode_string(topic)
    fault = topic_fault(text)
    if fault is not None:
        malformed(fault)
    return text


def check_filter(topic_filter: str) -> None:
    """Raises PeerViolation if ``topic_filter``, plain or shared, is not well formed."""
    fault = filter_fault(topic_filter)
    if fault is not None:
        malformed(fault)


def is_shared(topic_filter: str) -> bool:
    """Whether ``topic_filter`` asks for a shared subscription."""
    return topic_filter.startswith(_SHARE)


def shared_filter(group: str | None, topic_filter: str) -> str:
    """The shared subscription of ``group`` for plain ``topic_filter``; of no group the plain one."""
    return topic_filter if group is None else f"{_SHARE}{group}/{topic_filter}"


def parse_shared(topic_filter: str) -> SharedFilter | None:
    """The parts of a well-formed shared subscription; None for a plain filter."""
    if not is_shared(topic_filter):
        return None
    share_name, _, plain = topic_filter[len(_SHARE) :].partition("/")
    return SharedFilter(share_name, plain)


def matches(topic_filter: str, topic: str) -> bool:
    """Whether plain ``topic_filter`` matches ``topic``; for one filter. ``TopicTree`` asks many at once."""
    filter_levels, levels = topic_filter.split("/"), topic.split("/")
    if topic.startswith("$") and filter_levels[0] in ("+", "#"):  # MQTT-4.7.2-1
        return False
    if filter_levels[-1] == "#":
        filter_levels.pop()
        levels = levels[: len(filter_levels)]
    return len(filter_levels) == len(levels) and all(a in ("+", b) for a, b in zip(filter_levels, levels, strict=True))


def covers(wide: str, narrow: str) -> bool:
    """Whether every topic that plain filter ``narrow`` matches is matched by plain filter ``wide`` too."""
    wide_levels, narrow_levels = wide.split("/"), ("+/#" if narrow == "#" else narrow).split("/")
    if narrow.startswith("$") and wide_levels[0] in ("+", "#"):  # MQTT-4.7.2-1
        return False
    for depth, level in enumerate(wide_levels):
        if level == "#":
            return True
        if depth >= len(narrow_levels) or narrow_levels[depth] == "#":
            return False
        if level not in ("+", narrow_levels[depth]):
            return False
    return len(wide_levels) == len(narrow_levels)


def overlap(one: str, other: str) -> bool:
    """Whether there is a topic that both plain filters match."""
    levels, others = one.split("/"), other.split("/")
    for first, filters in ((levels[0], others), (others[0], levels)):
        if first.startswith("$") and filters[0] in ("+", "#"):  # MQTT-4.7.2-1
            return False
    for a, b in zip(levels, others, strict=False):
        if "#" in (a, b):
            return True
        if "+" not in (a, b) and a != b:
            return False
    longer = max(levels, others, key=len)
    return len(levels) == len(others) or (longer[-1] == "#" and len(longer) == min(len(levels), len(others)) + 1)
