"""Topic aliases that this side assigns towards one MQTT 5 peer. Pure; one object for each network connection [MQTT-3.3.2-7].

Aliases that the peer assigns are resolved where its PUBLISH packets are parsed (``publish_batch_parser.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from wire.mqtt.publish_properties import with_topic_alias

ALIASES_MAX = 256  # whatever the peer allows: bounds what one client costs

_PROPERTY_BYTES = 3


class OutgoingAliases:
    """Gives topics an alias as they are sent. Once all are given, a topic loses its own to one that was sent twice meanwhile.

    A topic's number follows from its name, if that number is free: so clients that get the same topics mostly have the same
    numbers, and share what is encoded for them.

    mqtt.alias-given-first [MQTT]: an empty topic is sent only with an alias that an earlier packet of this connection gave to that
        very topic. An alias is 1 to the peer's Topic Alias Maximum; where that is 0, none is used [MQTT-3.3.2-8, -9, MQTT-3.1.2-26,
        -27].
    """

    __slots__ = ("_aliases", "_contested", "_maximum", "_topics")

    def __init__(self, topic_alias_maximum: int, *, aliases_max: int = ALIASES_MAX) -> None:
        """topic_alias_maximum: the peer's, from its CONNECT or CONNACK; 0 where it has none, and at MQTT 3.1.1."""
        self._maximum = min(topic_alias_maximum, aliases_max)
        self._aliases: dict[bytes, int] = {}
        self._topics: dict[int, bytes] = {}
        self._contested: set[int] = set()  # wanted by another topic since their own was last sent

    def plan(self, topics: Sequence[bytes]) -> tuple[int, ...]:
        """How to name each of these distinct topics in packets that are sent now.

        An alias above 0: the first packet of the topic has the topic and the alias, the others have the alias alone; below 0: all
        have the alias (its negative) alone; 0: all have the topic and no alias.
        """
        known = self._aliases
        if len(topics) == 1 and topics[0] in known:  # mostly
            alias = known[topics[0]]
            self._contested.discard(alias)
            return (-alias,)
        plan = []
        for topic in topics:
            alias = known.get(topic, 0)
            if alias:
                self._contested.discard(alias)
            plan.append(-alias if alias else self._give(topic, topics))
        return tuple(plan)

    def _give(self, topic: bytes, together: Sequence[bytes]) -> int:
        """A number for ``topic``, 0 for none now; what is sent ``together`` with it keeps its own."""
        if len(topic) <= _PROPERTY_BYTES or not self._maximum:
            return 0  # the property would be longer than what it saves
        alias = crc32(topic) % self._maximum + 1
        if len(self._topics) < self._maximum:
            while alias in self._topics:
                alias = alias % self._maximum + 1
        elif self._topics[alias] in together:
            return 0
        elif alias not in self._contested:
            self._contested.add(alias)
            return 0
        else:
            self._contested.discard(alias)
            del self._aliases[self._topics[alias]]
        self._aliases[topic] = alias
        self._topics[alias] = topic
        return alias


class Names:
    """The topic fields of packets as ``plan`` has them; ``indexes`` number its topics."""

    __slots__ = ("_later", "_next")

    def __init__(self, topics: Sequence[bytes], indexes: Sequence[int], plan: Sequence[int]) -> None:
        self._next: dict[int, tuple[bytes, bytes]] = {}
        self._later: dict[int, tuple[bytes, bytes]] = {}
        for index, alias in zip(indexes, plan, strict=True):
            topic = b"" if alias < 0 else topics[index]
            encoded = with_topic_alias(b"", abs(alias)) if alias else b""
            self._next[index] = len(topic).to_bytes(2, "big") + topic, encoded
            if alias > 0:
                self._later[index] = b"\0\0", encoded

    def take(self, index: int) -> tuple[bytes, bytes]:
        """The topic field and the alias property of the next packet of topic ``index``."""
        name = self._next[index]
        if self._later and index in self._later:
            self._next[index] = self._later.pop(index)
        return name
