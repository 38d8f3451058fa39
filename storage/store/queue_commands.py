"""Operators' commands on queues and dead letters: ls, peek, purge, replay. Each looks at, or changes, a page at most.

Which command has its turn when, and who is answered, is the business of ``commands``.
Arguments (``QueueCommand.arguments``) are maps of msgpack types, results are those of ``wire/status/answers.py``.

ls {bridge?} -> Queues.
peek {bridge, lane, held? | left?, since_ms?, until_ms? | dead, from?, count?, payload_bytes?} -> HeldMessages: ``tail`` lets who
    pages know where to end. With ``held`` what rules hold for the lane, by numbers of its own; with ``left`` what has left it, of a
    stretch of time. Without a byte of the payload there are no properties either.
purge {bridge, lane?, dead?, in_flight?} -> Purged: without ``lane``, in every lane.
purge {bridge, dead, reason, from?} -> Purged: of the dead letters those that died of it, a page at most.
events {from?, count?} -> Events: from number ``from`` on.
replay {bridge, reason?, from?, count?} -> Replayed: one page goes back, by one commit.

Commands about local clients' sessions are ``storage/store/session_commands.py``'s; they wait in the same line, and are answered
likewise.

store.purge-begins-a-session [P2]: a purge of what may have been sent raises the generation, leaves the session and has the lane
    opened anew: the remote may hold packet identifiers of what is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from storage.queue.chunk import Message, batch_of
from storage.queue.dead_letters import DeadLetter, DeadLetters
from storage.queue.history import QueueHistory
from storage.queue.queue import Queue
from storage.store.client_room import ClientRoom
from storage.store.commands import Answer, CommandError
from storage.store.dead_letter_queues import SCANNED_BYTES, DeadLetterQueues, choose_page
from storage.store.event_log import EventLog
from storage.store.lane import Lane, State
from storage.store.lanes import Lanes
from storage.store.next_commit import NextCommit
from wire.clock_steps import elapsed_ms
from wire.config_settings import NORMAL, class_of
from wire.errors import StorageDamaged, Unavailable
from wire.figure import joined
from wire.frames.batch import QOS_MASK, RETAIN, applied_qos_table
from wire.frames.names import LaneLabel, lane_order, queue_name
from wire.frames.supervision import QueueCommand
from wire.routing.message_route import MessageRoute
from wire.status.answers import (
    DeadLetterQueue,
    Events,
    HeldMessage,
    HeldMessages,
    Imported,
    KeptLane,
    Purged,
    Queues,
    Replayed,
    Resent,
)
from wire.status.answers import Queue as QueueRow
from wire.status.event_kinds import EventKind
from wire.status.refusals import Refusal

PAGE_MESSAGES = 500
PAGE_BYTES = 256 << 10
TIME_MAX_MS = 1 << 62


MAY_HAVE_BEEN_SENT = "may_have_been_sent"  # it was handed to a link that stood


class QueueCommands:
    """Carries out one command at a time."""

    def __init__(
        self,
        lanes: Lanes,
        dead_letters: DeadLetterQueues,
        events: EventLog,
        next_commit: NextCommit,
        client_room: ClientRoom,
    ) -> None:
        self._lanes = lanes
        self._dead_letters = dead_letters
        self._events = events
        self.next_commit = next_commit
        self._client_room = client_room
        self._refused = False  # whether the disk refuses

    def carry_out(self, command: QueueCommand, now_s: float, wall_ms: int, *, refused: bool) -> Answer:
        """The result of ``command``; what it changed goes with the open write. refused: the disk refuses for now.

        Raises:
            CommandError: it is refused, and nothing has changed.
        """
        self._refused = refused
        arguments = command.arguments
        match command.verb:
            case "list":
                return self._list(arguments.get("bridge"), wall_ms)
            case "peek":
                return self._peek(arguments)
            case "purge":
                return self._purge(arguments, wall_ms)
            case "replay":
                return self._replay_page(arguments, now_s, wall_ms)
            case "resend":
                return self._resend_page(arguments, now_s, wall_ms)
            case "import":
                return self._import_page(arguments, now_s, wall_ms)
            case "events":
                return self._list_events(arguments)
        raise CommandError(Refusal.UNKNOWN_COMMAND, f"there is no {command.verb!r}")

    # --- ls ---

    def _list(self, bridge: str | None, wall_ms: int) -> Queues:
        if bridge is not None:
            self._known(bridge)
        lanes = {name: lane for name, lane in self._lanes.of_bridges.items() if bridge in (None, lane.bridge)}
        dead = {name: letters for name, letters in self._dead_letters.queues.items() if bridge in (None, name)}
        return Queues(
            queues=tuple(self._queue_row(name, lane, wall_ms) for name, lane in sorted(lanes.items(), key=_place)),
            dead_letters=tuple(self._dead_row(name, letters, wall_ms) for name, letters in sorted(dead.items())),
        )

    def _queue_row(self, name: str, lane: Lane, wall_ms: int) -> QueueRow:
        queue = lane.queue
        oldest_ms = None
        damaged = lane.is_stopped
        if not damaged:
            try:
                oldest_ms = queue.oldest_ms() if not self._refused else _oldest_on_record(queue)
            except StorageDamaged:
                damaged = True
            except Unavailable:
                if not self._refused:
                    raise
        state = State.STOPPED if damaged else State.CLOSED if lane.state is State.FENCED else lane.state
        return QueueRow(
            queue=name,
            bridge=lane.bridge,
            lane=lane.label,
            configured=self._lanes.is_configured(name),
            state=state.value,
            depth=queue.depth + self._lanes.thinned.held(name),
            bytes=queue.size_bytes + self._lanes.thinned.size_bytes(name),
            held=self._lanes.thinned.held(name),
            oldest_age_s=None if oldest_ms is None else elapsed_ms(oldest_ms, wall_ms) / 1000,
            in_flight=queue.in_flight,
            head=queue.head,
            tail=queue.tail,
            session=queue.sent.session,
            generation=queue.sent.generation,
        )

    def _dead_row(self, bridge: str, letters: DeadLetters, wall_ms: int) -> DeadLetterQueue:
        oldest_ms = None
        if letters.held:
            with suppress(StorageDamaged, *((Unavailable,) if self._refused else ())):
                _, oldest = next(letters.read(), (0, None))
                oldest_ms = oldest.at_ms if oldest is not None else None
        return joined(
            DeadLetterQueue,
            letters.figures(),
            queue=letters.name,
            bridge=bridge,
            configured=bridge in self._lanes.configured,
            oldest_age_s=None if oldest_ms is None else elapsed_ms(oldest_ms, wall_ms) / 1000,
        )

    # --- events ---

    def _list_events(self, arguments: Mapping[str, Any]) -> Events:
        if not self._events.kept:
            text = "no events are kept: the store is in-memory, or persistence.events.max is 0"
            raise CommandError(Refusal.NOT_KEPT, text)
        count = min(arguments.get("count") or PAGE_MESSAGES, PAGE_MESSAGES)
        rows, following = self._events.read(arguments.get("from") or 0, count)
        return Events(events=rows, next=following, until=self._events.next)

    # --- peek ---

    def _peek(self, arguments: Mapping[str, Any]) -> HeldMessages:
        bridge = arguments["bridge"]
        start = arguments.get("from") or 0
        payload_bytes = arguments.get("payload_bytes")
        page = _Page(arguments.get("count"))
        if arguments.get("dead"):
            letters = self._letters(bridge)
            for seq, letter in letters.read(start):
                if letter is None:
                    page.take(HeldMessage(seq=seq, damaged=True), 0)
                else:
                    page.take(_dead(letter, payload_bytes), letter.message.size_bytes)
                if page.full:
                    break
            return page.of(letters.name, letters.next_seq)
        name, lane = self._lane(bridge, arguments["lane"])
        queue = lane.queue
        if arguments.get("left"):
            return self._peek_left(name, lane, arguments)
        if arguments.get("held"):
            for number, message in self._lanes.thinned.held_from(name, start):
                page.take(_held(message, payload_bytes, seq=number, state="held"), message.size_bytes)
                if page.full:
                    break
            return page.of(name, self._lanes.thinned.next_number(name))
        for message in queue.read(start, queue.tail):
            page.take(_held(message, payload_bytes, seq=message.seq, state=_sent(queue, message.seq)), message.size_bytes)
            if page.full:
                break
        return page.of(name, queue.tail)

    def _peek_left(self, name: str, lane: Lane, arguments: Mapping[str, Any]) -> HeldMessages:
        queue, payload_bytes = lane.queue, arguments.get("payload_bytes")
        count = min(arguments.get("count") or PAGE_MESSAGES, PAGE_MESSAGES)
        times = arguments.get("since_ms") or 0, arguments.get("until_ms", TIME_MAX_MS)
        stretch = (arguments.get("from") or 0, queue.tail)
        history = _history_of(name, lane)
        found, following, damaged = history.left(stretch, times, queue.has_left, count=count, size_bytes=PAGE_BYTES)
        rows = (_held(message, payload_bytes, seq=message.seq, state=how, at_ms=left_ms) for message, how, left_ms in found)
        ended = following >= queue.tail
        return HeldMessages(queue=name, messages=tuple(rows), next=None if ended else following, tail=queue.tail, damaged=damaged)

    # --- purge ---

    def _purge(self, arguments: Mapping[str, Any], wall_ms: int) -> Purged:
        bridge = arguments["bridge"]
        write = self.next_commit.write
        if arguments.get("dead"):
            return self._purge_dead(bridge, arguments, wall_ms)
        whole = bool(arguments.get("in_flight"))
        if arguments.get("lane") is None:
            self._known(bridge)
            names = [name for name, lane in self._lanes.of_bridges.items() if lane.bridge == bridge]
        else:
            names = [self._lane(bridge, arguments["lane"])[0]]
        queues = {name: self._lanes.of_bridges[name].queue for name in sorted(names)}
        unsent = {} if whole else {name: queue.unsent() for name, queue in queues.items()}  # all reading before any change
        purged = flying = 0
        kept = []
        for name, queue in queues.items():
            lane = self._lanes.of_bridges[name]
            gone = queue.purge_all(write) if whole else queue.purge_unsent(unsent[name], write)
            gone += self._lanes.thinned.purge(name)
            purged += gone
            self._lanes.on_purged(name, whole=whole)
            self._events.note(
                wall_ms, EventKind.QUEUE_PURGED, actor="operator", bridge=bridge, lane=lane.label, reason="queue", count=gone
            )
            flying += queue.in_flight
            if queue.depth:
                kept.append(_kept_lane(lane))
        return Purged(purged=purged, kept=sum(row.messages for row in kept), kept_in_flight=flying, kept_lanes=tuple(kept))

    def _purge_dead(self, bridge: str, arguments: Mapping[str, Any], wall_ms: int) -> Purged:
        letters, write, reason = self._letters(bridge), self.next_commit.write, arguments.get("reason")
        following = None
        if reason is None:
            gone = letters.purge(write)
        else:
            place, start = letters.name, arguments.get("from") or 0
            page = choose_page(letters.read(start), [place], {place: ()}, reason=reason, count=PAGE_MESSAGES)
            gone = letters.remove(page.chosen.get(place, ()), write)
            following = page.following if page.following is not None and page.following < letters.next_seq else None
        if gone:
            self._events.note(
                wall_ms, EventKind.QUEUE_PURGED, actor="operator", bridge=bridge, lane=-1, reason="dead_letters", count=gone
            )
        return Purged(purged=gone, next=following)

    # --- replay ---

    def _replay_page(self, arguments: Mapping[str, Any], now_s: float, wall_ms: int) -> Replayed:
        bridge = arguments["bridge"]
        letters = self._letters(bridge)
        names = self._queues_into(bridge)
        lanes = self._lanes.configured[bridge].lane_labels
        of_classes = [queue_name(bridge, lane) for lane in lanes if class_of(lane) != NORMAL]
        count = min(arguments.get("count") or PAGE_MESSAGES, PAGE_MESSAGES)
        waiting, rooms = letters.read(arguments.get("from") or 0), self._client_room.beside_clients(now_s, [*names, *of_classes])
        page = choose_page(waiting, names, rooms, reason=arguments.get("reason"), count=count, of_classes=of_classes)
        if page.full and not page.chosen:
            text = f"the queue of bridge {bridge!r} has no room (limits, or the disk is full); no dead letter was taken out"
            raise CommandError(Refusal.FULL, text)
        for name, back in page.chosen.items():
            self.put_back(name, back, letters, wall_ms)
        ended = page.following is None or page.following >= letters.next_seq
        return Replayed(
            replayed=page.taken,
            skipped=page.skipped,
            damaged=page.damaged,
            full=page.full,
            next=None if ended else page.following,
            tail=letters.next_seq,
        )

    def put_back(self, name: str, back: Sequence[DeadLetter], letters: DeadLetters, wall_ms: int) -> None:
        """Put ``back`` at the end of queue ``name``, accepted now, and out of the dead letters, by one write."""
        self._append(name, [letter.message for letter in back], wall_ms)
        letters.on_replayed(back, self.next_commit.write)

    # --- resend ---

    def _resend_page(self, arguments: Mapping[str, Any], now_s: float, wall_ms: int) -> Resent:
        bridge, name = arguments["bridge"], arguments["run"]
        source, lane = self._lane(bridge, arguments.get("lane") or 0)
        into = arguments.get("into") or bridge
        names = self._queues_into(into)
        _history_of(source, lane)
        resends = self._lanes.resends[into]
        known = resends.find(name, source)
        stretch = (arguments.get("from") or 0, arguments.get("below", lane.queue.head))
        times = (arguments.get("since_ms") or 0, arguments.get("until_ms", TIME_MAX_MS))
        measured = self._client_room.beside_clients(now_s, names)
        rooms = {to: measured[to] for to in names}
        count = min(arguments.get("count") or PAGE_MESSAGES, PAGE_MESSAGES)
        run, page = resends.go_on(name, lane.queue, (*stretch, *times), rooms, self.next_commit.write, count=count)
        for to, messages in page.chosen.items():
            self._append(to, messages, wall_ms)
        begins, ends = known is None, run.ended and (known is None or not known.ended)
        for reason in [*(("begun",) if begins else ()), *(("ended",) if ends else ())]:
            self._events.note(
                wall_ms,
                EventKind.QUEUE_RESENT,
                actor="operator",
                bridge=bridge,
                lane=lane.label,
                reason=reason,
                count=run.messages,
                run=name,
                into=into,
            )
        return Resent(
            resent=page.taken,
            total=run.messages,
            missed=page.missed,
            damaged=page.damaged,
            full=page.full,
            next=None if run.ended else run.following,
            below=run.stretch.stop,
        )

    # --- import ---

    def _import_page(self, arguments: Mapping[str, Any], now_s: float, wall_ms: int) -> Imported:
        bridge, name, first, below = arguments["bridge"], arguments["run"], arguments["from"], arguments["below"]
        names = self._queues_into(bridge)
        resends = self._lanes.resends[bridge]
        known = resends.find_file(name)
        if known is not None and known.stretch.stop != below:
            text = f"run {name!r} is about a file of {known.stretch.stop} messages, not of {below}; take another name"
            raise CommandError(Refusal.BAD_ARGUMENTS, text)
        messages = [_imported(fields, wall_ms) for fields in arguments["messages"]]
        measured = self._client_room.beside_clients(now_s, names)
        rooms = {to: measured[to] for to in names}
        run, page = resends.go_on_with_lines(name, first, below, messages, rooms, self.next_commit.write)
        for to, chosen in page.chosen.items():
            self._append(to, chosen, wall_ms)
        if run.ended and (known is None or not known.ended):
            self._events.note(
                wall_ms, EventKind.QUEUE_IMPORTED, actor="operator", bridge=bridge, lane=-1, reason=name, count=run.messages
            )
        return Imported(imported=page.taken, total=run.messages, full=page.full, next=None if run.ended else run.following)

    def _queues_into(self, bridge: str) -> list[str]:
        """The queues of ``bridge`` over which topics are spread."""
        configured = self._lanes.configured.get(bridge)
        if configured is None:
            known = ", ".join(self._lanes.configured) or "none"
            text = f"bridge {bridge!r} is not configured, so nothing can go back to it; configured: {known}"
            raise CommandError(Refusal.NOT_CONFIGURED, text)
        return [queue_name(bridge, lane) for lane in range(configured.lanes)]

    def _append(self, name: str, messages: Sequence[Message], wall_ms: int) -> None:
        """Append ``messages`` to the queue ``name``, accepted now."""
        write = self.next_commit.write
        batch = batch_of(list(messages), accepted_ms=wall_ms)
        if not self._lanes.configured[self._lanes.of_bridges[name].bridge].persist:
            batch.change_flags(0, batch.flags.translate(applied_qos_table(0)))
        qos0 = sum(1 for flags in batch.flags if not flags & QOS_MASK)
        self._lanes.of_bridges[name].queue.append(batch.encode(), len(batch), batch.size_bytes(), qos0, write)
        self._lanes.thinned.forget_payloads(name)
        write.on_commit(partial(self._lanes.ready.setdefault, name))

    # --- names ---

    def _known(self, bridge: str) -> None:
        known = {lane.bridge for lane in self._lanes.of_bridges.values()} | set(self._dead_letters.queues)
        if bridge not in known:
            names = ", ".join(sorted(known)) or "none"
            raise CommandError(Refusal.UNKNOWN_BRIDGE, f"there is no queue of a bridge {bridge!r}; known: {names}")

    def _lane(self, bridge: str, lane: LaneLabel) -> tuple[str, Lane]:
        self._known(bridge)
        name = queue_name(bridge, lane)
        if name not in self._lanes.of_bridges:
            lanes = sorted((known.label for known in self._lanes.of_bridges.values() if known.bridge == bridge), key=lane_order)
            known = ", ".join(map(str, lanes)) or "none"
            raise CommandError(Refusal.UNKNOWN_LANE, f"bridge {bridge!r} has no lane {lane}; known: {known}")
        return name, self._lanes.of_bridges[name]

    def _letters(self, bridge: str) -> DeadLetters:
        self._known(bridge)
        letters = self._dead_letters.queues.get(bridge)
        if letters is None:
            raise CommandError(Refusal.NO_DEAD_LETTERS, f"bridge {bridge!r} has no dead letters, and never had any")
        return letters


class _Page:
    """The limit of one answer."""

    def __init__(self, count: int | None) -> None:
        self._rows: list[HeldMessage] = []
        self._count = min(count or PAGE_MESSAGES, PAGE_MESSAGES)
        self._answer_bytes = self._read_bytes = 0

    def take(self, row: HeldMessage, read_bytes: int) -> None:
        self._rows.append(row)
        self._read_bytes += read_bytes
        self._answer_bytes += len(row.payload) + len(row.topic) + len(row.properties) + 100

    @property
    def full(self) -> bool:
        return len(self._rows) >= self._count or self._answer_bytes >= PAGE_BYTES or self._read_bytes >= SCANNED_BYTES

    def of(self, queue: str, tail: int) -> HeldMessages:
        """The answer; if it is full and has not come to ``tail``, another follows."""
        following = self._rows[-1].seq + 1 if self.full else tail
        return HeldMessages(queue=queue, messages=tuple(self._rows), next=following if following < tail else None, tail=tail)


def _oldest_on_record(queue: Queue) -> int | None:
    """As ``oldest_ms``, but nothing that is found, or not, changes the queue."""
    oldest = next(queue.read(queue.head, queue.tail), None)
    return None if oldest is None else oldest.accepted_ms


def _held(message: Message, payload_bytes: int | None, **more: Any) -> HeldMessage:
    route = MessageRoute.decode(message.route) if message.route else None
    return HeldMessage(
        topic=message.topic,
        qos=message.flags & QOS_MASK,
        retain=bool(message.flags & RETAIN),
        size=len(message.payload),
        payload=message.payload if payload_bytes is None else message.payload[:payload_bytes],
        properties=b"" if payload_bytes == 0 else message.properties,
        rule=route.rule if route else "",
        destination=route.destination if route else "",
        accepted_ms=message.accepted_ms,
        **more,
    )


def _imported(fields: Sequence[Any], wall_ms: int) -> Message:
    """The message of ``fields``: topic, flags, payload, properties, rule and destination."""
    topic, flags, payload, properties, rule, destination = fields
    route = MessageRoute(rule, destination, preserve_retain=True, properties=b"").encode()
    return Message(-1, topic, payload, flags, properties, route, wall_ms)


def _dead(letter: DeadLetter, payload_bytes: int | None) -> HeldMessage:
    return _held(
        letter.message,
        payload_bytes,
        seq=letter.seq,
        reason=letter.reason,
        at_ms=letter.at_ms,
        queue=letter.queue,
        queue_seq=letter.message.seq,
        remote=letter.remote,
    )


def _history_of(name: str, lane: Lane) -> QueueHistory:
    """What is kept of that which has left the queue ``name``.

    Raises:
        CommandError: nothing is.
    """
    if (history := lane.queue.trimming.history) is None:
        text = f"nothing is kept that has left {name}: retention of bridge {lane.bridge!r} is 0s, or the store is in-memory"
        raise CommandError(Refusal.NOT_KEPT, text)
    return history


def _kept_lane(lane: Lane) -> KeptLane:
    """The messages that a purge has left in ``lane``, and why."""
    return KeptLane(
        lane=lane.label,
        messages=lane.queue.depth,
        reason=MAY_HAVE_BEEN_SENT,
        remote=lane.queue.sent.session.rpartition("@")[2],
        link_up_ms=lane.linked_ms,
    )


def _sent(queue: Queue, seq: int) -> str:
    """The state of a message: released (the remote has it), handed out (sent, or about to be), maybe sent (before the link ended),
    waiting (never sent).
    """
    if seq in queue.sent.released:
        return "released"
    if seq < queue.cursor:
        return "handed out"
    return "maybe sent" if seq < queue.sent.below else "waiting"


def _place(row: tuple[str, Lane]) -> tuple[str, tuple[bool, int, str]]:
    return row[1].bridge, lane_order(row[1].label)
