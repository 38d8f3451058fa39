"""The retained messages that one client has asked for: how far each filter's pass is, and what is published meanwhile. Pure.

A pass goes through the topics under a filter in the order of their bytes, a piece at a time, as the client takes it. A message that
is published to a topic that the pass has not reached waits until it has, so that nobody takes an old, retained message for the
latest (P4). Messages of other topics don't wait. The store reads a piece when it is asked for it, so that may have a message that
waits here as well: then only that one goes out. A filter has one pass: who subscribes again begins it anew.

If the store is late nothing waits any longer; a retained message is left out then if the one that replaced it was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from wire.exchange.subscriber_copies import Copies
from wire.frames.batch import Batch
from wire.routing.topic_filter_tree import TopicTree

HELD_BATCH_BYTES = 1024  # what a batch takes in memory beside its messages
REPLACED_TOPICS_MAX = 10_000  # of one client; what is replaced beyond them may be sent after its successor


@dataclass(eq=False, slots=True)
class Pass:
    """One filter's. after: the topics up to this one are passed. answered: its SUBACK has left, so pieces may be asked for."""

    topic_filter: str
    after: bytes = b""
    answered: bool = False


@dataclass(slots=True)
class _Waiting:
    """The waiting messages of one topic: the payloads of what was published with RETAIN. lost: there was no room for a later
    message."""

    retained: set[bytes] = field(default_factory=set)
    lost: bool = False


class RetainedPasses:
    """One client's. It is true while a pass is under way or a piece is asked for.

    dropped: messages that found no room while they waited. unanswered: how many stores in a row have died before they had answered.
    """

    __slots__ = (
        "_asked",
        "_held",
        "_held_bytes",
        "_late",
        "_max_bytes",
        "_passes",
        "_replaced",
        "_tree",
        "_waiting",
        "dropped",
        "unanswered",
    )

    def __init__(self, max_bytes: int) -> None:
        """max_bytes: of what waits."""
        self._max_bytes = max_bytes
        self._passes: dict[str, Pass] = {}
        self._tree: TopicTree[Pass] = TopicTree()
        self._asked: tuple[Pass, ...] = ()
        self._held: list[Batch] = []
        self._held_bytes = 0
        self._waiting: dict[bytes, _Waiting] = {}  # by topic
        self._late = False
        self._replaced: set[bytes] = set()  # topics of which a message with RETAIN was sent because the store was late
        self.dropped = self.unanswered = 0

    def __bool__(self) -> bool:
        return bool(self._passes or self._asked)

    def take_dropped(self) -> int:
        """Messages that found no room since the last call."""
        dropped, self.dropped = self.dropped, 0
        return dropped

    # --- passes ---

    def begin(self, topic_filter: str) -> None:
        """A SUBSCRIBE wants what is retained under plain ``topic_filter``, from its first topic on."""
        self._forget(topic_filter)
        each = self._passes[topic_filter] = Pass(topic_filter)
        self._tree.add(topic_filter, each)

    def on_answered(self, filters: Iterable[str]) -> None:
        """The client has its SUBACK for ``filters``."""
        for topic_filter in filters:
            each = self._passes.get(topic_filter)
            if each is not None:
                each.answered = True

    def end(self, filters: Iterable[str]) -> list[Batch]:
        """The passes of ``filters`` are over, wherever they are; what waits for none any more."""
        for topic_filter in filters:
            self._forget(topic_filter)
        return self._free(None)

    def ask(self, filters_max: int) -> Sequence[Pass]:
        """The passes of which the next piece is to be asked for, ``filters_max`` at most; none while one is asked for."""
        if self._asked:
            return ()
        self._asked = tuple(each for each in self._passes.values() if each.answered)[:filters_max]
        return self._asked

    def on_lost(self) -> Sequence[Pass]:
        """The store has died with what was asked of it; which passes that were."""
        asked, self._asked = self._asked, ()
        self.unanswered += 1
        return asked

    def came(self, done: int, after: bytes, parts: Iterable[tuple[int, Batch]]) -> tuple[list[tuple[Pass, Batch]], list[Batch]]:
        """The piece that was asked for: what of it the client gets, and what may follow now of what has waited.

        done: how many of the passes that were asked for are through; after: where the next one is. parts: their places in that
        order, and what is retained.
        """
        asked, self._asked = self._asked, ()
        self.unanswered, self._late = 0, False
        found = []
        for place, batch in parts:
            each = asked[place]
            if self._passes.get(each.topic_filter) is each:
                found.append((each, self._without_repeats(batch)))
        for each in asked[:done]:
            if self._passes.get(each.topic_filter) is each:
                self._forget(each.topic_filter)
        if done < len(asked) and after:
            asked[done].after = after
        return found, self._free(None if done else after)

    # --- what is published meanwhile ---

    def hold(self, copies: Copies, replaced: Callable[[], Iterable[bytes]] = tuple) -> Copies:
        """The part of ``copies`` that may go out now. replaced: the topics of those that were published with RETAIN."""
        late = frozenset(index for index, topic in enumerate(copies.topics) if self._is_awaited(topic))
        if not late:
            return copies
        if self._late:
            if len(self._replaced) < REPLACED_TOPICS_MAX:
                self._replaced.update(replaced())
            return copies
        batch = copies.only(late)
        size_bytes = batch.size_bytes() + HELD_BATCH_BYTES
        fits = self._held_bytes + size_bytes <= self._max_bytes
        if not fits:
            self.dropped += len(batch)
        elif len(batch):
            self._held_bytes += size_bytes
            self._held.append(batch)
        retained = set(replaced())
        payloads = batch.rows_payloads() if retained else ()
        for row, index in enumerate(batch.topic_of):
            topic = batch.topics[index]
            if not fits:
                if topic in self._waiting:
                    self._waiting[topic].lost = True
                continue
            waiting = self._waiting.setdefault(topic, _Waiting())
            if topic in retained:
                waiting.retained.add(payloads[row])
        return copies.without(late)

    def wait_no_longer(self) -> list[Batch]:
        """The store is late: what waits goes out, and what is published until it answers does not wait."""
        self._late = True
        self._replaced.update(topic for topic, waiting in self._waiting.items() if waiting.retained)
        self._waiting.clear()
        held, self._held, self._held_bytes = self._held, [], 0
        return held

    # --- inside ---

    def _forget(self, topic_filter: str) -> None:
        each = self._passes.pop(topic_filter, None)
        if each is not None:
            self._tree.remove(topic_filter, each)

    def _is_awaited(self, topic: bytes) -> bool:
        return any(topic > each.after for each in self._tree.match(topic))

    def _without_repeats(self, batch: Batch) -> Batch:
        """``batch`` without what waits here as well, or was replaced by what was sent.

        If a later message was lost, the retained one is the newest there is.
        """
        if not self._waiting and not self._replaced:
            return batch
        payloads = batch.rows_payloads()
        rows = []
        for row, index in enumerate(batch.topic_of):
            waiting = self._waiting.get(batch.topics[index])
            if waiting is not None and waiting.lost:
                self.dropped += self._discard(batch.topics[index])
            elif batch.topics[index] in self._replaced or (waiting is not None and payloads[row] in waiting.retained):
                continue
            rows.append(row)
        return batch if len(rows) == len(batch) else batch.select(rows)

    def _discard(self, topic: bytes) -> int:
        """Drop what waits of ``topic``; how many messages."""
        del self._waiting[topic]
        return sum(len(batch) for batch in self._take({topic}))

    def _free(self, through: bytes | None) -> list[Batch]:
        """Take out what waits for no pass any more, of the topics up to ``through``; None: of all."""
        topics = [topic for topic in self._waiting if through is None or topic <= through]
        free = {topic for topic in topics if not self._is_awaited(topic)}
        for topic in free:
            del self._waiting[topic]
        return self._take(free) if free else []

    def _take(self, topics: Collection[bytes]) -> list[Batch]:
        """Take out the messages of ``topics``, in order."""
        taken, left = [], []
        for batch in self._held:
            indexes = {index for index, topic in enumerate(batch.topics) if topic in topics}
            rows = [row for row, index in enumerate(batch.topic_of) if index in indexes]
            if not rows:
                left.append(batch)
                continue
            taken.append(batch.select(rows))
            self._held_bytes -= batch.size_bytes() + HELD_BATCH_BYTES
            if len(rows) < len(batch):
                rest = batch.select([row for row, index in enumerate(batch.topic_of) if index not in indexes])
                self._held_bytes += rest.size_bytes() + HELD_BATCH_BYTES
                left.append(rest)
        self._held = left
        return taken
