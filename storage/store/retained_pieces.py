"""Retained messages leave the store a piece at a time: for the Listener that asks, and into the queues of sessions that last and of
bridges whose rules bring what was retained before.

A turn takes one piece for the Listener and one for a queue, so that everything else goes on between them, and those who wait have
their turns. Pieces for the Listener are bounded by what its clients take, pieces for a queue by what is left in there. Of a session
that lasts, how far its pass is is a row, written in the commit of the piece: it goes on whoever dies, and while its client is away.
So it is of a rule, whose pass goes on while the links of its bridge stand, and stays on record when it is through.

store.pass-goes-on [P3, MQTT, P4]: what a session that lasts has asked for of QoS 1 and 2 comes whole, whatever its queue may hold
    and whoever dies meanwhile: each topic's retained message as it is when its turn comes [MQTT-3.3.1-9]. A message that is
    published to a topic whose turn has not come goes into the queue behind the retained one. So it is with a rule that brings what
    was retained before; what has QoS 0 waits in memory, and is lost with a crash.
store.rule-brings-once [P2, P3, P7]: what was retained before a rule with ``send-once`` comes into the queues once for that rule and
    its remote, whoever dies meanwhile; with ``at-each-session`` once more for each session that the remote has begun since.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from storage.engine.engine import Engine, Write
from storage.engine.keys import DIGEST_BYTES, PASSES, RULE_PASSES, early_key, pass_key, rule_pass_key
from storage.store.next_commit import NextCommit
from storage.store.retained_messages import Allowance, RetainedMessages
from storage.store.retained_rules import RetainedRule, lanes_of, retained_rules
from storage.store.session_queues import SessionQueues
from storage.store.session_rows import Sessions
from wire.config_settings import SettingsNow
from wire.errors import Unavailable
from wire.exchange.subscriber_copies import as_granted
from wire.frames.batch import QOS_MASK, Batch
from wire.frames.frame import Effects
from wire.frames.names import LISTENER, lane_of_queue, session_of_queue
from wire.frames.subscriptions import PIECE_BYTES, PIECE_MESSAGES, RetainedPiece, RetainedWanted
from wire.mqtt.topics import matches
from wire.status.store import RetainedFigures


@dataclass(slots=True)
class _Pass:
    """One through ``filters``, one after the other, of a session's queue or of a rule. key: of its row.

    place: which filter it is at. after: that one's topics up to this are passed; early: those behind it that have had their turn.
    """

    key: bytes
    filters: tuple[str, ...] = ()
    rule: RetainedRule | None = None
    place: int = 0
    after: bytes = b""
    early: set[bytes] = field(default_factory=set)

    @property
    def row(self) -> bytes:
        """How far it is."""
        return self.place.to_bytes(2, "big") + self.after

    def read(self, row: bytes) -> None:
        """It is as far as ``row`` says."""
        self.place, self.after = int.from_bytes(row[:2], "big"), row[2:]

    def is_due(self, topic: bytes) -> bool:
        """Whether the turn of ``topic`` has not come yet, and will."""
        text = topic.decode()
        place = next((place for place, one in enumerate(self.filters) if matches(one, text)), None)
        return place is not None and topic not in self.early and (place, topic) > (self.place, self.after)


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
        self.ready: dict[str, None] = {}  # the queues that may have room, in turn
        self._rules: dict[bytes, _Pass] = {}  # by the keys of their rows; those that are through, too
        self._settings = settings
        sessions.hear_of_remotes(self.on_remote_session)
        names = {lane.queue.number: lane.queue.name for lane in queues}
        for key, value in engine.scan("meta", PASSES, PASSES[:-1] + bytes([PASSES[-1] + 1])):
            name = names.get(int.from_bytes(key[1:5], "big"))
            topic_filter, _, early = key[5:].partition(b"\0")
            if name is not None:
                own, text = key[: 5 + len(topic_filter)], topic_filter.decode()
                _note(self.queues.setdefault(name, {}).setdefault(text, _Pass(own, (text,))), early, value)
        for key, value in engine.scan("meta", RULE_PASSES, RULE_PASSES[:-1] + bytes([RULE_PASSES[-1] + 1])):
            end = key.index(b"\0") + 1 + DIGEST_BYTES
            _note(self._rules.setdefault(key[:end], _Pass(key[:end])), key[end + 1 :], value)
        self.ready.update(dict.fromkeys(self.queues))

    def figures(self) -> RetainedFigures:
        """Figures for ``status``."""
        return self.retained.figures(owing=len(self.queues))

    @property
    def busy(self) -> bool:
        """Whether this turn has something to do."""
        return self.hurries or not self.queues.keys().isdisjoint(self._queues.changed)

    @property
    def hurries(self) -> bool:
        """Whether the next turn has something to do, though nothing comes."""
        return bool(self.asked or (self.ready and not self._next.disk.is_low))

    # --- passes of sessions that last ---

    def begin(self, name: str, topic_filter: str) -> None:
        """The queue is owed what is retained under ``topic_filter``, from its first topic on; on record with the open write."""
        lane = self._queues.lane(name)
        if lane is None:
            return
        self.end(name, topic_filter)
        each = _Pass(pass_key(lane.queue.number, topic_filter), (topic_filter,))
        self.queues.setdefault(name, {})[topic_filter] = each
        self._next.write.put("meta", each.key, each.row)
        self.ready[name] = None

    def end(self, name: str, topic_filter: str) -> None:
        """The queue is owed nothing by that filter any more."""
        passes = self.queues.get(name, {})
        if topic_filter not in passes:
            return
        self._forget(passes.pop(topic_filter))
        if not passes:
            del self.queues[name]

    def _forget(self, each: _Pass) -> None:
        for key in (each.key, *(early_key(each.key, topic) for topic in sorted(each.early))):
            self._next.write.delete("meta", key)

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
        for each in self.queues[name].values():
            for topic in dict.fromkeys(batch.topics[index] for index in batch.topic_of):  # others may take another lane
                if lane is None or not each.is_due(topic) or not self._takes(each, topic):
                    continue
                try:
                    found = self.retained.message(topic, batch.accepted_ms)
                except Unavailable:  # who publishes does not wait for it
                    found = self.retained.message(topic, batch.accepted_ms)
                if found is not None:
                    self._put(each, found, name)
                    each.early.add(topic)
                    self._next.write.put("meta", early_key(each.key, topic), b"")

    # --- passes of rules ---

    def settings_changed(self) -> None:
        """Rules may be others: each that brings what is retained has its pass, and what is on record of any other goes."""
        wanted = {rule_pass_key(rule.bridge.name, rule.digest): rule for rule in retained_rules(self._settings.now.bridges)}
        for key in [key for key in self._rules if key not in wanted]:
            self._forget(self._rules.pop(key))
        for name in [name for name in self.queues if lane_of_queue(name) is not None]:
            del self.queues[name]
        for key, rule in wanted.items():
            if key not in self._rules:
                self._rules[key] = _Pass(key)
                self._next.write.put("meta", key, self._rules[key].row)
            each = self._rules[key]
            each.filters, each.rule = rule.filters, rule
            if each.place < len(each.filters):
                self._owe(rule, each)

    def on_remote_session(self, queue: str) -> None:
        """The remote has begun another session with the lane of ``queue``, which goes on record with the open write."""
        for key, each in self._rules.items():
            rule = each.rule
            if rule is not None and rule.each_session and queue == rule.queues[0]:
                self._forget(each)
                each = self._rules[key] = _Pass(key, rule.filters, rule)
                self._next.write.put("meta", key, each.row)
                self._owe(rule, each)

    def _owe(self, rule: RetainedRule, each: _Pass) -> None:
        for name in rule.queues:
            self.queues.setdefault(name, {})[rule.key] = each
            self.ready[name] = None

    def _end_rule(self, rule: RetainedRule, each: _Pass) -> None:
        """It is through, which stays on record."""
        self._forget(each)
        each.early.clear()
        self._next.write.put("meta", each.key, each.row)
        for name in rule.queues:
            passes = self.queues[name]
            del passes[rule.key]
            if not passes:
                del self.queues[name]

    def tick(self, write: Write, now_s: float, wall_ms: int) -> None:
        """Housekeeping: expiry, and room in queues of which nobody has told. Call it about once a second."""
        self.retained.tick(write, now_s, wall_ms)
        self.ready.update(dict.fromkeys(self.queues))

    # --- a turn ---

    def serve(self, now_s: float, wall_ms: int) -> Effects:
        """Read one piece for the Listener, and one for a queue, which goes with the open write; ``disk`` knows where it refuses."""
        self.ready.update(dict.fromkeys(sorted(self.queues.keys() & self._queues.changed)))
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
        while self.ready:
            name = next(iter(self.ready))
            if name in self.queues and self._has_room(name):
                self._fill_one(name, wall_ms)
                self.ready.pop(name)
                self.ready[name] = None  # again, behind the others
                return
            self.ready.pop(name)

    def _fill_one(self, name: str, wall_ms: int) -> None:
        each = next(iter(self.queues[name].values()))

        def wanted(topic: bytes) -> bool:
            return (each.rule is None or each.is_due(topic)) and topic not in each.early and self._takes(each, topic)

        limits = Allowance(PIECE_MESSAGES, PIECE_BYTES)
        batch, rest = self.retained.piece(each.filters[each.place], each.after, wanted, limits, wall_ms)
        if batch is not None:
            if each.rule is not None:
                self._queues.route(lanes_of(self._settings.now.bridges))
            self._put(each, batch, "" if each.rule is not None else name)
        each.place, each.after = (each.place + 1, b"") if rest is None else (each.place, rest)
        if each.place < len(each.filters):
            self._next.write.put("meta", each.key, each.row)
        elif each.rule is None:
            self.end(name, each.filters[0])
        else:
            self._end_rule(each.rule, each)
        self._next.time.hurry()

    def _takes(self, each: _Pass, topic: bytes) -> bool:
        """Whether it is this pass that brings what is retained under ``topic``."""
        if each.rule is None:
            return not self.retained.is_at_qos0(topic)
        return each.rule.way(topic, self.retained.owner(topic)) is not None

    def _put(self, each: _Pass, batch: Batch, name: str) -> None:
        """Put ``batch`` into the queue ``name``; without one, what a rule brings into those that its topics have."""
        if each.rule is not None:
            for queue, part in each.rule.parts(batch):
                self._queues.put(name or queue, part)
            return
        session = self._sessions.get(session_of_queue(name) or "")
        assert session is not None, "its passes end with it"
        options, identifier = session.subscriptions[each.filters[0]]
        identifiers = (identifier,) if identifier else ()
        self._queues.put(name, as_granted(batch, None, qos=options & QOS_MASK, retain_as_published=True, identifiers=identifiers))

    def _has_room(self, name: str) -> bool:
        """Whether little waits in the queue, or in all that a rule brings something into."""
        rule = next(iter(self.queues[name].values())).rule
        return all(map(self._queues.has_room, (name,) if rule is None else rule.queues))


def _note(each: _Pass, early: bytes, row: bytes) -> None:
    """Take up one row of a pass."""
    if early:
        each.early.add(early)
    else:
        each.read(row)


def _every(topic: bytes) -> bool:  # noqa: ARG001
    return True
