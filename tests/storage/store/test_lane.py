"""One lane by itself: what an opening starts again, what credit allows, and how long it waits for what cannot be read."""

from __future__ import annotations

import pytest

from storage.engine.engine import Write
from storage.engine.memory_engine import MemoryEngine
from storage.queue.chunk import Chunk
from storage.queue.queue import Queue
from storage.store.lane import Lane, State
from tests.storage.building import QUEUE, batch
from tests.support.settings import limits
from wire.errors import ConfigError, Unavailable
from wire.frames.lanes import HandOut, LaneOpened, Settled

FIRST = 7 << 20
STILL = (State.FENCED, State.STOPPED, State.UNREADABLE)


@pytest.fixture
def lane() -> Lane:
    """A lane with one message, opened and without credit."""
    engine = MemoryEngine()
    queue = Queue(engine, QUEUE, 1, first_seq=0, volatile_max_bytes=1000)
    write, one = Write(), batch([b"a"])
    queue.append(one.encode(), 1, one.size_bytes(), 0, write)
    engine.commit(write, sync=True)
    made = Lane(queue, limits())
    made.begin(FIRST)
    made.on_opened(receives=False)
    return made


def piece(count: int, size_bytes: int) -> Chunk:
    return Chunk(first_seq=0, span=count, count=count, size_bytes=size_bytes, accepted_ms=1000, body=b"")


def test_something_may_be_given_while_there_is_credit_for_messages_and_bytes(lane: Lane) -> None:
    assert not lane.has_credit

    lane.grant(2, 100, 5000)
    assert lane.has_credit
    lane.hand_out([piece(1, 100)])
    assert not lane.has_credit, "the bytes are used"
    lane.grant(2, 200, 6000)
    assert lane.has_credit
    lane.hand_out([piece(1, 1)])

    assert not lane.has_credit, "the messages are used"


def test_each_piece_goes_to_the_forwarder_under_the_epoch_of_the_opening(lane: Lane) -> None:
    effects = lane.hand_out([piece(1, 10), piece(2, 20)])

    assert [peer for peer, _ in effects] == ["forwarder:cloud:0"] * 2
    frames = [frame for _, frame in effects if isinstance(frame, HandOut)]
    assert [(frame.queue, frame.epoch, frame.count) for frame in frames] == [(QUEUE, FIRST, 1), (QUEUE, FIRST, 2)]


def test_the_link_came_up_when_credit_came_after_none(lane: Lane) -> None:
    lane.grant(1, 100, 5000)
    lane.grant(2, 100, 6000)
    assert lane.linked_ms == 5000

    lane.grant(0, 0, 7000)
    lane.grant(1, 100, 8000)

    assert lane.linked_ms == 8000


def test_an_opening_begins_with_nothing_given_settled_or_stopped(lane: Lane) -> None:
    lane.grant(1, 100, 5000)
    lane.hand_out([piece(1, 10)])
    lane.owe(3)
    lane.on_committed()
    assert lane.answer(receives=False) == [(lane.peer, Settled(queue=QUEUE, epoch=FIRST, number=3))]
    lane.stop(ConfigError("a newer build"))
    assert (lane.state, lane.is_open) == (State.STOPPED, True)

    lane.begin(FIRST + 1)

    assert lane.state is State.OPENING
    assert (lane.credit_messages, lane.given_messages) == (0, 0)
    assert lane.by == (f"forwarder:cloud:0@{FIRST + 1}", f"connection:cloud:0@{FIRST + 1}")
    opened = lane.on_opened(receives=True)
    assert lane.is_open
    assert lane.answer(receives=False) == []
    assert (opened.epoch, opened.head, opened.tail, opened.receives) == (FIRST + 1, 0, 1, True)


def test_what_cannot_be_read_is_waited_for_ever_longer_and_from_the_beginning_once_it_could(lane: Lane) -> None:
    waits = []
    now_s = 10.0
    for _ in range(8):
        lane.mark_unreadable(Unavailable("a bad sector"), now_s)
        waits.append(round(lane.retry_s - now_s, 3))
        now_s = lane.retry_s
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]

    lane.mark_readable()
    assert lane.unread is None
    lane.mark_unreadable(Unavailable("a bad sector"), now_s)

    assert round(lane.retry_s - now_s, 3) == 0.1


def test_a_word_before_its_time_makes_no_wait_longer(lane: Lane) -> None:
    lane.mark_unreadable(Unavailable("a bad sector"), 10.0)
    lane.mark_unreadable(Unavailable("a bad sector"), 10.05)

    assert round(lane.retry_s - 10.05, 3) == 0.1


@pytest.mark.parametrize(
    ("state", "whole", "reopened", "then"),
    [
        (State.OPEN, True, True, State.FENCED),
        (State.OPEN, False, False, State.OPEN),
        (State.OPENING, True, False, State.OPENING),
        (State.CLOSED, False, False, State.CLOSED),
        (State.STOPPED, False, True, State.CLOSED),
        (State.STOPPED, True, True, State.FENCED),
        (State.UNREADABLE, True, False, State.UNREADABLE),
    ],
)
def test_after_a_purge_a_lane_is_opened_anew_where_what_it_had_means_nothing(
    lane: Lane, state: State, *, whole: bool, reopened: bool, then: State
) -> None:
    """store.purge-begins-a-session"""
    lane.state = state

    assert lane.purged(whole=whole) is reopened
    assert lane.state is then


def test_an_opening_is_answered_though_what_is_next_cannot_be_understood(lane: Lane) -> None:
    lane.begin(FIRST + 1)
    lane.stop(ConfigError("a newer build"))

    (answer,) = lane.answer(receives=False) or []

    assert isinstance(answer[1], LaneOpened)


def test_a_lane_that_is_left_hands_nothing_out_and_one_that_stands_still_stays_so(lane: Lane) -> None:
    for before, after in [(State.OPEN, State.CLOSED), (State.OPENING, State.CLOSED), *((each, each) for each in STILL)]:
        lane.state = before
        lane.leave()
        assert lane.state is after
