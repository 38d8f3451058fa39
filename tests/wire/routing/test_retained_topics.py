"""Which retained messages a new subscription gets, and which rows of a batch change them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.frames.batch import RETAIN, from_rows
from wire.mqtt.topics import matches
from wire.routing.retained_topics import CLEARED, RetainedTopics, RetainHandling, retained_rows, sends_retained


def matching(retained: RetainedTopics, topic_filter: str) -> list[bytes]:
    return [topic for topic, is_match in retained.walk(topic_filter) if is_match]


@pytest.mark.parametrize(
    ("retain_handling", "existed", "sent"),
    [
        pytest.param(RetainHandling.AT_SUBSCRIBE, False, True, id="MQTT-3.3.1-9 new"),
        pytest.param(RetainHandling.AT_SUBSCRIBE, True, True, id="MQTT-3.3.1-9 again, MQTT-3.8.4-4"),
        pytest.param(RetainHandling.AT_NEW_SUBSCRIBE, False, True, id="MQTT-3.3.1-10 new"),
        pytest.param(RetainHandling.AT_NEW_SUBSCRIBE, True, False, id="MQTT-3.3.1-10 again"),
        pytest.param(RetainHandling.NEVER, False, False, id="MQTT-3.3.1-11 new"),
        pytest.param(RetainHandling.NEVER, True, False, id="MQTT-3.3.1-11 again"),
    ],
)
def test_retain_handling_and_never_for_a_shared_subscription(retain_handling: RetainHandling, existed: bool, sent: bool) -> None:
    assert sends_retained("a/+", retain_handling, existed=existed) is sent
    assert not sends_retained("$share/g/a/+", retain_handling, existed=existed)


def test_mqtt_4_7_2_1_retained_dollar_topics_are_not_under_leading_wildcards() -> None:
    retained = RetainedTopics()
    for topic in (b"$SYS/version", b"a/$b", b"a"):
        retained.add(topic)
    assert matching(retained, "#") == [b"a", b"a/$b"]
    assert matching(retained, "+/version") == []
    assert matching(retained, "$SYS/+") == [b"$SYS/version"]
    assert matching(retained, "a/#") == [b"a", b"a/$b"]


TOPICS = st.lists(st.sampled_from(["a", "b", "a-b", "a0", "ab", "", "$x", "ä"]), min_size=1, max_size=4).map("/".join)
FILTERS = st.tuples(st.lists(st.sampled_from(["a", "b", "a-b", "+", "", "$x", "ab"]), min_size=1, max_size=4), st.booleans()).map(
    lambda parts: "/".join([*parts[0], "#"] if parts[1] else parts[0])
)


@given(st.sets(TOPICS.filter(bool)), FILTERS.filter(bool), st.data())
def test_a_walk_finds_what_matches_in_order_and_goes_on_from_anywhere(
    topics: set[str], topic_filter: str, data: st.DataObject
) -> None:
    """Also while topics come and go."""
    retained = RetainedTopics()
    for topic in data.draw(st.permutations(sorted(topics))):
        retained.add(topic.encode())
    expected = sorted(topic.encode() for topic in topics if matches(topic_filter, topic))
    assert matching(retained, topic_filter) == expected
    found: list[bytes] = []
    after = b""
    while True:
        for place, is_match in retained.walk(topic_filter, after):
            after = place
            if is_match:
                found.append(place)
                break
        else:
            break
        gone = data.draw(st.sampled_from([*sorted(topics), None]))
        if gone is not None:
            retained.discard(gone.encode())
            topics.discard(gone)
            expected = [each for each in expected if each in found or each != gone.encode()]
    assert found == expected


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=200))
def test_topics_are_kept_in_order_in_runs_of_bounded_length(steps: list[tuple[bool, int]]) -> None:
    kept: set[bytes] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wire.routing.retained_topics.RUN_TOPICS_MAX", 3)
        retained = RetainedTopics()
        for adds, number in steps:
            topic = b"%d" % number
            if adds and topic not in kept:
                retained.add(topic)
                kept.add(topic)
            elif not adds and topic in kept:
                retained.discard(topic)
                kept.discard(topic)
    assert matching(retained, "#") == sorted(kept)
    assert retained.first_from(b"5") == min((topic for topic in kept if topic >= b"5"), default=None)


@pytest.mark.parametrize(
    ("topic_filter", "found", "looks"),
    [("site/7/state", 1, 5), ("site/+/state", 1000, 2001), ("site/7/#", 101, 103), ("x/#", 0, 1)],
)
def test_a_walk_looks_at_few_more_topics_than_match(topic_filter: str, found: int, looks: int) -> None:
    """100,000 topics: one look or two at each that matches."""
    retained = RetainedTopics()
    for site in range(1000):
        retained.add(f"site/{site}/state".encode())
        for value in range(100):
            retained.add(f"site/{site}/value/{value}".encode())
    seen = list(retained.walk(topic_filter))
    assert sum(is_match for _, is_match in seen) == found
    assert len(seen) <= looks


def test_mqtt_3_3_1_5_to_8_the_last_row_with_retain_counts_and_an_empty_one_clears() -> None:
    rows = [(b"a", RETAIN, b"1"), (b"b", RETAIN | 2, b"2"), (b"a", 1 | RETAIN, b"3"), (b"a", 1, b"live"), (b"b", RETAIN, b"")]
    assert retained_rows(from_rows(rows)) == {b"a": 2, b"b": CLEARED}
    assert retained_rows(from_rows([(b"a", 0, b""), (b"a", 2, b"x")])) == {}


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.sampled_from([0, 1, RETAIN, RETAIN | 2]), st.binary(max_size=1))))
def test_the_rows_of_a_batch_change_what_they_would_change_one_by_one(rows: list[tuple[bytes, int, bytes]]) -> None:
    one_by_one: dict[bytes, bytes] = {b"a": b"old"}
    for topic, flags, payload in rows:
        if flags & RETAIN and payload:
            one_by_one[topic] = payload
        elif flags & RETAIN:
            one_by_one.pop(topic, None)
    at_once: dict[bytes, bytes] = {b"a": b"old"}
    for topic, row in retained_rows(from_rows(rows)).items():
        if row == CLEARED:
            at_once.pop(topic, None)
        else:
            at_once[topic] = rows[row][2]
    assert at_once == one_by_one
