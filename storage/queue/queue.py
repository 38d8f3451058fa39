"""The durable FIFO of one bridge lane or session: append, hand out, settle, reset. Pure over the engine's protocol.

Memory holds positions, what is in flight, a bounded cache of the newest chunks and the QoS 0 messages that are kept apart; nothing
per message of the backlog. Which write is committed when, and who gets what, is the business of ``commits`` and ``hand_outs``.
"""

from __future__ import annotations

from collections.abc import Callable

from storage.engine.engine import Engine, Write
from storage.engine.keys import lane_key
from storage.queue.chunk_reader import ChunkReader
from storage.queue.hand_out import Dispatch
from storage.queue.hand_out_cursor import Cursor
from storage.queue.hand_out_pieces import HandOutPiece
from storage.queue.in_flight import InFlight, Left
from storage.queue.ledger import LaneRow, Unwritten
from storage.queue.ledger_balance import Balance
from storage.queue.losses_to_damage import Losses
from storage.queue.purge import Purge
from storage.queue.purged_chunks import Purged
from storage.queue.queue_contents import Contents
from storage.queue.sent_record import SentRecord
from storage.queue.settled_ranges import Settled
from storage.queue.tail import Tail
from storage.queue.trimming import Trimming
from storage.queue.waiting_messages import TooOld, Waiting
from wire.frames.base import Ranges
from wire.ranges import ranges_of

CACHE_BYTES = 8 << 20


class Queue:
    """The sequences in [head, tail) and no others; head <= cursor <= tail.

    The rules stand with the parts that keep them: queue.sequence-never-reused and queue.chunk-with-its-tail ``tail``,
    queue.cursor-after-handed-out ``cursor``, queue.ledger-adds-up ``balance``, queue.trimmed-after-settled ``trimming``,
    queue.handed-out-below-mark ``sent_record``, queue.history-notes-each-once ``settled``.
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        number: int,
        row: LaneRow | None = None,
        *,
        first_seq: int = 0,
        session: str = "",
        volatile_max_bytes: int,
        tail_known: int = 0,
        cache_bytes: int = CACHE_BYTES,
        on_change: Callable[[], None] = lambda: None,
        mark_holds: bool = True,
        retained: bool = False,
    ) -> None:
        """Open the queue as ``row``, or else the engine, has it; or a new one. Reads two chunks (P8).

        first_seq, session: where a new one begins, and its remote's session on record. tail_known: evidence from elsewhere that the
        queue went that far once; what is missing up to there is lost. on_change: is called when the row is to be written.
        mark_holds: nothing is committed that a loss of power takes back (queue.handed-out-below-mark). retained: whether a history
        is kept.

        Raises:
            StorageDamaged: its row is damaged.
        """
        if row is None:
            value = engine.get("meta", lane_key(number))
            row = LaneRow.decode(value, queue=name) if value is not None else LaneRow.begin(first_seq, session)
        self.name, self.number = name, number
        self._row_state = Unwritten(on_change)
        changed = self._row_state.mark
        self._reader = reader = ChunkReader(engine, name, number, row.trimmed)
        self._cursor = cursor = Cursor(reader, row, qos0_max_bytes=volatile_max_bytes, cache_bytes=cache_bytes)
        self._in_flight = in_flight = InFlight()
        self._balance = balance = Balance(row.ledger, row.depth, changed)
        self.purged = purged = Purged(row.purged)
        self.sent = sent = SentRecord(row, changed, mark_holds=mark_holds)
        self.trimming = Trimming(engine, reader, row, lambda: in_flight.needed_from(cursor.floor), changed, retained=retained)
        below = (sent.forget_below, cursor.jump_to_head, in_flight.forget_below)
        self._settled = settled = Settled(row, self.trimming.history, changed, below)
        self.losses = Losses(reader, cursor, in_flight, settled, balance, sent, changed)
        self._waiting = Waiting(reader, cursor, settled, balance, sent, self.losses, purged, changed)
        self._dispatch = Dispatch(cursor, self._waiting, in_flight, settled, balance, sent, durable=engine.durable)
        self.contents = Contents(reader, cursor, in_flight, settled, balance)
        self.appended = Tail(number, row, cursor, settled, balance, all_stored=not engine.durable)
        self.purge = Purge(reader, cursor, in_flight, settled, balance, sent, purged, self.trimming, self.appended, changed)
        self.ledger, self.settled, self.ways, self.qos0 = balance.ledger, settled.above, self.appended.ways, cursor.qos0
        if self._waiting.begin() and row.head == row.trimmed:
            self.trimming.begin_at(cursor.bytes_before)
        if tail_known > row.tail:
            self.appended.seq = tail_known
            self.losses.lose_tail(tail_known)

    @property
    def changed(self) -> bool:
        """Whether the row is to be written."""
        return self._row_state.waits

    @changed.setter
    def changed(self, changed: bool) -> None:
        (self._row_state.mark if changed else self._row_state.written)()

    # --- figures ---

    @property
    def head(self) -> int:
        """Everything below it has left the queue."""
        return self._settled.head

    @property
    def tail(self) -> int:
        """Everything below it is committed."""
        return self._cursor.tail

    @property
    def cursor(self) -> int:
        """What is below it and not settled is in flight."""
        return self._cursor.seq

    @property
    def depth(self) -> int:
        """Messages accepted and not ended, those of uncommitted writes included."""
        return self._balance.stored + self._balance.qos0

    @property
    def depth_on_disk(self) -> int:
        """Those that the open write has on disk, or a commit before it."""
        return self._balance.stored

    @property
    def size_bytes(self) -> int:
        """Bytes of the messages in the queue, to within a chunk."""
        cursor = self._cursor
        waiting = self.appended.size_bytes - cursor.bytes_before + cursor.qos0.size_bytes
        return waiting + self._in_flight.size_bytes - self.purged.bytes_above(cursor.seq)

    @property
    def in_flight(self) -> int:
        """Messages handed out and not settled."""
        return self._in_flight.messages

    def waiting(self) -> bool:
        """Whether there is something that was not handed out."""
        return self._cursor.seq < self._cursor.tail

    def oldest_ms(self) -> int | None:
        """When the oldest message of the queue was accepted; None if there is none.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        first = self._in_flight.first
        return first.accepted_at(self._settled.head) if first is not None else self._waiting.oldest_ms()

    # --- append ---

    def append(self, body: bytes, count: int, size_bytes: int, qos0: int, write: Write) -> range:
        """Add the batch ``body`` to ``write``: its sequences count once ``write`` is committed, and not before.

        count: its rows, qos0: how many of them are QoS 0. Where the engine is durable, those are kept apart, in memory only.
        """
        return self.appended.append(body, count, size_bytes, qos0, write)

    def refuse_into(self, outcome: str, messages: int) -> None:
        """Count ``messages`` that were accepted and ended at once, under ``outcome``, without ever being in the queue."""
        self._balance.refuse_into(outcome, messages)

    def count_refused(self, messages: int) -> None:
        """Count ``messages`` that were refused for good, for want of room: they were never accepted."""
        self._balance.refuse(messages)

    # --- hand out ---

    def hand_out(
        self, messages: int, size_bytes: int, *, too_old: TooOld | None = None, below: int | None = None
    ) -> list[HandOutPiece]:
        """Hand out, in order, until ``messages`` or ``size_bytes`` are reached (by a chunk more), and mark it in flight.

        What is ``too_old`` is expired instead; if that takes something off the disk, ``depth_on_disk``
        falls and nothing behind it is handed out in this call: let that be committed first, synced (P4). below: nothing from there
        on, where a chunk begins.

        Raises:
            StorageDamaged: the next chunk cannot be read.
            Unavailable: the disk refuses for now.
        """
        return self._dispatch.hand_out(messages, size_bytes, too_old, below)

    @property
    def cut_short(self) -> bool:
        """Whether the last hand-out stopped before what could not be read; the next one raises for it."""
        return self._dispatch.cut_short

    @property
    def wants_mark(self) -> bool:
        """Whether ``hand_out`` stopped for want of a higher mark: write the row, commit it in full strength, and go on
        (queue.handed-out-below-mark).
        """
        return self.sent.wants_mark

    def release(self, ranges: Ranges) -> None:
        """Remember that PUBREC came for ``ranges``: never PUBLISH again. It holds once the row is committed.

        A client whose connection outlives the store tells of what the new store has not handed out again yet.
        """
        self.sent.release(ranges, self.head, self.tail)

    def reset(self, *, forwarder_lives: bool) -> None:
        """Forget the markers: the cursor goes back to the head, and everything unsettled is handed out again.

        QoS 0 is at most once: what was handed to a Forwarder that died is dropped; one that lives has settled what it passed on.
        """
        if not forwarder_lives:
            self.settle("dropped:actor_restart", ranges_of(sorted(self._in_flight.qos0_seqs(self._reader))))
        self._cursor.go_back(self._settled.head, self._in_flight)
        self._in_flight.clear()

    def close(self, sent_below: int) -> None:
        """Nothing is handed out for now; what was not sent may be dropped, and expires (queue.handed-out-below-mark). The next
        hand-out commits a mark anew.

        sent_below: what was handed out from there on was never sent; -1: that is not known.
        """
        self.sent.close(sent_below, self._settled.head)

    def cache(self, size_bytes: int) -> None:
        """Keep so much in memory of what is on disk as well; 0 where nobody takes from the queue for now."""
        self._cursor.upcoming.keep(size_bytes)

    # --- settle ---

    def settle(self, outcome: str, ranges: Ranges, *, by: str = "store", left: Left | None = None) -> int:
        """Take the messages of ``ranges`` out of the queue under ``outcome``, handed out or not; how many. by: who says so.

        Changes memory at once; the row goes with the next write. What is settled, or not in the queue, is ignored. The bytes of
        what was not handed out go when the cursor passes it. What leaves is put down in ``left``.

        Raises:
            StorageDamaged, Unavailable: what was not handed out cannot be read; nothing has changed.
        """
        cursor, settled = self._cursor, self._settled
        waits = any(stop > cursor.seq for _, stop in ranges)
        stored, qos0 = self._waiting.settle(outcome, ranges, by, left) if waits else (0, 0)
        for start, stop in ranges:
            start, stop = max(start, settled.head), min(stop, cursor.seq)
            if start >= stop:
                continue
            for low, high in settled.leave(by, outcome, start, stop):
                gone_stored, gone_qos0, qos0_bytes = self._in_flight.settle(low, high, left)
                stored += gone_stored
                qos0 += gone_qos0
                if qos0_bytes:
                    cursor.qos0.free(qos0_bytes)
            self.sent.released.discard(start, stop)
        self._balance.end(outcome, stored, qos0)
        settled.advance()
        return stored + qos0

    def look_waiting(self, ranges: Ranges) -> None:
        """Read what ``settle`` of ``ranges`` is to read, and change nothing.

        Raises:
            Unavailable: it cannot be read for now.
        """
        if any(stop > self._cursor.seq for _, stop in ranges):
            self._waiting.look(ranges)

    def count_redelivered(self, ranges: Ranges, *, by: str = "store") -> None:
        """Count messages that were sent again; nothing is settled."""
        if self.trimming.history is not None:
            self.trimming.history.note(by, "redelivered", ranges)
        self._balance.count("redelivered", sum(stop - start for start, stop in ranges))

    # --- limits ---

    def drop_oldest(self, messages: int, size_bytes: int) -> int:
        """Drop the oldest messages never handed out, until ``messages`` and ``size_bytes`` are free; how many were dropped.

        Raises:
            StorageDamaged, Unavailable: the oldest cannot be read.
        """
        return self._waiting.drop_oldest(messages, size_bytes)

    def expire(self, too_old: TooOld, *, chunks_max: int = 1000) -> int:
        """Expire what waits at the cursor and is ``too_old``; how many messages that were.

        Raises:
            StorageDamaged, Unavailable: it cannot be read.
        """
        return self._waiting.expire(too_old, chunks_max=chunks_max)

    # --- disk ---

    def trim(self, write: Write, *, idle: bool = False) -> None:
        """Delete the chunks below the head with ``write`` if they are many or the queue is ``idle``."""
        self._settled.advance()
        self.trimming.trim(write, idle=idle)

    def write_row(self, write: Write, *, strong: bool = True, ahead: bool = True, wall_ms: int = 0) -> None:
        """Put the queue's row into ``write``, as it is once everything appended is committed, and what goes into the history.

        strong: the commit has the configured strength, so the mark of queue.handed-out-below-mark may move; ahead: by a block,
        since more can be handed out soon.
        """
        self._settled.advance()
        head, settled, sent, balance = self._settled.head, self._settled.above.ranges(), self.sent, self._balance
        self.trimming.write(write, wall_ms, head, settled[-1][1] if settled else head)
        handed = sent.put_mark(write, self._cursor.seq, self.appended.seq, strong=strong, ahead=ahead)
        if balance.stored < 0 or (balance.stored and head == self.appended.seq):
            self.losses.put_right()
        row = LaneRow(
            head=head,
            tail=self.appended.seq,
            handed=handed,
            trimmed=self.trimming.trimmed,
            tail_bytes=self.appended.size_bytes,
            depth=balance.stored,
            settled=settled,
            released=sent.released.ranges(),
            generation=sent.generation,
            session=sent.session,
            ledger=balance.ledger,
            purged=self.purged.row(head),
            history=self.trimming.row(),
            ways=self.appended.ways.row(head),
            left=sent.left,
        )
        write.put("meta", lane_key(self.number), row.encode())
        write.tails[self.number] = self.appended.seq
        self._row_state.written()
