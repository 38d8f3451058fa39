"""A day in the life of a node, for generated snapshots: who publishes what, when links go down, what remotes refuse. Seeded.

Three bridges: ``cloud`` (two lanes, most of the traffic), ``plant`` (one lane, which flaps) and ``archive`` (a small queue that
drops its oldest messages and lets old ones expire). Few topics have most of the messages; nights are quiet; a clock is put forward
once, a node starts anew once, an operator purges once. Tier 1 is filled by the store's own doing.
"""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path

from tests.support.made_snapshots.node_model import LaneModel, NodeModel, retained_rows
from wire.config_settings import (
    AccessSettings,
    BridgeSettings,
    LimitSettings,
    LoopPreventionSettings,
    NodeItself,
    NodeSettings,
    PersistenceSettings,
    RefusalSettings,
    RemoteSettings,
    Tier2Settings,
)
from wire.frames.batch import RETAIN, Batch, route_columns
from wire.frames.frame import Frame
from wire.frames.intake import SessionClose, SessionOpen, SessionOpened
from wire.frames.names import LISTENER, connection_name, queue_name
from wire.frames.subscriptions import SubscriptionsAdd
from wire.frames.supervision import NodeEvents, QueueCommand
from wire.ranges import RangeSet
from wire.routing.message_route import MessageRoute

TOPICS = 400
ROWS_A_TURN = 40
WINDOW = 2000
DRAIN_ROWS = 4000  # what a remote takes of a backlog in one step
ARCHIVE_WINDOW = 20
RULES = ("telemetry", "state", "alarms")
LANES = {"cloud": 2, "plant": 1, "archive": 1}
SENSORS = ("temperature", "pressure", "vibration", "state", "alarm", "energy", "count", "speed")
SESSIONS = ("dashboard", "historian", "phone-7")


def route_called(rule: str) -> bytes:
    """The queue's record of the rule called ``rule``."""
    return MessageRoute(rule, "{#}", True, b"").encode()


def settings_of(name: str, *, messages: int, hours: float) -> NodeSettings:
    """The settings of a node of this kind; where its data is, is for the caller to say."""
    retention_s = hours * 3600 * 2
    limits = LimitSettings(max_messages=None, max_bytes=None, min_free_disk_bytes=64 << 20)
    archive = LimitSettings(
        max_messages=max(10, messages // 150),
        max_bytes=64 << 20,
        max_age_s=hours * 3600 * 0.042,
        min_free_disk_bytes=0,
        volatile_max_bytes=1 << 20,
        overflow="drop-oldest",
    )
    cloud = replace(limits, max_messages=1_000_000, max_bytes=1 << 30)
    return NodeSettings(
        node=NodeItself(name=name, data_dir=""),
        listeners=(),
        access=AccessSettings(allow_anonymous=True),
        persistence=PersistenceSettings(sync="os"),
        limits=limits,
        bridges=tuple(
            _bridge(bridge, lanes, {"archive": archive, "cloud": cloud}.get(bridge, limits), retention_s)
            for bridge, lanes in LANES.items()
        ),
    )


def _bridge(name: str, lanes: int, limits: LimitSettings, retention_s: float) -> BridgeSettings:
    remote = RemoteSettings(addresses=((f"{name}.example", 8883),), transport="tls", client_id=name, session_expiry_s=86400)
    return BridgeSettings(
        name=name,
        remote=remote,
        lanes=lanes,
        tier2=Tier2Settings(max_messages=WINDOW, max_bytes=64 << 20),
        loop_prevention=LoopPreventionSettings(enabled=False),
        on_refusal=RefusalSettings(codes=()),
        limits=limits,
        retention_s=retention_s,
        retention_max_bytes=1 << 34,
    )


@dataclass(slots=True)
class Topic:
    """A topic: where its messages go, and what they are like."""

    name: bytes
    queue: str
    bridge: str
    route: bytes
    qos: int
    retain: bool
    properties: bytes


@dataclass(slots=True)
class Link:
    """A lane's link to its remote: when it is down, by minutes since the beginning."""

    bridge: str
    lane: int
    down: list[tuple[float, float, str]] = field(default_factory=list)
    up: bool = False

    @property
    def queue(self) -> str:
        """The lane's queue."""
        return queue_name(self.bridge, self.lane)

    def reason_at(self, minute: float) -> str:
        """Why it is down; nothing if it is up."""
        return next((reason for start, stop, reason in self.down if start <= minute < stop), "")


class Traffic:
    """Drives ``model`` through ``hours`` in which about ``messages`` messages come in, in steps."""

    def __init__(self, model: NodeModel, *, messages: int, hours: float, seed: int, payload_bytes: int) -> None:
        self._model = model
        self._random = random.Random(seed)
        self._minutes = hours * 60
        self._steps = max(50, messages // ROWS_A_TURN)
        self._messages = messages
        self._payload_bytes = payload_bytes
        self._topics = self._make_topics()
        self._weights = list(accumulate(1 / (rank + 1) ** 1.1 for rank in range(TOPICS)))
        self._links = [Link(bridge, lane) for bridge, lanes in LANES.items() for lane in range(lanes)]
        self._plan_outages()
        self._sessions: dict[str, str] = {}
        self._filler = self._random.randbytes(max(64, payload_bytes)).hex().encode()
        self._noted: list[tuple[int, str, str, int, str, str, int, dict[str, str | int | float | bool]]] = []

    @property
    def steps(self) -> int:
        """How many steps the whole takes."""
        return self._steps

    # --- what is fixed from the start ---

    def _make_topics(self) -> list[Topic]:
        rnd, topics = self._random, []
        for number in range(TOPICS):
            sensor = SENSORS[number % len(SENSORS)]
            bridge = rnd.choices(tuple(LANES), (70, 15, 15))[0]
            rule = "alarms" if sensor == "alarm" else "state" if sensor == "state" else "telemetry"
            name = f"plant/{number // 40}/line/{number // 8 % 5}/{sensor}/{number}".encode()
            properties = b""
            if bridge == "cloud" and number % 9 == 0:
                properties = b"\x02" + (1800 if number % 2 else 86400).to_bytes(4, "big")
            if number % 7 == 0:
                properties += b"\x26\x00\x04unit\x00\x03SI " if sensor != "count" else b"\x26\x00\x04unit\x00\x01n"
            qos = 2 if rule == "alarms" else 0 if sensor in ("vibration", "speed") else 1
            lane = number % LANES[bridge]
            topics.append(Topic(name, queue_name(bridge, lane), bridge, route_called(rule), qos, sensor == "state", properties))
        return topics

    def _plan_outages(self) -> None:
        """Every link has some outages; that of ``plant`` flaps for a while, and one of ``cloud`` is down at the end."""
        rnd, minutes = self._random, self._minutes
        for link in self._links:
            for _ in range(rnd.randint(1, 3)):
                start = rnd.uniform(0.05, 0.8) * minutes
                link.down.append(
                    (start, start + rnd.uniform(0.005, 0.06) * minutes, rnd.choice(("keep_alive", "closed", "refused")))
                )
        archive = next(link for link in self._links if link.bridge == "archive")
        archive.down.append((0.5 * minutes, 0.75 * minutes, "connect_timeout"))
        plant = next(link for link in self._links if link.bridge == "plant")
        start, period = 0.3 * minutes, minutes / 400
        plant.down.extend((start + period * 2 * turn, start + period * (2 * turn + 1), "closed") for turn in range(12))
        away = next(link for link in self._links if link.bridge == "cloud" and link.lane == 1)
        away.down.append((0.93 * minutes, 2 * minutes, "keep_alive"))

    # --- a step ---

    def run(self) -> Iterator[int]:
        """Do everything, step by step; yields the number of each step that is done."""
        self._begin()
        done = 0
        for step in range(self._steps):
            minute = self._minutes * step / self._steps
            begun_ms = self._model.wall_ms
            for link in self._links:
                self._look_at(link, minute)
            due = int(self._messages * self._share(step + 1)) - done
            if due > 0:
                self._publish(due)
                done += due
            self._happen(step)
            self._model.advance(int(self._random.lognormvariate(4.3, 0.7)))
            for link in self._links:
                if link.up:
                    self._exchange(link)
            self._tell()
            step_ms = int(self._minutes * 60_000 / self._steps)
            self._model.advance(max(1, begun_ms + step_ms - self._model.wall_ms))
            yield step

    def _share(self, step: int) -> float:
        """How much of the messages has come in by ``step``: more by day than by night."""
        part = step / self._steps
        return part - 0.6 / (2 * math.pi) * math.sin(2 * math.pi * part)

    def _begin(self) -> None:
        self._note("node.started", actor="supervisor", version="0.1.0", pid=4711)
        for number, client in enumerate(SESSIONS):
            opening = SessionOpen(
                sender=LISTENER,
                epoch=self._model.epoch,
                request=number + 1,
                session=client,
                clean=False,
                expiry_s=86400 * (number + 1),
                source=number + 1,
            )
            opened = _of(self._model.turn(opening), SessionOpened)
            self._sessions[client] = opened.queue
            filters = ((f"plant/{number}/#", 1, 0, False), ("plant/+/line/+/alarm/+", 2, 0, False))
            self._model.turn(
                SubscriptionsAdd(
                    epoch=self._model.epoch,
                    request=number + 1,
                    session=client,
                    source=number + 1,
                    queue=opened.queue,
                    filters=filters,
                )
            )
        for number, client in enumerate(SESSIONS[:2]):  # one stays
            self._model.turn(
                SessionClose(
                    sender=LISTENER,
                    epoch=self._model.epoch,
                    session=client,
                    source=number + 1,
                    wall_ms=self._model.wall_ms,
                    expiry_s=86400 * (number + 1),
                    keep_will=False,
                )
            )

    def _publish(self, count: int) -> None:
        """``count`` messages, a batch for each queue; the Listener gathers so many rows a turn that order across queues is lost."""
        rnd = self._random
        by_queue: dict[str, list[Topic]] = {}
        for topic in rnd.choices(self._topics, cum_weights=self._weights, k=count):
            by_queue.setdefault(topic.queue, []).append(topic)
        parts = {queue: self._batch(topics) for queue, topics in by_queue.items()}
        alarms = [topic for topics in by_queue.values() for topic in topics if topic.qos == 2]
        if alarms:
            parts |= {queue: self._batch(alarms, routed=False) for queue in self._sessions.values() if rnd.random() < 0.05}
        state = [topic for topics in by_queue.values() for topic in topics if topic.retain]
        self._model.publish(parts, retained=retained_rows(self._batch(state, routed=False)) if state else None)

    def _batch(self, topics: list[Topic], *, routed: bool = True) -> Batch:
        rnd, filler = self._random, self._filler
        numbers: dict[bytes, int] = {}
        distinct: list[Topic] = []
        topic_of = array("H")
        for topic in topics:
            if topic.name not in numbers:
                numbers[topic.name] = len(distinct)
                distinct.append(topic)
            topic_of.append(numbers[topic.name])
        text, now_ms, longest = b'{"t":%d,"v":%.3f,"q":"%s"}', self._model.wall_ms, self._payload_bytes
        texts = [text % (now_ms, 20 + 5 * rnd.random(), filler[: rnd.randrange(longest)]) for _ in topics]
        routes, route_of = route_columns([topic.route if routed else b"" for topic in distinct])
        return Batch(
            accepted_ms=self._model.wall_ms,
            topics=[topic.name for topic in distinct],
            topic_of=topic_of,
            flags=bytes([topic.qos | (RETAIN if topic.retain else 0) for topic in topics]),
            lengths=array("I", [len(text) for text in texts]),
            payloads=b"".join(texts),
            routes=routes,
            route_of=route_of,
            properties={row: topic.properties for row, topic in enumerate(topics) if topic.properties},
        )

    # --- links ---

    def _look_at(self, link: Link, minute: float) -> None:
        reason = link.reason_at(minute)
        lane = self._model.lanes.get(link.queue)
        actor, address = connection_name(link.bridge, link.lane), f"{link.bridge}.example:8883"
        if reason and link.up:
            link.up = False
            if lane is not None and lane.in_hand:
                start, stop = lane.in_hand.ranges()[0]
                self._model.settle(lane, [], released=((start, min(stop, start + 3)),), session=_session(link))
            self._note("link.down", link.bridge, link.lane, actor, reason, address=address)
        elif not reason and not link.up:
            redelivered = lane.in_hand.ranges() if lane is not None else ()
            lane = self._model.open_lane(link.queue, window=ARCHIVE_WINDOW if link.bridge == "archive" else WINDOW)
            self._note("link.up", link.bridge, link.lane, actor, address=address)
            again = tuple((start, stop) for start, stop in redelivered if lane.in_hand.covers(start, stop))
            if again:
                self._model.settle(lane, [("redelivered", again)])
            link.up = True

    def _exchange(self, link: Link) -> None:
        """The acknowledgements of the remote: of all that it had before this step, most of what is new, now and then with a
        refusal."""
        lane, rnd = self._model.lanes[link.queue], self._random
        if lane.qos0:
            self._model.settle(lane, [("delivered", lane.qos0.ranges())])
        budget, taken = DRAIN_ROWS, RangeSet()
        for start, stop in lane.in_hand:
            stop = min(stop, start + budget)
            taken.add(start, stop)
            budget -= stop - start
            if budget <= 0:
                break
        if not taken:
            return
        last = taken.ranges()[-1]
        if last[1] - last[0] > 3 and rnd.random() < 0.3:
            taken.discard(last[1] - rnd.randint(1, 3), last[1])  # these are answered in the next step
        refused = RangeSet()
        if rnd.random() < 0.04:
            start, stop = rnd.choice(taken.ranges())
            seq = rnd.randrange(start, stop)
            refused.add(seq, seq + 1)
            taken.discard(seq, seq + 1)
        if rnd.random() < 0.2 and taken:
            start, stop = taken.ranges()[-1]
            self._model.settle(lane, [], released=((start, stop),), session=_session(link))
            self._model.advance(rnd.randint(5, 60))
            if rnd.random() < 0.5:
                taken.discard(start, stop)  # PUBCOMP comes in the next step
        self._settle(lane, link, taken, refused)

    def _settle(self, lane: LaneModel, link: Link, taken: RangeSet, refused: RangeSet) -> None:
        settled = [("delivered", taken.ranges())] if taken else []
        if refused:
            settled.append((f"dead:{self._random.choice(('not-authorized', 'payload-format-invalid'))}", refused.ranges()))
        if settled:
            self._model.settle(lane, settled, session=_session(link))

    # --- now and then ---

    def _happen(self, step: int) -> None:
        model = self._model
        if step == int(self._steps * 0.25):
            model.jump(45_000)
        if step == int(self._steps * 0.45):
            self._tell()
            model.restart()
            for link in self._links:
                link.up = False
            self._note("node.started", actor="supervisor", version="0.1.0", pid=5190)
            for child in ("store", "bridge:plant:0", "clients"):
                self._note("process.started", actor=child, pid=5200)
        if step == int(self._steps * 0.62):
            self._note("process.ended", "plant", 0, "bridge:plant:0", "signal", status=-9, pid=5211)
        if step == int(self._steps * 0.7):
            arguments = {"bridge": "archive", "lane": 0}
            model.turn(QueueCommand(request=1, verb="purge", arguments=arguments))

    def _note(
        self, kind: str, bridge: str = "", lane: int = -1, actor: str = "", reason: str = "", **details: str | int | float | bool
    ) -> None:
        self._noted.append((self._model.wall_ms, kind, bridge, lane, actor, reason, 0, dict(details)))

    def _tell(self) -> None:
        if self._noted:
            self._model.turn(NodeEvents(events=tuple(self._noted)))
            self._noted.clear()


def generate_day(
    folder: Path, name: str, *, messages: int, hours: float, seed: int, start_ms: int, payload_bytes: int
) -> tuple[NodeModel, Traffic]:
    """A node called ``name`` in ``folder``, and the traffic that is to be run on it."""
    settings = settings_of(name, messages=messages, hours=hours)
    model = NodeModel(folder, settings, start_ms=start_ms)
    return model, Traffic(model, messages=messages, hours=hours, seed=seed, payload_bytes=payload_bytes)


def _session(link: Link) -> str:
    return f"{link.bridge}-{link.lane}@{link.bridge}.example:8883"


def _of(effects: list[tuple[str, Frame]], kind: type[SessionOpened]) -> SessionOpened:
    return next(frame for _, frame in effects if isinstance(frame, kind))
