"""Messages from a remote that the store has refused, until they are offered again or come no more. Pure.

exchange.refused-rows-held [P2, P6]: rows that the store refuses are never answered with a failure, because the remote would throw
    the message away. They are held, and offered again in order, before anything that came later. Their message expiry intervals run
    on meanwhile; what has expired is answered and left out [MQTT-3.3.2-5, MQTT-3.3.2-6].
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from wire.exchange.receiver import AnswerBurst, ReceiverHalf
from wire.exchange.refused_messages import (
    OFFER_ROWS_MAX,
    OFFER_ROWS_MIN,
    RefusedMessage,
    held_back,
    offer_again,
    wait_behind,
)
from wire.mqtt.message_expiry import aged, waited_s
from wire.mqtt.publish_properties import message_expiry_s
from wire.mqtt.publish_stream import BatchBuilder


class Resumed(NamedTuple):
    """A source that the store is to take again; ``held`` and ``given_up`` as in ``SourceResumed``."""

    source: int
    held: int
    given_up: int


class Held(NamedTuple):
    """A message that the store refused. since_ms: when it came from the remote (UTC epoch)."""

    message: RefusedMessage
    since_ms: int


class RefusedByStore:
    """Those of one lane. stalled: the store refuses what comes by the live connection."""

    def __init__(self) -> None:
        self.stalled = False
        self._held: deque[Held] = deque()
        self._refusing: set[int] = set()  # connections that the store refuses until it is told
        self._given_up: Counter[int] = Counter()  # by connection, what the store is to be told of
        self._offer_rows = OFFER_ROWS_MIN

    def __len__(self) -> int:
        """How many messages are to be offered again."""
        return len(self._held)

    @property
    def eager(self) -> bool:
        """Whether the last offer was taken whole, so that the next one need not wait."""
        return self._offer_rows > OFFER_ROWS_MIN

    @property
    def refusing(self) -> tuple[int, ...]:
        """The sources that the store refuses until it is told."""
        return tuple(sorted(self._refusing))

    # --- what is refused ---

    def hold(self, source: int, held: Sequence[Held], burst: AnswerBurst | None = None, *, again: bool) -> AnswerBurst | None:
        """The store refused these, of the live connection; again: they were offered again, and go before the others.

        Returns: what of ``burst``, which is their batch's, leaves all the same.
        """
        self._refuses(source)
        self.stalled = True
        if burst is not None:
            burst, messages = held_back(burst, [each.message for each in held])
            held = list(map(_with, held, messages))
            burst = burst if again else self.wait(burst)
        if again:
            self._held.extendleft(reversed(held))
        else:
            self._held.extend(held)
        return burst

    def wait(self, burst: AnswerBurst) -> AnswerBurst:
        """What of ``burst``, which came behind all that is held, leaves now (exchange.answers-in-order)."""
        if self._held:
            burst, messages = wait_behind(burst, (each.message for each in self._held))
            self._held = deque(map(_with, self._held, messages))
        return burst

    def forgo(self, source: int, messages: int) -> None:
        """The store refused what came by a connection that has ended; so many of these ``messages`` are QoS 0."""
        self._refuses(source)
        self._given_up[source] += messages

    def _refuses(self, source: int) -> None:
        self._refusing.add(source)
        self._offer_rows = OFFER_ROWS_MIN

    def disconnected(self, source: int) -> int:
        """The connection has ended while the store refused it: how many messages of QoS 0 that are held do not come again."""
        self.stalled = False
        given_up = sum(1 for message, _ in self._held if not message.qos)
        self._given_up[source] += given_up
        self._held.clear()
        return given_up

    # --- what is offered again ---

    def resumes(self, source: int) -> list[Resumed]:
        """What the store is told of refused sources; ``source`` is that of the live connection."""
        held = {source: len(self._held)} if self._held or self.stalled else {}
        sources = sorted({*self._refusing, *self._given_up, *held})
        given_up, self._given_up = self._given_up, Counter()
        self._refusing.clear()
        return [Resumed(each, held.get(each, 0), given_up[each]) for each in sources]

    def offer(self, builder: BatchBuilder, flow: ReceiverHalf, wall_ms: int) -> tuple[tuple[Held, ...], list[int]]:
        """Put the first of what is held into ``builder``: what they are, and the rows that have expired."""
        expired: list[int] = []
        for message, since_ms in islice(self._held, self._offer_rows):
            if builder.full:
                break
            interval_s, waited = message_expiry_s(message.properties), waited_s(since_ms, wall_ms)
            if interval_s is not None:
                if interval_s <= waited:
                    expired.append(len(builder))
                message = replace(message, properties=aged(message.properties, waited))
            offer_again(builder, flow, message)
        return tuple(self._held.popleft() for _ in range(len(builder))), expired

    def taken(self) -> None:
        """The store has taken an offer whole."""
        self._offer_rows = min(OFFER_ROWS_MAX, self._offer_rows * 4)

    def over(self) -> None:
        """Everything that was held is in."""
        self.stalled = False
        self._offer_rows = OFFER_ROWS_MIN


def _with(held: Held, message: RefusedMessage) -> Held:
    return held._replace(message=message)
