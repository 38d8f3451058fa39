"""How far one client is with what is retained, and live messages behind that."""

from __future__ import annotations

from collections.abc import Iterable

from wire.exchange.retained_delivery import HELD_BATCH_BYTES, RetainedPasses
from wire.exchange.subscriber_copies import Copies
from wire.frames.batch import RETAIN, Batch, from_rows

PLENTY = 1 << 20


def copies(*topics: bytes, qos: int = 0, payload: bytes = b"payload") -> Copies:
    return Copies(from_rows([(topic, qos, payload) for topic in topics], accepted_ms=1000), 1000)


def retained(*rows: tuple[bytes, bytes]) -> Batch:
    return from_rows([(topic, RETAIN, payload) for topic, payload in rows], accepted_ms=1000)


def topics_of(batch: Batch) -> list[bytes]:
    return [batch.topics[index] for index in batch.topic_of]


def passed(of: Copies) -> list[bytes]:
    return topics_of(of.only(range(len(of.topics))))


def begun(*filters: str, max_bytes: int = PLENTY) -> RetainedPasses:
    """Passes that are answered and asked for."""
    passes = RetainedPasses(max_bytes)
    for topic_filter in filters:
        passes.begin(topic_filter)
    passes.on_answered(filters)
    assert [each.topic_filter for each in passes.ask(100)] == list(filters)
    return passes


def rows(found: Iterable[tuple[object, Batch]]) -> list[tuple[bytes, bytes]]:
    return [row for _, batch in found for row in zip(topics_of(batch), batch.rows_payloads(), strict=True)]


def test_what_is_published_waits_until_its_topic_is_passed_and_keeps_its_order() -> None:
    passes = begun("a/#")
    assert passed(passes.hold(copies(b"a/1", b"b", b"a/2"))) == [b"b"]
    assert passed(passes.hold(copies(b"a/1", qos=1))) == []
    others = copies(b"b", b"c")
    assert passes.hold(others) is others

    found, late = passes.came(0, b"a/1", [(0, retained((b"a/1", b"old")))])

    assert rows(found) == [(b"a/1", b"old")]
    assert [topics_of(batch) for batch in late] == [[b"a/1"], [b"a/1"]]
    passing = copies(b"a/1")
    assert passes.hold(passing) is passing, "its turn is over"
    assert [each.after for each in passes.ask(100)] == [b"a/1"]
    found, late = passes.came(1, b"", [])
    assert (rows(found), [topics_of(batch) for batch in late]) == ([], [[b"a/2"]])
    assert not passes
    assert passes.dropped == 0


def test_a_topic_of_several_filters_waits_for_all_of_them() -> None:
    passes = begun("a", "#")
    passes.hold(copies(b"a", b"b"))

    _, late = passes.came(1, b"", [(0, retained((b"a", b"old")))])
    assert late == []
    passes.ask(100)
    _, late = passes.came(1, b"", [])
    assert [topics_of(batch) for batch in late] == [[b"a", b"b"]]


def test_what_waits_and_is_retained_by_now_comes_once() -> None:
    """The store reads a piece later than the SUBSCRIBE came, so what was retained meanwhile is in it."""
    passes = begun("a")
    passes.hold(copies(b"a", payload=b"second"), lambda: [b"a"])
    passes.hold(copies(b"a", payload=b"third"), lambda: [b"a"])

    found, late = passes.came(1, b"", [(0, retained((b"a", b"third")))])

    assert rows(found) == []
    assert [batch.rows_payloads() for batch in late] == [[b"second"], [b"third"]]


def test_what_was_published_without_retain_is_not_taken_for_what_is_retained() -> None:
    passes = begun("a")
    passes.hold(copies(b"a", payload=b"same"))

    found, late = passes.came(1, b"", [(0, retained((b"a", b"same")))])

    assert rows(found) == [(b"a", b"same")]
    assert [batch.rows_payloads() for batch in late] == [[b"same"]]


def test_what_is_beyond_the_limit_is_dropped_and_counted_and_nothing_old_follows_what_is_retained() -> None:
    passes = begun("#", max_bytes=HELD_BATCH_BYTES + 20)
    assert passed(passes.hold(copies(b"a"), lambda: [b"a"])) == []
    for topic in (b"a", b"b"):
        assert passed(passes.hold(copies(topic, payload=b"newest"), lambda topic=topic: [topic])) == []  # type: ignore[misc]
    assert passes.dropped == 2

    found, late = passes.came(1, b"", [(0, retained((b"a", b"newest"), (b"b", b"newest")))])

    assert rows(found) == [(b"a", b"newest"), (b"b", b"newest")]
    assert late == []
    assert passes.dropped == 3


def test_a_repeat_begins_anew_and_what_was_asked_for_before_goes_nowhere() -> None:
    passes = begun("a/#", "b")
    passes.begin("a/#")
    assert passes.ask(100) == (), "one piece at a time"

    found, _ = passes.came(1, b"b", [(0, retained((b"a/1", b"x"))), (1, retained((b"b", b"y")))])

    assert rows(found) == [(b"b", b"y")]
    assert [each.topic_filter for each in passes.ask(100)] == ["b"], "the other has no SUBACK yet"
    passes.came(1, b"", [])
    passes.on_answered(["a/#"])
    assert [(each.topic_filter, each.after) for each in passes.ask(100)] == [("a/#", b"")]


def test_what_ends_lets_go_what_has_waited_for_it() -> None:
    passes = begun("a/#", "b")
    passes.hold(copies(b"a/1", b"b"))

    assert [topics_of(batch) for batch in passes.end(["a/#"])] == [[b"a/1"]]
    found, late = passes.came(2, b"", [(0, retained((b"a/1", b"x")))])

    assert rows(found) == []
    assert [topics_of(batch) for batch in late] == [[b"b"]]
    assert not passes


def test_stores_that_die_on_a_piece_are_counted_until_one_answers() -> None:
    passes = begun("a")
    for count in (1, 2):
        assert [each.topic_filter for each in passes.on_lost()] == ["a"]
        assert passes.unanswered == count
        passes.ask(100)
    passes.came(0, b"a", [])
    assert passes.unanswered == 0


def test_where_the_store_is_late_nothing_waits_and_what_was_replaced_meanwhile_does_not_come_behind_its_successor() -> None:
    passes = begun("a/#")
    passes.hold(copies(b"a/held"), lambda: [b"a/held"])
    passes.hold(copies(b"a/1"))

    assert [topics_of(batch) for batch in passes.wait_no_longer()] == [[b"a/held"], [b"a/1"]]
    live = copies(b"a/2", b"a/3")
    assert passes.hold(live, lambda: [b"a/2"]) is live
    found, late = passes.came(0, b"a/1", [(0, retained((b"a/1", b"old")))])
    assert (rows(found), late) == ([(b"a/1", b"old")], [])
    assert passed(passes.hold(copies(b"a/3"))) == [], "it answers again"

    passes.ask(100)
    found, late = passes.came(1, b"", [(0, retained((b"a/2", b"old"), (b"a/3", b"old"), (b"a/held", b"old")))])
    assert rows(found) == [(b"a/3", b"old")]
    assert [topics_of(batch) for batch in late] == [[b"a/3"]]
