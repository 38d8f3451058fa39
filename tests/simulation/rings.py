"""Copies that come by two bridges, as in a ring. A few seeds have a second bridge that subscribes to what the first one does, and
the node leaves copies out. Publishers at the remote and local ones send messages of which several are alike.

Drawn by chance of its own, so that everything else that a seed decides is as it would be without it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from tests.simulation.incoming import REMOTE, IncomingShape
from tests.simulation.publisher import Message
from tests.simulation.world import Violation
from wire.config_settings import OLDEST_FIRST, BridgeSettings, LoopPreventionSettings, RuleSettings

FILTER = "ring/#"
FIRST, BESIDE = "edge", "beside"  # client identifiers of the bridges, the ways; the other one is that bridge's name, too
HERE = ""  # the way of what a local client publishes
RULE = "routing.ring-copies-left-out"
_FIRST_NUMBER = 1100
_JITTER_S = 0.8


@dataclass(frozen=True, slots=True)
class RingCopy(Message):
    """One of the messages that are alike: those with its number. late: published when no other one counts any more."""

    way: str = HERE
    late: bool = False


def copies(rng: Random, window_s: float, max_qos: int, span_s: float) -> Iterator[RingCopy]:
    """Messages that come by both ways, by one, or from here; some more than once, and some again after the window."""
    for number in range(_FIRST_NUMBER, _FIRST_NUMBER + rng.choice((2, 5, 10))):
        at_s, qos, size = 0.3 + rng.random() * span_s, min(rng.choice((1, 2, 2)), max_qos), rng.choice((0, 5, 40))
        many = rng.choice((1, 1, 1, 2, 3))
        here, first, beside = rng.choice(
            ((0, many, many), (0, many, many), (0, many, 1), (0, 1, many), (0, many, 0), (many, 0, 0), (many, 1, 1))
        )
        ways = [HERE] * here + [FIRST] * first + [BESIDE] * beside

        def copy(way: str, at_s: float, *, late: bool = False, number: int = number, qos: int = qos, size: int = size) -> RingCopy:
            publisher = 0 if way == HERE else REMOTE
            return RingCopy(number, publisher, at_s, f"ring/{number}", qos, size, way=way, late=late)

        behind_s = rng.choice((0.0, 1.0))
        for way in ways:
            after_s = behind_s if way == HERE else 0.0
            yield copy(way, at_s + after_s + rng.random() * _JITTER_S * min(window_s, 1.0))
        if window_s < 60 and rng.random() < 0.4:
            yield copy(rng.choice((FIRST, BESIDE)), at_s + 2.0 + 1.5 * window_s, late=True)


def faults(rng: Random, span_s: float) -> Iterator[tuple[float, str, str, float]]:
    """What befalls the ways, and who remembers what came by them."""
    for _ in range(rng.choice((0, 1, 2))):
        at_s = 0.3 + rng.random() * (span_s + 0.5)
        kind, target = rng.choice(
            (
                ("cut", "in"),
                ("cut", "out"),
                ("kill", "bridge:beside:0"),
                ("kill", "bridge:cloud:0"),
                ("kill", "clients"),
                ("kill", "store"),
                ("broker-restart", ""),
                ("session-loss", ""),
            )
        )
        amount = 0.3 if kind == "broker-restart" else float(rng.choice((0, 2, 8, 40, 120)))
        yield at_s, kind, target, amount


def with_rings(bridges: tuple[BridgeSettings, ...]) -> tuple[BridgeSettings, ...]:
    """The bridge that subscribes and the one that takes what comes, with another one that subscribes beside the first."""
    first, away = bridges
    (subscription,), (onward,) = first.remote_subscriptions, away.local_subscriptions
    ring = replace(subscription, name=FILTER, filters=(FILTER,), destination="{#}")
    taken: RuleSettings = replace(onward, filters=(*onward.filters, FILTER))
    beside = replace(
        first,
        name=BESIDE,
        remote=replace(first.remote, client_id=BESIDE),
        lanes=1,
        backlog=OLDEST_FIRST,
        local_subscriptions=(),
        remote_subscriptions=(ring,),
        loop_prevention=LoopPreventionSettings(),
        link_state=None,
    )
    return (replace(first, remote_subscriptions=(subscription, ring)), replace(away, local_subscriptions=(taken,)), beside)


class RingsSeen:
    """Judges how many of messages that are alike enter the queue, by how many were sent by each way, and answered.

    routing.ring-copies-left-out: within the window, as many as the way that brings most, and what a local client publishes besides.
    Each one that is sent again at QoS 1 may be one more. The same holds at QoS 2 once a process has died: a Connection does not
    know what the Distributor has judged. When that has died, or the window is over, each may be taken. No fewer are, whatever dies.
    Where what was taken died on its way to the store, the way that brought it brings it again: what is alike is answered before.
    """

    def __init__(self, incoming: IncomingShape) -> None:
        self._window_s = incoming.rings_window_s
        self._sent: dict[bytes, Counter[RingCopy]] = defaultdict(Counter)
        self._first_s: dict[bytes, float] = {}
        self._last_s: dict[RingCopy, float] = {}  # when it was sent last
        self._answered_s: dict[RingCopy, float] = {}
        self._before: dict[bytes, int] = {}  # how many of one way were answered when the first one was sent from here
        self._apart: set[RingCopy] = set()  # late ones, sent when all others were taken longer ago than the window
        self._dead = self._memory_lost = False

    def died(self, *, distributor: bool) -> None:
        """A process of the node has ended."""
        self._dead = True
        self._memory_lost |= distributor

    def published(self, copy: RingCopy, now_s: float) -> None:
        """It is sent, once more perhaps."""
        sent = self._sent[copy.payload]
        if copy.late and copy not in sent and all(self._is_over(other, now_s) for other in sent):
            self._apart.add(copy)
        elif copy not in sent:
            self._apart = {each for each in self._apart if each.payload != copy.payload}  # this one may be left out for those
        if copy.way == HERE and copy.payload not in self._before:
            self._before[copy.payload] = max(self._answered(copy.payload).values(), default=0)
        sent[copy] += 1
        self._first_s.setdefault(copy.payload, now_s)
        self._last_s[copy] = now_s

    def _is_over(self, copy: RingCopy, now_s: float) -> bool:
        answered_s = self._answered_s.get(copy, -1.0)
        return self._last_s[copy] <= answered_s < now_s - self._window_s

    def acknowledged(self, copy: RingCopy, now_s: float) -> None:
        """Its PUBACK or PUBREC is written."""
        self._answered_s[copy] = now_s

    def is_open_elsewhere(self, copy: RingCopy) -> bool:
        """Whether one that is alike is still to come by another way, since a process has died: it is kept at the remote there."""
        sent = self._sent[copy.payload]
        return self._dead and any(other.way != copy.way and self._is_open(other) for other in sent)

    def _is_open(self, copy: RingCopy) -> bool:
        return self._answered_s.get(copy, -1.0) < self._last_s[copy]

    def most(self, payload: bytes, now_s: float) -> int:
        """How many may have entered."""
        sent = self._sent.get(payload)
        if not sent:
            return 1
        by_way: Counter[str] = Counter()
        for copy, times in sent.items():
            by_way[copy.way] += times if self._dead or copy.qos == 1 else 1
        if self._memory_lost or now_s - self._first_s[payload] >= self._window_s:
            return by_way.total()
        here = by_way.pop(HERE, 0)
        return here + max(by_way.values(), default=0)

    def entered(self, payload: bytes, times: int, now_s: float) -> None:
        """So many are in the queue, or were."""
        if payload in self._sent and times > self.most(payload, now_s):
            raise Violation(RULE, f"{times} of {payload!r} are taken, {self._told(payload)}")

    def judge_the_whole(self, payload: bytes, times: int) -> None:
        """All is quiet, and so many have entered."""
        by_way = self._answered(payload)
        apart = sum(copy in self._answered_s for copy in self._apart if copy.payload == payload)
        here = by_way[HERE] and by_way[HERE] + self._before[payload]
        if times < apart + max((here, *by_way.values())):
            raise Violation(RULE, f"{times} of {payload!r} are taken, {self._told(payload)}")

    def _answered(self, payload: bytes) -> Counter[str]:
        """How many of each way, save those that are apart."""
        answered = (copy for copy in self._sent[payload] if copy in self._answered_s and copy not in self._apart)
        return Counter(copy.way for copy in answered)

    def _told(self, payload: bytes) -> str:
        sent = self._sent[payload].items()
        return ", ".join(f"{times} by {copy.way or 'a client here'}{' late' * copy.late}" for copy, times in sent)

    @property
    def payloads(self) -> set[bytes]:
        """Those that were sent."""
        return set(self._sent)

    @property
    def lost(self) -> set[bytes]:
        """Those of which one was lost with a session at the remote, perhaps after a death here: a known weakness of P2."""
        return {payload for payload, sent in self._sent.items() if self._dead and any(map(self._is_open, sent))}
