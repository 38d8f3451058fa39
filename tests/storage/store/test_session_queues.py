"""The queues of sessions come and go, and what is in them counts for the node."""

from __future__ import annotations

from storage.store.lane import State
from tests.storage.building import QUEUE, RecordingEngine, batch, node
from tests.storage.lane_parts import Parts
from tests.support.settings import limits


def test_what_waits_for_sessions_counts_for_the_node() -> None:
    parts = Parts(RecordingEngine(), node(limit=limits(max_messages=8)))
    name = parts.session_queues.make("c")
    parts.session_queues.put(name, batch([b"a", b"b"]))
    parts.commit()
    assert list(parts.lanes.ready) == [name]
    assert parts.messages(QUEUE)[1] == 6

    parts.session_queues.count()
    assert parts.messages(QUEUE)[1] == 6
    parts.session_queues.on_added(1, 10)
    assert parts.messages(QUEUE)[1] == 5

    assert parts.session_queues.remove(name) == 2
    parts.session_queues.count()
    assert parts.messages(QUEUE)[1] == 8


def test_a_later_queue_of_the_same_session_has_another_name_and_number() -> None:
    parts = Parts(RecordingEngine(), node())
    name = parts.session_queues.make("c")
    number = parts.lanes.all[name].queue.number
    parts.session_queues.remove(name)

    again = parts.session_queues.make("c")

    assert again != name
    assert parts.lanes.all[again].queue.number > number
    assert name not in parts.lanes.all


def test_what_is_put_there_has_no_limit_and_a_queue_that_is_gone_or_damaged_takes_nothing() -> None:
    parts = Parts(RecordingEngine(), node())
    name = parts.session_queues.make("c")
    lane = parts.session_queues.lane(name)
    assert lane is not None
    most = lane.limits.max_messages
    assert most is not None

    parts.session_queues.put(lane.queue.name, batch([b"x"] * (most + 1)))
    parts.commit()

    assert parts.session_queues.figures().depth == most + 1
    assert parts.session_queues.lane("session:9:gone") is None
    lane.state = State.UNREADABLE
    assert parts.session_queues.lane(name) is None
