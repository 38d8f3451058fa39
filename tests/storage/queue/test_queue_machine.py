"""The queue against a plain model: whatever happens in whatever order, it hands out what the model says, and its ledger closes."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from storage.engine.engine import Write
from storage.queue.queue import Queue
from tests.storage.building import QUEUE, RecordingEngine, batch, messages, qos0_rows
from tests.support.history_audit import audit
from wire.ranges import ranges_of


class QueueMachine(RuleBasedStateMachine):
    """Model: sequence -> (payload, QoS) for what is queued; the sequences that are in flight; counts of what has ended."""

    apart = True
    retained = False
    cache_bytes = 200  # so that the disk is read, too

    @initialize()
    def begin(self) -> None:
        self.engine = RecordingEngine()
        self.engine.durable = self.apart
        self.queued: dict[int, tuple[bytes, int]] = {}
        self.flying: set[int] = set()
        self.released: set[int] = set()
        self.bytes_of: dict[int, int] = {}
        self.bytes_max = 0
        self.tail = 0
        self.number = 0
        self.ended: dict[str, int] = {}
        self.accepted = 0
        self.wall_ms = 0
        self.cut = False
        self.open()

    def open(self) -> None:
        self.queue = Queue(self.engine, QUEUE, 1, volatile_max_bytes=1 << 20, cache_bytes=self.cache_bytes, retained=self.retained)

    def end(self, outcome: str, seqs: list[int]) -> None:
        for seq in seqs:
            del self.queued[seq]
            self.flying.discard(seq)
            self.released.discard(seq)
        if seqs:
            self.ended[outcome] = self.ended.get(outcome, 0) + len(seqs)

    def commit(self, write: Write) -> None:
        self.wall_ms += 1
        self.queue.trimming.trim(write, idle=True)
        self.queue.write_row(write, wall_ms=self.wall_ms)
        self.engine.commit(write, sync=True)
        kept = audit(self.engine, 1)
        assert kept is not None
        assert kept.problems == []
        assert self.retained or self.queue.head < self.tail or not kept.chunks, "what is settled is deleted"
        if self.retained and not self.cut:
            for outcome, count in self.ended.items():
                noted = len(kept.settled(outcome))
                assert noted == count if outcome != "dropped:restart" else noted <= count, outcome

    @rule(batches=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=4))
    def append(self, batches: list[list[int]]) -> None:
        write = Write()
        for levels in batches:
            payloads = [b"%09d" % (self.number + index) for index in range(len(levels))]
            self.number += len(levels)
            of = batch(payloads, levels)
            assert self.queue.append(of.encode(), len(of), of.size_bytes(), qos0_rows(of), write) == range(
                self.tail, self.tail + len(of)
            )
            for payload, level in zip(payloads, levels, strict=True):
                self.queued[self.tail] = (payload, level)
                self.bytes_of[self.tail] = batch([payload], level).size_bytes()
                self.tail += 1
            self.bytes_max += of.size_bytes()
            self.accepted += len(of)
        self.commit(write)

    @rule(credit=st.integers(1, 30), size_bytes=st.integers(1, 2000))
    def hand_out(self, credit: int, size_bytes: int) -> None:
        handed = [pair for piece in self.queue.hand_out(credit, size_bytes) for pair in messages(piece)]
        expected = sorted(set(self.queued) - self.flying)[: len(handed)]
        assert [seq for seq, _ in handed] == expected, "in order, without gaps, nothing twice"
        assert [payload for _, payload in handed] == [self.queued[seq][0] for seq in expected]
        if set(self.queued) - self.flying:
            assert handed, "credit is used"
        self.flying |= set(expected)

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), outcome=st.sampled_from(["delivered", "dropped:too_large", "dead:0x87"]))
    def settle(self, data: st.DataObject, outcome: str) -> None:
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.flying)), min_size=1))
        assert self.queue.settle(outcome, ranges_of(sorted(chosen))) == len(chosen)
        assert self.queue.settle(outcome, ranges_of(sorted(chosen))) == 0, "once"
        self.end(outcome, sorted(chosen))

    @precondition(lambda self: self.flying)
    @rule(count=st.integers(1, 20))
    def settle_the_oldest(self, count: int) -> None:
        chosen = sorted(self.flying)[:count]
        assert self.queue.settle("delivered", ranges_of(chosen)) == len(chosen)
        self.end("delivered", chosen)

    @precondition(lambda self: self.tail)
    @rule(data=st.data(), outcome=st.sampled_from(["delivered", "dropped:remote_0x87"]), repeated=st.booleans())
    def settle_anywhere(self, data: st.DataObject, outcome: str, repeated: bool) -> None:
        """Whole ranges, over what is in flight, waiting, settled or gone, and beyond both ends; one may be there twice."""
        low = data.draw(st.integers(max(0, min(self.queued, default=self.tail) - 3), self.tail))
        first = (low, low + data.draw(st.integers(0, 9)))
        second = (first[1] + data.draw(st.integers(0, 9)), first[1] + data.draw(st.integers(0, 30)))
        ranges = (first, second, first) if repeated else (first, second)
        chosen = sorted(seq for seq in self.queued if any(start <= seq < stop for start, stop in ranges))
        assert self.queue.settle(outcome, ranges) == len(chosen)
        assert self.queue.settle(outcome, ranges) == 0, "once"
        self.end(outcome, chosen)

    @precondition(lambda self: any(self.queued[seq][1] for seq in self.flying))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        flying = [seq for seq in sorted(self.flying) if self.queued[seq][1]]
        chosen = data.draw(st.sets(st.sampled_from(flying), min_size=1))
        self.queue.release(ranges_of(sorted(chosen)))
        self.released |= chosen

    @rule(lives=st.booleans())
    def reset(self, lives: bool) -> None:
        self.queue.reset(forwarder_lives=lives)
        if not lives:
            self.end("dropped:actor_restart", [seq for seq in sorted(self.flying) if self.queued[seq][1] == 0])
        self.flying.clear()

    @rule(count=st.integers(1, 5))
    def drop_oldest(self, count: int) -> None:
        waiting = sorted(set(self.queued) - self.flying)
        never_handed = [seq for seq in waiting if seq >= self.queue.sent.below]
        if waiting != never_handed:
            assert self.queue.drop_oldest(count, 0) == 0, "what may have been sent is not dropped"
            return
        assert self.queue.drop_oldest(count, 0) == min(count, len(waiting))
        self.end("dropped:overflow", waiting[:count])

    @rule()
    def commit_row(self) -> None:
        self.commit(Write())

    @precondition(lambda self: self.apart)
    @rule()
    def restart(self) -> None:
        """The store dies and starts again: durable messages are there, the others are dropped and counted."""
        self.commit(Write())
        self.open()
        self.end("dropped:restart", [seq for seq in sorted(self.queued) if self.queued[seq][1] == 0])
        self.flying.clear()

    @precondition(lambda self: self.retained)
    @rule(age=st.integers(0, 10), rows_max=st.integers(1, 4))
    def cut_what_is_old(self, age: int, rows_max: int) -> None:
        assert self.queue.trimming.history is not None
        self.queue.trimming.history.age_out(lambda at_ms: at_ms >= self.wall_ms - age, rows_max)
        write = Write()
        self.queue.trimming.cut(write)
        self.cut = True
        self.commit(write)

    @invariant()
    def figures(self) -> None:
        queue = self.queue
        assert queue.depth == len(self.queued)
        assert queue.in_flight == len(self.flying)
        assert queue.ledger.accepted == self.accepted
        assert queue.ledger.ended() == sum(self.ended.values())
        assert queue.ledger.closes(queue.depth), "P6"
        assert queue.head <= queue.cursor <= queue.tail == self.tail, "queue.sequence-never-reused"
        assert all(seq >= queue.head for seq in self.queued), "queue.sequence-never-reused"
        assert {seq for start, stop in queue.sent.released.ranges() for seq in range(start, stop)} == self.released
        if not self.queued:
            assert queue.size_bytes == 0 or queue.waiting(), "bytes end with the messages"
        least = sum(self.bytes_of[seq] for seq in self.queued)
        assert least <= queue.size_bytes <= self.bytes_max, "every message's bytes count, and none twice"

    def teardown(self) -> None:
        """Hand out and settle what is left: the queue ends empty in every figure."""
        if not hasattr(self, "queue"):
            return
        while set(self.queued) - self.flying:
            self.hand_out(30, 2000)
        self.queue.hand_out(1, 1)  # over what is settled
        assert self.queue.settle("delivered", ((0, self.tail),)) == len(self.queued)
        self.end("delivered", sorted(self.queued))
        self.commit(Write())
        if self.retained and not self.cut:
            kept = audit(self.engine, 1)
            assert kept is not None
            assert {outcome: len(kept.settled(outcome)) for outcome in self.ended} == self.ended, "all of it, by what it left"
        assert (self.queue.head, self.queue.depth, self.queue.in_flight, self.queue.size_bytes) == (self.tail, 0, 0, 0)


class TogetherMachine(QueueMachine):
    """in-memory: every QoS is stored alike."""

    apart = False


class CachedMachine(QueueMachine):
    """file-native, with everything new in the cache."""

    cache_bytes = 1 << 20


class KeptMachine(QueueMachine):
    """A history is kept of what leaves the queue."""

    retained = True


@pytest.mark.parametrize("machine", [QueueMachine, TogetherMachine, CachedMachine, KeptMachine])
def test_the_queue_does_what_its_model_does(machine: type[QueueMachine]) -> None:
    """queue.ledger-adds-up, queue.cursor-after-handed-out"""
    run_state_machine_as_test(machine, settings=settings(max_examples=100, stateful_step_count=40, deadline=None))
