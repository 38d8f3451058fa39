"""The oracle: what was promised, what was seen, and whether they agree. It judges by the bytes on the disk and on the wires.

P1 is checked when an acknowledgement is written, P4 and "exactly once" when a message arrives, P6 at every commit and turn of the
store, P5 after every turn; P2, P3 and P6 as a whole when all is healed. ``relaxed``: the configuration promises less, and what it
does not promise has happened (an in-memory store died, ...).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from actors.process.local_messages import Passed, PublishedMessages
from storage.engine.keys import RULE_PASSES, part_key, retained_key
from storage.queue.chunk import Chunk
from storage.queue.dead_letters import DeadRow
from storage.queue.history import Settlement, settlement_key, settlement_of
from storage.queue.ledger import Ledger, LedgerRow
from storage.store.retained_rules import EACH_SESSION, NEVER
from storage.store.session_rows import RECEIVED, Session
from tests.simulation.changes import changes_of
from tests.simulation.disk import Ops, SimDisk
from tests.simulation.echoes import HERE, EchoesSeen, SentBack
from tests.simulation.incoming import AWAY
from tests.simulation.letters import PREFIX, LettersSeen
from tests.simulation.lone import LoneMessages
from tests.simulation.mqtt import Publish
from tests.simulation.options import LiveLaneSeen, OptionsSeen, named_lanes, opened
from tests.simulation.plan import BRIDGE, Plan
from tests.simulation.publisher import Client, Message, Publisher
from tests.simulation.resends import ResendsSeen
from tests.simulation.rings import BESIDE, RingCopy, RingsSeen
from tests.simulation.rules import RulesSeen
from tests.simulation.sessions import SessionsJudge
from tests.simulation.taken_back import ReleasesTakenBack
from tests.simulation.thinned import ThinnedSeen, count_of
from tests.simulation.world import Violation
from tests.support.arrivals import Order
from tests.support.history_audit import Kept, problems_of
from wire.config_settings import LIVE, LIVE_FIRST, RuleSettings
from wire.exchange.quarantine import LEARNT
from wire.exchange.quarantine_class import CONVICTED_IN_PLACE
from wire.exchange.receiver import QUOTA_EXCEEDED
from wire.frames.batch import Batch, unpack_column
from wire.frames.intake import Publishes
from wire.frames.lanes import HandOut, LaneClose, LaneOpen, LaneOpened
from wire.frames.names import (
    LISTENER,
    LaneLabel,
    connection_of_session,
    lane_label,
    lane_of_actor,
    lane_of_queue,
    queue_name,
    remote_session_name,
    session_of_queue,
)
from wire.routing.retained_topics import unpack_owned
from wire.status.loss_reasons import THINNED

_COUNTED_LOSSES = ("overflow", "too_large")
_PURGED = "purged"
_PASS_BEGINS = bytes(2)  # its row: at the first filter, before the first topic


def _queue_of(client_id: str) -> str:
    _, _, lane = client_id.partition("-")
    return queue_name(client_id, 0) if client_id in (AWAY, BESIDE) else queue_name(BRIDGE, lane_label(lane or "0"))


def _lane_of(client_id: str) -> LaneLabel:
    place = lane_of_queue(_queue_of(client_id))
    assert place is not None
    return place.label


class _QueueSeen:
    """One queue as its bytes on the disk show it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: dict[int, bytes] = {}  # sequence -> payload, of all chunks
        self.entries: dict[bytes, set[int]] = {}
        self.open: set[int] = set()  # rows that have not left the queue
        self.ended: set[int] = set()
        self.suspects: set[bytes] = set()  # left the queue and have not arrived
        self.deleted: list[tuple[int, int]] = []  # chunks that a commit deletes
        self.row = LedgerRow(head=0, tail=0, handed=0, trimmed=0)
        self.settlements: dict[int, Settlement] = {}  # that are kept, by number
        self.chunks: dict[int, Chunk] = {}  # that are kept, by first sequence
        self.purged_beside = 0  # purged by a commit that settled others as well, so that it is not known which


class Oracle:
    """Is told of everything, and raises ``Violation``."""

    def __init__(self, plan: Plan) -> None:
        self.shape = plan.shape
        self.messages = {message.payload: message for message in plan.messages}
        self.messages |= {each.message.payload: each.message for each in plan.incoming if not isinstance(each.message, SentBack)}
        self.messages |= {message.payload: message for message in plan.imported}
        self.imported = plan.imported
        changes = changes_of(plan)
        self._changing = bool(changes)
        self._limited = self.shape.max_messages is not None or "limit" in changes  # at some time
        self.lanes_most = self.shape.lanes
        self.bridge_configured = True
        self.rules = RulesSeen()
        self.options = OptionsSeen(self.shape, BRIDGE, steady="lanes" not in changes)
        # A topic is in order in each lane, and takes another one beside a backlog, or when its class changes.
        self._by_lane = self.shape.backlog == LIVE_FIRST or bool(self.shape.classes and "rules" in changes)
        self._unrouted: set[bytes] = set()  # was offered last while the bridge was not configured
        self._ended_unrouted: set[tuple[str, int]] = set()  # clients, and the identifiers that they released while it was not
        self._routed_later: set[bytes] = set()  # was among those, and was offered again when it was configured
        self.durable = self.shape.mode == "file-native"
        self.relaxed = False
        self.lost_power = False
        self.amnesia = False  # what was committed is lost, so even the exchange with the remote may start again
        self.disk: SimDisk | None = None
        self.now_s: Callable[[], float] = lambda: 0.0
        self.sessions_lost: Callable[[], int] = lambda: 0
        self.acknowledged_payloads: dict[bytes, Message] = {}
        self.refused_payloads: set[bytes] = set()
        self._ever_refused: set[bytes] = set()
        self._refusals_told = 0
        self.exchange_of: Callable[[str, int], Message | None] = lambda client_id, packet_id: None
        self.late = 0  # batches of remotes that wait at the store
        self.uncommitted = False  # the store has taken what it has not committed, as it said last
        self._offered: dict[tuple[str, int, int], list[bytes]] = {}  # sender, epoch, number -> payloads
        self.handed_rows_max = 1
        self.handed_to_connection: dict[str, int] = {}  # its name -> messages since the lane was opened
        self.chunk_rows_max = 1
        self._names: dict[int, str] = {}
        self._queues: dict[str, _QueueSeen] = {}
        self._ever_written: set[bytes] = set()
        self._ever_synced: set[bytes] = set()
        self._decoded: dict[bytes, list[tuple[int, bytes]]] = {}
        self._rebuilding = False
        self._store_has_died = False
        self._recorded: dict[int, tuple[str, int]] = {}  # session of the remote -> queue and generation
        self._recorded_at: dict[int, str] = {}  # and the address under which it was recorded
        self.places: dict[int, str] = {}  # session of the remote -> the address at which it was reached last
        self._connections: Counter[int] = Counter()  # by session of the remote
        self._connection_of: dict[str, tuple[int, int]] = {}  # queue -> session and how many connections that had
        self._closed_epochs: dict[str, int] = {}  # by queue, the last lane of a session that was closed
        self._entered: dict[bytes, set[tuple[str, int]]] = {}
        self._letters = LettersSeen()
        self.thinned = ThinnedSeen(self.shape.thinning)
        self.resends = ResendsSeen(BRIDGE)
        incoming = self.shape.incoming
        self.echoes = EchoesSeen(incoming, self.shape.level) if incoming is not None and incoming.echoes else None
        self.rings = RingsSeen(incoming) if incoming is not None and incoming.rings_window_s else None
        self._taken_back = ReleasesTakenBack()
        self._retains = self.shape.link_state or self.shape.retained != NEVER
        self._pass_rows: dict[bytes, bytes] = {}  # of rules that bring what was retained, how far each has come
        self._passes = 0  # of rules that bring what was retained, that have begun
        self._live = LiveLaneSeen(queue_name(BRIDGE, 0), queue_name(BRIDGE, LIVE))
        # What is replayed, sent again, brought or held enters the first lane, whatever is beside it.
        others = self.thinned.on or self.shape.resends or self._retains or any(fault.kind == "replay" for fault in plan.faults)
        self._judges_live = self.shape.backlog == LIVE_FIRST and not others
        self._released_where_left: set[bytes] = set()  # payloads
        self._purged: dict[tuple[str, int], bytes] = {}  # queue and sequence -> payload
        self._forgotten: set[bytes] = set()  # handed out by an in-memory store that died, and not there yet
        self._returned: set[bytes] = set()  # was settled or swallowed, with commits that are lost, and comes back
        self._sent: set[tuple[str, int]] = set()  # queue and sequence of each QoS 1 and 2 PUBLISH
        self._carried_out: Counter[str] = Counter()  # messages purged and replayed, as the operator was answered
        self.deliveries: dict[bytes, list[int]] = {}
        self._came_lowered: set[bytes] = set()  # at a lower QoS than it was queued with
        self._lone = LoneMessages()
        self._remote_refused: set[bytes] = set()
        self._always_closed_on: set[bytes] = set()
        self._convicted: Counter[str] = Counter()  # by queue, how many letters are of such messages
        self._classes_closed_on: set[str] = set()
        self._arrivals = Order()
        self._passings = Order()  # to Connections, of whatever lanes
        self._passed_in_order: dict[bytes, tuple[int, int]] = {}  # before any later one -> the lane's connection of then
        self._order = {message.payload: place for place, message in enumerate((*plan.messages, *plan.imported))}
        self._retained: set[bytes] = set()  # was published with RETAIN, which stays
        self._kept_retained: set[bytes] = set()  # what rules may bring again
        self._sources: dict[bytes, object] = {}  # of what came from the remote, which broker sent it
        self._indistinct = False  # a session was ended by a clean start, so that none may be known since
        self._removed: set[str] = set()  # queues of sessions that have ended
        shape = self.shape.subscribers
        self.sessions = None if shape is None else SessionsJudge(self, shape)

    def applied_qos(self, message: Message) -> int:
        """The QoS under which the bridge carries ``message``."""
        return max(min(message.qos, self.shape.max_qos), self.shape.min_qos) if self.shape.persist else 0

    def order_key(self, message: Message) -> tuple[str, int, object]:
        """Messages with the same key arrive in the order in which they were published, what is raised among what it joins."""
        return message.topic, max(message.qos, self.shape.min_qos), self._sources.get(message.payload)

    def _order_key_of(self, message: Message, lane: LaneLabel) -> tuple[object, ...]:
        """The same where ``message`` leaves by that ``lane``."""
        return (*self.order_key(message), lane if self._by_lane else "")

    # --- the disk ---

    def disk_wrote(self, ops: Ops) -> None:
        self._names_written(ops)
        if not self._rebuilding:
            self._taken_back.wrote(self._received_as_written)
        self.thinned.wrote(ops)
        self._sent_again(ops)
        buried = self._letters_written(ops)
        for operation, family, key, value in ops:
            if family == "msg":
                queue = self._queue(int.from_bytes(key[:4], "big"))
                if queue.name.startswith(PREFIX):
                    pass
                elif operation == "put":
                    self._chunk_written(queue, value)
                elif operation == "delete_range":
                    low, high = int.from_bytes(key[4:12], "big"), int.from_bytes(value[4:12], "big")
                    self._chunks_deleted(queue, low, high)
            elif family == "history":
                self._history_written(operation, key, value)
        for key, value in self._rows(ops, b"L").items():  # a write that was refused before may have an older row, too
            queue = self._queue(int.from_bytes(key[1:], "big"))
            dead = {seq for name, seq, _ in buried if name == queue.name}
            self._row_written(queue, LedgerRow.decode(value, queue=queue.name), dead)
            self._judge_history(queue)
        for name, seq, payload in buried:
            self._buried(name, seq, payload)
        for key, value in self._rows(ops, b"D").items():
            name = self._queue(int.from_bytes(key[1:], "big")).name
            self._letters.row(name, DeadRow.decode(value, queue=name), self._dead_of(name.removeprefix(PREFIX)))

    def _names_written(self, ops: Ops) -> None:
        for operation, family, key, value in ops:
            if family == "meta" and key[:1] == b"N":
                name = key[1:].decode()
                if operation == "put":
                    self._names[int.from_bytes(value, "big")] = name
                    self._removed.discard(name)
                else:
                    self._removed.add(name)

    def _letters_written(self, ops: Ops) -> list[tuple[str, int, bytes]]:
        touched = any(
            family == "msg" and self._queue(int.from_bytes(key[:4], "big")).name.startswith(PREFIX) for _, family, key, _ in ops
        )
        if not touched:
            return []
        appended: Counter[bytes] = Counter()
        for operation, family, key, value in ops:
            queue = self._queue(int.from_bytes(key[:4], "big")) if family == "msg" and operation == "put" else None
            if queue is not None and not queue.name.startswith(PREFIX):
                appended.update(payload for _, payload in self._rows_of(value))
        return self._letters.wrote(ops, self._names, appended)

    def _sent_again(self, ops: Ops) -> None:
        for operation, family, key, value in ops:
            if family == "meta" and key[:1] == RULE_PASSES and operation == "put":
                self._pass_written(key, value)
            elif family == "meta" and key[:1] == RULE_PASSES:
                self._pass_rows.pop(key, None)
        puts = [(key, value) for operation, family, key, value in ops if family == "msg" and operation == "put"]
        bodies = [value for key, value in puts if lane_of_queue(self._queue(int.from_bytes(key[:4], "big")).name) is not None]
        appended = [payload for value in bodies for _, payload in self._rows_of(value)]
        known = {*self._entered, *(message.payload for message in self.imported)}
        self.resends.wrote(ops, appended, known, judged=not self._rebuilding and self.shape.persist)

    def _pass_written(self, key: bytes, value: bytes) -> None:
        """store.rule-brings-once: a rule with ``send-once`` does not begin again while it is on record how far it has come."""
        before, self._pass_rows[key] = self._pass_rows.get(key, _PASS_BEGINS), value
        if value != _PASS_BEGINS:
            return
        self._passes += 1
        if before != value and self.shape.retained != EACH_SESSION and not self._rebuilding:
            raise Violation("store.rule-brings-once", f"the pass of {key!r} begins anew, and was at {before!r}")

    def _comes_again(self, payload: bytes) -> int:
        """How often ``payload`` may come beside its first time: sent again from the history, as what is retained, or one alike."""
        alike = 0 if self.rings is None else self.rings.most(payload, self.now_s()) - 1
        return self.resends.again[payload] + self._passes * (payload in self._kept_retained) + alike

    def _dead_of(self, bridge: str) -> int:
        rows = [queue.row for queue in self._queues.values() if queue.name.startswith(f"bridge:{bridge}:")]
        return sum(sum(row.ledger.dead.values()) for row in rows)

    @staticmethod
    def _rows(ops: Ops, kind: bytes) -> dict[bytes, bytes]:
        """The newest row of each queue that is there after the commit; ``kind`` is the key's first byte."""
        rows: dict[bytes, bytes] = {}
        for operation, family, key, value in ops:
            if family == "meta" and key[:1] == kind:
                if operation == "put":
                    rows[key] = value
                else:
                    rows.pop(key, None)
        return rows

    def disk_synced(self, ops: Ops) -> None:
        self.thinned.synced(ops)
        for operation, family, key, value in ops:
            if family != "msg" or operation != "put":
                continue
            name = self._queue(int.from_bytes(key[:4], "big")).name
            if self.sessions is not None and session_of_queue(name) is not None:
                self.sessions.chunk_synced(name, self._chunk_of(name, value))
            elif not name.startswith(PREFIX):
                self._ever_synced.update(payload for _, payload in self._rows_of(value))

    def disk_lost_power(self, kept: int, lost: list[Ops]) -> None:
        self.lost_power = True
        if lost and self.shape.sync != "full":
            self.relaxed = self.amnesia = True

    def rebuild(self, ops: Ops) -> None:
        """The disk was replaced by what survived: ``ops`` are all its rows."""
        settled = {(queue.name, seq): queue.rows[seq] for queue in self._queues.values() for seq in queue.ended if self.amnesia}
        self._queues.clear()
        self._names.clear()
        self._pass_rows.clear()
        self._removed.clear()
        self._letters.forget()
        self.resends.forgotten()
        self.thinned.rebuilding()
        if self.sessions is not None:
            self.sessions.rebuilding()
        self._rebuilding = True
        self.disk_wrote([op for op in ops if op[1] == "meta" and op[2][:1] == b"N"])
        self.disk_wrote(ops)
        if self.sessions is not None:
            self.disk_synced(ops)
        self._rebuilding = False
        open_rows = {(queue.name, seq) for queue in self._queues.values() for seq in queue.open}
        self._returned |= {payload for place, payload in (settled | self._purged).items() if place in open_rows}
        self._purged = {place: payload for place, payload in self._purged.items() if place not in open_rows}

    def store_died(self) -> None:
        """The QueueStore's process has ended."""
        self._store_has_died = True
        self._taken_back.store_died()
        if self.sessions is not None:
            self.sessions.store_died(durable=self.durable)
        if not self.durable:
            self.relaxed = True
            self._forgotten |= self._entered.keys() - self.deliveries.keys()
            self._queues.clear()
            self._names.clear()
            self._letters.forget()
            self.resends.forgotten()
            self._pass_rows.clear()
            self.thinned.rebuilding()
        elif self.shape.acknowledge == "fast":
            self.relaxed = True

    def _queue(self, number: int) -> _QueueSeen:
        name = self._names.get(number, f"number {number}")
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _QueueSeen(name)
        return queue

    def _rows_of(self, value: bytes) -> list[tuple[int, bytes]]:
        rows = self._decoded.get(value)
        if rows is None:
            seq = int.from_bytes(value[14:22], "little")
            chunk = Chunk.decode(value, queue="", seq=seq)
            rows = self._decoded[value] = list(zip(chunk.seqs(), Batch.decode(chunk.body).rows_payloads(), strict=True))
            self.chunk_rows_max = max(self.chunk_rows_max, len(rows))
        return rows

    def _chunk_written(self, queue: _QueueSeen, value: bytes) -> None:
        chunk = self._chunk_of(queue.name, value)
        queue.chunks[chunk.first_seq] = chunk
        of_session = self.sessions is not None and session_of_queue(queue.name) is not None
        for seq, payload in self._rows_of(value):
            message = self.messages.get(payload)
            if message is None:
                raise Violation("corruption", f"{queue.name} holds {payload!r}, which nobody published")
            if queue.rows.get(seq, payload) != payload:
                raise Violation(
                    "queue.sequence-never-reused", f"{queue.name}: sequence {seq} was {queue.rows[seq]!r} and is {payload!r}"
                )
            known = queue.entries.setdefault(payload, set())
            known.add(seq)
            if self.rings is not None and not self.relaxed:
                self.rings.entered(payload, len(known), self.now_s())
            copies_most = 1 + self._letters.replays[payload] + self._comes_again(payload)
            if len(known) > copies_most and message.qos == 2 and not self.relaxed and not of_session:
                raise Violation("entered twice", f"m{message.number} (QoS 2) is in {queue.name} at {known}")
            queue.rows[seq] = payload
            if seq not in queue.ended:
                queue.open.add(seq)
            if not of_session:
                self._entered.setdefault(payload, set()).add((queue.name, seq))
                self._ever_written.add(payload)
        if self.sessions is not None and of_session:
            self.sessions.chunk_written(queue.name, chunk)

    @staticmethod
    def _chunk_of(name: str, value: bytes) -> Chunk:
        return Chunk.decode(value, queue=name, seq=int.from_bytes(value[14:22], "little"))

    def _chunks_deleted(self, queue: _QueueSeen, low: int, high: int) -> None:
        queue.deleted.append((low, high))
        queue.chunks = {seq: chunk for seq, chunk in queue.chunks.items() if not low <= seq < high}

    def _history_written(self, operation: str, key: bytes, value: bytes) -> None:
        if key[:1] != b"T":
            return
        queue = self._queue(settlement_of(key)[0])
        if operation == "put":
            queue.settlements[settlement_of(key)[1]] = Settlement.decode(value)
        else:
            gone = [number for number in queue.settlements if key <= settlement_key(settlement_of(key)[0], number) < value]
            for number in gone:
                del queue.settlements[number]

    def _judge_history(self, queue: _QueueSeen) -> None:
        """queue.history-without-gap: what is kept of the queue, live and settled, is whole."""
        if not self.durable or session_of_queue(queue.name) is not None or self.amnesia:
            return
        chunks = [chunk for _, chunk in sorted(queue.chunks.items())]
        kept = Kept(queue.row, sorted(queue.settlements.items()), chunks)
        for problem in problems_of(kept, all_durable=False):
            raise Violation("queue.history-without-gap", f"{queue.name}: {problem}")
        dropped = queue.row.ledger.dropped
        if queue.row.history.begins >= 0 and _PURGED not in dropped and "damaged" not in dropped:
            there = {seq for chunk in chunks for seq in chunk.seqs()}
            missing = [seq for seq in queue.rows if queue.row.history.begins <= seq < queue.row.tail and seq not in there]
            if missing:
                raise Violation(
                    "queue.history-without-gap",
                    f"{queue.name}: the chunks of {missing} are gone, the history is from {queue.row.history}",
                )

    def _row_written(self, queue: _QueueSeen, row: LedgerRow, dead: set[int]) -> None:
        """P6: the row agrees with the chunks, and whatever left the queue is accounted for. ``dead``: what it buries."""
        ended = {seq for seq in queue.open if seq < row.head or any(low <= seq < high for low, high in row.settled)}
        queue.ended |= ended
        queue.open -= ended
        purged = set() if self._rebuilding else self._purged_by(queue, row, ended - dead)
        queue.row = row
        for low, high in queue.deleted:
            if any(low <= seq < high for seq in queue.open):
                raise Violation(
                    "queue.trimmed-after-settled",
                    f"{queue.name}: chunks from {low} to {high} are deleted, and the head is {row.head}",
                )
        queue.deleted.clear()
        if row.depth != len(queue.open):
            raise Violation("P6", f"{queue.name}: depth {row.depth} in the row, {len(queue.open)} messages in the chunks")
        ledger = row.ledger
        rest = ledger.accepted - ledger.ended() - row.depth
        if rest < 0 or (rest and not self.durable):
            raise Violation("P6", f"{queue.name}: accepted {ledger.accepted} is not ended {ledger.ended()} + depth {row.depth}")
        if self.sessions is not None and session_of_queue(queue.name) is not None:
            if not self._rebuilding and ended:
                self.sessions.ended(queue.name, ended, row)
            return
        if self._rebuilding or self.relaxed:
            return
        left = map(queue.rows.__getitem__, ended - dead - purged)
        queue.suspects |= {payload for payload in left if self.applied_qos(self.messages[payload])}
        queue.suspects -= self.deliveries.keys()
        counted = self._counted(queue)
        if len(queue.suspects) > counted:
            raise Violation("P6", f"{queue.name}: {queue.suspects!r} left, did not arrive, and {counted} are accounted for")

    def _refusals_counted(self) -> int:
        """The refusals for good of all queues."""
        return sum(queue.row.ledger.refused for queue in self._queues.values())

    def _buried(self, name: str, seq: int, payload: bytes) -> None:
        """queue.dead-or-queued-never-both: a dead letter is written by the commit that settles it, and is what was queued there."""
        queue = self._queues.get(name)
        if self._rebuilding or queue is None:
            return
        if queue.rows.get(seq) != payload:
            raise Violation(
                "queue.dead-or-queued-never-both",
                f"{name}: sequence {seq} is {queue.rows.get(seq)!r}, and was buried as {payload!r}",
            )
        if payload in self._letters.closed_on:
            self._given_up(name, payload)
        if seq in queue.open:
            raise Violation("queue.dead-or-queued-never-both", f"{name}: sequence {seq} is a dead letter and still queued")

    def _given_up(self, name: str, payload: bytes) -> None:
        """exchange.given-up-only-when-proven: the remote closed on it, or on so many others of the queue, copies of one message
        too, that what they have in common is a class (exchange.class-covers-convicted-only).
        """
        if payload in self._always_closed_on:
            self._convicted[name] += 1
        elif self._convicted[name] < CONVICTED_IN_PLACE:
            raise Violation(
                "exchange.given-up-only-when-proven",
                f"{name}: {payload!r} is given up, and it was never the message on which the remote closed",
            )

    def _purged_by(self, queue: _QueueSeen, row: LedgerRow, ended: set[int]) -> set[int]:
        """Which of ``ended`` a purge took. Messages that may have been sent go only with the session to which they were."""
        before, after = queue.row.ledger, row.ledger
        count = after.dropped.get(_PURGED, 0) - before.dropped.get(_PURGED, 0)
        if not count:
            return set()
        if self.relaxed:  # that it may come back, with the power, is still to be known
            self._purged |= {(queue.name, seq): queue.rows[seq] for seq in ended if seq in queue.rows}
            return set()
        if after.ended() - before.ended() != count:  # the disk had refused, and more was settled meanwhile
            queue.purged_beside += count
            return set()
        for seq in ended:
            payload = queue.rows[seq]
            self._purged[queue.name, seq] = payload
            if row.generation == queue.row.generation and (queue.name, seq) in self._sent:
                raise Violation(
                    "store.purge-begins-a-session", f"{queue.name}: {payload!r} was sent, is purged, and the session goes on"
                )
        return ended

    def _packet_id(self, seq: int) -> int:
        return seq % self.shape.packet_ids + 1

    def _counted(self, queue: _QueueSeen) -> int:
        ledger = queue.row.ledger
        dropped = sum(count for reason, count in ledger.dropped.items() if reason in _COUNTED_LOSSES or reason.startswith("remote"))
        return dropped + ledger.expired + queue.purged_beside

    def _survives(self, payload: bytes) -> bool:
        """Whether ``payload`` is kept with the strength that the configuration promises."""
        return payload in (self._ever_synced if self.durable and self.shape.sync == "full" else self._ever_written)

    def _meta(self, key: bytes) -> bytes | None:
        assert self.disk is not None
        strong = self.durable and self.shape.sync == "full"
        return self.disk.synced_value(key) if strong else self.disk.written_value(key)

    def handed_out(self, frame: HandOut) -> None:
        """queue.handed-out-below-mark: a durable message leaves the store only below the mark that is on record."""
        batch = Batch.decode(frame.bodies[0])
        offsets = unpack_column("I", frame.offsets) if frame.offsets else range(frame.count)
        of_bridge = lane_of_queue(frame.queue) is not None
        for offset, payload in zip(
            offsets, batch.rows_payloads() if of_bridge else (), strict=of_bridge
        ):  # QoS 0 is never on the disk
            self._entered.setdefault(payload, set()).add((frame.queue, frame.first_seq + offset))
        if frame.epoch <= self._closed_epochs.get(frame.queue, -1):
            return  # nobody takes it any more, and the record may be of the time after
        value = self._meta(b"L" + self._number(frame.queue).to_bytes(4, "big")) if self.durable and not self.relaxed else None
        if value is None:
            return
        handed = LedgerRow.decode(value, queue=frame.queue).handed
        last = max((frame.first_seq + offset for offset, flag in zip(offsets, batch.flags, strict=True) if flag & 3), default=-1)
        if last >= handed:
            raise Violation(
                "queue.handed-out-below-mark",
                f"{frame.queue}: {last} is handed out, and the record says that nothing is from {handed} on",
            )

    def passed(self, connection: str, frame: Passed) -> None:
        """A Connection is handed messages, in the form that its remote is to see."""
        self.handed_to_connection[connection] = self.handed_to_connection.get(connection, 0) + len(frame.batch)
        lane = lane_of_actor(connection)
        assert lane is not None
        for payload, _ in map(opened, frame.batch.rows_payloads()):
            message = self.messages[payload]
            place, key = self._order[payload], self._order_key_of(message, lane.label)
            if not self._passings.is_late(place, *key):
                self._passed_in_order[payload] = self._connection_of[queue_name(*lane)]
            self._passings.came(place, *key)

    # --- publishers ---

    def offered(self, frame: PublishedMessages | Publishes) -> None:
        """A batch is on its way to the store."""
        if not (self._limited or self._changing):
            return
        batch = frame.batch if isinstance(frame, PublishedMessages) else Batch.decode(frame.bodies[0])
        payloads = [
            payload
            for place, payload in zip(batch.topic_of, batch.rows_payloads(), strict=True)
            if not batch.topics[place].startswith(HERE)
        ]
        known = (frame.sender, frame.epoch, frame.number) in self._offered
        if known and frame.sender == LISTENER:
            return  # it goes where it went
        self._offered[frame.sender, frame.epoch, frame.number] = payloads
        self.rules.offered(self.messages[payload] for payload in payloads if payload in self.messages)
        for client, column in frame.released.items():
            ended = {(client, packet_id) for packet_id in unpack_column("H", column)}
            self._ended_unrouted = self._ended_unrouted - ended if self.bridge_configured else self._ended_unrouted | ended
        if not self.bridge_configured:
            self._unrouted.update(payloads)
        elif not known:
            self._routed_later |= self._unrouted.intersection(payloads)
            self._unrouted.difference_update(payloads)

    def routes_by(self, rules: Sequence[RuleSettings] | None) -> None:
        """Messages to the Distributor are routed by these from now on; None: the bridge is not there.

        Messages that Connections have sent are routed when they come, which nobody sees: they may go by either.
        """
        self.bridge_configured = rules is not None
        self.rules.started(rules or ())
        for (sender, _, _), payloads in self._offered.items() if self._changing else ():
            if sender != LISTENER:
                self.rules.offered(self.messages[payload] for payload in payloads if payload in self.messages)
                if rules is None:
                    self._unrouted.update(payloads)

    def published(self, message: Message) -> None:
        """A publisher, or the remote, sends a message, once more perhaps."""
        if isinstance(message, SentBack):
            return
        self.thinned.published(message)
        if self.rings is not None and isinstance(message, RingCopy):
            self.rings.published(message, self.now_s())
        if message.retain:
            self._retained.add(message.payload)
            self._kept_retained.add(message.payload)
        if self.sessions is not None:
            self.sessions.published(message)

    def acknowledged(self, publisher: Client, message: Message, packet_id: int) -> None:
        """P1: a PUBACK or PUBREC is written."""
        payload = message.payload
        if isinstance(message, SentBack):
            self._answered_back(publisher, message, packet_id)
            return
        self.acknowledged_payloads[payload] = message
        if self.rings is not None and isinstance(message, RingCopy):
            self.rings.acknowledged(message, self.now_s())
        self.refused_payloads.discard(payload)
        if self.relaxed or self.shape.acknowledge == "fast":
            return
        if message.qos == 2:
            self._taken_back.acknowledged(publisher.client_id, packet_id, payload, written=payload in self._ever_written)
        # A rule that lowers it to QoS 0 promises nothing, and what a full queue has room for may be another message.
        unpromised = not self.applied_qos(message) and (self.durable or self._limited)
        kept = self._survives(payload) or unpromised
        kept |= payload in self._unrouted or payload in self._taken_back.swallowed
        kept |= payload in self.thinned.ever_held[self.strong]
        kept |= self.rings is not None and isinstance(message, RingCopy) and self.rings.is_open_elsewhere(message)
        if not kept and self.thinned.on and not (self._limited and self.shape.overflow != "reject"):
            if self.applied_qos(message):
                self.thinned.acknowledged(payload, self._ledgers())
            kept = True
        if not kept and not (self._limited and self.shape.overflow != "reject"):
            raise Violation("P1", f"m{message.number} is acknowledged and not committed")
        if self.sessions is not None:
            self.sessions.acknowledged(message)
        if self.shape.weak_store and payload in self._unrouted:
            return  # it concerns the store alone
        if message.qos == 2 and packet_id not in self.received_ids(publisher.client_id):
            raise Violation("P1", f"PUBREC {packet_id} for m{message.number}: the identifier is not committed")

    def _answered_back(self, publisher: Client, message: SentBack, packet_id: int) -> None:
        """The same for what the remote sends back: it goes to no queue, be it an echo or not."""
        if self.relaxed or self.shape.acknowledge == "fast":
            return
        if message.qos == 2 and packet_id not in self.received_ids(publisher.client_id):
            raise Violation("P1", f"PUBREC {packet_id} for an equal of m{message.number}: the identifier is not committed")
        if self.echoes is not None and not self._store_has_died:  # else it may be taken for a repeat of another
            self.echoes.answered(message)

    def completed(self, publisher: Client, packet_id: int) -> None:
        """P1: a PUBCOMP is written."""
        unasked = self.shape.weak_store and (publisher.client_id, packet_id) in self._ended_unrouted  # it concerns the store alone
        if self.relaxed or self.shape.acknowledge == "fast":
            return
        session = publisher.client_id
        kept, written = self.received_ids(session), self._received_as_written(session)
        self._taken_back.completed(session, packet_id, committed=packet_id not in kept | written)
        if packet_id in kept and not unasked:
            raise Violation("P1", f"PUBCOMP {packet_id} for {publisher.client_id!r}: its removal is not committed")

    def refused(self, message: Message) -> None:
        """A reason code of 0x80 or above is written."""
        if not self._limited:
            raise Violation("refused", f"m{message.number} is refused, and there is no limit")
        self.refused_payloads.add(message.payload)
        self._ever_refused.add(message.payload)
        self._refusals_told += 1
        excused = self.relaxed or self._store_has_died or self.shape.acknowledge == "fast"
        if not excused and self._refusals_told > self._refusals_counted():
            raise Violation("P6", f"{self._refusals_told} refusals are told, {self._refusals_counted()} are counted")

    def publisher_session_lost(self, publisher: Publisher) -> None:
        """CONNACK said that there is no session."""
        if not self.relaxed:
            raise Violation("session", f"the session of {publisher.client_id} is lost")

    def incoming_sent(self, message: Message, broker: object, *, retain: bool) -> None:
        """The remote sends a message of its own for the first time: that is its place in the order (P4), in that of its broker."""
        if isinstance(message, SentBack):
            return
        self._order[message.payload] = len(self._order)
        self._sources[message.payload] = broker
        if retain and self.shape.incoming is not None and self.shape.incoming.preserve_retain:
            self._retained.add(message.payload)
            if self.shape.retained != NEVER:
                self._kept_retained.add(message.payload)

    def received_ids(self, session: str, read: Callable[[bytes], bytes | None] | None = None) -> set[int]:
        """The identifiers of ``session`` that are on the disk; of a lane's without its number it is the one that is known.

        read: of the disk; None: with the strength that the configuration promises.
        """
        connection = connection_of_session(session)
        if connection:
            place = lane_of_actor(connection)
            assert place is not None
            row = self.lane_row(queue_name(*place))
            wanted = session.rpartition("\0")[2]
            known = () if row is None else ((row.session, row.generation), *((left.session, left.generation) for left in row.left))
            numbers = [number for name, number in known if name == wanted]
            if not numbers:
                return set()
            session = remote_session_name(connection, wanted, *numbers)
        value, found = (read or self._meta)(part_key(session, RECEIVED)), Session(session)
        if value is not None:
            found.take(RECEIVED, value)
        return found.received

    def sent_back(self, payload: bytes) -> None:
        """The remote has made an echo."""
        if self.echoes is not None:
            self.echoes.sent_back(payload)

    def comes_beside(self, message: Message) -> None:
        """Somebody publishes a message at the remote, or that sends one again, of which it has no answer."""
        if self.echoes is not None and isinstance(message, SentBack):
            self.echoes.comes_beside(message.payload)

    def remote_settled(self, payload: bytes, now_s: float) -> None:
        """The remote has given its last answer to a message."""
        if self.echoes is not None:
            self.echoes.settled(payload, now_s)

    def _received_as_written(self, session: str) -> set[int]:
        assert self.disk is not None
        return self.received_ids(session, self.disk.written_value)

    # --- the remote ---

    def remote_accepted(self, client_id: str, session: int, place: str) -> None:
        """A connection is accepted that resumes or begins ``session``, at ``place``."""
        self.places[session] = place
        self._connections[session] += 1
        self._connection_of[_queue_of(client_id)] = (session, self._connections[session])

    def remote_delivered(self, client_id: str, packet: Publish, session: int) -> None:
        """A message is accepted by the remote."""
        payload = packet.payload
        message = self.messages.get(payload)
        if message is None:
            raise Violation("corruption", f"the remote got {packet}, which nobody published")
        if not client_id.startswith(AWAY):
            self.rules.judge(message, packet.topic, brought=payload in self._kept_retained)
        elif packet.topic != f"up/{message.topic}":
            raise Violation("corruption", f"m{message.number} came under {packet.topic}")
        # The remote closed on it: it may be tried at a lower QoS, or without RETAIN; so may others that are like many of those, and
        # all others once so many were taken only so. That may be a wrong lesson, of a remote that was mended meanwhile.
        tried = payload in self._remote_refused or len(self._remote_refused) >= LEARNT
        lowered = packet.qos == 1 and (tried or "qos" in self._classes_closed_on)
        stripped = not packet.retain and (tried or "retain" in self._classes_closed_on)
        if packet.qos != self.applied_qos(message):
            self._came_lowered.add(payload)
            if not lowered:
                raise Violation("QoS", f"m{message.number} came at QoS {packet.qos}")
        if packet.retain != (payload in self._retained) and not stripped:
            raise Violation("RETAIN", f"m{message.number} came with RETAIN {packet.retain}")
        if packet.qos and not self.relaxed and not self._survives(payload):
            raise Violation("store.answer-after-commit", f"m{message.number} was handed out before it was committed")
        self._lone.heard(client_id, payload)
        known = self.deliveries.get(payload)
        if known is None:
            self._first_arrival(message, client_id, session)
            self.deliveries[payload] = [session]
            return
        known.append(session)
        if self.relaxed:
            return
        if len(known) <= 1 + self._comes_again(payload):
            return
        if not max(message.qos, self.shape.min_qos):
            raise Violation("QoS 0 twice", f"m{message.number}")
        # Two is a known weakness of P2: it was let go in a session that was left, and sent anew elsewhere, where it was refused.
        most = 2 if payload in self._released_where_left and self._letters.replays[payload] else 1
        most += self._comes_again(payload)
        once = (
            packet.qos == message.qos == 2 and payload not in self._came_lowered
        )  # a Connection does not know of an earlier one's
        if once and (known.count(session) > most or not self.sessions_lost()):
            raise Violation("P2", f"m{message.number} on sessions {known}")

    def _first_arrival(self, message: Message, client_id: str, session: int) -> None:
        """P4, whatever lane a topic takes.

        A message that is on its way to one broker and never sent again (QoS 0, and what was purged, or lost with a store's memory,
        in flight) may be read there after another has read what is newer: it has an order at each. As the number of lanes changes,
        it may be read after what is newer has come by another lane: if it was passed on before that, and comes on the connection of
        then, it has an order in each lane.
        """
        payload = message.payload
        key = self._order_key_of(message, _lane_of(client_id))
        place = self._order[payload]
        if payload in self._kept_retained and self._passes and self.thinned.on:
            return  # left out, and brought as what is retained
        if self.thinned.is_repeat(payload):
            return  # left out, and published again because the acknowledgement was lost
        if payload in self._remote_refused or payload in self._ever_refused:
            return  # refused, told or not: its place was then
        if self.may_be_passed(payload):
            return  # others went first, as while there is a search for what the remote closes on
        if payload in self._returned:
            return  # what came after it did not wait
        if payload in self._routed_later:
            return  # there was no bridge that wanted it when it was first published, and it is there from its repeat on
        if self._limited and self.shape.overflow != "reject":
            return  # dropped, and published again because the acknowledgement was lost
        if self.times_entered(payload) > 1 and (self.relaxed or payload in self._purged.values()):
            return  # purged, or lost with the store's memory and its publisher's session, and published again
        if self.relaxed and self.shape.acknowledge == "fast":
            return  # in the batch that died uncommitted with the store; it may have been answered, in part, before
        if message.qos and not self.applied_qos(message) and (self._store_has_died or self.times_entered(payload) > 1):
            return  # lowered to QoS 0, lost on the way, and published again because the acknowledgement was lost
        if self.shape.max_age_s is not None and self.times_entered(payload) > 1:
            return  # expired, and published again because the acknowledgement was lost
        here = self.places[session] if self.shape.second == "other" else ""
        by_lane = f"{here} {client_id}"
        once = not self.applied_qos(message) or payload in self._forgotten or payload in self._purged.values()
        on_its_way = self._passed_in_order.get(payload) == (session, self._connections[session])
        reader = "" if not once else by_lane if on_its_way else here
        if self._arrivals.is_late(place, *key, reader):
            raise Violation("P4", f"m{message.number} came after a later one of {key}")
        for each in {by_lane, here, ""}:
            self._arrivals.came(place, *key, each)

    def may_be_passed(self, payload: bytes) -> bool:
        """Whether its connection has ended on that message alone so often that others may have left before it."""
        return self._lone.may_be_passed(payload)

    def remote_refused(self, client_id: str, packet: Publish) -> None:
        self._lone.heard(client_id, packet.payload)
        self._remote_refused.add(packet.payload)

    def remote_closed_on(self, packet: Publish, *, always: bool, of_class: str) -> None:
        """The remote closes the connection on that message; ``always``: and not on every other as well; or on each ``of_class``."""
        self._classes_closed_on.add(of_class)
        self._remote_refused.add(packet.payload)
        if always:
            self._always_closed_on.add(packet.payload)

    def remote_swallowed(self, packet: Publish) -> None:
        """The remote takes it for another message, whose identifier it holds: that one's sequence went with lost commits."""
        if not self.relaxed:
            raise Violation("swallowed", f"the remote holds the identifier of {packet}")
        self._returned.add(packet.payload)

    def remote_written(self, client_id: str, connection: object, packet: Publish, now_s: float, at_most_s: float) -> None:
        """A PUBLISH is written, at whatever QoS. at_most_s: by the clock of who writes, who runs ahead while he works."""
        if packet.qos and packet.payload not in self.deliveries:
            self._lone.written(client_id, connection, packet.payload)
        if not packet.qos:
            self.remote_settled(packet.payload, now_s)
        if client_id != AWAY:
            self.options.written(connection, _lane_of(client_id), packet, now_s, at_most_s)

    def remote_publish_written(self, client_id: str, packet: Publish, session: int) -> None:
        """A QoS 1 or 2 PUBLISH is written: the session that it goes to must be on record (commit point 7)."""
        name = _queue_of(client_id)
        places = self._entered.get(packet.payload, ())  # not those of a dead letter that is replayed under this identifier later
        self._sent |= {(queue, seq) for queue, seq in places if queue == name and self._packet_id(seq) == packet.packet_id}
        known = self._recorded.get(session)
        if self.relaxed:
            return
        if known is not None:
            self._still_recorded(session, known)
            return
        value = self._meta(b"L" + self._number(name).to_bytes(4, "big"))
        row = None if value is None else LedgerRow.decode(value, queue=name)
        if row is not None and not row.session and row.generation:
            return  # purged with what was in flight, and the Connection has not heard of it yet
        if row is None or row.session != f"{client_id}@{self.places[session]}" or (name, row.generation) in self._recorded.values():
            raise Violation("exchange.session-on-record-first", f"a PUBLISH of {name} on session {session}, which is not on record")
        self._recorded[session] = (name, row.generation)
        self._recorded_at[session] = self.places[session]

    def _still_recorded(self, session: int, known: tuple[str, int]) -> None:
        """Commit point 8: a session at another address, or one after which another was used, is not the session on record.

        Save one that was left and is on record again, under its number. If one broker has two addresses, a crash after the clean
        start that ended a session has the next one taken for it: a known weakness of P2.
        """
        row = self.lane_row(known[0])
        here = self.places[session]
        if row is not None and row.session.endswith(f"@{here}"):
            lost = any(
                self._recorded_at[other] == here and recorded == (known[0], row.generation)
                for other, recorded in self._recorded.items()
                if other != session
            )
            left = any(left.generation == known[1] for left in row.left)
            taken_for_it = self.shape.second == "same" and self._indistinct and lost and left
            if row.generation == known[1] or taken_for_it:
                return
        if self._recorded_at[session] != self.places[session] or any(
            name == known[0] and generation > known[1] for name, generation in self._recorded.values()
        ):
            raise Violation(
                "exchange.session-on-record-first", f"a PUBLISH of {known[0]} on session {session} at {self.places[session]}"
            )

    def has_left(self, client_id: str, place: str) -> bool:
        """Whether a session is on record as one that was left: what it may hold is not what an exchange has left."""
        row = self.queue_row(_queue_of(client_id))
        return row is not None and any(left.session == f"{client_id}@{place}" for left in row.left)

    def remote_session_ended(self, client_id: str, place: str, *, subscribed: bool) -> None:
        """Commit point 9: where the node takes what a remote publishes, no session is ended that it knows, or has to know.

        If it has met one that it does not know, which a crash leaves, it may not tell the others either.
        """
        if subscribed and self.shape.second == "other" and not (self.relaxed or self._indistinct):
            raise Violation("exchange.left-session-resumed", f"the session of {client_id} at {place} is ended, and what it keeps")
        self._indistinct = True

    def remote_release_written(self, client_id: str, payload: bytes, packet_id: int, place: str) -> None:
        """PUBREL is written: the release must be committed (commit point 5), be it in the session of ``place`` that was left.

        A dead letter that was replayed has another identifier than what the session knows. Of copies that come round to one
        identifier, one is released.
        """
        if self.relaxed:
            return
        queue = self._queues.get(_queue_of(client_id))  # another lane may have it, too, published again at QoS 1 and raised
        copies = () if queue is None else [seq for seq in queue.entries.get(payload, ()) if self._packet_id(seq) == packet_id]
        if queue is None or not copies:
            return
        row = self.lane_row(queue.name)
        assert row is not None
        there = list(chain.from_iterable(left.released for left in row.left if left.session == f"{client_id}@{place}"))
        if any(low <= seq < high for seq in copies for low, high in there):
            self._released_where_left.add(payload)
        ended = (*row.settled, *row.released, *there)
        if all(seq >= row.head and not any(low <= seq < high for low, high in ended) for seq in copies):
            raise Violation("exchange.release-after-record", f"PUBREL of {payload!r} before its release is committed")

    def times_entered(self, payload: bytes) -> int:
        """How often ``payload`` came into a queue."""
        return len(self._entered.get(payload, ()))

    def times_entered_as(self, client_id: str, payload: bytes, packet_id: int) -> int:
        """How often ``payload`` came into the queue of ``client_id`` where that has ``packet_id``; it did when it was sent."""
        name = _queue_of(client_id)
        places = [seq for queue, seq in self._entered.get(payload, ()) if queue == name and self._packet_id(seq) == packet_id]
        return max(1, len(places))

    def _number(self, name: str) -> int:
        return next(number for number, known in self._names.items() if known == name)

    # --- the actors ---

    def turn_ended(self, kind: str, actor: Any) -> None:
        """P5, and P6 in memory."""
        if kind == "listener":
            self._refusals_under_way(actor)
            if len(actor.batches.link.outstanding) > 2:
                raise Violation("P5", f"{len(actor.batches.link)} batches are outstanding")
            if self.sessions is not None:
                self.sessions.outboxes(client.outbox for client in actor.deliveries._lanes.values())
        elif kind == "forwarder":
            most = self.shape.tier2_messages + max(self.chunk_rows_max, self.shape.batch_rows if not self.durable else 1)
            if actor._tier2.messages > most + self.handed_rows_max:
                raise Violation("P5", f"Tier 2 holds {actor._tier2.messages} messages, {self.shape.tier2_messages} are allowed")
        elif kind == "connection":
            exchange = actor.exchange
            handed = self.handed_to_connection.get(actor.name, 0) if exchange.settlements.lane_epoch else 0  # else a former life's
            in_hand = handed - exchange.flow.exchange.handed_out.passed_messages
            most = max(self.shape.in_hand, 3 * self.shape.window)
            if in_hand > most + self.handed_rows_max:
                raise Violation("P5", f"the Connection has {in_hand} messages in hand, {most} are allowed")
            if exchange.intake is not None:
                self._intake_is_bounded(exchange.intake._inbox)
        elif kind == "queue_store" and actor._store is not None:
            self.late = len(actor._store.links.late)
            self._within_limits(actor._store)
            if self._judges_live:
                self._live.turn_ended(actor._store.lanes.of_bridges)
            self.thinned.in_memory = sum(len(each.topics.held) for each in actor._store.lanes.thinned.queues.values())
            self.uncommitted = bool(actor._store.next_commit.write)
            for name, lane in actor._store.lanes.all.items():
                ledger, depth = lane.queue.ledger, lane.queue.depth
                gone = ledger.delivered + ledger.expired + sum(ledger.dropped.values()) + sum(ledger.dead.values())
                if ledger.accepted != gone + depth:
                    raise Violation("P6", f"{name}: accepted {ledger.accepted}, gone {gone}, depth {depth}")

    def _refusals_under_way(self, listener: Any) -> None:
        """What the Listener has refused is refused, whether or not its publisher ever hears of it."""
        for batch in listener.batches.link.outstanding if self._limited else ():
            for client, burst in batch.kept.bursts:
                if burst.forbidden is None:
                    continue
                for ids, codes in ((burst.pubacks, burst.forbidden.pubacks), (burst.pubrecs, burst.forbidden.pubrecs)):
                    for at, code in codes.items():
                        message = self.exchange_of(client.session, int.from_bytes(ids[at], "big"))
                        if code == QUOTA_EXCEEDED and message is not None:
                            self._ever_refused.add(message.payload)

    def _within_limits(self, store: Any) -> None:
        """store.full-announced: a queue that refuses has no more than its limit; a crash may bring back what had left it."""
        if self.relaxed or self._changing or self._store_has_died or self.lost_power or self._carried_out:
            return
        beyond = self.thinned.holds or self.shape.retained != NEVER  # what was held, and pieces of what is retained
        depths: Counter[str] = Counter()
        for lane in store.lanes.of_bridges.values():
            depths[lane.room] += lane.queue.depth
            most = lane.limits.max_messages
            if lane.limits.overflow == "reject" and most is not None and not beyond and depths[lane.room] > most:
                raise Violation("store.full-announced", f"{lane.queue.name}: {depths[lane.room]} messages, {most} are allowed")

    def _intake_is_bounded(self, inbox: Any) -> None:
        """P5: two batches and what gathers behind them."""
        assert self.shape.incoming is not None
        most = 3 * self.shape.incoming.inbox_rows
        if inbox.outstanding > 2 or inbox.gathered > most:
            raise Violation("P5", f"{inbox.outstanding} batches are outstanding, {inbox.gathered} wait, {most} are allowed")

    def store_opened(self, rows_read: int, clients: int) -> None:
        """P8: what is read does not grow with the backlog."""
        self._taken_back.store_opened(self.received_ids)
        if self.sessions is not None:
            self.sessions.store_opened()
            clients += 4 * len(self.sessions.shape.clients)
        incoming = self.shape.incoming
        lanes = self.lanes_most * (1 if incoming is None or not incoming.shared else 2)
        lanes += (incoming is not None) + (self.rings is not None) + len(named_lanes(self.shape))
        if rows_read > 20 + 8 * lanes + 2 * clients + len(self.thinned.held) + 8 * self._retains:
            raise Violation("P8", f"{rows_read} rows were read to open the store")

    # --- the operator ---

    def carried_out(self, command: str, result: dict[str, Any]) -> None:
        """An operator was told what his command did: that is committed."""
        self._carried_out[command] += sum(result.get(what, 0) for what in ("purged", "replayed", "resent", "imported"))
        if self.relaxed or (self.shape.weak_store and self._changing):  # a bridge that is away promises what the store does
            return
        again = command in ("queue.resend", "queue.import")
        done = self.resends.total(self._meta(self.resends.key)) if again else 0
        for number, name in self._names.items() if not again else ():
            if name.startswith(PREFIX):
                value = self._meta(b"D" + number.to_bytes(4, "big"))
                dead = DeadRow() if value is None else DeadRow.decode(value, queue=name)
                done += dead.replayed if command == "queue.replay" else dead.purged
            elif command == "queue.purge":
                value = self._meta(b"L" + number.to_bytes(4, "big"))
                done += 0 if value is None else LedgerRow.decode(value, queue=name).ledger.dropped.get(_PURGED, 0)
        answered = self._carried_out["queue.resend"] + self._carried_out["queue.import"] if again else self._carried_out[command]
        if done < answered:
            raise Violation("store.answer-after-commit", f"{command}: {answered} answered so far, {done} committed")

    def was_imported(self, messages: Sequence[Message]) -> None:
        """An operator was told that these are taken."""
        for message in messages:
            self.acknowledged_payloads[message.payload] = message
            weak = self.relaxed or (self.shape.weak_store and self._changing) or not self.applied_qos(message)
            if not weak and not self._survives(message.payload):
                raise Violation("store.answer-after-commit", f"m{message.number} of the file is taken, and not committed")

    # --- for the sessions of local subscribers ---

    @property
    def strong(self) -> bool:
        """Whether what is promised is synced."""
        return self.durable and self.shape.sync == "full"

    def on_record(self, key: bytes) -> bytes | None:
        """A row of the ``meta`` family with the strength that the configuration promises."""
        return self._meta(key)

    def lane_row(self, queue: str) -> LedgerRow | None:
        """The queue's row, with that strength."""
        number = next((number for number, known in self._names.items() if known == queue), None)
        value = None if number is None else self._meta(b"L" + number.to_bytes(4, "big"))
        return None if value is None else LedgerRow.decode(value, queue=queue)

    def queue_row(self, queue: str) -> LedgerRow | None:
        """The queue's row as it was written last."""
        seen = None if queue in self._removed else self._queues.get(queue)
        return None if seen is None else seen.row

    def packet_id(self, seq: int) -> int:
        """The packet identifier of a sequence."""
        return self._packet_id(seq)

    def source_of(self, payload: bytes) -> object:
        """Which broker it came from; None if it came from none. There is no order between them."""
        return self._sources.get(payload)

    def place_of(self, payload: bytes) -> int:
        """Its place in the order of publication."""
        return self._order[payload]

    def was_refused(self, payload: bytes) -> bool:
        """Whether it was refused once, whether or not its publisher has heard of it."""
        return payload in self._ever_refused

    def is_retained(self, payload: bytes) -> bool:
        """Whether it was published with RETAIN."""
        return payload in self._retained

    def lane_closed(self, frame: LaneClose) -> None:
        """Nobody takes from the queue of a session any more."""
        self._closed_epochs[frame.queue] = frame.epoch

    def session_lane(self, frame: LaneOpen | LaneOpened) -> None:
        """The lane of a session is asked for, or was opened."""
        if self.sessions is not None:
            self.sessions.seen(frame)

    # --- the end ---

    def empty(self) -> bool:
        """Whether every queue is empty, by its row."""
        rows = [queue.row for queue in self._queues.values() if lane_of_queue(queue.name) is not None]
        if self.sessions is not None and not self.sessions.empty():
            return False
        return all(row.ledger.accepted == row.ledger.ended() and not row.depth for row in rows)

    def depths(self) -> str:
        """The positions of the queues, for a report."""
        rows = {queue.name: queue.row for queue in self._queues.values()}
        return ", ".join(f"{name}: head {row.head} tail {row.tail} depth {row.depth} {row.ledger}" for name, row in rows.items())

    def _ledgers(self) -> Iterable[Ledger]:
        return [queue.row.ledger for queue in self._queues.values() if lane_of_queue(queue.name) is not None]

    @staticmethod
    def _lost_otherwise(ledger: Ledger) -> bool:
        """Whether some are lost for another reason than that their rule leaves them out."""
        return bool(ledger.expired or ledger.dead or ledger.dropped.keys() - {*THINNED})

    def link_told(self, topic: str) -> bytes | None:
        """What local clients are told of the link, if anything."""
        assert self.disk is not None
        row = self.disk.written_value(retained_key(topic.encode()))
        return None if row is None else unpack_owned(row)[0].rows_payloads()[0]

    def judge_the_whole(self) -> None:
        """P2, P3: all is healed and quiet, so everything that was acknowledged has arrived or is accounted for."""
        if self.sessions is not None:
            self.sessions.judge_the_whole()
        if self.relaxed:
            return
        known = {*self._letters.accounted(), *self._purged.values(), *self._taken_back.swallowed}
        known |= {payload for payload in self._unrouted if not self._survives(payload)}
        if self.rings is not None and self.sessions_lost():
            known |= self.rings.lost
        missing = [
            message
            for payload, message in self.acknowledged_payloads.items()
            if self.applied_qos(message) and payload not in self.deliveries and payload not in self.refused_payloads | known
        ]
        counted = sum(self._counted(queue) for queue in self._queues.values())
        counted += sum(count_of(ledger) for ledger in self._ledgers()) if self.thinned.on else 0
        uncounted = self.lost_power and (self.shape.overflow != "reject" or self.thinned.on)  # counts of drops are not synced
        if len(missing) > counted and not uncounted:
            numbers = [message.number for message in missing]
            raise Violation("P2", f"acknowledged and never delivered: {numbers}; {counted} are accounted for")
        if self.rings is not None:
            for payload in self.rings.payloads - known:
                self.rings.judge_the_whole(payload, self.times_entered(payload))
        if self.thinned.on and not any(self._lost_otherwise(ledger) for ledger in self._ledgers()):
            self.thinned.judge(missing, self.messages.values(), self.deliveries, self._order)
        not_named = (
            {queue.name for queue in self._queues.values() if session_of_queue(queue.name) is None}
            - {queue_name(BRIDGE, lane) for lane in (*range(9), *named_lanes(self.shape))}
            - {queue_name(AWAY, 0), f"{PREFIX}{AWAY}", f"{PREFIX}{BRIDGE}"}
            - ({queue_name(BESIDE, 0)} if self.rings is not None else set())
        )
        if not_named:
            raise Violation("P7", f"queues without a name: {not_named}")
