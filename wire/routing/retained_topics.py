"""Retained messages: which topics have one, which of them a new subscription gets, and which rows of a batch change them. Pure.

The messages themselves are kept by the store; who may read them is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from wire.frames.batch import RETAIN, RETAIN_ONLY, Batch
from wire.mqtt.topics import is_shared
from wire.routing.topic_name_tree import TopicIndex

CLEARED = -1  # instead of a row: the topic has no retained message any more


class RetainHandling(IntEnum):
    """Subscription option: when retained messages are sent. MQTT 3.1.1 knows only ``AT_SUBSCRIBE``."""

    AT_SUBSCRIBE = 0
    AT_NEW_SUBSCRIBE = 1
    NEVER = 2


class RetainedTopics(TopicIndex):
    """The topics that have a retained message."""

    __slots__ = ()

    def wanted(self, topic_filter: str, retain_handling: int, *, existed: bool) -> Iterator[bytes]:
        """The topics whose retained message a SUBSCRIBE to ``topic_filter``, plain or shared, gets.

        The index must not change before the last one was taken.
        """
        return self.matching(topic_filter) if sends_retained(topic_filter, retain_handling, existed=existed) else iter(())


def sends_retained(topic_filter: str, retain_handling: int, *, existed: bool) -> bool:
    """Whether a SUBSCRIBE to ``topic_filter`` is answered with the retained messages that match it.

    existed: the session had a subscription with that very filter before (``Subscriptions.subscribe`` says so).
    Source: MQTT-3.3.1-9, -10, -11 and MQTT-3.8.4-4; none for a shared subscription (4.8.2).
    """
    if is_shared(topic_filter):
        return False
    return retain_handling == RetainHandling.AT_SUBSCRIBE or (retain_handling == RetainHandling.AT_NEW_SUBSCRIBE and not existed)


def retained_rows(batch: Batch) -> dict[bytes, int]:
    """What ``batch`` changes: topic -> the row that is its retained message from now on, or ``CLEARED``.

    Of several rows of a topic with RETAIN the last one counts, at any QoS [MQTT-3.3.1-5]; one without payload clears and is not
    itself retained [MQTT-3.3.1-6, -7]; rows without RETAIN change nothing [MQTT-3.3.1-8].
    """
    if not any(batch.flags.translate(RETAIN_ONLY)):
        return {}
    topics, lengths = batch.topics, batch.lengths
    return {
        topics[index]: row if lengths[row] else CLEARED
        for row, (index, flags) in enumerate(zip(batch.topic_of, batch.flags, strict=True))
        if flags & RETAIN
    }
