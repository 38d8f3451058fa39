"""What a client is sent live waits behind the retained messages that it has asked for. Pure.

The retained ones come from the store, with the commit of the SUBSCRIBE; live ones don't wait for a commit. Without this a new value
of a topic could arrive first, and the client would take the old, retained one for the latest. Messages of other topics don't wait.
Where the store is late nothing waits any longer; a retained message is left out then if the one that replaced it was sent live.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from wire.exchange.subscriber_copies import Copies
from wire.frames.batch import Batch
from wire.routing.topic_filter_tree import TopicTree

REPLACED_TOPICS_MAX = 10_000  # of one client; what is replaced beyond them may be sent after its successor


class RetainedFirst:
    """One client's. It is true while retained messages are awaited; ``dropped`` counts what found no room meanwhile."""

    __slots__ = ("_asked", "_held", "_held_bytes", "_last", "_late", "_max_bytes", "_replaced", "_wanted", "dropped")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._asked: dict[int, tuple[str, ...]] = {}
        self._wanted: TopicTree[int] = TopicTree()
        self._held: list[Batch] = []
        self._held_bytes = 0
        self._last = 0
        self._late: set[int] = set()
        self._replaced: dict[bytes, int] = {}  # topic -> the last request when a message with RETAIN was sent live
        self.dropped = 0

    def __bool__(self) -> bool:
        return bool(self._asked or self._late)

    def ask(self, request: int, filters: Collection[str]) -> None:
        """``request``, a higher number than any before, has asked for what is retained under the plain ``filters``."""
        self._last = request
        self._asked[request] = tuple(filters)
        for topic_filter in filters:
            self._wanted.add(topic_filter, request)

    def hold(self, copies: Copies, replaced: Callable[[], Iterable[bytes]] = tuple) -> Copies:
        """What of ``copies`` may go out now. replaced: the topics of those that were published with RETAIN."""
        if len(self._replaced) < REPLACED_TOPICS_MAX:
            self._replaced.update(dict.fromkeys(replaced(), self._last))
        if not self._asked:
            return copies
        late = frozenset(index for index, topic in enumerate(copies.topics) if self._wanted.match(topic))
        if not late:
            return copies
        held = copies.only(late)
        size_bytes = held.size_bytes()
        if self._held_bytes + size_bytes > self._max_bytes:
            self.dropped += len(held)
        elif len(held):
            self._held_bytes += size_bytes
            self._held.append(held)
        return copies.without(late)

    def answer(self, request: int) -> list[Batch]:
        """All that ``request`` has asked for goes out now: what follows it, in order; nothing while another one is unanswered."""
        for topic_filter in self._asked.pop(request, ()):
            self._wanted.remove(topic_filter, request)
        if self._asked:
            return []
        held, self._held, self._held_bytes = self._held, [], 0
        return held

    def answer_late(self, request: int) -> list[Batch]:
        """The same, though what ``request`` has asked for is still to come."""
        self._late.add(request)
        return self.answer(request)

    def came(self, request: int) -> Callable[[bytes], bool]:
        """What a late ``request`` has asked for is here; tells of a topic whether its retained message is still the latest."""
        self._late.discard(request)
        return lambda topic: self._replaced.get(topic, -1) < request
