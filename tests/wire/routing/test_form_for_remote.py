"""Batches as the remote gets them: mapped topics, retain by rule, expiry, user properties and hop count."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.wire.rules import bridge_of, rule
from wire.config_settings import BridgeSettings, RuleSettings
from wire.frames.batch import NO_ROUTE, RETAIN, Batch, concat, from_rows, route_columns
from wire.mqtt.properties import Place, Properties, decode_properties, encode_properties
from wire.mqtt.publish_properties import append_user_properties, with_message_expiry
from wire.routing.form_for_remote import RemoteForm
from wire.routing.hop_count import hops_of, hops_property
from wire.routing.message_route import MessageRoute
from wire.routing.provenance import ENVELOPE, USER_PROPERTIES, Provenance, QueuePlace, utc_text

KEEPS = rule(1, "plant/#", destination="site/{#}")
BARE = replace(rule(2, "cell/#"), preserve_retain=False)
MARKS = replace(rule(3, "mark/#"), user_properties=(("site", "edge"),))


def form(level: int = 4, *, loop_prevention: bool = False) -> RemoteForm:
    bridge: BridgeSettings = bridge_of("cloud", KEEPS, BARE, MARKS, loop_prevention=loop_prevention)
    return RemoteForm(replace(bridge, remote=replace(bridge.remote, protocol=level)))


def queued(*rows: tuple[bytes, int, bytes], rules: list[RuleSettings]) -> Batch:
    batch = from_rows(rows, accepted_ms=1_000_000)
    batch.routes, batch.route_of = route_columns([MessageRoute.of(rule).encode() for rule in rules])
    return batch


def test_topics_are_mapped_by_the_rule_that_took_them() -> None:
    batch, expired = form().transform(queued((b"plant/a", 1, b"x"), (b"cell/b", 1, b"y"), rules=[KEEPS, BARE]), now_ms=1_000_000)
    assert batch.topics == [b"site/plant/a", b"cell/b"]
    assert expired == []
    assert batch.rows_payloads() == [b"x", b"y"]


def test_retain_is_kept_or_stripped_rule_by_rule() -> None:
    flags = 1 | RETAIN
    mixed = queued((b"plant/a", flags, b""), (b"cell/b", flags, b""), rules=[KEEPS, BARE])
    assert form().transform(mixed, now_ms=0)[0].flags == bytes([flags, 1])
    bare = queued((b"cell/b", flags, b""), rules=[BARE])
    assert form().transform(bare, now_ms=0)[0].flags == bytes([1])


def test_expired_rows_of_qos_0_are_left_out_and_named_and_the_others_keep_their_time() -> None:
    """The Connection counts it down, also towards a remote that takes no properties."""
    batch = queued((b"plant/a", 0, b"0"), (b"plant/a", 1, b"1"), (b"plant/a", 1, b"2"), rules=[KEEPS])
    batch.properties = {
        0: encode_properties(Properties(message_expiry_interval=5)),
        1: encode_properties(Properties(message_expiry_interval=60, content_type="t")),
        2: encode_properties(Properties(message_expiry_interval=5)),
    }
    for level in (4, 5):
        sent, expired = form(level).transform(batch, now_ms=1_000_000 + 5_000)
        assert expired == [0]
        assert sent.rows_payloads() == [b"1", b"2"]
        assert sent.accepted_ms == 1_000_000
        view = decode_properties(sent.properties[0], Place.PUBLISH)
        assert (view.message_expiry_interval, view.content_type) == (60, "t" if level == 5 else None)
        assert decode_properties(sent.properties[1], Place.PUBLISH).message_expiry_interval == 5, "of QoS 1 the Connection decides"


def test_a_clock_that_went_back_expires_nothing() -> None:
    batch = queued((b"plant/a", 1, b"0"), rules=[KEEPS])
    batch.properties = {0: encode_properties(Properties(message_expiry_interval=5))}
    sent, expired = form(5).transform(batch, now_ms=0)
    assert expired == []
    assert decode_properties(sent.properties[0], Place.PUBLISH).message_expiry_interval == 5


def test_rule_properties_and_hops_go_with_every_message_at_level_5() -> None:
    batch = queued((b"mark/a", 1, b"0"), (b"mark/a", 1, b"1"), rules=[MARKS])
    own = encode_properties(Properties(user_properties=(("a", "b"),)))
    batch.properties = {1: own + hops_property(1)}
    sent, _ = form(5, loop_prevention=True).transform(batch, now_ms=1_000_000)
    common = decode_properties(sent.topic_properties[0], Place.PUBLISH)
    assert common.user_properties == (("site", "edge"), ("bascule-hops", "1"))
    assert decode_properties(sent.properties[1], Place.PUBLISH).user_properties == (
        ("a", "b"),
        ("site", "edge"),
        ("bascule-hops", "2"),
    )
    assert hops_of(sent.properties[1]) == 2


def test_messages_go_as_their_rule_said_when_they_were_taken_whatever_the_rules_are_now() -> None:
    """The bridge has another rule of the same name, another one for the same topics, and none like the third."""
    now = replace(KEEPS, destination="elsewhere/{#}"), rule(9, "#", destination="all"), BARE
    bridge = bridge_of("cloud", *now, loop_prevention=False)
    shape = RemoteForm(replace(bridge, remote=replace(bridge.remote, protocol=5)))
    flags = 1 | RETAIN
    batch = queued((b"plant/a", flags, b""), (b"cell/b", flags, b""), (b"mark/c", 1, b""), rules=[KEEPS, BARE, MARKS])
    sent, _ = shape.transform(batch, now_ms=0)
    assert sent.topics == [b"site/plant/a", b"cell/b", b"mark/c"]
    assert sent.flags == bytes([flags, 1, 1])
    assert sent.topic_properties == [b"", b"", MessageRoute.of(MARKS).properties]


def test_one_topic_may_go_two_ways() -> None:
    """Two batches of the queue may be joined though the rule changed between them."""
    changed = replace(KEEPS, destination="new/{#}")
    joined = concat([queued((b"plant/a", 1, b"1"), rules=[KEEPS]), queued((b"plant/a", 1, b"2"), rules=[changed])])
    sent, _ = form().transform(joined, now_ms=0)
    assert [sent.topics[topic] for topic in sent.topic_of] == [b"site/plant/a", b"new/plant/a"]


def test_topics_that_no_row_has_are_left_alone() -> None:
    """A part of a batch keeps all its topics, also those that another rule took; nothing is made of them, and nothing told."""
    batch = queued((b"plant/a", 1, b"1"), (b"x", 1, b"2"), rules=[replace(KEEPS, destination="{2}")])
    part = replace(batch, route_of=[0, NO_ROUTE]).select([0])
    shape = form(5)
    assert shape.transform(part, now_ms=0)[0].topics[0] == b"a"
    assert shape.unmapped_topics == set()


def test_a_topic_that_no_destination_can_be_made_for_stays_and_is_named() -> None:
    shape = form()
    sent, _ = shape.transform(queued((b"plant", 1, b""), rules=[replace(KEEPS, destination="{2}")]), now_ms=0)
    assert (sent.topics, shape.unmapped_topics) == ([b"plant"], {b"plant"})


def test_what_waited_longer_than_max_age_is_expired_at_qos_0() -> None:
    bridge = bridge_of("cloud", KEEPS)
    shape = RemoteForm(replace(bridge, limits=replace(bridge.limits, max_age_s=10.0)))
    batch = queued((b"plant/a", 0, b"0"), (b"plant/a", 1, b"1"), (b"plant/a", 0, b"2"), rules=[KEEPS])
    assert shape.transform(batch, now_ms=1_000_000 + 10_000)[1] == []
    assert shape.transform(batch, now_ms=1_000_000 + 10_001)[1] == [0, 2]


def test_what_waits_is_lowered_to_what_its_topics_rule_says_now_and_never_raised() -> None:
    """routing.waiting-qos-lowered. A rule that is not there any more says nothing."""
    rules = [replace(rule(1, f"{name}/#"), max_qos=qos) for name, qos in (("a", 1), ("b", 2), ("c", 0))]
    bridge = bridge_of("cloud", *rules)
    shape = RemoteForm(replace(bridge, persist=False))
    rows = [(topic, flags, b"") for topic in (b"a/x", b"b/x", b"c/x", b"gone") for flags in (0, 1, 2 | RETAIN)]
    batch = from_rows(rows)
    shape.lower(batch, 0, len(batch))
    assert list(batch.flags) == [0, 1, 1 | RETAIN, 0, 1, 2 | RETAIN, 0, 0, RETAIN, 0, 1, 2 | RETAIN]
    one = from_rows([(b"a/x", 2, b"")] * 4)
    shape.lower(one, 1, 3)
    assert list(one.flags) == [2, 1, 1, 2], "only what was never sent"
    shape.lower(one, 4, 4)
    assert list(one.flags) == [2, 1, 1, 2]


def test_what_a_row_tells_of_itself_has_its_own_sequence_also_behind_rows_that_have_expired() -> None:
    """Rows without the key are as they were, byte by byte."""
    bridge = bridge_of("cloud", KEEPS, BARE, loop_prevention=False)
    shape = RemoteForm(replace(bridge, remote=replace(bridge.remote, protocol=5)), node="edge-1", lane=2)
    tells = replace(KEEPS, provenance=USER_PROPERTIES)
    batch = queued((b"plant/a", 1, b"x"), (b"cell/b", 1, b"y"), (b"plant/a", 0, b""), (b"plant/a", 1, b"z"), rules=[tells, BARE])
    batch.properties[2] = with_message_expiry(b"", 1)
    batch.properties[3] = append_user_properties(b"", [("a", "b")])
    sent, expired = shape.transform(batch, now_ms=1_002_000, first_seq=70, places=[0, 3, 4, 9], linked_ms=1_000_001)
    assert (expired, sent.payloads) == ([2], b"xyz")
    place = ("bascule-node", "edge-1"), ("bascule-bridge", "cloud"), ("bascule-lane", "2")
    told = [
        (("bascule-time", "1970-01-01T00:16:40.000Z"), *place, ("bascule-sequence", str(seq)), ("bascule-stored", "true"))
        for seq in (70, 79)
    ]
    assert decode_properties(sent.properties[0], Place.PUBLISH).user_properties == told[0]
    assert decode_properties(sent.properties[2], Place.PUBLISH).user_properties == (("a", "b"), *told[1])
    assert 1 not in sent.properties


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (b"21.5", {"payload": "21.5"}),
        ('{"a":\t"ü\u2028"}\r\n'.encode(), {"payload": '{"a":\t"ü\u2028"}\r\n'}),
        (b"", {"payload": ""}),
        (b"\xff", {"payload_base64": "/w=="}),
        (b"a\0", {"payload_base64": "YQA="}),
        (b"\xed\xa0\x80", {"payload_base64": "7aCA"}),  # half of a surrogate pair is no UTF-8
    ],
)
def test_an_envelope_has_the_payload_as_text_or_in_base64_and_the_local_topic(payload: bytes, told: dict[str, str]) -> None:
    batch = queued(("plant/ü".encode(), 1, payload), (b"cell/b", 1, b"y"), rules=[replace(KEEPS, provenance=ENVELOPE), BARE])
    bridge = bridge_of("cloud", BARE)
    shape = RemoteForm(replace(bridge, remote=replace(bridge.remote, protocol=4)), node="edge-1")
    sent, _ = shape.transform(batch, now_ms=1_000_000, first_seq=7, places=range(2), linked_ms=1_000_000)
    whole, other = sent.rows_payloads()
    place = {"time": "1970-01-01T00:16:40.000Z", "node": "edge-1", "bridge": "cloud", "lane": 0, "sequence": 7, "stored": False}
    assert json.loads(whole) == {"topic": "plant/ü", **place, **told}
    assert (other, sent.topics[0]) == (b"y", "site/plant/ü".encode())


def test_what_removes_a_retained_message_has_no_envelope() -> None:
    keeps, bare = (replace(each, provenance=ENVELOPE) for each in (KEEPS, BARE))
    batch = queued((b"plant/a", 1 | RETAIN, b""), (b"cell/b", 1 | RETAIN, b""), rules=[keeps, bare])
    removes, not_retained = form().transform(batch, now_ms=0, places=range(2))[0].rows_payloads()
    assert removes == b""
    assert json.loads(not_retained)["payload"] == "", "the rule clears RETAIN"


def test_text_that_would_double_beyond_what_a_packet_holds_is_told_in_base64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wire.routing.provenance.TEXT_MAX_BYTES", 4)
    told = [Provenance(QueuePlace("n", "b", 0), 0, 0, stored=False).envelope(b"t", payload) for payload in (b'""""', b'"""""')]
    assert [set(json.loads(each)) & {"payload", "payload_base64"} for each in told] == [{"payload"}, {"payload_base64"}]


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
@example(951_782_400_000)  # 29 February 2000
def test_the_time_of_acceptance_is_that_of_the_calendar(at_ms: int) -> None:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    assert utc_text(at_ms) == at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
