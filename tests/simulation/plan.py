"""The plan of one schedule: a small configuration, the messages, and the faults as an explicit list, all derived from the seed.

A fault or a message is a numbered *step*; ``only`` keeps a choice of them, which is what shrinking does. Leaving steps out changes
nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from storage.store.retained_rules import NEVER
from tests.simulation import extras, options, rings, snapshots
from tests.simulation.changes import changes_of
from tests.simulation.echoes import echoing, equal_messages, with_echoes
from tests.simulation.failover import ADDRESSES
from tests.simulation.incoming import (
    AWAY,
    Incoming,
    IncomingShape,
    drawn,
    incoming_chain,
    incoming_messages,
    incoming_shape,
    with_incoming,
)
from tests.simulation.publisher import Message
from tests.simulation.resends import imported_messages
from tests.simulation.subscribing import (
    FIRST_NUMBER,
    STALL_TIMEOUT_S,
    SubscribersShape,
    session_settings,
    subscriber_chains,
    subscriber_fault,
    subscribers_shape,
)
from tests.simulation.tokens import AUTH, with_tokens
from wire.config_settings import (
    AUTO_PROTOCOL,
    OLDEST_FIRST,
    AccessSettings,
    BackoffSettings,
    BridgeSettings,
    HistorySettings,
    LimitSettings,
    LinkStateSettings,
    ListenerSettings,
    NodeItself,
    NodeSettings,
    OnlySettings,
    RateSettings,
    RemoteSettings,
    RingSettings,
    RuleSettings,
    ThinningSettings,
)
from wire.exchange.packet_identifiers import PACKET_IDS
from wire.frames.names import BRIDGE as BRIDGES
from wire.frames.names import CLIENTS, STORE, SUPERVISOR, child_name
from wire.routing.message_route import ALL, Thinning
from wire.routing.provenance import NOT_TOLD

BRIDGE = "cloud"
CLIENT_ID = "edge"
LINK_STATE = LinkStateSettings().topic
PRIMARY_RETRY_S = 0.15
RINGS = 0.06  # of the seeds that may have them, and in which the remote publishes nothing else
FIRST_OF_LIVE_LANE, FIRST_OF_RETAINED, FIRST_OF_SHARED = 900, 950, 970  # of the steps
FIRST_OF_RINGS = 990
WEAK: dict[str, Any] = {"acknowledge": "fast", "flush_period_s": 0.5, "sync": "os"}


@dataclass(frozen=True, slots=True)
class Shape:
    """The configuration of a schedule, and the constants that are made small for it."""

    mode: str
    persist: bool
    acknowledge: str
    sync: str
    flush_period_s: float
    gather_s: float
    lanes: int
    level: int
    window: int  # receive_maximum that the bridge sets itself
    remote_window: int  # receive maximum that the broker tells
    qos2_maximum: int  # of the bridge, or what the broker says when it is asked
    on_session_loss: str
    max_qos: int
    min_qos: int
    max_messages: int | None
    overflow: str
    max_age_s: float | None
    tier2_messages: int
    restarts_max: int
    publishers: tuple[tuple[int, int], ...]  # level, window
    in_hand: int
    batch_rows: int
    overlap_rows: int
    trim_messages: int
    split_rows: int
    cache_bytes: int
    read_ahead: int
    socket_window: int
    latency_s: float
    incoming: IncomingShape | None = None  # what the remote publishes to the node
    packet_ids: int = PACKET_IDS  # how many packet identifiers there are
    retention_s: float = 0.0
    retention_max_bytes: int = 1 << 30
    settlements_a_pass: int = 2000
    subscribers: SubscribersShape | None = None  # local clients that subscribe
    second: str = ""  # what a second address of the remote is: the same broker, or another; nothing for no second address
    asked: str = ""  # what an MQTT 3.1.1 broker does when it is asked for its limit: told, unknown; nothing: it is not asked
    placement: str = "isolated"
    rate: RateSettings = options.UNLIMITED
    provenance: str = NOT_TOLD
    classes: tuple[tuple[str, str], ...] = ()  # filters of the rules that name a class, and which
    backlog: str = OLDEST_FIRST
    thinning: Thinning = ALL  # of each rule
    link_state: bool = False
    login: str = ""  # by tokens, as authentication data (``auth``) or as a password
    resends: bool = False  # an operator has some go again, or imports some
    retained: str = NEVER  # of each rule
    thinned_topics: int = 10_000  # of which something is remembered
    bridges_isolated: bool | None = None  # whether each bridge has a process of its own where the others share one
    may_be_older: bool = False  # at each connection the remote may speak MQTT 3.1.1 alone
    weak_store: bool = False  # whether the store promises little, and what is judged is promised for the bridge


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. target and amount mean what ``kind`` says (see ``faults.py``)."""

    number: int
    at_s: float
    kind: str
    target: str
    amount: float

    def __str__(self) -> str:
        return f"step {self.number}: at {self.at_s:.3f} s {self.kind} {self.target} {self.amount:g}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that the seed decides before the schedule runs."""

    seed: int
    shape: Shape
    faults: tuple[Fault, ...]
    messages: tuple[Message, ...]
    incoming: tuple[Incoming, ...] = ()
    imported: tuple[Message, ...] = ()  # the lines of a file

    def steps(self) -> list[int]:
        """The numbers of all steps."""
        numbers = [fault.number for fault in self.faults] + [message.number for message in self.messages]
        return numbers + [incoming.number for incoming in self.incoming]

    def only(self, steps: Collection[int]) -> Plan:
        """The plan without all other steps."""
        return replace(
            self,
            faults=tuple(fault for fault in self.faults if fault.number in steps),
            messages=tuple(message for message in self.messages if message.number in steps),
            incoming=tuple(incoming for incoming in self.incoming if incoming.number in steps),
        )


def make_plan(seed: int, placement: str | None = None) -> Plan:
    """The plan of ``seed``; placement: whether each child has a process, or all share one. None: as the seed says."""
    rng = Random(f"plan {seed}")
    shape = extras.reshape(Random(f"shape {seed}"), _shape(rng))
    shape = replace(shape, gather_s=Random(f"gather {seed}").choice((0.0, 0.002, 0.002, 0.03)))
    shape = _placed(Random(f"placement {seed}"), shape) if placement is None else replace(shape, placement=placement)
    shape = options.with_options(seed, shape)
    if shape.persist:
        raised = Random(f"min_qos {seed}").choice((*[0] * 14, 1, 2))
        shape = replace(shape, min_qos=min(raised, shape.max_qos))
    span_s = rng.choice((0.2, 1.0, 4.0))
    faults = tuple(sorted(_faults(rng, shape, span_s), key=lambda fault: fault.at_s))
    faults = tuple(replace(fault, number=number) for number, fault in enumerate(faults))
    faults = (*faults, *(Fault(number, *step) for number, step in enumerate(_more(seed, shape, span_s), start=30)))
    first = 100
    count = rng.choice((10, 15, 20, 30, 40, 60))
    times = sorted(0.3 + rng.random() * span_s for _ in range(count))
    if rng.random() < 0.3:
        times = [0.3 + round((at_s - 0.3) / span_s * 3) / 3 * span_s for at_s in times]  # in bursts
    qos_weights = rng.choice(((1, 3, 6), (1, 6, 3), (2, 4, 4), (0, 0, 1)))
    messages = []
    for number, at_s in enumerate(times, start=first):
        publisher = rng.randrange(len(shape.publishers))
        topic = f"plant/{publisher}/{rng.choice('ab')}"
        (qos,) = rng.choices((0, 1, 2), qos_weights)
        messages.append(Message(number, publisher, at_s, topic, qos, rng.choice((0, 0, 5, 40))))
    plan = _with_subscribers(_with_incoming(Plan(seed, shape, faults, tuple(messages)), span_s), span_s)
    if plan.shape.lanes == 1 and "lanes" not in changes_of(plan):
        plan = _with_live_lane(plan, span_s)
    plan = _with_rings(_with_shared(_with_echoes(_with_retained(plan, span_s)), span_s), span_s)
    shape = plan.shape
    if shape.resends:
        plan = replace(plan, imported=tuple(imported_messages(seed, shape.min_qos, shape.max_qos)))
    if shape.mode != "file-native" or not shape.persist or shape.subscribers is not None:
        return plan
    return replace(plan, shape=replace(shape, weak_store=Random(f"durability {seed}").random() < 0.2))


def _with_live_lane(plan: Plan, span_s: float) -> Plan:
    """The plan, perhaps with a lane beside a backlog, and with what makes a backlog and hurts the lane."""
    shape = options.with_live_lane(plan.seed, plan.shape)
    if shape is plan.shape:
        return plan
    steps = enumerate(sorted(extras.live_lane(Random(f"live lane faults {plan.seed}"), span_s)), start=FIRST_OF_LIVE_LANE)
    faults = sorted((*plan.faults, *(Fault(number, *step) for number, step in steps)), key=lambda fault: fault.at_s)
    return replace(plan, shape=shape, faults=tuple(faults))


def _with_retained(plan: Plan, span_s: float) -> Plan:
    """The plan, perhaps with rules that bring what was retained before, and with what has them bring it again."""
    retained = options.retained(plan.seed)
    if retained == NEVER or plan.shape.subscribers is not None:
        return plan
    rng = Random(f"retain {plan.seed}")
    messages = tuple(replace(message, retain=rng.random() < 0.4) for message in plan.messages)
    steps = enumerate(sorted(extras.retained(rng, span_s)), start=FIRST_OF_RETAINED)
    faults = sorted((*plan.faults, *(Fault(number, *step) for number, step in steps)), key=lambda fault: fault.at_s)
    return replace(plan, shape=replace(plan.shape, retained=retained), faults=tuple(faults), messages=messages)


def _with_incoming(plan: Plan, span_s: float) -> Plan:
    """The plan with what its remote publishes, if it does, and faults that come with it."""
    incoming = incoming_shape(plan.seed)
    if incoming is None:
        return plan
    shape = replace(plan.shape, incoming=incoming)
    if incoming.room is not None:
        shape = replace(shape, max_messages=incoming.room, overflow="reject")
    rng, chain = incoming_chain(plan.seed)
    at_s = 0.25 + rng.random() * span_s
    more = list(_linked(rng, chain, at_s, shape, first=60))
    left = Random(f"left {plan.seed}")
    if left.random() < 0.3:  # two brokers that each keep something while the lane is at the other
        shape = replace(shape, second="other", packet_ids=left.choice((16, 20)))
        steps = [step for _ in range(2) for step in extras.failovers(left, span_s)]
        more += [Fault(number, *step) for number, step in enumerate(sorted(steps), start=70)]
    faults = sorted((*plan.faults, *more), key=lambda fault: fault.at_s)
    if shape.second == "same":  # its sessions cannot be told apart: the limit that the architecture states
        faults = [fault for fault in faults if not fault.kind.startswith("session-loss")]
    return replace(plan, shape=shape, faults=tuple(faults), incoming=tuple(incoming_messages(plan.seed, incoming, span_s)))


def _with_echoes(plan: Plan) -> Plan:
    """The plan, perhaps with a remote that sends back a part of what it gets, where nobody but the bridge wants that."""
    shape, incoming = plan.shape, plan.shape.incoming
    if incoming is None or incoming.through != "bridge" or shape.second or shape.may_be_older or shape.subscribers is not None:
        return plan
    incoming = echoing(plan.seed, incoming, shape.level)
    if not incoming.echoes or shape.provenance != NOT_TOLD:
        return plan
    equal = equal_messages(plan.seed, plan.messages, incoming.max_qos)
    return replace(plan, shape=replace(shape, incoming=incoming), incoming=(*plan.incoming, *equal))


def _with_shared(plan: Plan, span_s: float) -> Plan:
    """The plan, perhaps with lanes that share what the remote publishes, and of which one is taken out or dies."""
    shape, incoming, rng = plan.shape, plan.shape.incoming, Random(f"shares {plan.seed}")
    if incoming is None or incoming.echoes or shape.second or shape.mode != "file-native" or rng.random() >= 0.23:
        return plan
    if shape.backlog != OLDEST_FIRST or shape.thinning != ALL:  # several lanes, by which a topic comes in whatever order
        return plan
    if any(fault.kind == "purge" and fault.target == "in-flight" for fault in plan.faults):
        return plan  # of a lane that is taken out: nobody comes back then for what the remote keeps in that session
    shape = replace(shape, lanes=rng.choice((2, 2, 3)), incoming=replace(incoming, shared=True))
    steps = enumerate(sorted(extras.shared(rng, span_s)), start=FIRST_OF_SHARED)
    faults = sorted((*plan.faults, *(Fault(number, *step) for number, step in steps)), key=lambda fault: fault.at_s)
    messages = tuple(replace(each, waits=False) for each in plan.incoming)  # no retained message comes by such a subscription
    return replace(plan, shape=shape, faults=tuple(faults), incoming=messages)


def _with_rings(plan: Plan, span_s: float) -> Plan:
    """The plan, perhaps with a bridge beside the one that subscribes, which brings copies of what that brings."""
    shape, incoming, rng = plan.shape, plan.shape.incoming, Random(f"rings {plan.seed}")
    if rng.random() >= (RINGS if incoming is None else 0.8):
        return plan
    incoming = replace(drawn(rng, "bridge"), room=None) if incoming is None else incoming
    if incoming.through != "bridge" or incoming.echoes or incoming.shared:
        return plan
    if shape.second or shape.may_be_older or shape.subscribers is not None or shape.login or shape.resends or changes_of(plan):
        return plan
    promised = shape.mode == "file-native" and shape.persist and shape.provenance == NOT_TOLD and shape.retained == NEVER
    if not promised or shape.thinning != ALL or shape.max_messages is not None or shape.max_age_s is not None:
        return plan
    incoming = replace(incoming, rings_window_s=rng.choice((1.0, 4.0, 3600.0)))
    copies = tuple(rings.copies(rng, incoming.rings_window_s, incoming.max_qos, span_s))
    steps = enumerate(sorted(rings.faults(rng, span_s)), start=FIRST_OF_RINGS)
    faults = sorted((*plan.faults, *(Fault(number, *step) for number, step in steps)), key=lambda fault: fault.at_s)
    there = tuple(Incoming(copy, retain=False, waits=False) for copy in copies if copy.way != rings.HERE)
    here = tuple(copy for copy in copies if copy.way == rings.HERE)
    return replace(
        plan,
        shape=replace(shape, incoming=incoming),
        faults=tuple(faults),
        messages=(*plan.messages, *here),
        incoming=(*plan.incoming, *there),
    )


def _with_subscribers(plan: Plan, span_s: float) -> Plan:
    """The plan with local clients that subscribe, if there are any, and faults that come with them."""
    subscribers = subscribers_shape(plan.seed, span_s)
    if subscribers is None:
        return plan
    shape = replace(plan.shape, subscribers=subscribers)
    more: list[Fault] = []
    for rng, at_s, chain in subscriber_chains(plan.seed, span_s):
        more += _linked(rng, chain, at_s, shape, first=FIRST_NUMBER + len(more))
    faults = sorted((*plan.faults, *more), key=lambda fault: fault.at_s)
    return replace(plan, shape=shape, faults=tuple(faults))


def _linked(rng: Random, chain: Iterable[str], at_s: float, shape: Shape, *, first: int) -> Iterable[Fault]:
    """Faults that follow one another closely; ``kind:target`` names a target."""
    for number, link in enumerate(chain, start=first):
        kind, _, target = link.partition(":")
        fault = replace(_fault(rng, kind, at_s, shape), number=number)
        yield replace(fault, target=target) if target else fault
        at_s += rng.choice((0.001, 0.03, 0.1, 0.4))


def _shape(rng: Random) -> Shape:
    strict = rng.random() < 0.75  # the configuration that promises most
    limited = rng.random() < 0.25
    return Shape(
        mode="file-native" if strict or rng.random() < 0.7 else "in-memory",
        persist=strict or rng.random() < 0.8,
        acknowledge="after-commit" if strict or rng.random() < 0.8 else "fast",
        sync="full" if strict or rng.random() < 0.5 else "os",
        flush_period_s=rng.choice((0.0, 0.0, 0.0, 0.02, 0.2)),
        gather_s=0.0,  # drawn apart
        lanes=rng.choice((1, 1, 2)),
        level=rng.choice((4, 5)),
        window=rng.choice((2, 3, 8, 30)),
        remote_window=rng.choice((1, 2, 5, 20)),
        qos2_maximum=rng.choice((1, 2, 5, 20)),
        on_session_loss=rng.choice(("assume-delivered", "republish")),
        max_qos=rng.choice((2, 2, 2, 2, 1)),
        min_qos=0,  # drawn apart
        max_messages=rng.choice((3, 6, 12)) if limited else None,
        overflow=rng.choice(("reject", "reject", "drop-oldest", "drop-newest")),
        max_age_s=rng.choice((4.0, 15.0)) if rng.random() < 0.06 else None,
        tier2_messages=rng.choice((1, 2, 8, 1000)),
        restarts_max=rng.choice((50, 50, 50, 2)),
        publishers=tuple((rng.choice((4, 5)), rng.choice((1, 3, 20))) for _ in range(rng.choice((1, 2, 3)))),
        in_hand=rng.choice((1, 4, 2048)),
        batch_rows=rng.choice((2, 5, 8192)),
        overlap_rows=rng.choice((1, 3, 64)),
        trim_messages=rng.choice((1, 5, 5000)),
        split_rows=rng.choice((2, 4000)),
        cache_bytes=rng.choice((0, 200, 8 << 20)),
        read_ahead=rng.choice((1, 3, 1000)),
        socket_window=rng.choice((40, 200, 65_536)),
        latency_s=rng.choice((0.0002, 0.002, 0.02)),
    )


def _placed(rng: Random, shape: Shape) -> Shape:
    """Half of all nodes have their actors in one process, some of them but for the bridges'."""
    placement, bridges_isolated = rng.choice((*(("isolated", None),) * 4, *(("together", None),) * 3, ("together", True)))
    return replace(shape, placement=placement, bridges_isolated=bridges_isolated)


def processes_of(shape: Shape) -> list[str]:
    """The children of the node."""
    lanes = [child_name(BRIDGES, BRIDGE, lane) for lane in (*range(shape.lanes), *options.named_lanes(shape))]
    if shape.incoming is not None and shape.incoming.through == "bridge":
        lanes.append(child_name(BRIDGES, AWAY, 0))
    return [STORE, CLIENTS, *lanes]


_KINDS = (
    ("kill", 10),
    ("freeze", 2),
    ("power", 2),
    ("stop", 1),
    ("cut", 6),
    ("half-open", 1),
    ("broker-restart", 2),
    ("session-loss", 1),
    ("refuse", 2),
    ("stall", 2),
    ("reject", 1),
    ("slow-broker", 1),
    ("disk-full", 2),
    ("slow-disk", 1),
    ("clock", 1),
    ("delay", 2),
    ("client-cut", 4),
)


_CHAINS = (
    ("delay", "kill"),
    ("delay", "kill", "kill"),
    ("kill", "kill"),
    ("stall", "session-loss", "kill"),
    ("session-loss", "kill"),
    ("session-loss", "power"),
    ("slow-broker", "session-loss", "kill", "kill"),
    ("cut", "power"),
    ("disk-full", "power"),
    ("disk-full", "kill", "kill"),
    ("slow-disk", "kill", "client-cut"),
    ("client-cut", "kill"),
    ("delay:clients", "kill:clients"),
    ("delay:clients", "kill:clients", "kill:clients"),
    ("session-loss", "disk-full", "kill:bridge:cloud:0"),
    ("session-loss", "slow-disk", "power"),
)


def _faults(rng: Random, shape: Shape, span_s: float) -> Iterable[Fault]:
    kinds, weights = zip(*_KINDS, strict=True)
    chosen = rng.sample(kinds, rng.choice((1, 2, 4)), counts=weights) if rng.random() < 0.6 else list(kinds)
    weights = tuple(weight if kind in chosen else 0 for kind, weight in _KINDS)
    for _ in range(rng.choice((0, 1, 2, 2, 3, 4, 6))):
        (kind,) = rng.choices(kinds, weights)
        at_s = 0.25 + rng.random() * (span_s + 0.5)
        yield _fault(rng, kind, at_s, shape)
    if rng.random() < 0.4:  # what hurts most comes together
        at_s = 0.25 + rng.random() * span_s
        yield from _linked(rng, rng.choice(_CHAINS), at_s, shape, first=0)


def _more(seed: int, shape: Shape, span_s: float) -> list[extras.Step]:
    """Steps that came later than others into the simulation."""
    rng = Random(f"more {seed}")
    steps = list(extras.commands(rng, span_s)) if rng.random() < 0.3 else []
    if shape.second:
        steps += extras.failovers(Random(f"failover {seed}"), span_s)
    changes = Random(f"changes {seed}")
    if changes.random() < 0.12:
        steps += extras.changes(changes, span_s)
    dislikes = Random(f"dislikes {seed}")
    if dislikes.random() < 0.04:
        steps += extras.dislikes(dislikes, span_s)
    lanes = Random(f"lanes {seed}")
    if lanes.random() < 0.06:
        steps += extras.lane_changes(lanes, span_s)
    rules = Random(f"rules {seed}")
    if rules.random() < 0.06:
        steps += extras.rule_changes(rules, span_s)
    live = Random(f"live {seed}")
    if live.random() < 0.1:
        steps += extras.live_changes(live, span_s)
    late = Random(f"late {seed}")
    if late.random() < 0.1:
        steps += extras.late_words(late, span_s)
    if shape.resends:
        steps += extras.resends(Random(f"resends {seed}"), span_s)
    steps += snapshots.steps(Random(f"snapshots {seed}"), span_s)
    return sorted(steps)


def _fault(rng: Random, kind: str, at_s: float, shape: Shape) -> Fault:
    target, amount = "", 0.0
    children = processes_of(shape)
    match kind:
        case "kill":
            target = rng.choice([*children, *children, SUPERVISOR])
            amount = float(rng.choice((0, 1, 2, 3, 5, 8, 13, 21)))  # effects from now on
        case "freeze":
            target, amount = rng.choice([*children, SUPERVISOR]), rng.choice((0.05, 0.7, 4.0, 12.0))
        case "power" | "stop":
            amount = rng.choice((0.1, 2.0))  # seconds until the node is started again
        case "cut":
            target, amount = rng.choice(("in", "out")), float(rng.randrange(0, 200))  # bytes from now on
        case "client-cut":
            target, amount = str(rng.randrange(len(shape.publishers))), float(rng.choice((-1, *range(0, 120, 3))))
        case "half-open":
            target = rng.choice(("remote", "client"))
        case "broker-restart" | "refuse" | "stall" | "slow-broker" | "disk-full" | "slow-disk":
            amount = rng.choice((0.05, 0.5, 3.0, 9.0))
        case "session-loss-unseen":
            target, amount = f"bridge:{BRIDGE}:0", float(rng.choice((1, 2, 3, 4, 5, 8)))  # effects from the CONNACK on
        case "hold-releases":
            amount = rng.choice((0.5, 3.0))
        case "reject":
            amount = float(rng.choice((1, 2, 5)))
        case "clock":
            amount = rng.choice((-7200.0, -5.0, 3.0, 7200.0))
        case "delay":
            target, amount = rng.choice(children), rng.choice((0.05, 0.5, 5.0))
        case _ if kind.startswith("subscriber-") and shape.subscribers is not None:
            target, amount = subscriber_fault(rng, kind, len(shape.subscribers.clients))
    return Fault(0, at_s, kind, target, amount)


@cache
def _base() -> NodeSettings:
    rule = RuleSettings(name="plant/#", filters=("plant/#",), destination="up/{#}")
    remote = RemoteSettings(addresses=(("127.0.0.1", 1883),), client_id=CLIENT_ID)
    return NodeSettings(
        node=NodeItself(name="edge", data_dir="/nonexistent"),
        access=AccessSettings(allow_anonymous=True),
        listeners=(ListenerSettings(bind="127.0.0.1:1883"),),
        bridges=(BridgeSettings(name=BRIDGE, remote=remote, local_subscriptions=(rule,)),),
        history=HistorySettings(keep_s=0.0),  # it has a thread and files of its own, and no part in a message's way
    )


def _rules(shape: Shape, last: RuleSettings) -> Iterable[RuleSettings]:
    """The rules of the bridge: one for each class, and the ``last`` for what none of them has."""
    last = replace(
        last,
        max_qos=shape.max_qos,
        min_qos=shape.min_qos,
        provenance=shape.provenance,
        only=OnlySettings(changed=shape.thinning.changed, one_per_s=shape.thinning.period_ms / 1000),
        keep_last=shape.thinning.keep_last,
        retained=shape.retained,
    )
    for topic_filter, priority in shape.classes:
        yield replace(last, name=topic_filter, filters=(topic_filter,), priority=priority)
    yield last


def settings_of(shape: Shape) -> NodeSettings:
    """The settings of the node's processes."""
    base = _base()
    backoff = BackoffSettings(initial_s=0.2, max_s=2.0, factor=2.0, jitter=0.25, stable_s=5.0)
    bridge = base.bridges[0]
    limits: LimitSettings = replace(
        bridge.limits,
        max_messages=shape.max_messages,
        max_bytes=None,
        max_age_s=shape.max_age_s,
        min_free_disk_bytes=0,
        overflow=shape.overflow,
    )
    promised = replace(
        base.persistence,
        mode=shape.mode,
        acknowledge=shape.acknowledge,
        flush_period_s=shape.flush_period_s,
        sync=shape.sync,
        gather_s=shape.gather_s,
    )
    bridge = replace(
        bridge,
        remote=replace(
            bridge.remote,
            addresses=ADDRESSES if shape.second else ADDRESSES[:1],
            protocol=AUTO_PROTOCOL if shape.may_be_older else shape.level,
            receive_maximum=shape.window,
            qos2_maximum=0 if shape.asked else shape.qos2_maximum,
            stall_timeout_s=4.0,
            primary_retry_s=PRIMARY_RETRY_S,
            connect_timeout_s=3.0,
            keep_alive_s=20,
        ),
        persist=shape.persist,
        isolated=shape.bridges_isolated,
        backoff=backoff,
        lanes=shape.lanes,
        tier2=replace(bridge.tier2, max_messages=shape.tier2_messages),
        local_subscriptions=tuple(_rules(shape, *bridge.local_subscriptions)),
        backlog=shape.backlog,
        link_state=LinkStateSettings() if shape.link_state else None,
        thinning=ThinningSettings(max_topics=shape.thinned_topics),
        rate=shape.rate,
        on_session_loss=shape.on_session_loss,
        limits=limits,
        durability=promised if shape.weak_store else None,
        retention_s=shape.retention_s,
        retention_max_bytes=shape.retention_max_bytes,
    )
    bridges: tuple[BridgeSettings, ...] = (bridge,)
    if shape.incoming is not None:
        bridges = with_incoming(bridge, shape.incoming)
        if shape.incoming.echoes:
            bridges = (with_echoes(bridges[0], shape.incoming), *bridges[1:])
        if shape.incoming.rings_window_s:
            bridges = rings.with_rings(bridges)
    settings = replace(
        base,
        run_dir=str(Path("/nonexistent/run")),
        persistence=replace(promised, **WEAK) if shape.weak_store else promised,
        limits=replace(base.limits, max_messages=None, max_bytes=None, max_age_s=None, min_free_disk_bytes=0),
        clients=replace(base.clients, stall_timeout_s=STALL_TIMEOUT_S),
        sessions=base.sessions if shape.subscribers is None else session_settings(base.sessions, shape.subscribers),
        bridges=bridges,
        rings=RingSettings(window_s=0.0 if shape.incoming is None else shape.incoming.rings_window_s),
        supervision=replace(
            base.supervision,
            placement=shape.placement,
            heartbeat_period_s=1.5,
            heartbeat_timeout_s=5.0,
            restarts_max=shape.restarts_max,
            restart_period_s=60.0,
            restart_backoff=replace(backoff, initial_s=0.1, max_s=1.0),
            stop_timeout_s=3.0,
        ),
    )
    return with_tokens(settings, by_auth=shape.login == AUTH) if shape.login else settings
