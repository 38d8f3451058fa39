"""Which retained messages a new subscription gets, and which rows of a batch change them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.frames.batch import RETAIN, from_rows
from wire.routing.retained_topics import CLEARED, RetainedTopics, RetainHandling, retained_rows, sends_retained


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
    retained = RetainedTopics()
    retained.add(b"a/b")
    assert sends_retained("a/+", retain_handling, existed=existed) is sent
    assert list(retained.wanted("a/+", retain_handling, existed=existed)) == ([b"a/b"] if sent else [])
    assert not sends_retained("$share/g/a/+", retain_handling, existed=existed)
    assert list(retained.wanted("$share/g/a/+", retain_handling, existed=existed)) == []


def test_mqtt_4_7_2_1_retained_dollar_topics_are_not_under_leading_wildcards() -> None:
    retained = RetainedTopics()
    for topic in (b"$SYS/version", b"a/$b", b"a"):
        retained.add(topic)
    assert sorted(retained.matching("#")) == [b"a", b"a/$b"]
    assert list(retained.matching("+/version")) == []
    assert list(retained.matching("$SYS/+")) == [b"$SYS/version"]
    assert sorted(retained.matching("a/#")) == [b"a", b"a/$b"]


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
