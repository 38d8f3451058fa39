"""One shared subscription: its members, and whose turn it is. Pure. Which groups a topic reaches:
``wire/routing/subscriptions.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

from wire.access.access_rules import ClientAccess
from wire.routing.message_route import route_of_share
from wire.routing.subscriber import Delivery, Subscriber

CACHED_TOPICS_MAX = 256  # of one group whose members may not all read the same
_CACHED_BYTES_MAX = 256  # longer topics are looked up each time

RightsOf = Callable[[Subscriber], ClientAccess | None]  # None: it may read everything


class Dealt(NamedTuple):
    """The rows of one member: ``offsets`` into the rows that were dealt, ascending (``rows[o.start : o.stop : o.step]``)."""

    subscriber: Subscriber
    delivery: Delivery
    offsets: range


class _Member(NamedTuple):
    subscriber: Subscriber
    delivery: Delivery
    rights: ClientAccess | None


class Hands:
    """Members who take the rows of some topics in turn, until one of the group comes, goes or may read something else."""

    __slots__ = ("_members", "_turn", "dealt")

    def __init__(self, members: Sequence[_Member], turn: int) -> None:
        self._members = members
        self._turn = turn
        self.dealt = 0

    def deal(self, count: int) -> list[Dealt]:
        """The receivers of the next ``count`` rows, those without a row left out; empty if no member can take any.

        Deal all rows of a batch that are for these members at once, in order, also when they are of several topics.
        """
        size = len(self._members)
        if not size or not count:
            return []
        turn = self._turn + self.dealt
        self.dealt += count
        dealt = []
        for first in range(min(size, count)):
            subscriber, delivery, _ = self._members[(turn + first) % size]
            dealt.append(Dealt(subscriber, delivery, range(first, count, size)))
        return dealt


class SharedGroup:
    """The members of ``$share/<share_name>/<topic_filter>``. Each message goes to one of them.

    Rows are dealt one by one in turn, whatever batches they come in: after any number of deals two members that were there all the
    time have had the same number of rows, give or take one, of the topics that the same members take. So a batch of 8,192 rows of
    one topic is spread like as many batches of one row, and the rows of one member stay in order (routing.one-member-per-share).

    Live members first; while there are none, members with a queue get the rows; while there are none either, nobody does
    (routing.one-member-per-share).

    A row goes to members that may read its topic, if there are any. If there are none, it is dealt as if all might; the Listener
    leaves it out at delivery and counts it (routing.one-member-per-share).
    """

    __slots__ = (
        "_by_members",
        "_by_topic",
        "_everyone",
        "_members",
        "_rights_of",
        "_turn",
        "_with_rights",
        "message_route",
        "share_name",
        "topic_filter",
    )

    def __init__(self, share_name: str, topic_filter: str, rights_of: RightsOf) -> None:
        """rights_of: asked of each member again after each change."""
        self.share_name = share_name
        self.topic_filter = topic_filter
        self.message_route = route_of_share(share_name, topic_filter)  # of what goes into members' queues
        self._members: dict[Subscriber, Delivery] = {}
        self._rights_of = rights_of
        self._turn = 0
        self._everyone: Hands | None = None
        self._with_rights: Sequence[_Member] = ()  # those that can take any; empty while they may all read the same
        self._by_members: dict[tuple[Subscriber, ...], Hands] = {}
        self._by_topic: dict[bytes, Hands] = {}

    def __len__(self) -> int:
        return len(self._members)

    def put(self, subscriber: Subscriber, delivery: Delivery) -> None:
        """``subscriber`` is a member and is delivered to in this way [MQTT-4.8.2-3]."""
        self._members[subscriber] = delivery
        self.stale()

    def discard(self, subscriber: Subscriber) -> None:
        """``subscriber`` is no member."""
        self._members.pop(subscriber, None)
        self.stale()

    def stale(self) -> None:
        """A member came or went online, got or lost its queue, or may read something else."""
        if self._everyone is not None:
            self._turn += sum(hands.dealt for hands in self._by_members.values())
            self._everyone = None

    def hands(self, topics: Sequence[bytes], wanted: Set[int]) -> list[tuple[Hands, Set[int]]]:
        """Which members take the rows of which of ``topics``, of those at the indexes ``wanted``. To be used at once."""
        everyone = self._everyone or self._choose_hands()
        if not self._with_rights:
            return [(everyone, wanted)]
        found: dict[Hands, set[int]] = {}
        for index in sorted(wanted):
            found.setdefault(self._hands_for(topics[index], everyone), set()).add(index)
        return list(found.items())

    def _choose_hands(self) -> Hands:
        """Who takes what they may all read, or none of them."""
        members = [
            _Member(subscriber, delivery, self._rights_of(subscriber))
            for subscriber, delivery in self._members.items()
            if subscriber.source or subscriber.queue
        ]
        takers = _first_choice(members)
        everyone = self._everyone = Hands(takers, self._turn)
        self._with_rights = members if len({one.rights for one in members}) > 1 else ()
        self._by_members = {_names(takers): everyone}
        self._by_topic = {}
        return everyone

    def _hands_for(self, topic: bytes, everyone: Hands) -> Hands:
        known = self._by_topic.get(topic)
        if known is not None:
            return known
        may_receive = {rights: rights is None or rights.may_receive(topic) for rights in {one.rights for one in self._with_rights}}
        readers = _first_choice([one for one in self._with_rights if may_receive[one.rights]])
        hands = self._by_members.get(_names(readers)) if readers else everyone
        if hands is None:
            if len(self._by_members) >= CACHED_TOPICS_MAX:
                self.stale()  # start again with the next batch
            hands = self._by_members[_names(readers)] = Hands(readers, self._turn)
        if len(topic) <= _CACHED_BYTES_MAX:
            if len(self._by_topic) >= CACHED_TOPICS_MAX:
                self._by_topic.clear()
            self._by_topic[topic] = hands
        return hands


def through_queue(subscriber: Subscriber, delivery: Delivery) -> bool:
    """Whether what it gets at QoS 1 and 2 waits in its queue; if not, it has it as soon as it is dealt."""
    return bool(subscriber.queue and delivery.qos)


def _first_choice(members: Sequence[_Member]) -> Sequence[_Member]:
    """The live ones of ``members``, who are live or have a queue; all of them if none is live (routing.one-member-per-share)."""
    return [one for one in members if one.subscriber.source] or members


def _names(members: Sequence[_Member]) -> tuple[Subscriber, ...]:
    return tuple([one.subscriber for one in members])
