"""The record of messages that the remote of a queue may hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from storage.engine.engine import Write
from storage.queue.sent_record import HANDED_AHEAD, SentRecord
from tests.storage.building import RecordingEngine, batch
from tests.storage.queues import append, handed, new_row, open_queue
from wire.exchange.former_sessions import LeftSession
from wire.exchange.packet_identifiers import PACKET_IDS
from wire.ranges import RangeSet


def test_what_is_settled_before_it_is_handed_out_again_is_released_no_more() -> None:
    """PUBCOMP may come before the lane has handed the message out anew."""
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, batch([b"a", b"b", b"c"], 2), batch([b"d"], 2))
    queue.hand_out(100, 1 << 30)
    queue.release(((1, 2), (3, 4)))
    queue.reset(forwarder_lives=False)

    assert queue.settle("delivered", ((1, 2), (3, 9))) == 2

    assert (queue.sent.released.ranges(), queue.settled.ranges(), queue.depth) == ((), ((1, 2), (3, 4)), 2)
    assert handed(queue.hand_out(100, 1 << 30)) == [b"a", b"c"]
    assert queue.settle("delivered", ((0, 1), (2, 3))) == 2
    assert (queue.head, queue.size_bytes) == (4, 0)


def test_what_is_released_before_it_is_handed_out_again_is_on_record() -> None:
    """A client whose connection outlives the store tells of its PUBRECs as soon as the lane is opened."""
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, batch([b"a", b"b", b"c"], 2))
    queue.hand_out(100, 1 << 30)
    append(engine, queue)

    reopened = open_queue(engine)
    reopened.reset(forwarder_lives=True)
    reopened.release(((0, 2), (2, 9)))
    append(engine, reopened)

    assert open_queue(engine).sent.released.ranges() == ((0, 3),)


def test_the_order_of_the_pubrecs_is_on_record() -> None:
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, batch([b"a", b"b", b"c", b"d"], 2))
    queue.hand_out(100, 1 << 30)
    queue.release(((1, 3), (0, 1)))
    queue.release(((3, 4),))
    append(engine, queue)

    reopened = open_queue(engine)
    assert reopened.sent.released.ranges() == ((1, 3), (0, 1), (3, 4))
    reopened.hand_out(100, 1 << 30)
    reopened.settle("delivered", ((1, 2),))
    assert reopened.sent.released.ranges() == ((2, 3), (0, 1), (3, 4))


def test_what_was_handed_out_is_neither_dropped_nor_expired_after_a_crash_right_behind_it() -> None:
    """queue.handed-out-below-mark"""
    engine = RecordingEngine()
    queue = open_queue(engine)
    append(engine, queue, *(batch([b"%d" % number]) for number in range(3)))
    assert len(handed(queue.hand_out(10, 1 << 30))) == 3  # and the store dies: no commit comes any more

    reopened = open_queue(engine)

    assert reopened.drop_oldest(3, 0) == 0
    assert reopened.expire(lambda at_ms: at_ms < 1 << 40) == 0
    assert handed(reopened.hand_out(10, 1 << 30, too_old=lambda at_ms: at_ms < 1 << 40)) == [b"0", b"1", b"2"]


def test_a_row_that_is_written_again_before_the_commit_takes_no_mark_back() -> None:
    """queue.handed-out-below-mark"""
    engine = RecordingEngine()
    queue = open_queue(engine)
    write = Write()
    queue.append(batch([b"a"]).encode(), 1, batch([b"a"]).size_bytes(), 0, write)
    queue.write_row(write, ahead=True)  # the disk refuses it, and the lane is opened anew meanwhile
    queue.write_row(write, ahead=False)
    engine.commit(write, sync=True)
    assert handed(queue.hand_out(10, 1 << 30)) == [b"a"]

    assert open_queue(engine).drop_oldest(1, 0) == 0


def test_a_lane_without_credit_leaves_its_messages_to_be_dropped_after_a_restart() -> None:
    """queue.handed-out-below-mark"""
    engine = RecordingEngine()
    queue = open_queue(engine)
    write = Write()
    for number in range(3):
        queue.append(batch([b"%d" % number]).encode(), 1, batch([b"0"]).size_bytes(), 0, write)
    queue.write_row(write, ahead=False)
    engine.commit(write, sync=True)

    assert open_queue(engine).drop_oldest(2, 0) == 2


def record(**row: Any) -> SentRecord:
    return SentRecord(new_row(**row), lambda: None)


def test_the_mark_moves_with_a_strong_commit_and_by_a_block_where_more_can_be_handed_out() -> None:
    """queue.handed-out-below-mark"""
    sent = record()
    assert sent.put_mark(Write(), 0, 50, strong=False, ahead=True) == 0
    sent.want(30)
    assert sent.needs_sent_mark

    write = Write()
    assert sent.put_mark(write, 10, 1 << 40, strong=True, ahead=False) == 10 + HANDED_AHEAD, "who wants one gets a block"
    assert sent.mark == 0
    write.committed()
    assert (sent.mark, sent.needs_sent_mark) == (10 + HANDED_AHEAD, False)


def test_a_link_that_is_down_takes_the_mark_back_to_what_was_sent_also_from_a_commit_under_way() -> None:
    """queue.handed-out-below-mark"""
    sent = record()
    write = Write()
    sent.put_mark(write, 0, 100, strong=True, ahead=True)
    sent.hand_out(40)

    sent.close(25, 0)
    write.committed()

    assert (sent.below, sent.mark) == (25, 25)
    sent.close(-1, 0)
    assert sent.below == 25, "what was never sent is not known"


def test_where_commits_do_not_survive_a_loss_of_power_all_that_can_be_in_flight_may_have_been_sent() -> None:
    """queue.handed-out-below-mark"""
    row = new_row(handed=3, tail=200_000)
    assert SentRecord(row, lambda: None, mark_holds=True).below == 3
    assert SentRecord(row, lambda: None, mark_holds=False).below == PACKET_IDS
    assert SentRecord(replace(row, tail=50), lambda: None, mark_holds=False).below == 50


def test_another_generation_forgets_what_was_released_and_what_is_the_same_is_no_other() -> None:
    sent = record(tail=10)
    assert sent.new_session(1, "a@h")
    sent.release(((0, 3),), 1, 10)
    assert not sent.new_session(1, "a@h")
    assert sent.released.ranges() == ((1, 3),)
    assert sent.new_session(2, "b@h")
    assert sent.released.ranges() == ()


def test_a_session_that_may_hold_what_is_lost_is_left_with_all_that_it_may_hold() -> None:
    sent = record(tail=10, handed=8)
    sent.new_session(4, "a@h")
    sent.release(((2, 4),), 0, 10)

    assert not sent.lose(8, 9, 0, RangeSet()), "that was never sent"
    assert sent.lose(3, 6, 1, RangeSet(((5, 6),)))

    assert (sent.session, sent.released.ranges()) == ("", ((2, 3),))
    assert sent.left == (LeftSession("a@h", 4, 8, ((2, 4),), ((1, 2), (4, 5), (6, 8))),)
    assert not sent.lose(6, 7, 1, RangeSet()), "there is no session to leave"
