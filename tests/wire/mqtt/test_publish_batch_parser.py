"""The parser of PUBLISH runs against the general codec, on whole streams and on streams cut anywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.mqtt.strategies import LEVELS, publishes, topics
from wire.errors import PeerViolation
from wire.frames.batch import PASSED, QOS_MASK, RETAIN, unpack_column
from wire.mqtt.codec import encode
from wire.mqtt.packets import Pingreq, Publish
from wire.mqtt.properties import NO_PROPERTIES, Place, Properties, decode_properties, encode_properties
from wire.mqtt.publish_batch_parser import BatchBuilder, parse_publishes
from wire.mqtt.qos0_publish_encoder import encode_deliveries


@dataclass
class Source:
    """A client, as the parser sees it."""

    number: int = 7
    level: int = 4
    published: bool = False
    session: str = "s"
    topic_alias_maximum: int = 10
    puback_ids: list[bytes] = field(default_factory=list)
    pubrec_ids: list[bytes] = field(default_factory=list)
    received: set[int] = field(default_factory=set)
    carried: set[int] = field(default_factory=set)
    aliases: dict[int, bytes] = field(default_factory=dict)
    may_publish: Callable[[bytes], bool] | None = None
    forbidden: list[tuple[int, bytes]] = field(default_factory=list)

    refused: list[tuple[int, bytes]] = field(default_factory=list)

    def forbid(self, qos: int, packet_id: bytes) -> None:
        self.forbidden.append((qos, packet_id))

    def refuse(self, qos: int, packet_id: bytes) -> None:
        self.refused.append((qos, packet_id))


Row = tuple[str, bytes, int, bytes, int]


def new_builder() -> BatchBuilder:
    return BatchBuilder(rows_max=1000, bytes_max=1 << 20)


def rows_of(builder: BatchBuilder) -> list[Row]:
    """(topic, payload, flags, properties, source) of each row."""
    batch = builder.build(0)
    return [
        (batch.topics[index].decode(), payload, flags, batch.properties.get(row, b""), source)
        for row, (index, payload, flags, source) in enumerate(
            zip(
                batch.topic_of,
                batch.rows_payloads(),
                batch.flags,
                unpack_column("I", builder.sources_column()),
                strict=True,
            )
        )
    ]


def expect(packets: list[Publish], level: int, source: Source) -> tuple[list[Row], list[int]]:
    """The general reading of the specification applied to ``packets``: rows, and new QoS 2 identifiers."""
    rows: list[Row] = []
    received: list[int] = []
    aliases: dict[int, str] = {}
    for packet in packets:
        alias = packet.properties.topic_alias
        topic = packet.topic or aliases[alias or 0]
        if alias is not None:
            aliases[alias] = topic
        encoded_id = packet.packet_id.to_bytes(2, "big")
        if packet.qos == 1:
            source.puback_ids.append(encoded_id)
        elif packet.qos == 2:
            source.pubrec_ids.append(encoded_id)
            if packet.packet_id in source.received:
                continue
            source.received.add(packet.packet_id)
            received.append(packet.packet_id)
        flags = packet.qos | (RETAIN if packet.retain else 0)
        rows.append((topic, packet.payload, flags, encode_properties(replace(packet.properties, topic_alias=None)), source.number))
    return rows, received


@st.composite
def streams(draw: st.DrawFn, level: int) -> list[Publish]:
    """The packets of one client: few topics, repeated heads, repeated identifiers, aliases set and used."""
    named = st.sampled_from(draw(st.lists(topics, min_size=1, max_size=3)))
    distinct = draw(st.lists(publishes(level, named), min_size=1, max_size=6))
    packets: list[Publish] = []
    known: set[int] = set()
    for packet in draw(st.lists(st.sampled_from(distinct), min_size=1, max_size=25)):
        properties = replace(packet.properties, subscription_identifiers=(), topic_alias=None) if level == 5 else NO_PROPERTIES
        topic = packet.topic
        if level == 5 and draw(st.booleans()):
            alias = draw(st.integers(1, 10))
            properties = replace(properties, topic_alias=alias)
            topic = "" if alias in known and draw(st.booleans()) else topic
            known.add(alias)
        packet_id = draw(st.sampled_from((packet.packet_id, 1, 2, 3))) if packet.qos else 0
        packets.append(replace(packet, topic=topic, packet_id=packet_id, properties=properties))
    return packets


@given(st.data())
def test_a_stream_cut_anywhere_gives_what_the_codec_gives(data: st.DataObject) -> None:
    level = data.draw(LEVELS)
    packets = data.draw(streams(level))
    stream = b"".join(encode(packet, level) for packet in packets)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))

    builder, source, buffer, fed = new_builder(), Source(), b"", 0
    for cut in [*cuts, len(stream)]:
        buffer, fed = buffer + stream[fed:cut], cut
        buffer = buffer[parse_publishes(buffer, 0, level, source, builder) :]

    assert buffer == b""
    wanted = Source()
    rows, received = expect(packets, level, wanted)
    assert rows_of(builder) == rows
    assert (source.puback_ids, source.pubrec_ids, source.received) == (wanted.puback_ids, wanted.pubrec_ids, wanted.received)
    assert list(unpack_column("H", builder.received.get("s", b""))) == received


@given(st.data())
def test_small_batches_hold_the_same_messages_as_one_large_one(data: st.DataObject) -> None:
    level = data.draw(LEVELS)
    packets = data.draw(streams(level))
    stream = b"".join(encode(packet, level) for packet in packets)
    builder = BatchBuilder(rows_max=data.draw(st.integers(1, 5)), bytes_max=data.draw(st.integers(1, 500)))
    source, position, rows = Source(), 0, []
    while position < len(stream):
        before = position
        position = parse_publishes(stream, position, level, source, builder)
        assert position > before, "an empty builder takes at least one packet"
        assert builder.full or position == len(stream)
        assert len(builder) <= builder.rows_max
        rows += rows_of(builder)
        builder.clear()
    assert rows == expect(packets, level, Source())[0]


@given(st.data())
def test_changed_bytes_raise_violations_and_leave_whole_rows(data: st.DataObject) -> None:
    level = data.draw(LEVELS)
    stream = bytearray(b"".join(encode(packet, level) for packet in data.draw(streams(level))))
    for _ in range(data.draw(st.integers(1, 4))):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    builder, source = new_builder(), Source()
    message = "MQTT-"
    try:
        parse_publishes(bytes(stream), 0, level, source, builder)
    except PeerViolation as error:
        message = error.message
    assert message.startswith("MQTT-")
    qos = [flags & 3 for _, _, flags, _, _ in rows_of(builder)]
    assert qos.count(1) == len(source.puback_ids)
    assert qos.count(2) == len(source.received) <= len(source.pubrec_ids)


def test_it_stops_at_another_packet_and_at_one_that_is_not_all_there() -> None:
    one = encode(Publish(topic="a", payload=b"x", qos=1, packet_id=1), 4)
    ping = encode(Pingreq(), 4)
    assert parse_publishes(one + ping + one, 0, 4, Source(), new_builder()) == len(one)
    for cut in range(1, len(one)):
        builder = new_builder()
        assert parse_publishes(one + one[:cut], 0, 4, Source(), builder) == len(one)
        assert len(builder) == 1


def test_a_qos_2_duplicate_is_answered_again_and_not_taken_again() -> None:
    builder, source = new_builder(), Source(received={5})
    duplicate = encode(Publish(topic="a", payload=b"x", qos=2, packet_id=5, dup=True), 4)
    fresh = encode(Publish(topic="a", payload=b"y", qos=2, packet_id=6), 4)
    parse_publishes(duplicate + fresh + duplicate, 0, 4, source, builder)
    assert source.pubrec_ids == [b"\0\5", b"\0\6", b"\0\5"]
    assert [row[1] for row in rows_of(builder)] == [b"y"]
    assert builder.received == {"s": b"\6\0"}
    assert builder.build(0).topics == [b"a"]


def test_a_topic_that_only_duplicates_name_is_not_in_the_batch() -> None:
    builder = new_builder()
    parse_publishes(encode(Publish(topic="a", payload=b"x", qos=2, packet_id=5), 4), 0, 4, Source(received={5}), builder)
    assert builder.build(0).topics == []


def test_an_alias_outlives_the_batch() -> None:
    builder, source = new_builder(), Source()
    named = Publish(topic="a/b", payload=b"1", properties=Properties(topic_alias=3, content_type="t"))
    parse_publishes(encode(named, 5), 0, 5, source, builder)
    builder.clear()
    parse_publishes(encode(replace(named, topic=""), 5), 0, 5, source, builder)
    assert rows_of(builder) == [("a/b", b"1", 0, b"\x03\x00\x01t", 7)]


MALFORMED = [
    (4, "3605 000161 0001", "MQTT-3.3.1-4", 0x81),
    (4, "3803 000161", "MQTT-3.3.1-2", 0x81),
    (4, "3205 000161 0000", "MQTT-2.2.1-3", 0x82),
    (4, "3003 000123", "MQTT-3.3.2-2", 0x81),
    (4, "3003 000100", "MQTT-1.5.4-2", 0x81),
    (4, "3003 0001ff", "MQTT-1.5.4-1", 0x81),
    (4, "3002 0000", "MQTT-4.7.3-1", 0x81),
    (4, "3003 000261", "MQTT-2.1.4", 0x81),
    (4, "3204 000161 00", "MQTT-2.1.4", 0x81),
    (4, "3001 00", "MQTT-2.1.4", 0x81),
    (4, "3000", "MQTT-2.1.4", 0x81),
    (4, "30 ffffffff01", "MQTT-1.5.5 ", 0x81),
    (4, "30 8300 000161", "MQTT-1.5.5-1", 0x81),
    (4, "30 ffffff7f", "MQTT-3.1.2-24", 0x95),
    (5, "3003 0000 00", "MQTT-3.3.2.1", 0x82),
    (5, "3005 0000 02 0101", "MQTT-3.3.2.1", 0x82),
    (5, "3003 000161", "MQTT-2.1.4", 0x81),
    (5, "3004 000161 05", "MQTT-2.1.4", 0x81),
    (5, "3007 000161 03 230000", "MQTT-3.3.2-8", 0x94),
    (5, "3007 000161 03 23000b", "MQTT-3.3.2-9", 0x94),
    (5, "3006 0000 03 230001", "MQTT-3.3.2.3.4", 0x82),
    (5, "3006 000161 02 0b01", "MQTT-3.3.4-6", 0x82),
    (5, "3006 000161 02 0102", "MQTT-2.2.2.2", 0x82),
    (5, "3008 000161 04 01010101", "MQTT-2.2.2.2", 0x82),
    (5, "3006 000161 02 2101", "MQTT-2.2.2.2", 0x81),
]


@pytest.mark.parametrize(("level", "data", "clause", "reason_code"), MALFORMED)
def test_what_is_malformed_is_refused_and_what_stood_before_it_stays(level: int, data: str, clause: str, reason_code: int) -> None:
    builder, source = BatchBuilder(rows_max=10, bytes_max=10_000, packet_max_bytes=1000), Source()
    good = encode(Publish(topic="good", payload=b"x", qos=1, packet_id=1), level)
    with pytest.raises(PeerViolation) as caught:
        parse_publishes(good + bytes.fromhex(data), 0, level, source, builder)
    assert caught.value.message.startswith(clause)
    assert caught.value.reason_code == reason_code
    assert [row[0] for row in rows_of(builder)] == ["good"]
    assert source.puback_ids == [b"\0\1"]
    assert source.aliases == {}


def test_what_is_remembered_as_valid_stays_bounded() -> None:
    builder = BatchBuilder(rows_max=60_000, bytes_max=1 << 26)
    stream = b"".join(
        encode(Publish(topic=f"t/{i}", payload=b"", properties=Properties(message_expiry_interval=i)), 5) for i in range(10_500)
    )
    assert parse_publishes(stream, 0, 5, Source(), builder) == len(stream)
    assert len(builder.known_topics) <= 10_000
    assert len(builder.known_properties) <= 1_000
    long_topic = encode(Publish(topic="x" * 300, payload=b""), 5)
    parse_publishes(long_topic, 0, 5, Source(), builder)
    assert b"x" * 300 not in builder.known_topics


@given(st.data())
def test_live_deliveries_are_what_the_codec_would_send(data: st.DataObject) -> None:
    level, out_level = data.draw(LEVELS), data.draw(LEVELS)
    packets = data.draw(streams(level))
    builder = new_builder()
    parse_publishes(b"".join(encode(packet, level) for packet in packets), 0, level, Source(), builder)
    batch, keep = builder.build(0), data.draw(st.booleans())
    rows = data.draw(st.lists(st.integers(0, len(batch) - 1), max_size=10))
    taken = expect(packets, level, Source())[0]
    expected = b""
    for row in rows or range(len(batch)):
        topic, payload, flags, raw, _ = taken[row]
        packet = Publish(topic=topic, payload=payload, retain=keep and bool(flags & RETAIN))
        encoded = encode(packet, out_level)
        if out_level == 5 and raw:
            encoded = encode(replace(packet, properties=decode_properties(raw, Place.PUBLISH)), 5)
        expected += encoded
    assert encode_deliveries(batch, rows, out_level, retain_as_published=keep) == expected


def test_live_deliveries_carry_the_properties_of_their_topic_and_leave_out_what_is_too_large() -> None:
    builder, source = new_builder(), Source()
    stream = [Publish(topic="a", payload=b"1"), Publish(topic="a", payload=b"1" * 50), Publish(topic="b", payload=b"2")]
    parse_publishes(b"".join(encode(packet, 5) for packet in stream), 0, 5, source, builder)
    batch = builder.build(0)
    batch.topic_properties = [b"\x01\x01", b""]
    first = encode(replace(stream[0], properties=Properties(payload_format_indicator=1)), 5)
    assert encode_deliveries(batch, (), 5, packet_max_bytes=20) == first + encode(stream[2], 5)
    assert encode_deliveries(batch, (2,), 4) == encode(stream[2], 4)


def test_a_packet_by_alias_does_not_leave_its_topic_to_the_next_one() -> None:
    named = encode(Publish(topic="a/b", payload=b"1", properties=Properties(topic_alias=1)), 5)
    other = encode(Publish(topic="c", payload=b"2"), 5)
    by_alias = encode(Publish(topic="", payload=b"3", properties=Properties(topic_alias=1)), 5)
    builder = new_builder()
    parse_publishes(named + other + by_alias + other + by_alias + by_alias, 0, 5, Source(), builder)
    assert [(row[0], row[1]) for row in rows_of(builder)] == [
        ("a/b", b"1"),
        ("c", b"2"),
        ("a/b", b"3"),
        ("c", b"2"),
        ("a/b", b"3"),
        ("a/b", b"3"),
    ]


@pytest.mark.parametrize(("over", "rows"), [(0, 1), (1, 2)])
def test_the_packet_that_reaches_the_limit_in_bytes_is_the_last_one(over: int, rows: int) -> None:
    one = encode(Publish(topic="a", payload=b"x" * 10), 4)
    builder = BatchBuilder(rows_max=10, bytes_max=len(one) + over)
    assert parse_publishes(one * 5, 0, 4, Source(), builder) == rows * len(one)
    assert builder.full
    assert parse_publishes(one * 5, 0, 4, Source(), builder) == 0


def test_a_carried_identifier_is_a_repeat_whatever_dup_says() -> None:
    builder, source = new_builder(), Source(received={5, 6}, carried={5, 6})
    bare, again = (encode(Publish(topic="a", payload=b"", qos=2, packet_id=5, dup=dup), 4) for dup in (False, True))
    parse_publishes(bare + again + bare, 0, 4, source, builder)
    assert (len(builder), source.pubrec_ids) == (0, [b"\0\5"] * 3)
    assert (source.received, source.carried) == ({5, 6}, {6})


@pytest.mark.parametrize("level", [4, 5])
def test_a_run_of_qos_0_alone_ends_in_front_of_any_other(level: int) -> None:
    builder, source = new_builder(), Source()
    builder.take_only_qos_0(True)
    plain = [encode(Publish(topic="a", payload=b"x", retain=retain), level) for retain in (False, True, False)]
    others = [encode(Publish(topic="a", payload=b"y", qos=qos, packet_id=1), level) for qos in (1, 2)]
    for other in others:
        assert parse_publishes(b"".join(plain) + other + plain[0], 0, level, source, builder) == len(b"".join(plain))
    assert [payload for _, payload, _, _, _ in rows_of(builder)] == [b"x"] * 6
    assert (source.puback_ids, source.pubrec_ids) == ([], [])
    builder.take_only_qos_0(False)
    assert parse_publishes(others[0], 0, level, source, builder) == len(others[0])


_FEW = st.sampled_from(["a", "b/c", "d", "\u00e9"])


@given(
    packets=st.lists(st.tuples(_FEW, st.integers(0, 2), st.integers(1, 9), st.binary(max_size=9)), max_size=20),
    forbidden=st.sets(_FEW, max_size=3),
    level=st.sampled_from([4, 5]),
)
def test_what_a_client_may_not_publish_leaves_the_rest_as_it_is(
    packets: list[tuple[str, int, int, bytes]], forbidden: set[str], level: int
) -> None:
    """The rows are those of the stream without the forbidden packets, and each of those is owed its answer."""

    def stream_of(chosen: list[tuple[str, int, int, bytes]]) -> bytes:
        return b"".join(
            encode(Publish(topic=topic, payload=payload, qos=qos, packet_id=packet_id if qos else 0), level)
            for topic, qos, packet_id, payload in chosen
        )

    source, builder = Source(may_publish=lambda topic: topic.decode() not in forbidden), new_builder()
    stream = stream_of(packets)
    assert parse_publishes(stream, 0, level, source, builder) == len(stream)
    plain, expected = Source(), new_builder()
    parse_publishes(stream_of([packet for packet in packets if packet[0] not in forbidden]), 0, level, plain, expected)
    assert rows_of(builder) == rows_of(expected)
    assert builder.received == expected.received
    assert (source.puback_ids, source.pubrec_ids, source.received) == (plain.puback_ids, plain.pubrec_ids, plain.received)
    owed = [(qos, packet_id.to_bytes(2, "big") if qos else b"") for topic, qos, packet_id, _ in packets if topic in forbidden]
    assert source.forbidden == owed


def test_the_rules_are_asked_once_for_a_run_of_one_topic() -> None:
    asked: list[bytes] = []

    def may_publish(topic: bytes) -> bool:
        asked.append(topic)
        return True

    one = b"".join(encode(Publish(topic="a", payload=b"x", qos=1, packet_id=number), 4) for number in range(1, 100))
    parse_publishes(one, 0, 4, Source(may_publish=may_publish), new_builder())
    assert asked == [b"a"]


def test_a_forbidden_publish_is_checked_like_any_other() -> None:
    source = Source(may_publish=lambda topic: False)
    for bad in ("3206 0001 61 0000 78", "3005 0001 2b 7878"):
        with pytest.raises(PeerViolation):
            parse_publishes(bytes.fromhex(bad), 0, 4, source, new_builder())
    with pytest.raises(PeerViolation):  # a subscription identifier from a client
        parse_publishes(bytes.fromhex("3006 0001 61 02 0b01"), 0, 5, source, new_builder())
    assert source.forbidden == []


def reserving(dropped: list[bytes]) -> BatchBuilder:
    """A builder for which every topic below ``$SYS/`` is reserved."""

    def drop_reserved(_number: int, topic: bytes) -> bool:
        if not topic.startswith(b"$SYS/"):
            return False
        dropped.append(topic)
        return True

    return BatchBuilder(rows_max=1000, bytes_max=1 << 20, drop_reserved=drop_reserved)


@pytest.mark.parametrize("level", [4, 5])
def test_nobody_publishes_to_a_reserved_topic(level: int) -> None:
    """Each PUBLISH is owed its answer, in this batch and in the next; its neighbours are rows as ever."""
    source, dropped = Source(), list[bytes]()
    builder = reserving(dropped)
    tried = ["$SYS/a", "a", "$SYS/a", "$SYS/a", "$SYS", "a/$SYS/"]
    stream = b"".join(encode(Publish(topic=topic, payload=b"x", qos=1, packet_id=at), level) for at, topic in enumerate(tried, 1))
    for round_number in (1, 2):
        assert parse_publishes(stream, 0, level, source, builder) == len(stream)
        assert list(builder.topics) == [b"a", b"$SYS", b"a/$SYS/"]
        assert [packet_id[1] for packet_id in source.puback_ids] == [2, 5, 6] * round_number
        assert [packet_id[1] for _, packet_id in source.forbidden] == [1, 3, 4] * round_number
        assert dropped == [b"$SYS/a"] * 3 * round_number
        builder.clear()


def test_a_reserved_topic_has_no_alias_to_hide_behind() -> None:
    source, builder = Source(), reserving([])
    aliased = Properties(topic_alias=1)
    for topic in ("$SYS/a", "", "", "b", ""):
        stream = encode(Publish(topic=topic, payload=b"x", qos=2, packet_id=9, properties=aliased), 5)
        assert parse_publishes(stream, 0, 5, source, builder) == len(stream)
        source.received.clear()
    assert source.forbidden == [(2, b"\0\x09")] * 3
    assert list(builder.topics) == [b"b"]
    assert len(builder) == 2


def test_without_a_reserved_beginning_every_topic_is_taken() -> None:
    """The messages of a remote, by a rule that says so."""
    builder = new_builder()
    parse_publishes(encode(Publish(topic="$SYS/a", payload=b"x"), 4), 0, 4, Source(), builder)
    assert list(builder.topics) == [b"$SYS/a"]


Added = tuple[bytes, int, bytes, bytes, int]  # topic, flags, payload, properties, source
ADDED: st.SearchStrategy[Added] = st.tuples(
    st.sampled_from([b"a", b"b", b"c"]),
    st.sampled_from([0, RETAIN, 1, 1 | RETAIN, 2]),
    st.binary(max_size=3),
    st.sampled_from([b"", b"\1\1"]),
    st.integers(1, 3),
)


@given(st.lists(ADDED | st.sampled_from(["pass", "shed"]), max_size=40), st.sets(st.integers(0, 39), max_size=2))
def test_what_passes_goes_once_and_what_is_shed_has_passed(course: list[Added | str], wanted: set[int]) -> None:
    """Against a list of rows. Every QoS 0 row passes once, in order; shed are those alone that nobody needs any more."""
    builder = new_builder()
    rows: list[tuple[Added, bool]] = []  # and whether it has passed
    for step in course:
        if step == "pass":
            passed = builder.pass_on(1000)
            expected = [row for row, has_passed in rows if not row[1] & QOS_MASK and not has_passed]
            got: list[Added] = []
            if passed is not None:
                batch, sources = passed
                columns = zip(batch.topic_of, batch.flags, batch.rows_payloads(), unpack_column("I", sources), strict=True)
                for at, (index, flags, payload, source) in enumerate(columns):
                    got.append((batch.topics[index], flags, payload, batch.properties.get(at, b""), source))
            assert got == expected
            rows = [(row, True) for row, _ in rows]
        elif step == "shed":
            keep = {row for row in wanted if row < len(rows)}
            last = {row[0]: at for at, (row, _) in enumerate(rows) if row[1] & RETAIN}
            places = builder.shed(keep)
            left = [
                at
                for at, (row, has_passed) in enumerate(rows)
                if row[1] & QOS_MASK or not has_passed or at in keep or last.get(row[0]) == at
            ]
            assert places == {old: new for new, old in enumerate(left)}
            rows = [rows[at] for at in left]
        else:
            assert not isinstance(step, str)
            topic, flags, payload, properties, source = step
            builder.add(topic, flags, payload, source=source, properties=properties)
            rows.append((step, False))
    assert [(row[0].decode(), row[2], row[1], row[3], row[4]) for row, _ in rows] == [
        (topic, payload, flags & ~PASSED, properties, source) for topic, payload, flags, properties, source in rows_of(builder)
    ]
    assert [has_passed and not row[1] & QOS_MASK for row, has_passed in rows] == [bool(row[2] & PASSED) for row in rows_of(builder)]


def test_it_holds_what_nobody_was_passed_and_what_is_to_be_retained() -> None:
    builder = BatchBuilder(rows_max=100, bytes_max=10_000)
    for source, flags in ((1, 0), (2, RETAIN), (3, 1), (4, 2 | PASSED), (5, 1 | PASSED | RETAIN)):
        builder.add(b"t", flags, b"x", source=source)
    assert [builder.holds(source) for source in range(1, 7)] == [True, True, True, False, True, False]

    builder.pass_on(0)
    assert [builder.holds(source) for source in range(1, 7)] == [False, True, True, False, True, False]
    builder.clear()
    assert not any(builder.holds(source) for source in range(1, 7))


def test_what_is_shed_makes_room_and_what_else_takes_room_keeps_it() -> None:
    builder = BatchBuilder(rows_max=1000, bytes_max=1000)
    builder.take_room(300)
    while not builder.full:
        builder.add(b"t", 0, b"x" * 99, source=1)
    builder.add(b"t", 1, b"x" * 99, source=1)
    assert list(builder.shed(())) == list(range(len(builder))), "nothing has passed"

    builder.pass_on(1000)
    builder.shed(())

    assert not builder.full
    assert (len(builder), builder.used_bytes) == (1, 400)
