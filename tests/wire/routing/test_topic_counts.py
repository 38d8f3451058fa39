"""Messages by topic are counted while somebody asks, within bounds."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from wire.frames.batch import from_rows
from wire.routing import topic_counts
from wire.routing.topic_counts import KEPT_S, TOPIC_BYTES_MAX, TopicCounts

ROWS = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c/d"]), st.just(1), st.binary(max_size=5)), min_size=1, max_size=20)


@given(st.lists(ROWS, max_size=5))
def test_each_message_and_its_bytes_are_counted_under_its_topic(batches: list[list[tuple[bytes, int, bytes]]]) -> None:
    counts = TopicCounts(0.0)
    messages: Counter[bytes] = Counter()
    size_bytes: Counter[bytes] = Counter()
    for rows in batches:
        counts.add(from_rows(rows))
        for topic, _, payload in rows:
            messages[topic] += 1
            size_bytes[topic] += len(payload)

    wanted = sorted(((topic, count, size_bytes[topic]) for topic, count in messages.items()), key=lambda row: (-row[1], row[0]))

    assert counts.busiest(10) == tuple(wanted)
    assert counts.rest(counts.busiest(1)) == sum(row[1] for row in wanted[1:])


def test_too_many_topics_and_too_long_ones_count_as_others() -> None:
    counts = TopicCounts(0.0)
    topics = [b"t%d" % number for number in range(topic_counts.TOPICS_MAX + 5)]
    for begin in range(0, len(topics), 1000):
        counts.add(from_rows([(topic, 0, b"") for topic in topics[begin : begin + 1000]]))
    counts.add(from_rows([(b"x" * (TOPIC_BYTES_MAX + 1), 0, b"")]))
    assert counts.others == 6
    counts.add(from_rows([(b"t1", 0, b"")]))
    assert counts.busiest(1) == ((b"t1", 2, 0),)


def test_it_ends_some_time_after_the_last_question() -> None:
    counts = TopicCounts(100.0)
    counts.on_asked(105.0)
    assert not counts.over(105.0 + KEPT_S)
    assert counts.over(105.1 + KEPT_S)
