"""All subscriptions of the local sessions, and who gets the messages of a topic. Pure; the Distributor owns one.

Limits, well-formed filters and the right to subscribe are checked before (a No Local shared subscription is a protocol error,
MQTT-3.8.3-4), and what a session may not read is left out at delivery; its rights matter here only to the shared subscriptions.
Queues are the Distributor's and the store's business. Bridges are routed in ``wire/routing/bridge_rules.py``.

routing.one-copy-per-session [P2, MQTT]: a session gets at most one copy of a message through its ordinary subscriptions, at the
    highest QoS of those that match, with all their Subscription Identifiers [MQTT-3.3.4-2, -3], and RETAIN as published if one of
    them asks for it. The copies for each subscription that the specification also allows are not made.
routing.one-member-per-share [MQTT, access]: a message goes to one member of each matching shared subscription, which is known by
    share name and filter [MQTT-4.8.2-3]: to one that may read its topic, if any may. A member's ordinary subscriptions get their
    own copy. Turns and rights in a group: ``wire/routing/shared_subscription.py``.
routing.change-drops-what-it-matches [alive]: a change costs what it changes: a filter that comes or goes drops just the cached
    topics that it matches, and a subscriber that comes or goes under a known filter just the groups that were made of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from wire.mqtt.topics import parse_shared
from wire.routing.shared_subscription import RightsOf, SharedGroup
from wire.routing.subscriber import Subscriber, SubscriptionOptions, delivery_for
from wire.routing.topic_filter_tree import FilterMap
from wire.routing.topic_name_tree import TopicIndex
from wire.routing.topic_receivers import TopicReceivers, merged

CACHE_TOPICS_MAX = 20_000
CACHE_SUBSCRIBERS_MAX = 1_000_000
CACHED_TOPIC_BYTES_MAX = 512  # a longer or deeper topic is looked up each time: the cache must not be a way to fill the memory
CACHED_TOPIC_LEVELS_MAX = 24

_FEW = 4  # subscribers of a filter that a tuple holds
_MANY = 32  # subscribers of a filter that are worth grouping once for all topics

_COMMON_OPTIONS = {
    options: options
    for options in (
        SubscriptionOptions(qos, no_local, retain_as_published)
        for qos in range(3)
        for no_local in (False, True)
        for retain_as_published in (False, True)
    )
}


class _Entry:
    """The entry under one plain filter: its subscribers and its shared groups by share name.

    used_in: the cached sets that it is in and that were grouped. alone: what it comes to by itself, where it is large.
    """

    __slots__ = ("alone", "groups", "subscribers", "topic_filter", "used_in")

    def __init__(self, topic_filter: str) -> None:
        self.topic_filter = topic_filter
        # A tuple while they are few, which most are for ever: a dict of one would be most of the memory of all subscriptions.
        self.subscribers: tuple[Subscriber, ...] | dict[Subscriber, None] = ()
        self.groups: dict[str, SharedGroup] | None = None
        self.used_in: set[_Matched] | None = None
        self.alone: TopicReceivers | None = None

    def add(self, subscriber: Subscriber) -> None:
        subscribers = self.subscribers
        if isinstance(subscribers, tuple):
            if len(subscribers) < _FEW:
                self.subscribers = (*subscribers, subscriber)
                return
            subscribers = self.subscribers = dict.fromkeys(subscribers)
        subscribers[subscriber] = None

    def remove(self, subscriber: Subscriber) -> None:
        if isinstance(self.subscribers, tuple):
            self.subscribers = tuple([one for one in self.subscribers if one is not subscriber])
        else:
            del self.subscribers[subscriber]


class _Matched:
    """The filters that match a topic, one object for all topics that the same ones match; ``match`` is made when asked for."""

    __slots__ = ("cost", "entries", "match")

    def __init__(self, entries: tuple[_Entry, ...]) -> None:
        self.entries = entries
        self.match: TopicReceivers | None = None
        self.cost = 0


class Subscriptions:
    """The subscriptions of all sessions of a node, ``count`` in all. Sessions are named by client identifier."""

    def __init__(
        self,
        *,
        rights_of: RightsOf = lambda _: None,
        cache_topics_max: int = CACHE_TOPICS_MAX,
        cache_subscribers_max: int = CACHE_SUBSCRIBERS_MAX,
    ) -> None:
        self._rights_of = rights_of
        self._cache_topics_max = cache_topics_max
        self._cache_subscribers_max = cache_subscribers_max
        self._subscribers: dict[str, Subscriber] = {}
        self._entries: FilterMap[_Entry] = FilterMap()
        self.count = 0
        self._by_topic: dict[bytes, _Matched] = {}
        self._cached_topics = TopicIndex()
        self._matched: dict[tuple[_Entry, ...], _Matched] = {}
        self._cached_subscribers = 0

    # --- sessions ---

    def on_connected(self, session: str, source: int, queue: str) -> None:
        """``session`` is there from now on, with the subscriptions it has; the live connection of a known one is replaced.

        source: its live connection, 0 for one that is known and offline. queue: its Tier-1 queue, empty for a session that ends
        with its connection.
        """
        subscriber = self._subscribers.get(session)
        if subscriber is None:
            subscriber = self._subscribers[session] = Subscriber(session)
        subscriber.on_connected(source, queue)
        self._is_reached_otherwise(subscriber)

    def on_disconnected(self, session: str, source: int) -> None:
        """Connection ``source`` of ``session`` has ended; a session without queue is forgotten with its subscriptions.

        One that is not its live connection any more, because it was taken over, is ignored.
        """
        subscriber = self._subscribers.get(session)
        if subscriber is None or not source or subscriber.source != source:
            return
        if not subscriber.queue:
            self.forget(session)
            return
        subscriber.on_disconnected()
        self._is_reached_otherwise(subscriber)

    def forget(self, session: str) -> None:
        """``session`` is gone with all its subscriptions. An unknown one is ignored."""
        subscriber = self._subscribers.get(session)
        if subscriber is not None:
            for topic_filter in list(subscriber.filters):
                self.unsubscribe(session, topic_filter)
            del self._subscribers[session]

    def sessions(self) -> Iterable[Subscriber]:
        """All sessions that are known."""
        return self._subscribers.values()

    def on_rights_changed(self) -> None:
        """Any session may read something else from now on."""
        for subscriber in self._subscribers.values():
            for topic_filter in subscriber.filters:
                self._group_is_stale(topic_filter)

    # --- subscriptions ---

    def subscribe(self, session: str, topic_filter: str, options: SubscriptionOptions) -> bool:
        """``session`` subscribes to ``topic_filter``, plain or shared; the same one again is replaced [MQTT-3.8.4-3].

        Returns whether there was such a subscription before.

        Raises:
            KeyError: ``session`` is not known.
        """
        subscriber = self._subscribers[session]
        options = _COMMON_OPTIONS.get(options, options)
        existed = topic_filter in subscriber.filters
        if existed and subscriber.filters[topic_filter] == options:
            return True
        shared = parse_shared(topic_filter)
        plain = shared.topic_filter if shared else topic_filter
        entry = self._entries.get_or_make(plain, _Entry)
        if not entry.subscribers and not entry.groups:
            self._forget_topics(plain)
        if shared is not None:
            if entry.groups is None:
                entry.groups = {}
            group = entry.groups.get(shared.share_name)
            if group is None:
                group = entry.groups[shared.share_name] = SharedGroup(*shared, self._rights_of)
                self._forget_matches(entry)
            group.put(subscriber, delivery_for((options,)))
        else:
            if not existed:
                entry.add(subscriber)
            self._forget_matches(entry)
        subscriber.subscribe(topic_filter if shared else entry.topic_filter, options)  # one string for all its subscribers
        self.count += not existed
        return existed

    def unsubscribe(self, session: str, topic_filter: str) -> bool:
        """``session`` gives ``topic_filter`` up. Returns whether it had it [MQTT-3.10.4-1]."""
        subscriber = self._subscribers.get(session)
        if subscriber is None or subscriber.filters.pop(topic_filter, None) is None:
            return False
        self.count -= 1
        shared = parse_shared(topic_filter)
        plain = shared.topic_filter if shared else topic_filter
        entry = self._entries.get(plain)
        assert entry is not None, topic_filter
        if shared is not None:
            assert entry.groups is not None, topic_filter
            group = entry.groups[shared.share_name]
            group.discard(subscriber)
            if not len(group):
                del entry.groups[shared.share_name]
                self._forget_matches(entry)
        else:
            entry.remove(subscriber)
            self._forget_matches(entry)
        if not entry.subscribers and not entry.groups:
            self._entries.remove(plain)
            self._forget_topics(plain)
        return True

    def filters_of(self, session: str) -> dict[str, SubscriptionOptions]:
        """The subscriptions of ``session``, oldest first; empty if it has none or is not known."""
        subscriber = self._subscribers.get(session)
        return dict(subscriber.filters) if subscriber is not None else {}

    # --- topics ---

    def match(self, topic: bytes) -> TopicReceivers:
        """The receivers of the messages of ``topic``. To be used at once: it is no longer true after the next change."""
        matched = self._by_topic.get(topic) or self._find(topic)
        return matched.match or self._make(matched)

    def _find(self, topic: bytes) -> _Matched:
        """The filters of a topic that is not cached."""
        if len(self._by_topic) >= self._cache_topics_max or len(self._matched) >= self._cache_topics_max:
            self._forget_everything_cached()
        entries = tuple(self._entries.match(topic))
        matched = self._matched.get(entries)
        if matched is None:
            matched = self._matched[entries] = _Matched(entries)
        if len(topic) <= CACHED_TOPIC_BYTES_MAX and topic.count(b"/") < CACHED_TOPIC_LEVELS_MAX:
            self._by_topic[topic] = matched
            self._cached_topics.add(topic)
        return matched

    def _make(self, matched: _Matched) -> TopicReceivers:
        """routing.one-copy-per-session and routing.one-member-per-share for filters whose subscribers are not grouped yet."""
        shared = [group for entry in matched.entries if entry.groups for group in entry.groups.values()]
        base, rest = self._base(matched.entries)
        if base and not rest and not shared:
            match = base
        else:
            match = merged([(one.topic_filter, one.subscribers) for one in rest], shared, base)
        self._keep(matched, match, match.size - (base.size if base else 0))
        return match

    def _base(self, entries: tuple[_Entry, ...]) -> tuple[TopicReceivers | None, list[_Entry]]:
        """The size of the largest entry by itself, shared by all topics that it matches, and of the other entries.

        None where it is small, or where a session subscribes by it and by another one, so that its copies must be merged.
        """
        largest = max(entries, key=_size, default=None)
        rest = [entry for entry in entries if entry is not largest]
        if largest is None or len(largest.subscribers) < _MANY:
            return None, list(entries)
        largest_subscribers = largest.subscribers
        if any(subscriber in largest_subscribers for entry in rest for subscriber in entry.subscribers):
            return None, list(entries)
        if largest.alone is None:
            largest.alone = merged([(largest.topic_filter, largest.subscribers)])
        return largest.alone, rest

    def _keep(self, matched: _Matched, match: TopicReceivers, cost: int) -> None:
        """Cache ``match``, which holds ``cost`` subscribers that no other one holds, if there is room."""
        if self._cached_subscribers + cost > self._cache_subscribers_max:
            if cost <= self._cache_subscribers_max:
                self._forget_everything_cached()  # the next time there is room
            return
        self._cached_subscribers += cost
        matched.match = match
        matched.cost = cost
        for entry in matched.entries:
            if entry.used_in is None:
                entry.used_in = set()
            entry.used_in.add(matched)

    # --- what a change costs ---

    def _is_reached_otherwise(self, subscriber: Subscriber) -> None:
        """The columns that ``subscriber`` is in are no longer true."""
        for topic_filter in subscriber.filters:
            if not self._group_is_stale(topic_filter):
                entry = self._entries.get(topic_filter)
                assert entry is not None, topic_filter
                self._forget_matches(entry)

    def _group_is_stale(self, topic_filter: str) -> bool:
        """A member of the shared subscription ``topic_filter`` is another now; False for a plain filter."""
        shared = parse_shared(topic_filter)
        if shared is None:
            return False
        entry = self._entries.get(shared.topic_filter)
        assert entry is not None, topic_filter
        assert entry.groups is not None, topic_filter
        entry.groups[shared.share_name].stale()
        return True

    def _forget_matches(self, entry: _Entry) -> None:
        """Drop the groups that were made of ``entry``; which filters match which topics stays true."""
        entry.alone = None
        if entry.used_in:
            for matched in entry.used_in:
                if matched.match is not None:
                    self._cached_subscribers -= matched.cost
                    matched.match = None
            entry.used_in.clear()

    def _forget_topics(self, topic_filter: str) -> None:
        """Drop the cached topics that ``topic_filter``, which is new or gone, matches."""
        for topic in list(self._cached_topics.matching(topic_filter)):
            self._cached_topics.discard(topic)
            del self._by_topic[topic]

    def _forget_everything_cached(self) -> None:
        for entries in self._matched:
            for entry in entries:
                entry.used_in = None
        self._matched.clear()
        self._by_topic.clear()
        self._cached_topics.clear()
        self._cached_subscribers = 0


def _size(entry: _Entry) -> int:
    return len(entry.subscribers)
