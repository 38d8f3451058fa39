"""A client session as a receiver, what it asked for, and how messages go to it. The values of ``wire/routing/subscriptions.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_QOS, _NO_LOCAL, _RETAIN_AS_PUBLISHED = 0x03, 0x04, 0x08

Publisher = int | str  # the number of a connection, or a session's name


class SubscriptionOptions(NamedTuple):
    """Options of the client's subscription to one topic filter, QoS as granted.

    identifier: Subscription Identifier, 1 to 268,435,455; 0 for none. Retain Handling matters once, when the client subscribes
    (``wire/routing/retained_topics.py``).
    """

    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int = 0


def options_of(byte: int, identifier: int) -> SubscriptionOptions:
    """The options of a subscription as frames and rows have them."""
    return SubscriptionOptions(byte & _QOS, bool(byte & _NO_LOCAL), bool(byte & _RETAIN_AS_PUBLISHED), identifier)


class Delivery(NamedTuple):
    """How one copy of a message is delivered: at most at ``qos``, RETAIN kept or cleared, with these Subscription Identifiers."""

    qos: int
    retain_as_published: bool
    identifiers: tuple[int, ...]


class Subscriber:
    """A client session. Owned by ``Subscriptions``; everyone else reads.

    source: the number of its live connection, 0 when it is offline. queue: its Tier-1 queue, empty for a session that ends with its
    connection. published_as: its name, by which its Wills are known, and the numbers of its last two connections; No Local knows
    its own messages by them, also when it is offline or was taken over since it published.
    """

    __slots__ = ("filters", "published_as", "queue", "session", "source")

    def __init__(self, session: str) -> None:
        self.session = session
        self.source = 0
        self.queue = ""
        self.published_as: tuple[Publisher, ...] = (session,)
        self.filters: dict[str, SubscriptionOptions] = {}

    def on_connected(self, source: int, queue: str) -> None:
        """``source`` is its live connection from now on, 0 for none, and ``queue`` its queue."""
        if source and source not in self.published_as[1:2]:
            self.published_as = (self.session, source, *self.published_as[1:2])
        self.source, self.queue = source, queue

    def on_disconnected(self) -> None:
        """It is offline."""
        self.source = 0

    def subscribe(self, topic_filter: str, options: SubscriptionOptions) -> None:
        """It is subscribed so."""
        self.filters[topic_filter] = options

    def __repr__(self) -> str:
        return f"Subscriber({self.session!r}, source={self.source}, queue={self.queue!r})"


def delivery_for(options: Sequence[SubscriptionOptions]) -> Delivery:
    """How the one copy for these subscriptions of one session is delivered [MQTT-3.3.4-2, -3]."""
    return Delivery(
        max([one.qos for one in options]),
        any(one.retain_as_published for one in options),
        tuple(sorted({one.identifier for one in options if one.identifier})),
    )
