"""Retained messages leave the store a piece at a time: for the Listener that asks, and into the queues of sessions that last.

A turn takes one piece for the Listener and one for a queue, so that everything else goes on between them, and those who wait have
their turns. Pieces for the Listener are bounded by what its clients take, pieces for a queue by what is left in there. Of a session
that lasts, how far its pass is is a row, written in the commit of the piece: it goes on whoever dies, and while its client is away.

store.pass-goes-on [P3, MQTT, P4]: what a session that lasts has asked for of QoS 1 and 2 comes whole, whatever its queue may hold
    and whoever dies meanwhile: each topic's retained message as it is when its turn comes [MQTT-3.3.1-9]. A message that is
    published to a topic whose turn has not come goes into the queue behind the retained one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from storage.engine.engine import Engine, Write
from storage.engine.keys import PASSES, pass_key
from storage.store.lane import Lane
from storage.store.next_commit import NextCommit
from storage.store.retained_messages import Allowance, RetainedMessages
from storage.store.session_queues import SessionQueues
from storage.store.session_rows import Sessions
from wire.config_settings import SettingsNow
from wire.errors import Unavailable
from wire.exchange.subscriber_copies import as_granted
from wire.frames.batch import QOS_MASK, Batch
from wire.frames.frame import Effects
from wire.frames.names import LISTENER, session_of_queue
from wire.frames.subscriptions import PIECE_BYTES, PIECE_MESSAGES, RetainedPiece, RetainedWanted
from wire.mqtt.topics import matches
from wire.status.store import RetainedFigures


@dataclass(slots=True)
class _Pass:
    """One filter's of the queue of that number. after: the topics up to this one are passed; early: those behind it that have had
    their turn.
    """

    number: int
    after: bytes = b""
    early: set[bytes] = field(default_factory=set)


class RetainedPieces:
    """Reads pieces of ``retained``.

    asked: what the Listener waits for, a few at most. queues: those that are owed some, and by which filters.
    """

    def __init__(
        self,
        engine: Engine,
        settings: SettingsNow,
        sessions: Sessions,
        queues: SessionQueues,
        next_commit: NextCommit,
    ) -> None:
        """Go on with the passes that are on record.

        Raises:
            StorageDamaged, Unavailable: they cannot be read.
        """
        self.asked: deque[RetainedWanted] = deque()
        self.retained = RetainedMessages(engine, settings)
        self._sessions = sessions
        self._queues = queues
        self._next = next_commit
        self.queues: dict[str, dict[str, _Pass]] = {}  # by queue and filter
        self._ready: dict[str, None] = {}  # the queues that may have room, in turn
        names = {lane.queue.number: lane.queue.name for lane in queues}
        for key, value in engine.scan("meta", PASSES, PASSES[:-1] + bytes([PASSES[-1] + 1])):
            number = int.from_bytes(key[1:5], "big")
            name = names.get(number)
            topic_filter, _, early = key[5:].decode().partition("\0")
            if name is None:
                continue
            each = self.queues.setdefault(name, {}).setdefault(topic_filter, _Pass(number))
            if early:
                each.early.add(early.encode())
            else:
                each.after = value
        self._ready.update(dict.fromkeys(self.queues))

    def figures(self) -> RetainedFigures:
        """Figures for ``status``."""
        return self.retained.figures(owing=len(self.queues))

    @property
    def busy(self) -> bool:
        """Whether this turn has something to do."""
        if not self.queues and not self._ready:
            return bool(self.asked)
        return self.hurries or not self.queues.keys().isdisjoint(self._queues.changed)

    @property
    def hurries(self) -> bool:
        """Whether the next turn has something to do, though nothing comes."""
        return bool(self.asked or (self._ready and not self._next.disk.is_low))

    # --- passes of sessions that last ---

    def begin(self, name: str, topic_filter: str) -> None:
        """The queue is owed what is retained under ``topic_filter``, from its first topic on; on record with the open write."""
        lane = self._queues.lane(name)
        if lane is None:
            return
        self.end(name, topic_filter)
        self.queues.setdefault(name, {})[topic_filter] = _Pass(lane.queue.number)
        self._next.write.put("meta", pass_key(lane.queue.number, topic_filter), b"")
        self._ready[name] = None

    def end(self, name: str, topic_filter: str) -> None:
        """The queue is owed nothing by that filter any more."""
        passes = self.queues.get(name, {})
        if topic_filter not in passes:
            return
        each = passes.pop(topic_filter)
        for early in (b"", *each.early):
            self._next.write.delete("meta", pass_key(each.number, topic_filter, early))
        if not passes:
            del self.queues[name]

    def end_all(self, name: str) -> None:
        """The queue goes."""
        for topic_filter in tuple(self.queues.get(name, ())):
            self.end(name, topic_filter)

    def precede(self, name: str, body: bytes) -> None:
        """The batch ``body`` is about to be appended to the queue: put in front what is retained of its topics
        (store.pass-goes-on).
        """
        lane = self._queues.lane(name)
        batch = Batch.decode(body)
        for topic_filter, each in self.queues[name].items():
            for topic in batch.topics:
                if topic <= each.after or topic in each.early or not matches(topic_filter, topic.decode()):
                    continue
                if lane is None or self.retained.is_at_qos0(topic):
                    continue
                try:
                    found = self.retained.message(topic, batch.accepted_ms)
                except Unavailable:  # who publishes does not wait for it
                    found = self.retained.message(topic, batch.accepted_ms)
                if found is not None:
                    self._put(lane, topic_filter, found)
                    each.early.add(topic)
                    self._next.write.put("meta", pass_key(each.number, topic_filter, topic), b"")

    def tick(self, write: Write, now_s: float, wall_ms: int) -> None:
        """Housekeeping: expiry, and room in queues of which nobody has told. Call it about once a second."""
        self.retained.tick(write, now_s, wall_ms)
        self._ready.update(dict.fromkeys(self.queues))

    # --- a turn ---

    def serve(self, now_s: float, wall_ms: int) -> Effects:
        """Read one piece for the Listener, and one for a queue, which goes with the open write; ``disk`` knows where it refuses."""
        self._ready.update(dict.fromkeys(sorted(self.queues.keys() & self._queues.changed)))
        try:
            if not self._next.disk.is_low:
                self._fill(wall_ms)
            if not self.asked:
                return []
            answer = self._answer(self.asked[0], wall_ms)
        except Unavailable as error:
            self._next.disk.refuses(error, now_s, wall_ms)
            return []
        self.asked.popleft()
        return [(LISTENER, answer)]

    def _answer(self, frame: RetainedWanted, wall_ms: int) -> RetainedPiece:
        allowance = Allowance(frame.messages, frame.size_bytes)
        places, bodies = [], []
        done, place = 0, b""
        for topic_filter, after, only_qos0 in frame.filters:
            wanted = self.retained.is_at_qos0 if only_qos0 else _every
            batch, rest = self.retained.piece(topic_filter, after, wanted, allowance, wall_ms)
            if batch is not None:
                places.append(done)
                bodies.append(batch.encode())
            if rest is not None:
                place = rest
                break
            done += 1
        return RetainedPiece(
            epoch=frame.epoch, request=frame.request, done=done, after=place, places=tuple(places), bodies=tuple(bodies)
        )

    def _fill(self, wall_ms: int) -> None:
        while self._ready:
            name = next(iter(self._ready))
            lane = self._queues.lane(name)
            if name in self.queues and lane is not None and _has_room(lane):
                self._fill_one(name, lane, wall_ms)
                self._ready.pop(name)
                self._ready[name] = None  # again, behind the others
                return
            self._ready.pop(name)

    def _fill_one(self, name: str, lane: Lane, wall_ms: int) -> None:
        topic_filter, each = next(iter(self.queues[name].items()))

        def wanted(topic: bytes) -> bool:
            return topic not in each.early and not self.retained.is_at_qos0(topic)

        batch, rest = self.retained.piece(topic_filter, each.after, wanted, Allowance(PIECE_MESSAGES, PIECE_BYTES), wall_ms)
        if batch is not None:
            self._put(lane, topic_filter, batch)
        if rest is None:
            self.end(name, topic_filter)
        else:
            each.after = rest
            self._next.write.put("meta", pass_key(each.number, topic_filter), rest)
        self._next.time.hurry()

    def _put(self, lane: Lane, topic_filter: str, batch: Batch) -> None:
        session = self._sessions.get(session_of_queue(lane.queue.name) or "")
        assert session is not None, "its passes end with it"
        options, identifier = session.subscriptions[topic_filter]
        identifiers = (identifier,) if identifier else ()
        self._queues.put(lane, as_granted(batch, None, qos=options & QOS_MASK, retain_as_published=True, identifiers=identifiers))


def _every(topic: bytes) -> bool:  # noqa: ARG001
    return True


def _has_room(lane: Lane) -> bool:
    """Whether little waits in the queue, so that the client takes as much as it is given; an empty one always has room."""
    limits, queue = lane.limits, lane.queue
    messages, size_bytes = limits.max_messages or PIECE_MESSAGES, limits.max_bytes or PIECE_BYTES
    return queue.depth < min(PIECE_MESSAGES, max(1, messages // 2)) and queue.size_bytes < min(PIECE_BYTES, size_bytes // 2)
