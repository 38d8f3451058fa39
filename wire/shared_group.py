"""One shared subscription: its members, and whose turn it is. Pure. Which groups a topic reaches: ``wire/subscriptions.py``."""

from __future__ import annotations

from typing import NamedTuple

from wire.subscriber import Delivery, Subscriber


class Dealt(NamedTuple):
    """What one member gets: ``offsets`` into the rows that were dealt, ascending (``rows[o.start : o.stop : o.step]``)."""

    subscriber: Subscriber
    delivery: Delivery
    offsets: range


class SharedGroup:
    """The members of ``$share/<share_name>/<topic_filter>``. Each message goes to one of them.

    G1  rows are dealt one by one in turn, whatever batches they come in: after any number of deals two members that were there all
        the time have had the same number of rows, give or take one. So a batch of 8,192 rows of one topic is spread like as many
        batches of one row, and the rows of one member stay in order.
    G2  live members first; while there are none, members with a queue get the rows; while there are none either, nobody does.
    """

    __slots__ = ("_hands", "_members", "_turn", "share_name", "topic_filter")

    def __init__(self, share_name: str, topic_filter: str) -> None:
        self.share_name = share_name
        self.topic_filter = topic_filter
        self._members: dict[Subscriber, Delivery] = {}
        self._hands: list[tuple[Subscriber, Delivery]] | None = None
        self._turn = 0

    def __len__(self) -> int:
        return len(self._members)

    def put(self, subscriber: Subscriber, delivery: Delivery) -> None:
        """``subscriber`` is a member and is delivered to in this way [MQTT-4.8.2-3]."""
        self._members[subscriber] = delivery
        self._hands = None

    def discard(self, subscriber: Subscriber) -> None:
        """``subscriber`` is no member."""
        self._members.pop(subscriber, None)
        self._hands = None

    def stale(self) -> None:
        """A member came or went online, or got or lost its queue."""
        self._hands = None

    def deal(self, count: int) -> list[Dealt]:
        """Who gets which of the next ``count`` rows, those without a row left out; empty if no member can take any.

        Deal all rows of a batch that reach this group at once, in order, also when they are of several topics.
        """
        hands = self._hands
        if hands is None:
            members = self._members.items()
            hands = [member for member in members if member[0].source] or [member for member in members if member[0].queue]
            self._hands = hands
        size = len(hands)
        if not size or not count:
            return []
        turn = self._turn % size
        self._turn = (turn + count) % size
        dealt = []
        for first in range(min(size, count)):
            subscriber, delivery = hands[(turn + first) % size]
            dealt.append(Dealt(subscriber, delivery, range(first, count, size)))
        return dealt
