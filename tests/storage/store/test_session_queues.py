"""The queues of sessions come and go, and what is in them counts for the node."""

from __future__ import annotations

from tests.storage.building import QUEUE, RecordingEngine, batch, node
from tests.storage.lane_parts import Parts
from tests.support.settings import limits


def test_what_waits_for_sessions_counts_for_the_node() -> None:
    parts = Parts(RecordingEngine(), node(limit=limits(max_messages=8)))
    name = parts.session_queues.make("c")
    parts.session_queues.put(name, batch([b"a", b"b"]))
    parts.commit()
    assert parts.ready == [name]
    assert parts.messages(QUEUE)[1] == 8, "it is counted now and then"

    parts.session_queues.count()
    assert parts.messages(QUEUE)[1] == 6
    parts.session_queues.added(1, 10)
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


def test_what_has_no_room_is_counted_as_dropped() -> None:
    parts = Parts(RecordingEngine(), node())
    name = parts.session_queues.make("c")
    most = parts.lanes.all[name].limits.max_messages
    assert most is not None

    parts.session_queues.put(name, batch([b"x"] * (most + 1)))
    parts.session_queues.put("session:9:gone", batch([b"x"]))
    parts.commit()

    assert parts.session_queues.figures() == {"depth": 0, "bytes": 0, "dropped": most + 1, "refused": 0}
    assert parts.ready == []
