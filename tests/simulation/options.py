"""Options of a bridge that a few seeds have, and what they legally change: how fast it sends, what its messages tell, by which lane
they leave, and which are left out.

Drawn by chance of its own, so that everything else that a seed decides is as it would be without them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

from storage.store.retained_rules import EACH_SESSION, NEVER
from tests.simulation.world import Violation
from wire.config_settings import BULK, LIVE, LIVE_FIRST, URGENT, RateSettings
from wire.frames.names import LaneLabel, lane_label
from wire.routing.message_route import Thinning
from wire.routing.provenance import ENVELOPE, NOT_TOLD, USER_PROPERTIES

if TYPE_CHECKING:
    from tests.simulation.mqtt import Publish
    from tests.simulation.plan import Shape

LEVEL_5 = 5
FILE_TOPIC = "plant/file"  # of what is imported
SEND_ONCE = "send-once"
UNLIMITED = RateSettings()
_PACKET_BYTES = 500
_PREFIX = "bascule-"
_ENVELOPE_BEGINS = b'{"topic":'
_CLASSES = (
    (("plant/+/a", URGENT),),
    (("plant/+/b", BULK),),
    (("plant/0/#", URGENT), ("plant/+/b", BULK)),
)
_THINNINGS = (
    Thinning(changed=True),
    Thinning(keep_last=True),
    Thinning(period_ms=300),
    Thinning(period_ms=2000),
    Thinning(changed=True, keep_last=True),
    Thinning(changed=True, period_ms=700),
    Thinning(period_ms=700, keep_last=True),
)


def with_options(seed: int, shape: Shape) -> Shape:
    """``shape`` with what ``seed`` draws."""
    rate, told = Random(f"rate {seed}"), Random(f"provenance {seed}")
    if rate.random() < 0.08:
        scope = rate.choice(("all", "all", "backlog"))
        limit = RateSettings(messages_per_s=rate.choice((20, 50, 200)), burst_s=rate.choice((0.05, 0.3, 1.0)), applies_to=scope)
        limit = replace(limit, bytes_per_s=rate.choice((None, 2048)), per=rate.choice(("bridge", "lane")))
        shape = replace(shape, rate=limit)
    if told.random() < 0.08:
        shape = replace(shape, provenance=told.choice((ENVELOPE, USER_PROPERTIES if shape.level == LEVEL_5 else ENVELOPE)))
    classes, thinned = Random(f"classes {seed}"), Random(f"thinned {seed}")
    if classes.random() < 0.08:
        shape = replace(shape, classes=classes.choice(_CLASSES))
    if thinned.random() < 0.08:
        shape = replace(shape, thinning=thinned.choice(_THINNINGS), thinned_topics=thinned.choice((1, 10_000, 10_000)))
    if Random(f"link state {seed}").random() < 0.12:
        shape = replace(shape, link_state=True)
    if Random(f"resend {seed}").random() < 0.06:
        shape = replace(shape, resends=True, retention_s=3600.0, retention_max_bytes=1 << 30)
    if Random(f"version {seed}").random() < 0.1 and shape.level == LEVEL_5 and shape.provenance == NOT_TOLD:
        shape = replace(shape, may_be_older=True)
    return shape


def retained(seed: int) -> str:
    """Whether rules bring what was retained before."""
    rng = Random(f"retained {seed}")
    return rng.choice((SEND_ONCE, EACH_SESSION)) if rng.random() < 0.07 else NEVER


def with_live_lane(seed: int, shape: Shape) -> Shape:
    """``shape``, perhaps with a lane beside a backlog; it has one lane, and never more."""
    return replace(shape, backlog=LIVE_FIRST) if Random(f"live lane {seed}").random() < 0.12 else shape


def named_lanes(shape: Shape) -> tuple[str, ...]:
    """The lanes that have names."""
    classes = dict.fromkeys(priority for _, priority in shape.classes)
    return (*classes, LIVE) if shape.backlog == LIVE_FIRST else tuple(classes)


@dataclass(frozen=True, slots=True)
class Told:
    """What a message tells of its acceptance. place: node, bridge and lane."""

    time: str
    place: tuple[str, str, LaneLabel]
    sequence: int
    stored: bool

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Told:
        """``facts``: by their names, as in an envelope."""
        return cls(facts["time"], (facts["node"], facts["bridge"], facts["lane"]), facts["sequence"], facts["stored"])


def opened(payload: bytes) -> tuple[bytes, Told | None]:
    """The payload as it was published, and what an envelope around it tells."""
    if not payload.startswith(_ENVELOPE_BEGINS):
        return payload, None
    facts = json.loads(payload)
    return facts["payload"].encode(), Told.of(facts)


def told_by(properties: Sequence[tuple[str, str]]) -> Told | None:
    """What user properties tell."""
    named = {name.removeprefix(_PREFIX): value for name, value in properties if name.startswith(_PREFIX)}
    if "sequence" not in named:
        return None
    facts: dict[str, Any] = {**named, "lane": lane_label(named["lane"])}
    return Told.of({name: json.loads(value) if name in ("sequence", "stored") else value for name, value in facts.items()})


class OptionsSeen:
    """Judges what leaves for the remote by the options of ``shape``; bridge: its name."""

    def __init__(self, shape: Shape, bridge: str, *, steady: bool) -> None:
        """steady: the number of lanes does not change, so that each lane has one limit on each of its connections."""
        self._provenance = shape.provenance
        self._packet_ids = shape.packet_ids
        self._bridge = bridge
        self._rate = shape.rate if steady and shape.rate.applies_to == "all" else UNLIMITED
        window = min(shape.window, shape.remote_window) if shape.level == LEVEL_5 else shape.window
        self._delayed = window if shape.socket_window < _PACKET_BYTES else 0  # PUBLISHes that a full socket may have held up
        self._sent: dict[object, tuple[float, int]] = {}  # connection -> when it began, and how many PUBLISHes left by it
        self._times: dict[tuple[tuple[str, str, LaneLabel], int, bytes], str] = {}

    def written(self, connection: object, lane: LaneLabel, packet: Publish, now_s: float, at_most_s: float) -> None:
        """A PUBLISH of ``lane`` leaves on ``connection``, at ``now_s`` or up to ``at_most_s``."""
        began_s, sent = self._sent.get(connection, (now_s, 0))
        self._sent[connection] = (began_s, sent + 1)
        limit = self._rate.messages_per_s
        if (
            limit is not None
            and sent + 1 > max(1.0, limit * self._rate.burst_s) + limit * (at_most_s - began_s) + self._delayed + 1e-6
        ):
            raise Violation("exchange.rate-kept", f"{sent + 1} PUBLISHes in {now_s - began_s:.3f} s, {self._rate}")
        self._judge_told(lane, packet)

    def _judge_told(self, lane: LaneLabel, packet: Publish) -> None:
        told = packet.told
        if packet.topic == f"up/{FILE_TOPIC}":
            return  # its file says nothing of that
        if (told is None) != (self._provenance == NOT_TOLD):
            raise Violation("provenance", f"{packet}, where it is to tell {self._provenance}")
        if told is None:
            return
        if told.place != ("edge", self._bridge, lane):
            raise Violation("provenance", f"{packet} on lane {lane}")
        if packet.qos and told.sequence % self._packet_ids + 1 != packet.packet_id:
            raise Violation("provenance", f"{packet}, and its identifier is of another sequence")
        if packet.qos and self._times.setdefault((told.place, told.sequence, packet.payload), told.time) != told.time:
            raise Violation("provenance", f"{packet}, which told another time before")


class LiveLaneSeen:
    """Judges what enters the first lane while something waits in the one beside it."""

    def __init__(self, first: str, beside: str) -> None:
        self._first = first
        self._beside = beside
        self._stood: tuple[int, int] | None = None  # where the first lane's queue stood while both links stood, and how often

    def turn_ended(self, lanes: Mapping[str, Any]) -> None:
        """A turn of the store.

        Raises:
            Violation: routing.live-beside-backlog.
        """
        first, beside = lanes.get(self._first), lanes.get(self._beside)
        before, self._stood = self._stood, None
        if first is None or beside is None or not (beside.queue.depth and beside.is_linked):
            return
        entered = first.queue.ledger.accepted - sum(first.queue.ledger.dropped.values())
        self._stood = entered, beside.epoch
        if before is not None and before[1] == beside.epoch and entered > before[0]:
            raise Violation(
                "routing.live-beside-backlog", f"{entered - before[0]} more enter {self._first}, and something waits beside it"
            )
