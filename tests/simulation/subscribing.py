"""The part of a plan that has local clients subscribe: who they are, what they want, and the faults that hurt them most.

It has generators of its own, so that everything else that a seed decides is as it would be without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from wire.config_settings import SessionSettings

FIRST_NUMBER = 800  # of the steps

STALL_TIMEOUT_S = 3.0  # longer than who only stalls does so

_SHARE = 0.25
_LEAVING_SHARE = 0.3  # of those with subscribers
_WITHHOLDING_SHARE = 0.2  # of those too


@dataclass(frozen=True, slots=True)
class SubscriberShape:
    """One subscriber. receive_maximum: what it says in CONNECT at level 5. filters: with the QoS that each asks for."""

    level: int
    receive_maximum: int
    filters: tuple[tuple[str, int], ...]
    comes_s: float
    slow_s: float  # how long it thinks about an answer, at most

    def granted(self, topic: str) -> list[int]:
        """The QoS of each of its filters that match ``topic``."""
        return [qos for topic_filter, qos in self.filters if matches(topic_filter, topic)]


@dataclass(frozen=True, slots=True)
class SubscribersShape:
    """The subscribers and the limits of their sessions. queue_max: messages in a session's queue, None for practically all."""

    clients: tuple[SubscriberShape, ...]
    in_flight_max: int
    queue_max: int | None
    overflow: str
    in_hand: int

    def window(self, client: SubscriberShape) -> int:
        """How many QoS 1 and 2 messages may be in flight to it."""
        return min(self.in_flight_max, client.receive_maximum) if client.level == 5 else self.in_flight_max


_FILTERS = (
    (("plant/#",), 6),
    (("plant/0/a",), 1),
    (("plant/+/a",), 1),
    (("plant/0/#", "plant/cmd/#"), 1),
    (("plant/#", "plant/+/b"), 2),
)

# A target is the number of the subscriber; elsewhere ``kind:target`` as in every chain.
_CHAINS = (
    ("subscriber-cut",),
    ("subscriber-cut", "subscriber-cut"),
    ("subscriber-cut", "kill:clients"),
    ("subscriber-cut", "kill:store"),
    ("subscriber-cut", "kill:clients", "kill:store"),
    ("subscriber-stall",),
    ("subscriber-stall", "kill:store"),
    ("subscriber-stall", "kill:clients"),
    ("subscriber-stall", "kill:store", "subscriber-cut"),
    ("subscriber-stall", "power"),
    ("subscriber-stall", "subscriber-cut", "power"),
    ("subscriber-away",),
    ("subscriber-away", "kill:clients"),
    ("subscriber-away", "kill:store", "kill:clients"),
    ("subscriber-away", "power"),
    ("kill:clients", "kill:store"),
    ("slow-disk", "subscriber-cut", "kill:clients"),
    ("slow-disk", "kill:store", "subscriber-cut"),
    ("disk-full", "subscriber-cut", "kill:store"),
    ("delay:store", "kill:clients"),
    ("delay:clients", "kill:store", "subscriber-cut"),
    ("delay:clients", "subscriber-cut", "kill:clients"),
    ("subscriber-silent", "kill:store"),
    ("subscriber-clean",),
    ("subscriber-clean", "kill:store"),
    ("subscriber-away", "subscriber-clean", "kill:clients"),
)

# UNSUBSCRIBE, and what dies before it is answered.
_LEAVING_CHAINS = (
    ("subscriber-leave",),
    ("subscriber-leave", "subscriber-leave"),
    ("subscriber-leave", "subscriber-cut"),
    ("subscriber-leave", "subscriber-away"),
    ("subscriber-leave", "kill:clients"),
    ("subscriber-leave", "kill:clients", "kill:clients"),
    ("subscriber-leave", "kill:clients"),
    ("subscriber-leave", "kill:store"),
    ("subscriber-leave", "subscriber-cut", "kill:clients"),
    ("subscriber-leave", "subscriber-cut", "kill:store"),
    ("subscriber-leave", "power"),
    ("kill:clients", "subscriber-leave"),
    ("kill:clients", "subscriber-leave", "kill:clients"),
    ("kill:store", "subscriber-leave", "kill:clients"),
    ("slow-disk", "subscriber-leave", "kill:clients"),
    ("slow-disk", "subscriber-leave", "subscriber-cut"),
    ("delay:clients", "subscriber-leave", "subscriber-cut"),
    ("delay:clients", "subscriber-leave", "subscriber-cut"),
    ("delay:clients", "subscriber-leave", "kill:clients"),
)


# A client that acknowledges nothing for so long that it is closed, if anything waits for it.
_WITHHOLDING_CHAINS = (
    ("subscriber-withhold",),
    ("subscriber-withhold",),
    ("subscriber-withhold", "kill:store"),
    ("subscriber-withhold", "kill:clients"),
    ("subscriber-withhold", "delay:clients"),
    ("subscriber-withhold", "slow-disk"),
)


def matches(topic_filter: str, topic: str) -> bool:
    """Whether the filter matches the topic, by section 4.7 of the standard; neither begins with ``$``."""
    levels, wanted = topic.split("/"), topic_filter.split("/")
    for place, level in enumerate(wanted):
        if level == "#":
            return True
        if place >= len(levels) or level not in ("+", levels[place]):
            return False
    return len(levels) == len(wanted)


def subscribers_shape(seed: int, span_s: float) -> SubscribersShape | None:
    """None where nobody subscribes."""
    rng = Random(f"subscribers {seed}")
    if rng.random() >= _SHARE:
        return None
    filters, weights = [wanted for wanted, _ in _FILTERS], [weight for _, weight in _FILTERS]
    clients = []
    for _ in range(rng.choice((1, 1, 2))):
        (wanted,) = rng.choices(filters, weights)
        clients.append(
            SubscriberShape(
                level=rng.choice((4, 5)),
                receive_maximum=rng.choice((1, 2, 5, 65_535)),
                filters=tuple((topic_filter, rng.choice((2, 2, 2, 1, 1, 0))) for topic_filter in wanted),
                comes_s=rng.choice((0.05, 0.05, 0.05, rng.random() * span_s)),
                slow_s=rng.choice((0.001, 0.001, 0.05, 0.4)),
            )
        )
    limited = rng.random() < 0.1
    return SubscribersShape(
        clients=tuple(clients),
        in_flight_max=rng.choice((1, 2, 5, 100, 100)),
        queue_max=rng.choice((1, 4, 10)) if limited else None,
        overflow=rng.choice(("drop-newest", "drop-oldest")) if limited else "drop-newest",
        in_hand=rng.choice((1, 4, 64)),
    )


def subscriber_chains(seed: int, span_s: float) -> Iterator[tuple[Random, float, tuple[str, ...]]]:
    """Chance, when, and faults that come together, beside those of every plan: kinds, some with a target."""
    rng = Random(f"subscriber faults {seed}")
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        yield rng, 0.25 + rng.random() * span_s, rng.choice(_CHAINS)
    rng = Random(f"leaving {seed}")
    if rng.random() < _LEAVING_SHARE:
        for _ in range(rng.choice((1, 1, 2, 3))):
            yield rng, 0.25 + rng.random() * span_s, rng.choice(_LEAVING_CHAINS)
    rng = Random(f"withholding {seed}")
    if rng.random() < _WITHHOLDING_SHARE:
        yield rng, 0.25 + rng.random() * span_s, rng.choice(_WITHHOLDING_CHAINS)


def subscriber_fault(rng: Random, kind: str, clients: int) -> tuple[str, float]:
    """Target and amount of a fault that is about subscribers."""
    target = str(rng.randrange(clients))
    match kind:
        case "subscriber-cut":
            return target, float(rng.choice((-1, *range(0, 150, 3))))  # bytes from now on
        case "subscriber-stall" | "subscriber-away" | "subscriber-leave":
            return target, rng.choice((0.05, 0.4, 2.0))
        case "subscriber-withhold":
            return target, 1.5 * STALL_TIMEOUT_S
    return target, 0.0


def session_settings(base: SessionSettings, shape: SubscribersShape) -> SessionSettings:
    """``base`` with the limits of the shape."""
    queue_max = base.queue_max_messages if shape.queue_max is None else shape.queue_max
    return replace(base, in_flight_max=shape.in_flight_max, queue_max_messages=queue_max, overflow=shape.overflow)
