"""How many messages and bytes go by each topic, while somebody wants to know. Pure.

It costs a look at each row of a batch, so it is there only while somebody asks, and for ``KEPT_S`` after that.
"""

from __future__ import annotations

from collections import Counter
from heapq import nlargest

from wire.frames.batch import Batch

KEPT_S = 10.0
TOPICS_MAX = 10_000
TOPIC_BYTES_MAX = 2_000


class TopicCounts:
    """The counts since ``since_s``. Beyond ``TOPICS_MAX`` distinct topics, and longer ones, all count as ``others``."""

    def __init__(self, now_s: float) -> None:
        self.since_s = now_s
        self.others = 0
        self._until_s = now_s + KEPT_S
        self._messages: Counter[bytes] = Counter()
        self._bytes: Counter[bytes] = Counter()

    def on_asked(self, now_s: float) -> None:
        """Somebody wants to know."""
        self._until_s = now_s + KEPT_S

    def over(self, now_s: float) -> bool:
        """Whether nobody has asked for so long that counting is to end."""
        return now_s > self._until_s

    def add(self, batch: Batch) -> None:
        """Count the messages of ``batch``."""
        if len(batch.topics) == 1:
            self._add(batch.topics[0], len(batch), len(batch.payloads))
            return
        size_bytes = [0] * len(batch.topics)
        for index, length in zip(batch.topic_of, batch.lengths, strict=True):
            size_bytes[index] += length
        for index, messages in Counter(batch.topic_of).items():
            self._add(batch.topics[index], messages, size_bytes[index])

    def busiest(self, count: int) -> tuple[tuple[bytes, int, int], ...]:
        """(topic, messages, bytes) of the ``count`` topics with most messages, these first; equal ones by name."""
        rows = ((topic, messages, self._bytes[topic]) for topic, messages in self._messages.items())
        return tuple(nlargest(count, rows, key=lambda row: (row[1], [-sign for sign in row[0]])))

    def rest(self, shown: tuple[tuple[bytes, int, int], ...]) -> int:
        """The messages of topics that are not ``shown``."""
        return self.others + self._messages.total() - sum(messages for _, messages, _ in shown)

    def _add(self, topic: bytes, messages: int, size_bytes: int) -> None:
        if topic not in self._messages and (len(self._messages) >= TOPICS_MAX or len(topic) > TOPIC_BYTES_MAX):
            self.others += messages
            return
        self._messages[topic] += messages
        self._bytes[topic] += size_bytes
