"""Retained messages: which topics have one, which of them a new subscription gets, which rows of a batch change them, and whose
they are. Pure.

The messages themselves are kept by the store; who may read them is decided elsewhere.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from enum import IntEnum
from sys import intern

import msgpack

from wire.frames.batch import RETAIN, RETAIN_ONLY, Batch, pack_column, unpack_column
from wire.mqtt.topics import is_shared

CLEARED = -1  # instead of a row: the topic has no retained message any more
RUN_TOPICS_MAX = 1024
_LEAST = b"\0"  # behind a topic: the place right behind it; no topic has a NUL [MQTT-1.5.4-2]
_BEHIND_SLASH = b"0"  # the byte behind it
_BEHIND_ALL = b"\xff"  # no topic begins with it


class RetainHandling(IntEnum):
    """Subscription option: when retained messages are sent. MQTT 3.1.1 knows only ``AT_SUBSCRIBE``."""

    AT_SUBSCRIBE = 0
    AT_NEW_SUBSCRIBE = 1
    NEVER = 2


class RetainedTopics:
    """The topics that have a retained message, in the order of their bytes.

    A walk through them can stop after any topic and go on from there later, whatever has come and gone meanwhile.
    """

    __slots__ = ("_runs", "_stops")

    def __init__(self) -> None:
        self._runs: list[list[bytes]] = []  # sorted, and one after another; none is empty
        self._stops: list[bytes] = []  # the last topic of each run

    def add(self, topic: bytes) -> None:
        """Put ``topic`` in, which is not there."""
        if not self._runs:
            self._runs, self._stops = [[topic]], [topic]
            return
        at = min(bisect_left(self._stops, topic), len(self._runs) - 1)
        run = self._runs[at]
        insort(run, topic)
        if len(run) > RUN_TOPICS_MAX:
            half = len(run) // 2
            self._runs[at : at + 1] = run[:half], run[half:]
            self._stops[at : at + 1] = run[half - 1], run[-1]
        else:
            self._stops[at] = run[-1]

    def discard(self, topic: bytes) -> None:
        """Take ``topic`` out, which is there."""
        at = bisect_left(self._stops, topic)
        run = self._runs[at]
        del run[bisect_left(run, topic)]
        if run:
            self._stops[at] = run[-1]
        else:
            del self._runs[at], self._stops[at]

    def first_from(self, topic: bytes) -> bytes | None:
        """The first one that is not before ``topic``."""
        at = bisect_left(self._stops, topic)
        if at == len(self._runs):
            return None
        run = self._runs[at]
        return run[bisect_left(run, topic)]

    def walk(self, topic_filter: str, after: bytes = b"") -> Iterator[tuple[bytes, bool]]:
        """The topics behind ``after`` that are looked at for plain ``topic_filter``, and of each whether the filter matches it.

        Between two of them none matches. They are few more than those that match: where a level differs, all that have it in
        common are passed over at once.

        Source: MQTT-4.7.1-1, -2, MQTT-4.7.2-1.
        """
        levels = topic_filter.encode().split(b"/")
        place = after + _LEAST if after else b""
        while (topic := self.first_from(place)) is not None:
            place = _next_place(levels, topic)
            yield topic, place == topic + _LEAST and _matches(levels, topic)


def _matches(levels: Sequence[bytes], topic: bytes) -> bool:
    of_topic = topic.split(b"/")
    if levels[-1] == b"#":
        levels = levels[:-1]
        of_topic = of_topic[: len(levels)]
    return len(of_topic) == len(levels) and all(level in (b"+", of_level) for level, of_level in zip(levels, of_topic, strict=True))


def _next_place(levels: Sequence[bytes], topic: bytes) -> bytes:
    """The earliest place of the next topic that a filter of these ``levels`` matches, behind ``topic``."""
    if topic.startswith(b"$") and levels[0] in (b"+", b"#"):
        return b"%"  # the byte behind it [MQTT-4.7.2-1]
    start = 0  # of the level in the topic
    for depth, level in enumerate(levels):
        if level == b"#":
            return topic + _LEAST
        slash = topic.find(b"/", start)
        stop = slash if slash >= 0 else len(topic)
        if level != b"+" and level != topic[start:stop]:
            wanted = topic[:start] + level
            if depth + 1 < len(levels) and wanted < topic:
                wanted += b"/"  # what begins so can still come, where the level that differs goes on behind the wanted one
            return wanted if wanted > topic else _behind(topic[:start])
        if depth + 1 < len(levels) and slash < 0:
            return topic + _LEAST
        start = stop + 1
    return topic + _LEAST if start > len(topic) else _behind(topic[:start])


def _behind(start: bytes) -> bytes:
    """The place behind all topics that begin with the levels ``start``; behind all there are where that is empty."""
    return start[:-1] + _BEHIND_SLASH if start else _BEHIND_ALL


def sends_retained(topic_filter: str, retain_handling: int, *, existed: bool) -> bool:
    """Whether a SUBSCRIBE to ``topic_filter`` is answered with the retained messages that match it.

    existed: the session had a subscription with that very filter before (``Subscriptions.subscribe`` says so).
    Source: MQTT-3.3.1-9, -10, -11 and MQTT-3.8.4-4; none for a shared subscription (4.8.2).
    """
    if is_shared(topic_filter):
        return False
    return retain_handling == RetainHandling.AT_SUBSCRIBE or (retain_handling == RetainHandling.AT_NEW_SUBSCRIBE and not existed)


def retained_rows(batch: Batch) -> dict[bytes, int]:
    """The changes by ``batch``: topic -> the row that is its retained message from now on, or ``CLEARED``.

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


def pack_owned(batch: Batch, owners: Sequence[str]) -> bytes:
    """``batch`` with, for each of its rows, in whose share it counts (``wire/limit_shares.py``)."""
    places = {owner: place for place, owner in enumerate(dict.fromkeys(owners))}
    column = pack_column(array("H", [places[owner] for owner in owners])) if len(places) > 1 else b""
    packed: bytes = msgpack.packb((list(places), column, batch.encode()))
    return packed


def unpack_owned(data: bytes) -> tuple[Batch, list[str]]:
    """The input of ``pack_owned``.

    Raises:
        UnknownFrame, ValueError, TypeError, msgpack.UnpackException: it is not that, or of another version.
    """
    names, column, body = msgpack.unpackb(data, max_bin_len=len(data))
    batch, names = Batch.decode(body), [intern(name) for name in names]
    return batch, [names[place] for place in unpack_column("H", column)] if column else names * len(batch)
