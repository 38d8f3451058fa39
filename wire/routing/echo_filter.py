"""Echoes of a remote of MQTT 3.1.1 that does not know a bridge: what was sent to it and comes back, left out and counted. Pure.

Such a remote has to send a bridge its own messages when they match what it subscribes to. An echo says nothing of that: it is known
by its topic and payload alone, as many times as that was sent. So what somebody else publishes there with the same topic and
payload is not lost beside the echo: of two that come, one is left out, and nobody can tell which of them it was.

routing.echo-left-out [MQTT]: of the messages that come with a topic and payload as many are left out as were sent with these, each
    within ``window_s`` from when it was settled. Memory is bounded: of more than ``messages_max`` the oldest are forgotten, and so
    are all that a session had when its remote has lost it, as far as they were settled. No echo is awaited of what was sent by a
    connection on which nothing comes back. MQTT 3.1.1 may send it again after 5.0, in front of its SUBSCRIBE, while No Local holds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from wire.frames.batch import RETAIN, Batch


class _Sent(NamedTuple):
    """The messages that one batch has sent, of which some may not be settled."""

    keys: list[int]
    stop_seq: int


class _Settled(NamedTuple):
    """Those of one batch that is settled, known since then, or in its session on a connection that is up since then."""

    keys: list[int]
    since_s: float


class EchoFilter:
    """The messages that one lane has sent of late, as the remote has them. echoes: how many came back.

    wants: whether a topic of the remote comes back at all.
    """

    def __init__(self, *, window_s: float, messages_max: int, wants: Callable[[bytes], bool]) -> None:
        self.echoes = 0
        self._window_s = window_s
        self._messages_max = messages_max
        self._wants = wants
        self._on = False
        self._settled: deque[_Settled] = deque()
        self._sent: deque[_Sent] = deque()  # behind those
        self._kept = 0  # keys in both
        self._owed: dict[int, int] = {}  # key -> echoes that are still to come
        self._come: dict[int, int] = {}  # key -> echoes of what is kept that have come

    def on_connected(self, now_s: float, *, echoes: bool, session_present: bool, settled_below: int) -> None:
        """A connection is up, by which a bridge's own messages come back or not; what is in its session comes now."""
        self._on = echoes
        self._settle(now_s, settled_below)
        if not (echoes and session_present):
            while self._settled:
                self._forget(self._settled.popleft().keys)
        while self._sent and not echoes:
            self._forget(self._sent.popleft().keys)
        self._settled = deque(one._replace(since_s=now_s) for one in self._settled)

    def on_sent(self, batch: Batch, stop_seq: int) -> None:
        """``batch`` goes to the remote, in its form; all its sequences are below ``stop_seq``."""
        if not self._on:
            return
        wanted = [self._wants(topic) for topic in batch.topics]
        if not any(wanted):
            return
        keys = [key for row, key in enumerate(batch.content_keys()) if wanted[batch.topic_of[row]]]
        for key in keys:
            self._owed[key] = self._owed.get(key, 0) + 1
        self._sent.append(_Sent(keys, stop_seq))
        self._kept += len(keys)
        while self._kept > self._messages_max:
            self._forget((self._settled or self._sent).popleft().keys)

    def expire(self, now_s: float, settled_below: int) -> None:
        """Forget what is too old for an echo; what is not settled yet may still leave."""
        self._settle(now_s, settled_below)
        while self._settled and now_s - self._settled[0].since_s >= self._window_s:
            self._forget(self._settled.popleft().keys)

    def _settle(self, now_s: float, settled_below: int) -> None:
        while self._sent and self._sent[0].stop_seq <= settled_below:
            self._settled.append(_Settled(self._sent.popleft().keys, now_s))

    def take(self, batch: Batch) -> set[int]:
        """The rows of ``batch``, as the remote sent it, that are echoes. What it had retained is none."""
        found: set[int] = set()
        if not self._owed:
            return found
        for row, key in enumerate(batch.content_keys()):
            left = self._owed.get(key)
            if left is None or batch.flags[row] & RETAIN:
                continue
            found.add(row)
            self._come[key] = self._come.get(key, 0) + 1
            _count_down(self._owed, key)
        self.echoes += len(found)
        return found

    def _forget(self, keys: list[int]) -> None:
        """No echo of these is waited for any more: those that came were of the oldest."""
        self._kept -= len(keys)
        for key in keys:
            _count_down(self._come if key in self._come else self._owed, key)


def _count_down(counts: dict[int, int], key: int) -> None:
    if counts[key] == 1:
        del counts[key]
    else:
        counts[key] -= 1
