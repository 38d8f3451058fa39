"""Receivers of the messages of a topic, grouped so that a batch is delivered to many at once. Pure.

``wire/routing/subscriptions.py`` makes and caches it; the Distributor delivers by it.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from wire.frames.batch import pack_column
from wire.routing.shared_subscription import SharedGroup
from wire.routing.subscriber import Delivery, Publisher, Subscriber, SubscriptionOptions, delivery_for


class Group:
    """Subscribers that are delivered to in the same way, as the columns that frames carry.

    live: all live connections (u32 column). transient: the live connections of sessions without a queue (u32 column).
    queues: the queues of all sessions that have one. offline: the queues of those that are offline.
    """

    __slots__ = ("delivery", "live", "offline", "queues", "subscribers", "transient")

    def __init__(self, delivery: Delivery, subscribers: Sequence[Subscriber]) -> None:
        self.delivery = delivery
        self.subscribers = tuple(subscribers)
        self.live = pack_column(array("I", [one.source for one in subscribers if one.source]))
        self.transient = pack_column(array("I", [one.source for one in subscribers if one.source and not one.queue]))
        self.queues = tuple([one.queue for one in subscribers if one.queue])
        self.offline = tuple([one.queue for one in subscribers if one.queue and not one.source])


class GroupRows(NamedTuple):
    """Rows for ``group``: all of the topic's, or all but those published by ``without``, or just those published by ``only``."""

    group: Group
    without: tuple[Publisher, ...] = ()
    only: tuple[Publisher, ...] = ()


class NoLocal(NamedTuple):
    """A subscriber with No Local: how it gets the messages of others, and its own by such filters of it that lack the option."""

    subscriber: Subscriber
    delivery: Delivery
    of_its_own: Delivery | None


class TopicReceivers:
    """The receivers of the messages of a topic. Topics that the same filters match share one object, so a caller can group by it.

    no_local: the connections (living or gone) and sessions whose messages some of the subscribers do not want. shared: groups of
    which one member gets each message. size: how many subscribers there are, without the members of shared groups.
    """

    __slots__ = ("_apart", "_group_rows", "_of_others", "no_local", "shared", "size")

    def __init__(
        self,
        by_delivery: Mapping[Delivery, Sequence[Subscriber]],
        apart: Sequence[NoLocal] = (),
        shared: Sequence[SharedGroup] = (),
        base: TopicReceivers | None = None,
    ) -> None:
        """by_delivery: subscribers without No Local. base: a match of other subscribers that is taken over as it is."""
        groups = [Group(delivery, subscribers) for delivery, subscribers in by_delivery.items()]
        self._group_rows: list[GroupRows] = (base._group_rows if base else []) + [GroupRows(group) for group in groups]
        self._apart: tuple[NoLocal, ...] = (base._apart if base else ()) + tuple(apart)
        self._of_others: list[GroupRows] | None = None
        self.shared = tuple(shared)
        self.no_local = frozenset(source for one in self._apart for source in one.subscriber.published_as)
        self.size: int = (base.size if base else 0) + sum(len(group.subscribers) for group in groups) + len(apart)

    def group_rows(self, publishers: Set[Publisher] = frozenset()) -> list[GroupRows]:
        """How to deliver rows that these connections published. No two ways bring the same row to the same subscriber.

        ``publishers`` may leave out connections that are not in ``no_local``. The answer for none of those is kept.
        A subscriber with No Local gets everything but its own messages [MQTT-3.8.3-3]; where another filter without No Local
        matches as well, it gets its own by that one.
        """
        if not self._apart:
            return self._group_rows
        if self.no_local.isdisjoint(publishers):
            if self._of_others is None:
                self._of_others = self._split_publishers(frozenset())
            return self._of_others
        return self._split_publishers(publishers)

    def _split_publishers(self, publishers: Set[Publisher]) -> list[GroupRows]:
        theirs: dict[Delivery, list[Subscriber]] = {}
        group_rows: list[GroupRows] = []
        for subscriber, delivery, of_its_own in self._apart:
            own = tuple([source for source in subscriber.published_as if source in publishers])
            if not own or of_its_own == delivery:
                theirs.setdefault(delivery, []).append(subscriber)
                continue
            group_rows.append(GroupRows(Group(delivery, (subscriber,)), without=own))
            if of_its_own is not None:
                group_rows.append(GroupRows(Group(of_its_own, (subscriber,)), only=own))
        return self._group_rows + [GroupRows(Group(delivery, subscribers)) for delivery, subscribers in theirs.items()] + group_rows


def merged(
    asked: Iterable[tuple[str, Collection[Subscriber]]], shared: Sequence[SharedGroup] = (), base: TopicReceivers | None = None
) -> TopicReceivers:
    """The match of these filters and who subscribes by each, every session once, and of ``shared`` and ``base``."""
    first: dict[Subscriber, SubscriptionOptions] = {}
    overlapping: dict[Subscriber, list[SubscriptionOptions]] = {}
    for topic_filter, subscribers in asked:
        for subscriber in subscribers:
            if subscriber in first:
                overlapping.setdefault(subscriber, [first[subscriber]]).append(subscriber.filters[topic_filter])
            else:
                first[subscriber] = subscriber.filters[topic_filter]
    by_options: dict[SubscriptionOptions, list[Subscriber]] = {}
    for subscriber, options in first.items():
        if subscriber not in overlapping:
            by_options.setdefault(options, []).append(subscriber)
    by_delivery: dict[Delivery, list[Subscriber]] = {}
    apart: list[NoLocal] = []
    for options, alike in by_options.items():
        if options.no_local:
            apart += [NoLocal(subscriber, delivery_for((options,)), None) for subscriber in alike]
        else:
            by_delivery.setdefault(delivery_for((options,)), []).extend(alike)
    for subscriber, several in overlapping.items():
        local = [one for one in several if not one.no_local]
        if len(local) == len(several):
            by_delivery.setdefault(delivery_for(several), []).append(subscriber)
        else:
            apart.append(NoLocal(subscriber, delivery_for(several), delivery_for(local) if local else None))
    return TopicReceivers(by_delivery, apart, shared, base)
