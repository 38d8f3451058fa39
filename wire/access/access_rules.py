"""Rights to publish to topics and to read topics: an access control list, resolved for one client at a time. Pure.

access.first-rule-decides [access]: the first rule that fits decides; where none fits, the answer is no.
access.name-never-widens [access]: ``%u`` and ``%c`` stand for a piece of one topic level. A name that cannot be one (none at all,
    or with ``+``, ``#`` or ``/``, or one that would make the pattern begin with ``$``) never widens what is allowed: an allowing
    pattern then matches nothing, and a denying one everything from that level on.
access.whole-filter-allowed [access]: a subscription is granted when an allowed pattern covers its whole filter and no rule before
    it denies all of the filter. Topics that are denied inside a granted filter are left out at delivery.

All clients of one user share one resolved list with its caches, unless a rule that concerns the user looks at the client
identifier.
``actors/access/access_control.py`` decides who a client is; patterns are checked by ``pattern_fault`` when the configuration is
read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from weakref import WeakValueDictionary

from wire.config_settings import AclRuleSettings
from wire.mqtt.topics import covers, filter_fault, matches, parse_shared

CACHED_TOPICS_MAX = 512  # of one resolved list, each for publishing and for reading
_CACHED_BYTES_MAX = 256  # longer topics are judged anew each time
_PLACEHOLDER = re.compile(r"%(.?)", re.DOTALL)
_NOT_ONE_LEVEL = re.compile(r"[+#/]")
_ANYTHING = "x"  # stands for a name while the pattern around it is checked

Pattern = tuple[bool, str]  # allowed, topic filter


def pattern_fault(pattern: str) -> str | None:
    """The fault of ``pattern`` as a topic pattern of a rule; None if it has none."""
    for match in _PLACEHOLDER.finditer(pattern):
        if match[1] not in ("u", "c", "%"):
            return f"{match[0]} is not %u (the user name), %c (the client identifier) or %% (a percent sign)"
    if parse_shared(pattern) is not None:
        return "a shared subscription is judged by its plain topic filter; leave $share/<name>/ away"
    return filter_fault(_PLACEHOLDER.sub(lambda match: "%" if match[1] == "%" else _ANYTHING, pattern))


def resolve(pattern: str, *, allow: bool, user: str | None, client_id: str) -> str | None:
    """The topic filter that ``pattern`` is for one client, or None if it matches nothing for it (access.name-never-widens)."""
    if "%" not in pattern:
        return pattern
    levels: list[str] = []
    for depth, level in enumerate(pattern.split("/")):
        names = {"u": user or "", "c": client_id, "%": "%"}
        used = [names[match[1]] for match in _PLACEHOLDER.finditer(level) if match[1] != "%"]
        text = _PLACEHOLDER.sub(lambda match: names[match[1]], level)  # noqa: B023  # called at once
        unusable = any(not name or _NOT_ONE_LEVEL.search(name) for name in used)
        if unusable or (depth == 0 and text.startswith("$") and not level.startswith("$")):
            return None if allow else "/".join([*levels, "#"])
        levels.append(text)
    return "/".join(levels)


def prefix_fault(pattern: str) -> str | None:
    """The fault of ``pattern`` as the beginning of topics that clients publish to; None if it has none."""
    fault = pattern_fault(pattern)
    if fault is None and ("+" in pattern or "#" in pattern):
        fault = "it is the beginning of topic names, which have no wildcards"
    return fault


class ClientAccess:
    """The rules as they are for one client, or for all clients of one user. The answers are cached, within bounds."""

    __slots__ = ("__weakref__", "_may_publish", "_may_receive", "_publish", "_subscribe")

    def __init__(self, publish: Sequence[Pattern], subscribe: Sequence[Pattern]) -> None:
        self._publish = tuple(publish)
        self._subscribe = tuple(subscribe)
        self._may_publish: dict[bytes, bool] = {}
        self._may_receive: dict[bytes, bool] = {}

    def may_publish(self, topic: bytes) -> bool:
        """Whether the client may publish to ``topic``, which is a valid topic name."""
        known = self._may_publish.get(topic)
        return _judge(self._publish, self._may_publish, topic) if known is None else known

    def may_receive(self, topic: bytes) -> bool:
        """Whether a message of ``topic`` may be delivered to the client."""
        known = self._may_receive.get(topic)
        return _judge(self._subscribe, self._may_receive, topic) if known is None else known

    def may_subscribe(self, topic_filter: str) -> bool:
        """Whether the client may subscribe to ``topic_filter``, plain or shared (access.whole-filter-allowed)."""
        shared = parse_shared(topic_filter)
        plain = topic_filter if shared is None else shared.topic_filter
        return next((allowed for allowed, pattern in self._subscribe if covers(pattern, plain)), False)

    def forbidden(self, topics: Sequence[bytes], indexes: Iterable[int]) -> frozenset[int]:
        """Those of ``indexes`` whose topics may not be delivered to the client."""
        return frozenset(index for index in indexes if not self.may_receive(topics[index]))


def _judge(patterns: tuple[Pattern, ...], cache: dict[bytes, bool], topic: bytes) -> bool:
    text = topic.decode()
    verdict = next((allowed for allowed, pattern in patterns if matches(pattern, text)), False)
    if len(topic) <= _CACHED_BYTES_MAX:
        if len(cache) >= CACHED_TOPICS_MAX:
            cache.clear()
        cache[topic] = verdict
    return verdict


class AccessRules:
    """The rules of one list, in order."""

    def __init__(self, rules: Sequence[AclRuleSettings]) -> None:
        self._rules = tuple((rule, tuple(_glob(client) for client in rule.clients)) for rule in rules)
        self._resolved: WeakValueDictionary[tuple[str | None, str], ClientAccess] = WeakValueDictionary()

    def for_client(self, user: str | None, client_id: str) -> ClientAccess:
        """The rules as they are for that client; ``user`` is None for an anonymous one."""
        own = [(rule, clients) for rule, clients in self._rules if _concerns(rule, user)]
        by_client = any(clients or any("%c" in topic for topic in rule.topics) for rule, clients in own)
        key = (user, client_id if by_client else "")
        known = self._resolved.get(key)
        if known is None:
            fitting = [rule for rule, clients in own if not clients or any(client.fullmatch(client_id) for client in clients)]
            known = self._resolved[key] = ClientAccess(
                _patterns([rule for rule in fitting if rule.action != "subscribe"], user, client_id),
                _patterns([rule for rule in fitting if rule.action != "publish"], user, client_id),
            )
        return known


def _concerns(rule: AclRuleSettings, user: str | None) -> bool:
    if not rule.users and not rule.anonymous:
        return True
    return rule.anonymous if user is None else user in rule.users


def _glob(client: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in client.split("*")), re.DOTALL)


def _patterns(rules: Sequence[AclRuleSettings], user: str | None, client_id: str) -> list[Pattern]:
    resolved = (
        (rule.allow, resolve(topic, allow=rule.allow, user=user, client_id=client_id)) for rule in rules for topic in rule.topics
    )
    return [(allow, pattern) for allow, pattern in resolved if pattern is not None]
