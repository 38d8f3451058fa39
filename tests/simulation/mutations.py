"""Planted bugs: each takes one safeguard out of the product, and the simulation has to notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from actors.bridge.connection import Connection
from actors.bridge.forwarder import Forwarder
from actors.bridge.forwarder_buffer import ForwarderBuffer
from actors.bridge.remote_intake import RemoteIntake
from actors.broker.client_batches import ClientBatches
from actors.broker.full_queue_refusal import QueueRoom
from storage.engine.engine import Write
from storage.queue.hand_out_cursor import Cursor
from storage.queue.queue import Queue
from storage.queue.sent_record import SentRecord
from storage.queue.settled_ranges import Settled as QueueSettled
from storage.store.client_room import ClientRoom
from storage.store.lane import Lane
from storage.store.lanes import Lanes
from storage.store.links import Links
from storage.store.receiving_link import ReceivingLink, ReceivingLinks, Verdict
from storage.store.session_rows import Sessions
from storage.store.store import Store
from supervisor.tree.epochs import Epochs
from supervisor.tree.peers import Peers
from tests.simulation import (
    change_mutations,
    command_mutations,
    failover_mutations,
    history_mutations,
    option_mutations,
    remote_mutations,
    session_mutations,
    snapshot_mutations,
)
from tests.simulation.disk import SimEngine
from wire.exchange.due_messages import DueMessages
from wire.exchange.former_sessions import LeftSessions
from wire.exchange.handed_out import HandedOut
from wire.exchange.held_identifiers import HeldIdentifiers
from wire.exchange.identifier_span import IdentifierSpan
from wire.exchange.in_flight import InFlight as Window
from wire.exchange.lane_record import LaneRecord
from wire.exchange.qos2_window import UNSTATED, Qos2Window
from wire.exchange.quarantine import FIRST, Quarantine
from wire.exchange.receiver import AnswerBurst
from wire.exchange.remote_batches import RemoteBatches
from wire.exchange.remote_inbox import RemoteInbox
from wire.exchange.send_rate import SendRate
from wire.exchange.sender import SenderHalf
from wire.frames.frame import Frame
from wire.frames.lanes import HandOut, LaneOpened, Settle, Settled
from wire.frames.sending_link import SendingLink
from wire.mqtt.publish_batch_parser import TAKE
from wire.ranges import RangeSet

Change = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A fault and how to make it: (owner, name of the attribute, what makes the broken one out of the right one)."""

    what: str
    patches: tuple[tuple[Any, str, Change], ...]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Break it for a while."""
        kept = [(owner, name, owner.__dict__[name]) for owner, name, _ in self.patches]
        for owner, name, change in self.patches:
            setattr(owner, name, change(owner.__dict__[name]))
        try:
            yield
        finally:
            for owner, name, value in kept:
                setattr(owner, name, value)


MUTATIONS: dict[str, Mutation] = {}


def _mutation(name: str, what: str, *patches: tuple[Any, str, Change]) -> None:
    MUTATIONS[name] = Mutation(what, patches)


def _instead(replacement: Any) -> Change:
    return lambda original: replacement


def _nothing(*arguments: Any, **named: Any) -> None:
    return None


# --- commit point 1: message, queue entries and identifier before PUBACK and PUBREC ---


def _answered_at_once(original: Any) -> Any:
    def collect(self: Links, now_s: float, wall_ms: int) -> Any:
        return [*original(self, now_s, wall_ms), *self._take_acks()]

    return collect


def _never_synced(original: Any) -> Any:
    def commit(self: SimEngine, write: Write, *, sync: bool) -> Any:
        return original(self, write, sync=False)

    return commit


def _answered_when_sent(original: Any) -> Any:
    def send(self: ClientBatches, now_s: float) -> Any:
        sent = original(self, now_s)
        last = self.link.next_number - 1
        for batch in list(self.link.outstanding):
            if batch.number == last:
                for client, burst in batch.kept.bursts:
                    if not client.closed and client.flow is not None:
                        client.flow.on_answered(burst)
                        client.write(burst.encode())
                batch.kept.bursts.clear()
        return sent

    return send


_mutation(
    "store.answer-after-commit/answered-first",
    "the store answers a batch before it commits it",
    (Links, "collect", _answered_at_once),
)
_mutation("store.answer-after-commit/not-synced", "a commit is written and not synced", (SimEngine, "commit", _never_synced))
_mutation(
    "exchange.answer-after-commit/answered-when-sent",
    "the Listener answers a batch when it sends it",
    (ClientBatches, "send", _answered_when_sent),
)
_mutation(
    "store.identifier-with-its-message/never-written", "QoS 2 identifiers stay in memory", (Sessions, "receive", _instead(_nothing))
)


def _received_one_commit_late(original: Any) -> Any:
    def write_rows(self: Sessions, write: Write, *_: object) -> None:
        late = getattr(self, "_late", None)
        self._late = set(self._received)  # type: ignore[attr-defined]
        self._received = late or set()
        original(self, write)

    return write_rows


_mutation(
    "store.identifier-with-its-message/one-commit-late",
    "QoS 2 identifiers go into another commit than their messages",
    (Sessions, "write_rows", _received_one_commit_late),
)


# --- commit point 2: removal of the identifier before PUBCOMP ---

_mutation(
    "store.identifier-with-its-message/never-removed",
    "released identifiers stay on the disk",
    (Sessions, "release", _instead(_nothing)),
)


# --- commit point 3: identifiers follow from sequences, and DUP ---


def _opened_with(**changes: Callable[[LaneOpened], Any]) -> Change:
    def change(original: Any) -> Any:
        def opened(self: Lane, *, receives: bool) -> LaneOpened:
            frame: LaneOpened = original(self, receives=receives)
            return replace(frame, **{field: make(frame) for field, make in changes.items()})

        return opened

    return change


_mutation(
    "exchange.dup-on-repeats/none-after-a-crash",
    "dup_below is the head",
    (Lane, "on_opened", _opened_with(dup_below=lambda frame: frame.head)),
)


def _no_dup_on_reconnect(original: Any) -> Any:
    def disconnected(self: DueMessages, *unanswered: RangeSet) -> None:
        kept = self.dup_below
        original(self, *unanswered)
        self.dup_below = kept

    return disconnected


_mutation(
    "exchange.dup-on-repeats/none-on-reconnect",
    "a resend on a resumed session has no DUP",
    (DueMessages, "on_disconnected", _no_dup_on_reconnect),
)


_mutation(
    "queue.cursor-after-handed-out/not-reset",
    "what was handed out is not handed out again",
    (Cursor, "go_back", _instead(_nothing)),
)


# --- commit points 4 and 6: PUBACK and PUBCOMP settle, and nothing else does ---


def _settled_when_sent(original: Any) -> Any:
    def pump(self: SenderHalf, *arguments: Any) -> bytes:
        before = RangeSet(self.in_flight.puback)
        data: bytes = original(self, *arguments)
        for start, stop in (new for sent in self.in_flight.puback for new in before.missing(*sent)):
            self.record.settle("delivered", start, stop)
        return data

    return pump


_mutation(
    "exchange.settled-by-last-answer/when-sent", "QoS 1 is settled before its PUBACK", (SenderHalf, "pump", _settled_when_sent)
)


def _settled_at_pubrec(original: Any) -> Any:
    def received(self: SenderHalf, buffer: bytes, position: int = 0) -> int:
        before = RangeSet(self.held.releasing)
        position = original(self, buffer, position)
        for start, stop in (new for came in self.held.releasing for new in before.missing(*came)):
            self.record.settle("delivered", start, stop)
        return position

    return received


_mutation(
    "exchange.settled-by-last-answer/at-pubrec",
    "QoS 2 is settled before its PUBCOMP",
    (SenderHalf, "on_received", _settled_at_pubrec),
)
_mutation(
    "exchange.settled-by-last-answer/not-in-the-row",
    "a settlement does not reach the row",
    (Queue, "settle", _instead(lambda self, outcome, ranges, **named: 0)),
)


# --- commit point 5: the release before PUBREL ---


def _pubrel_at_once(original: Any) -> Any:
    def pubrec(self: HeldIdentifiers, start: int, stop: int) -> None:
        original(self, start, stop)
        self.on_record(((start, stop),))

    return pubrec


_mutation(
    "exchange.release-after-record/sent-before-commit",
    "PUBREL does not wait for the commit",
    (HeldIdentifiers, "pubrec", _pubrel_at_once),
)
_mutation("exchange.release-after-record/not-kept", "the store forgets what was released", (Queue, "release", _instead(_nothing)))


def _not_urgent(original: Any) -> Any:
    def receive(self: Store, frame: Frame) -> None:
        needs = self.next_commit.needs_sync
        original(self, frame)
        if isinstance(frame, Settle):
            self.next_commit.needs_sync = needs

    return receive


_mutation("exchange.release-after-record/not-synced", "a release is written and not synced", (Store, "receive", _not_urgent))


# --- commit points 7 and 8: sessions and generations ---

_mutation(
    "exchange.session-on-record-first/unknown-resumed",
    "a session that is on no record is resumed",
    (SenderHalf, "knows", _instead(lambda self, session, session_present: True)),
)


def _session_not_recorded(original: Any) -> Any:
    def begin_session(self: LaneRecord, session: str) -> None:
        self.session = session

    return begin_session


_mutation(
    "exchange.session-on-record-first/never-recorded",
    "a new session gets no record",
    (LaneRecord, "begin_session", _session_not_recorded),
)
_mutation(
    "exchange.session-on-record-first/not-awaited",
    "messages leave before the record of their session",
    (LaneRecord, "recorded", _instead(property(lambda self: True))),
)
_mutation(
    "exchange.session-on-record-first/loss-ignored",
    "a lost session is not noticed",
    (LaneRecord, "lose_session", _instead(_nothing)),
    (HeldIdentifiers, "on_lost", _instead(lambda self: RangeSet())),
)


def _generation_stays(original: Any) -> Any:
    def new_session(self: SentRecord, generation: int, *others: Any) -> bool:
        another: bool = original(self, self.generation, *others)
        return another

    return new_session


_mutation(
    "exchange.session-on-record-first/generation-stays",
    "a new generation does not forget what was released",
    (SentRecord, "new_session", _generation_stays),
)


# --- commit point 8, what comes from a remote: message and identifier before PUBACK and PUBREC, removal before PUBCOMP ---


def _early(kind: str) -> Change:
    """Takes the answers of ``kind`` out of the burst that waits for the commit, to be said at once."""

    def change(original: Any) -> Any:
        def send(self: RemoteBatches, builder: Any, burst: Any, *arguments: Any, **named: Any) -> Any:
            if burst is not None:
                early = AnswerBurst([], [], [], frozenset())
                self._early = replace(early, **{kind: getattr(burst, kind)}).encode()  # type: ignore[attr-defined]
                burst = replace(burst, **{kind: []})
            return original(self, builder, burst, *arguments, **named)

        return send

    return change


def _said_when_sent(original: Any) -> Any:
    def turn_end(self: RemoteIntake, now_s: float) -> bool:
        remake: bool = original(self, now_s)
        batches = self._inbox.batches
        early = getattr(batches, "_early", b"")
        if early and self._inbox.is_open:
            self.writer.say(early)
        batches._early = b""  # type: ignore[attr-defined]
        return remake

    return turn_end


for _answer, _kind in (("puback", "pubacks"), ("pubrec", "pubrecs"), ("pubcomp", "pubcomps")):
    _mutation(
        f"exchange.answer-after-commit/{_answer}-first",
        f"{_answer.upper()} to the remote does not wait for the commit",
        (RemoteBatches, "send", _early(_kind)),
        (RemoteIntake, "turn_end", _said_when_sent),
    )


def _not_of_remotes(original: Any) -> Any:
    def change(self: Sessions, session: str, packet_ids: Any) -> None:
        if not session.startswith("\0"):
            original(self, session, packet_ids)

    return change


_mutation(
    "store.identifier-with-its-message/never-of-a-remote",
    "identifiers from a remote are not on the disk",
    (Sessions, "receive", _not_of_remotes),
)
_mutation(
    "store.identifier-with-its-message/release-of-a-remote-kept",
    "what a remote released stays on the disk",
    (Sessions, "release", _not_of_remotes),
)


# --- room before a PUBLISH is taken ---


def _dropped_when_full(original: Any) -> Any:
    return lambda self, name: "drop-newest"


def _late_answered(original: Any) -> Any:
    def collect(self: Links, now_s: float, wall_ms: int) -> Any:
        answers = original(self, now_s, wall_ms)
        late, self.late = self.late, []
        for frame in late:
            self._take(replace(frame, received={}, released={}), None, self._wanted(frame))
        return answers

    return collect


def _late_counted(original: Any) -> Any:
    def write_rows(self: ReceivingLinks, write: Write, *moment: object) -> None:
        for name in self._changed:
            self._senders[name].admitted = self._senders[name].last
        original(self, write, *moment)

    return write_rows


def _taken_unasked(original: Any) -> Any:
    return lambda self, *arguments: TAKE


_mutation(
    "store.taken-is-kept/dropped",
    "what was taken is dropped where the queue is full",
    (Lanes, "overflow_of", _dropped_when_full),
)
_mutation("store.taken-is-kept/late-answered", "a batch from a remote that waits is answered", (Links, "collect", _late_answered))
_mutation(
    "store.next-number-only/late-counted", "a batch that waits counts as on record", (ReceivingLinks, "write_rows", _late_counted)
)
_mutation(
    "store.full-announced/held-twice",
    "what is held ready for clients is offered again",
    (ClientRoom, "held", _instead(lambda self, name: (0, 0))),
)
_mutation(
    "store.full-announced/remotes-unasked",
    "a batch from a remote comes in, whatever is there",
    (ClientRoom, "wait_for_room", _instead(lambda self, frame, rooms: False)),
)
_mutation("broker.room-before-taken/unasked", "a PUBLISH is taken, whatever room there is", (QueueRoom, "verdict", _taken_unasked))


def _new_without_dup(original: Any) -> Any:
    def take(self: RemoteInbox, buffer: bytes, position: int) -> Any:
        flow = self._flow
        if flow is not None and position < len(buffer) and buffer[position] & 0xFE == 0x34:  # QoS 2, no DUP
            at = position + 4 + int.from_bytes(buffer[position + 2 : position + 4], "big")  # packets are short
            if (number := int.from_bytes(buffer[at : at + 2], "big")) in flow.carried:
                flow.received.discard(number)
        return original(self, buffer, position)

    return take


_mutation(
    "exchange.repeat-not-taken-again/told-by-dup",
    "a PUBLISH that was taken on an earlier connection, and comes again without DUP before PUBREL, is taken once more",
    (RemoteInbox, "take", _new_without_dup),
)


def _same_number(original: Any) -> Any:
    def next_number(self: LeftSessions, generation: int) -> int:
        return generation

    return next_number


_mutation(
    "exchange.session-number-unique/kept-after-a-loss",
    "the record of a lost session stays",
    (LeftSessions, "next_number", _same_number),
)


def _opened_at_once(original: Any) -> Any:
    def idle(self: RemoteInbox) -> bool:
        return True

    return property(idle)


_mutation(
    "exchange.session-asked-when-idle/asked-while-busy",
    "the session is asked for while batches are on their way",
    (RemoteInbox, "idle", _opened_at_once),
)


def _not_awaited(original: Any) -> Any:
    def connected(self: RemoteInbox, *session: Any, **named: Any) -> None:
        original(self, *session, **named)
        self.on_opened(b"")

    return connected


_mutation(
    "exchange.session-asked-when-idle/not-awaited",
    "PUBLISHes are taken before the identifiers are known",
    (RemoteInbox, "on_connected", _not_awaited),
)
_mutation(
    "exchange.inbox-bounded/left-out-for-good",
    "what was left out is never asked for again",
    (RemoteInbox, "remake", lambda original: property(lambda self: False)),
)
_mutation(
    "exchange.session-on-record-first/address-ignored",
    "a session at another address is taken for the one on record",
    (
        SenderHalf,
        "knows",
        _instead(lambda self, session, present: not present or session.partition("@")[0] == self.record.session.partition("@")[0]),
    ),
)


# --- links: numbers, epochs, resend ---


def _no_repeats(original: Any) -> Any:
    def judge(self: ReceivingLinks, name: str, epoch: int, number: int) -> Verdict:
        verdict: Verdict = original(self, name, epoch, number)
        return Verdict.NEXT if verdict is Verdict.REPEAT else verdict

    return judge


def _gaps_taken(original: Any) -> Any:
    def judge(self: ReceivingLinks, name: str, epoch: int, number: int) -> Verdict:
        verdict: Verdict = original(self, name, epoch, number)
        if verdict is Verdict.GAP:
            self._senders[name].last = number
            return Verdict.NEXT
        return verdict

    return judge


def _not_fenced(original: Any) -> Any:
    def judge(self: ReceivingLinks, name: str, epoch: int, number: int) -> Verdict:
        sender = self._senders.get(name)
        if sender is not None and epoch < sender.epoch:
            return Verdict.NEXT
        verdict: Verdict = original(self, name, epoch, number)
        return verdict

    return judge


def _numbers_in_memory(original: Any) -> Any:
    def write_rows(self: ReceivingLinks, write: Write, *_: object) -> None:
        for name in self._changed:
            sender: ReceivingLink = self._senders[name]
            write.on_commit(lambda sender=sender, last=sender.last: setattr(sender, "committed", last))  # type: ignore[misc]
        self._changed.clear()

    return write_rows


_mutation(
    "store.next-number-only/repeats-taken",
    "a batch that is committed already is taken again",
    (ReceivingLinks, "judge", _no_repeats),
)
_mutation(
    "store.next-number-only/gaps-taken",
    "a batch is taken although one before it is missing",
    (ReceivingLinks, "judge", _gaps_taken),
)
_mutation(
    "store.next-number-only/old-epoch-taken",
    "a batch of a former Listener is taken",
    (ReceivingLinks, "judge", _not_fenced),
    (ReceivingLinks, "is_fenced", _instead(lambda self, name, epoch: False)),
)
_mutation(
    "store.next-number-only/in-memory",
    "the last number of a sender stays in memory",
    (ReceivingLinks, "write_rows", _numbers_in_memory),
)
_mutation(
    "frames.uncommitted-resent/never",
    "outstanding batches are not sent again",
    (SendingLink, "resend", _instead(lambda self, now_s: [])),
)


_mutation("P6/refused-uncounted", "what a full queue refuses is not counted", (QueueSettled, "refuse", _instead(_nothing)))
_mutation("tree.epochs-only-rise/always-the-same", "every life has the same epoch", (Epochs, "next", _instead(lambda self: 7)))


def _epoch_of_store(original: Any) -> Any:
    def receive(self: Store, frame: Frame) -> None:
        if isinstance(frame, Settle) and frame.queue in self.lanes.all:
            frame = replace(frame, epoch=self.lanes.all[frame.queue].epoch)
        original(self, frame)

    return receive


def _epoch_of_actor(original: Any) -> Any:
    def on_frame(self: Any, frame: Any) -> None:
        if isinstance(frame, HandOut | Settled | Settle):
            frame = replace(frame, epoch=self._lane_epoch)
        original(self, frame)

    return on_frame


_mutation(
    "store.old-epoch-changes-nothing/lane-not-fenced",
    "frames of a former opening of the lane count",
    (Store, "receive", _epoch_of_store),
    (Forwarder, "on_frame", _epoch_of_actor),
)


# --- the queue's writes ---


def _row_one_commit_late(original: Any) -> Any:
    def write_row(self: Queue, write: Write, **how: bool) -> None:
        separate = Write()
        original(self, separate, **how)
        late = getattr(self, "_late_ops", [])
        self._late_ops = separate.ops  # type: ignore[attr-defined]
        write.ops.extend(late)

    return write_row


_mutation(
    "queue.chunk-with-its-tail/row-one-commit-late",
    "chunks and the row that covers them are in two commits",
    (Queue, "write_row", _row_one_commit_late),
)


def _handed_before_commit(original: Any) -> Any:
    def append(self: Queue, body: bytes, count: int, size_bytes: int, qos0: int, write: Write) -> Any:
        before = Write()
        found = original(self, body, count, size_bytes, qos0, before)
        write.ops.extend(before.ops)
        before.committed()
        return found

    return append


_mutation(
    "store.answer-after-commit/handed-out-first",
    "messages are handed out before their commit",
    (Queue, "append", _handed_before_commit),
)


def _trims_too_much(original: Any) -> Any:
    def live_from(self: Cursor) -> tuple[int, int]:
        return self.floor

    return live_from


_mutation(
    "queue.trimmed-after-settled/when-handed-out",
    "chunks are deleted when they are handed out",
    (Cursor, "live_from", _trims_too_much),
)


# --- recovery ---


def _ready_in_silence(original: Any) -> Any:
    def herald(self: Peers, child: Any) -> None:
        if not child.restart_count:
            original(self, child)

    return herald


_mutation(
    "frames.uncommitted-resent/new-life-untold",
    "the supervisor tells nobody that an actor is ready in a new life",
    (Peers, "herald", _ready_in_silence),
)


def _wrong_order(original: Any) -> Any:
    def rewind(self: HandedOut) -> None:
        original(self)
        if len(self.waiting) > 1:
            self.waiting.rotate(1)

    return rewind


_mutation(
    "exchange.resumed-in-order/last-first", "a resumed session begins with the last messages", (HandedOut, "rewind", _wrong_order)
)


def _told_ignored(original: Any) -> Any:
    def on_told(self: Qos2Window, receive_maximum: int | None) -> None:
        original(self, UNSTATED)

    return on_told


def _window_ignored(original: Any) -> Any:
    def connected(self: Window, *facts: int) -> None:
        original(self, *facts)
        self.window += 1

    return connected


_mutation(
    "exchange.identifier-never-twice/span-too-wide",
    "unsettled messages may span more sequences than there are identifiers",
    (IdentifierSpan, "room", _instead(lambda self, seq, qos: 1 << 16)),
)
_mutation(
    "exchange.receive-maximum-kept/one-too-many",
    "one message more than the receive maximum",
    (Window, "on_connected", _window_ignored),
)
_mutation(
    "exchange.qos2-maximum-kept/answer-not-heeded",
    "what an MQTT 3.1.1 remote says that it takes of QoS 2 is not heeded",
    (Qos2Window, "on_told", _told_ignored),
)


def _lane_not_reopened(original: Any) -> Any:
    def on_frame(self: Connection, frame: Any) -> None:
        if isinstance(frame, LaneOpened) and self.link.remote is not None:
            self.exchange.settlements.open(frame.epoch)
        else:
            original(self, frame)

    return on_frame


_mutation(
    "exchange.resumed-in-order/old-exchange-goes-on",
    "a lane opened anew goes on with the old exchange",
    (Connection, "on_frame", _lane_not_reopened),
)


def _quietly_lost(original: Any) -> Any:
    def take(self: ForwarderBuffer) -> HandOut | None:
        handout: HandOut | None = original(self)
        while handout is not None and handout.first_seq % 7 == 6:
            handout = original(self)
        return handout

    return take


_mutation(
    "exchange.publish-in-order/one-in-seven-lost", "one hand-out in seven goes nowhere", (ForwarderBuffer, "take", _quietly_lost)
)


def _unproven(original: Any) -> Any:
    def closed(self: Quarantine, **facts: Any) -> int | None:
        convicted: int | None = original(self, **facts)
        if convicted is None and self._sets_aside:
            return next((seq for seq, suspect in self.found.items() if suspect.closed > FIRST), None)
        return convicted

    return closed


_mutation(
    "exchange.given-up-only-when-proven/unproven",
    "a message is given up though the remote takes no other",
    (Quarantine, "on_closed", _unproven),
)


def _not_used_up(original: Any) -> Any:
    def take(self: SendRate, messages: int, size_bytes: int) -> None:
        original(self, messages // 2, size_bytes // 2)

    return take


_mutation("exchange.rate-kept/half-is-free", "what leaves counts half towards the rate", (SendRate, "take", _not_used_up))


for _name, _what, _patches in (
    *command_mutations.PLANTED,
    *change_mutations.PLANTED,
    *failover_mutations.PLANTED,
    *history_mutations.PLANTED,
    *option_mutations.PLANTED,
    *remote_mutations.PLANTED,
    *snapshot_mutations.PLANTED,
    *session_mutations.PLANTED,
):
    _mutation(_name, _what, *_patches)
