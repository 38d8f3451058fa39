"""Live messages behind the retained ones that their client has asked for."""

from __future__ import annotations

from wire.exchange.retained_before_live import RetainedFirst
from wire.exchange.subscriber_copies import Copies
from wire.frames.batch import Batch, from_rows

PLENTY = 1 << 20


def copies(*topics: bytes, qos: int = 0) -> Copies:
    return Copies(from_rows([(topic, qos, b"payload") for topic in topics], accepted_ms=1000), 1000)


def topics_of(batch: Batch) -> list[bytes]:
    return [batch.topics[index] for index in batch.topic_of]


def passed(of: Copies) -> list[bytes]:
    return topics_of(of.only(range(len(of.topics))))


def test_messages_of_what_was_asked_for_wait_for_the_answer_and_keep_their_order() -> None:
    first = RetainedFirst(PLENTY)
    first.ask(1, ["a/#"])
    assert first
    assert passed(first.hold(copies(b"a/1", b"b", b"a/2"))) == [b"b"]
    assert passed(first.hold(copies(b"a/1", qos=1))) == []
    others = copies(b"b", b"c")
    assert first.hold(others) is others

    late = first.answer(1)

    assert [topics_of(batch) for batch in late] == [[b"a/1", b"a/2"], [b"a/1"]]
    assert not first
    assert first.dropped == 0


def test_what_waits_goes_when_nothing_is_awaited_any_more() -> None:
    first = RetainedFirst(PLENTY)
    first.ask(1, ["a"])
    first.ask(2, ["a", "b"])
    first.hold(copies(b"a"))

    assert first.answer(1) == []
    assert passed(first.hold(copies(b"b", b"a"))) == []
    assert first.answer(7) == [], "nobody has asked that"
    assert [topics_of(batch) for batch in first.answer(2)] == [[b"a"], [b"b", b"a"]]
    assert first.answer(2) == []


def test_what_is_beyond_the_limit_is_dropped_and_counted() -> None:
    first = RetainedFirst(2 * len(b"apayload"))
    first.ask(1, ["a"])
    for _ in range(3):
        assert passed(first.hold(copies(b"a", b"b"))) == [b"b"]

    assert first.dropped == 1
    assert len(first.answer(1)) == 2


def test_what_is_late_waits_for_no_more_and_tells_what_was_replaced_meanwhile() -> None:
    first = RetainedFirst(PLENTY)
    first.ask(1, ["a/#"])
    first.hold(copies(b"a/held"), lambda: [b"a/held"])
    assert [topics_of(batch) for batch in first.answer_late(1)] == [[b"a/held"]]
    assert first, "what is retained is still to come"
    live = copies(b"a/1", b"a/2")
    assert first.hold(live, lambda: [b"a/1"]) is live
    first.ask(2, ["a/1"])
    first.answer_late(2)

    is_latest, is_latest_2 = first.came(1), first.came(2)

    assert not first
    assert [is_latest(topic) for topic in (b"a/held", b"a/1", b"a/2")] == [False, False, True]
    assert is_latest_2(b"a/1"), "it was replaced before that request, whose answer knows it"
