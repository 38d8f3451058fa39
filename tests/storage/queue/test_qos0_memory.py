"""QoS 0 in memory: bounded, in order, and every byte given back."""

from __future__ import annotations

from storage.queue.hand_out_cursor import Qos0Memory
from storage.queue.settled_ranges import Settled
from tests.storage.building import RecordingEngine, batch
from tests.storage.queues import append, chunk, handed, new_row, open_queue


def test_memory_for_qos_0_is_bounded_and_the_oldest_goes_first() -> None:
    engine = RecordingEngine()
    queue = open_queue(engine, volatile_max_bytes=250)

    append(engine, queue, *[batch([b"%d" % number * 99], 0) for number in range(5)])

    assert handed(queue.hand_out(100, 1 << 30)) == [b"3" * 99, b"4" * 99]
    assert queue.ledger.dropped == {"qos0_memory": 3}
    assert queue.ledger.closes(queue.depth)
    assert queue.settle("delivered", ((0, 5),)) == 2
    assert queue.size_bytes == 0


def waiting(memory: Qos0Memory) -> list[int]:
    return [each.first_seq for each in memory.waiting]


def test_what_is_handed_out_counts_until_it_is_freed_and_may_come_back() -> None:
    settled = Settled(new_row(), None, lambda: None)
    memory = Qos0Memory(100)
    first, second = chunk(0, 4), chunk(4, 4)
    assert [memory.add(each, settled, 0) for each in (first, second)] == [0, 0]

    memory.pop()
    assert (waiting(memory), memory.size_bytes) == ([4], 80)
    assert memory.add(chunk(8, 4), settled, 4) == 4, "what is in flight cannot go, so what waits does"
    assert (waiting(memory), memory.size_bytes) == ([8], 80)
    memory.take_back([first])
    assert waiting(memory) == [0, 8]
    memory.pop()
    memory.free(first.size_bytes)
    assert memory.size_bytes == 40


def test_chunks_go_below_and_above_a_sequence() -> None:
    settled = Settled(new_row(), None, lambda: None)
    settled.leave("store", "delivered", 5, 7)
    memory = Qos0Memory(1000)
    for seq in (0, 4, 8, 12):
        memory.add(chunk(seq, 4), settled, 0)

    memory.skip(4)
    assert waiting(memory) == [4, 8, 12]
    assert memory.drop_below(8, settled, 4) == 2, "two of its four are settled"
    memory.drop_from(12)
    assert (waiting(memory), memory.size_bytes) == ([8], 40)
    memory.clear()
    assert (waiting(memory), memory.size_bytes) == ([], 0)
