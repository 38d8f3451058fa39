"""The part of a plan that has the remote publish to the node: who takes it on, the messages, and the faults that hurt most.

It has generators of its own, so that everything else that a seed decides is as it would be without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from tests.simulation.publisher import Message
from wire.config_settings import OLDEST_FIRST, BridgeSettings, LoopPreventionSettings, OnlySettings
from wire.routing.provenance import NOT_TOLD

AWAY = "away"  # the second bridge and its client identifier
REMOTE = -1  # stands for the number of a publisher
FIRST_NUMBER = 500
FILTER = "cmd/#"
GROUP = "edges"

_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class IncomingShape:
    """How the remote publishes, and what takes it on: a rule of the same bridge (``rule``) or a second bridge (``bridge``)."""

    through: str
    max_qos: int
    preserve_retain: bool
    remote_window: int  # of the remote itself, beside the receive maximum that it is told
    identifiers: int  # packet identifiers go from 1 to this
    keeps_qos0: bool  # for a client that is away
    inbox_rows: int
    room: int | None  # the queues reject what is more than that; None: whatever the rest of the shape says
    echoes: str = ""  # whether the remote sends back what the node has sent to it, see ``echoes.py``
    echo_window_s: float = 0.0
    shared: bool = False  # whether the subscription is shared by the lanes of the bridge
    rings_window_s: float = 0.0  # of the copies that are left out, see ``rings.py``


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message at the remote. retain: its publisher's flag. waits: it is there before, and follows a SUBSCRIBE."""

    message: Message
    retain: bool
    waits: bool

    @property
    def number(self) -> int:
        return self.message.number


_UNSEEN = ("hold-releases", "session-loss-unseen")  # much has to come together until identifiers are believed that are of before
_CHAINS = (
    ("kill:bridge:cloud:0",),
    ("kill:bridge:cloud:0", "kill:bridge:cloud:0"),
    ("kill:bridge:cloud:0", "session-loss"),
    ("cut", "kill:bridge:cloud:0"),
    ("cut", "kill:store"),
    ("cut", "cut", "cut"),
    ("slow-disk", "cut"),
    ("slow-disk", "session-loss", "kill:bridge:cloud:0"),
    ("delay:bridge:cloud:0", "kill:clients"),
    ("delay:bridge:cloud:0", "cut"),
    ("delay:clients", "kill:store"),
    ("delay:store", "kill:store", "kill:bridge:cloud:0"),
    ("delay:store", "session-loss", "kill:bridge:cloud:0"),
    ("disk-full", "cut", "session-loss"),
    ("hold-releases", "session-loss"),
    ("hold-releases", "session-loss-unseen", "hold-releases", "cut"),
    ("hold-releases", "disk-full", "session-loss", "kill:bridge:cloud:0"),
    ("session-loss", "session-loss"),
    ("stall", "broker-restart"),
    ("kill:store", "power"),
)


def incoming_shape(seed: int) -> IncomingShape | None:
    """None where the remote publishes nothing."""
    rng = Random(f"incoming {seed}")
    if rng.random() >= _SHARE:
        return None
    return drawn(rng, rng.choice(("rule", "rule", "bridge")))


def drawn(rng: Random, through: str) -> IncomingShape:
    """Some shape with what takes it on."""
    return IncomingShape(
        through=through,
        max_qos=rng.choice((2, 2, 2, 2, 1)),
        preserve_retain=rng.random() < 0.7,
        remote_window=rng.choice((1, 3, 20)),
        identifiers=rng.choice((2, 4, 25)),
        keeps_qos0=rng.random() < 0.5,
        inbox_rows=rng.choice((1, 3, 8192)),
        room=rng.choice((2, 4, 8)) if rng.random() < 0.3 else None,
    )


def incoming_messages(seed: int, shape: IncomingShape, span_s: float) -> Iterator[Incoming]:
    """A message that is published at the remote. A message has the topic that it gets here and the QoS that the subscription leaves
    it."""
    rng = Random(f"incoming messages {seed}")
    times = sorted(0.3 + rng.random() * span_s for _ in range(rng.choice((5, 10, 20))))
    if rng.random() < 0.3:
        times = [times[len(times) // 2]] * len(times)
    qos_weights = rng.choice(((1, 3, 6), (1, 6, 3), (2, 4, 4), (0, 0, 1)))
    for number, at_s in enumerate(times, start=FIRST_NUMBER):
        (qos,) = rng.choices((0, 1, 2), qos_weights)
        waits = rng.random() < 0.1
        topic = f"plant/cmd/r{number}" if waits else f"plant/cmd/{rng.choice('ab')}"
        if waits:
            at_s = rng.choice((0.0, at_s))
        message = Message(number, REMOTE, at_s, topic, min(qos, shape.max_qos), rng.choice((0, 0, 5, 40)))
        yield Incoming(message, retain=waits or rng.random() < 0.2, waits=waits)


def incoming_chain(seed: int) -> tuple[Random, tuple[str, ...]]:
    """Faults that come together, beside those of every plan: kinds, some with a target."""
    rng = Random(f"incoming faults {seed}")
    chain = rng.choice(_CHAINS) if rng.random() < 0.6 else ()
    return rng, _UNSEEN if Random(f"unseen {seed}").random() < 0.2 else chain


def with_incoming(bridge: BridgeSettings, shape: IncomingShape) -> tuple[BridgeSettings, ...]:
    """``bridge`` with a remote subscription, and the second bridge if there is one."""
    *_, rule = bridge.local_subscriptions
    rule = replace(rule, only=OnlySettings(), keep_last=False)
    subscription = replace(
        rule,
        filters=(FILTER,),
        shared=GROUP if shape.shared else None,
        destination="plant/{#}",
        max_qos=shape.max_qos,
        preserve_retain=shape.preserve_retain,
        provenance=NOT_TOLD,
    )
    if shape.through == "rule":
        return (replace(bridge, remote_subscriptions=(subscription,), loop_prevention=LoopPreventionSettings(enabled=False)),)
    away = replace(
        bridge,
        name=AWAY,
        remote=replace(bridge.remote, client_id=AWAY),
        lanes=1,
        backlog=OLDEST_FIRST,
        local_subscriptions=(replace(rule, filters=("plant/cmd/#",)),),
        loop_prevention=LoopPreventionSettings(enabled=bridge.loop_prevention.enabled, max_hops=2),
    )
    return (replace(bridge, remote_subscriptions=(subscription,), loop_prevention=LoopPreventionSettings()), away)
