"""Topic aliases that this side assigns towards one MQTT 5 peer. Pure; one object for each network connection [MQTT-3.3.2-7].

Aliases that the peer assigns are resolved where its PUBLISH packets are parsed (``publish_stream.py``).
"""

from __future__ import annotations

ALIASES_MAX = 256  # whatever the peer allows: bounds what one client costs

_PROPERTY_BYTES = 3


class OutgoingAliases:
    """Gives the most recently used topics an alias; the topic that was not used for the longest time loses its one to a new topic.

    A1  an alias is 1 to the peer's Topic Alias Maximum; where that is 0, none is used [MQTT-3.3.2-8, -9, MQTT-3.1.2-26, -27].
    A2  an empty topic is sent only with an alias that an earlier packet of this connection gave to that very topic.
    """

    __slots__ = ("_aliases", "_free", "_maximum")

    def __init__(self, topic_alias_maximum: int, *, aliases_max: int = ALIASES_MAX) -> None:
        """topic_alias_maximum: the peer's, from its CONNECT or CONNACK; 0 where it has none, and at MQTT 3.1.1."""
        self._maximum = min(topic_alias_maximum, aliases_max)
        self._aliases: dict[bytes, int] = {}  # least recently used first
        self._free: list[int] = []  # withdrawn; they and those in use are the numbers from 1 without a gap

    def use(self, topic: bytes) -> tuple[bytes, int]:
        """The topic name and the alias of the next PUBLISH to ``topic``; alias 0: the packet has no Topic Alias property.

        Call it in the order of the packets, and only for packets that are sent; ``withdraw`` takes back the others.
        """
        aliases = self._aliases
        alias = aliases.pop(topic, 0)
        if alias:
            aliases[topic] = alias  # now the most recently used
            return b"", alias
        if len(topic) <= _PROPERTY_BYTES or not self._maximum:
            return topic, 0  # the property would be longer than what it saves
        if self._free:
            alias = self._free.pop()
        elif len(aliases) < self._maximum:
            alias = len(aliases) + 1
        else:
            alias = aliases.pop(next(iter(aliases)))
        aliases[topic] = alias
        return topic, alias

    def withdraw(self, topic: bytes) -> None:
        """The packet that gave ``topic`` its alias was not sent after all (such as one that is too large for the peer)."""
        alias = self._aliases.pop(topic, 0)
        if alias:
            self._free.append(alias)
