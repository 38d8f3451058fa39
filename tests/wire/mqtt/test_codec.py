"""Every packet survives its own bytes; the bytes are those of the specification; what is malformed is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.mqtt.malformed import MALFORMED
from tests.wire.mqtt.strategies import LEVELS, packets
from wire.errors import PeerViolation
from wire.mqtt.codec import decode, encode, missing_bytes, split
from wire.mqtt.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from wire.mqtt.primitives import encode_variable_byte_integer
from wire.mqtt.properties import Properties
from wire.mqtt.reason_codes import ReasonCode, UnsupportedProtocol

NO_LIMIT = 1 << 30


def decode_bytes(data: bytes, level: int) -> Packet:
    """The one packet that ``data`` is."""
    parts = split(data, 0, NO_LIMIT)
    assert parts is not None
    first_byte, start, end = parts
    assert end == len(data)
    return decode(first_byte, data[start:end], level)


def packet_or_violation(data: bytes, level: int) -> Packet | PeerViolation | None:
    """The packet at the front of ``data``, or the rule that it breaks; None if it is not all there."""
    try:
        parts = split(data, 0, NO_LIMIT)
        return None if parts is None else decode(parts[0], data[parts[1] : parts[2]], level)
    except PeerViolation as error:
        return error


@given(st.data())
def test_every_packet_decodes_to_what_was_encoded(data: st.DataObject) -> None:
    level = data.draw(LEVELS)
    packet = data.draw(packets(level))
    assert decode_bytes(encode(packet, level), level) == packet


@given(st.data())
def test_a_packet_that_is_cut_short_is_not_there_yet(data: st.DataObject) -> None:
    level = data.draw(LEVELS)
    encoded = encode(data.draw(packets(level)), level)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    assert split(encoded[:cut], 0, NO_LIMIT) is None
    assert split(b"\xc0\x00" + encoded, 2, NO_LIMIT) is not None


@given(st.data())
def test_bytes_that_were_changed_raise_a_violation_or_are_a_packet(data: st.DataObject) -> None:
    level = data.draw(LEVELS)
    encoded = bytearray(encode(data.draw(packets(level)), level))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    outcome = packet_or_violation(bytes(encoded), level)
    if isinstance(outcome, PeerViolation):
        assert outcome.message.startswith("MQTT-")
        assert outcome.reason_code >= 0x80
    elif outcome is not None:
        assert decode_bytes(encode(outcome, level), level) == outcome


@given(st.binary(max_size=60), LEVELS)
def test_random_bytes_raise_nothing_but_violations(data: bytes, level: int) -> None:
    outcome = packet_or_violation(data, level)
    assert not isinstance(outcome, PeerViolation) or outcome.message.startswith("MQTT-")


USER = Properties(user_properties=(("a", "b"), ("a", "c")))
USER_HEX = "0e 26000161000162 26000161000163"
ALL_PUBLISH = Properties(
    payload_format_indicator=1,
    message_expiry_interval=60,
    content_type="t",
    response_topic="r",
    correlation_data=b"\xff",
    subscription_identifiers=(1, 200),
    topic_alias=7,
    user_properties=(("k", "v"),),
)
ALL_CONNECT = Properties(
    session_expiry_interval=1,
    authentication_method="m",
    authentication_data=b"d",
    request_problem_information=0,
    request_response_information=1,
    receive_maximum=10,
    topic_alias_maximum=5,
    maximum_packet_size=65536,
)
ALL_CONNACK = Properties(
    session_expiry_interval=1,
    assigned_client_identifier="i",
    server_keep_alive=30,
    response_information="r",
    server_reference="s",
    reason_string="w",
    receive_maximum=10,
    topic_alias_maximum=5,
    maximum_qos=1,
    retain_available=1,
    maximum_packet_size=65536,
    wildcard_subscription_available=1,
    subscription_identifier_available=0,
    shared_subscription_available=0,
)
WILL = Will(topic="w", payload=b"x", qos=1, retain=True)
WILL_5 = Will(topic="w", payload=b"x", qos=1, retain=True, properties=Properties(will_delay_interval=2))

GOLDEN: list[tuple[int, Packet, str]] = [
    (4, Connect(level=4, client_id="c", clean_start=True, keep_alive_s=60), "100d 00044d515454 04 02 003c 000163"),
    (
        4,
        Connect(level=4, client_id="c", clean_start=False, keep_alive_s=1, user_name="u", password=b"p", will=WILL),
        "1019 00044d515454 04 ec 0001 000163 000177 000178 000175 000170",
    ),
    (
        5,
        Connect(level=5, client_id="c", clean_start=True, keep_alive_s=60, password=b"p", will=WILL_5),
        "101d 00044d515454 05 6e 003c 00 000163 05 1800000002 000177 000178 000170",
    ),
    (
        5,
        Connect(level=5, client_id="", clean_start=True, keep_alive_s=0, properties=ALL_CONNECT),
        "1029 00044d515454 05 02 0000 1c 1100000001 1500016d 16000164 1700 1901 21000a 220005 2700010000 0000",
    ),
    (4, Connack(session_present=True, reason_code=0), "2002 01 00"),
    (4, Connack(session_present=False, reason_code=5), "2002 00 05"),
    (5, Connack(session_present=False, reason_code=0x87), "2003 00 87 00"),
    (
        5,
        Connack(session_present=True, reason_code=0, properties=ALL_CONNACK),
        "2030 01 00 2d 1100000001 12000169 13001e 1a000172 1c000173 1f000177 21000a 220005 2401 2501 2700010000 2801 2900 2a00",
    ),
    (4, Publish(topic="a/b", payload=b"hi"), "3007 0003612f62 6869"),
    (4, Publish(topic="a", payload=b"", qos=1, packet_id=10, dup=True, retain=True), "3b05 000161 000a"),
    (4, Publish(topic="a", payload=b"x", qos=2, packet_id=65535), "3406 000161 ffff 78"),
    (5, Publish(topic="a", payload=b"x"), "3005 000161 00 78"),
    (
        5,
        Publish(topic="", payload=b"x", qos=1, packet_id=1, properties=ALL_PUBLISH),
        "3228 0000 0001 22 0101 020000003c 03000174 08000172 090001ff 0b01 0bc801 230007 2600016b000176 78",
    ),
    (4, Puback(packet_id=1), "4002 0001"),
    (5, Puback(packet_id=1), "4002 0001"),
    (5, Puback(packet_id=1, reason_code=0x97), "4003 0001 97"),
    (5, Puback(packet_id=1, reason_code=0x10, properties=USER), "4012 0001 10 " + USER_HEX),
    (4, Pubrec(packet_id=2), "5002 0002"),
    (5, Pubrec(packet_id=2, reason_code=0x80), "5003 0002 80"),
    (4, Pubrel(packet_id=3), "6202 0003"),
    (5, Pubrel(packet_id=3, reason_code=0x92), "6203 0003 92"),
    (4, Pubcomp(packet_id=4), "7002 0004"),
    (5, Pubcomp(packet_id=4, reason_code=0x92), "7003 0004 92"),
    (5, Pubcomp(packet_id=4, properties=Properties(reason_string="r")), "7008 0004 00 04 1f000172"),
    (4, Subscribe(packet_id=5, subscriptions=(Subscription(topic_filter="a/+", qos=1),)), "8208 0005 0003612f2b 01"),
    (
        5,
        Subscribe(
            packet_id=5,
            subscriptions=(
                Subscription(topic_filter="#", qos=2, no_local=True, retain_as_published=True, retain_handling=2),
                Subscription(topic_filter="$share/g/t", qos=0),
            ),
            properties=Properties(subscription_identifiers=(9,)),
        ),
        "8216 0005 02 0b09 000123 2e 000a2473686172652f672f74 00",
    ),
    (4, Suback(packet_id=5, reason_codes=(1, 0x80)), "9004 0005 01 80"),
    (5, Suback(packet_id=5, reason_codes=(2, 0x8F)), "9005 0005 00 02 8f"),
    (4, Unsubscribe(packet_id=6, topic_filters=("a", "b")), "a208 0006 000161 000162"),
    (5, Unsubscribe(packet_id=6, topic_filters=("a",), properties=USER), "a214 0006 " + USER_HEX + " 000161"),
    (4, Unsuback(packet_id=6), "b002 0006"),
    (5, Unsuback(packet_id=6, reason_codes=(0, 0x11)), "b005 0006 00 00 11"),
    (4, Pingreq(), "c000"),
    (5, Pingreq(), "c000"),
    (4, Pingresp(), "d000"),
    (5, Pingresp(), "d000"),
    (4, Disconnect(), "e000"),
    (5, Disconnect(), "e000"),
    (5, Disconnect(reason_code=4), "e001 04"),
    (5, Disconnect(reason_code=0x9D, properties=Properties(server_reference="s")), "e006 9d 04 1c000173"),
    (5, Auth(), "f000"),
    (
        5,
        Auth(reason_code=0x18, properties=Properties(authentication_method="m", authentication_data=b"d")),
        "f00a 18 08 1500016d 16000164",
    ),
]


@pytest.mark.parametrize(("level", "packet", "expected"), GOLDEN, ids=lambda value: type(value).__name__)
def test_the_bytes_are_those_of_the_specification(level: int, packet: Packet, expected: str) -> None:
    encoded = bytes.fromhex(expected)
    assert encode(packet, level).hex() == encoded.hex()
    assert decode_bytes(encoded, level) == packet


@pytest.mark.parametrize("level", [4, 5])
def test_golden_bytes_are_there_for_every_packet_type(level: int) -> None:
    types = {type(packet) for golden_level, packet, _ in GOLDEN if golden_level == level}
    assert len(types) == (15 if level == 5 else 14)


def test_level_4_leaves_out_what_it_cannot_carry() -> None:
    assert encode(Puback(packet_id=1, reason_code=0x97, properties=USER), 4) == b"\x40\x02\x00\x01"
    assert encode(Disconnect(reason_code=0x82), 4) == b"\xe0\x00"


@pytest.mark.parametrize(
    ("level", "data", "clause", "reason_code"), [row[1:] for row in MALFORMED], ids=[row[0] for row in MALFORMED]
)
def test_what_is_malformed_is_refused_with_its_clause(level: int, data: str, clause: str, reason_code: int) -> None:
    with pytest.raises(PeerViolation) as caught:
        decode_bytes(bytes.fromhex(data), level)
    assert caught.value.message.startswith(clause)
    assert caught.value.reason_code == reason_code


def test_a_client_of_another_level_can_be_answered() -> None:
    with pytest.raises(UnsupportedProtocol) as caught:
        decode_bytes(bytes.fromhex("100f 00064d5149736470 03 02 0000 000161"), 4)
    assert caught.value.level == 3


def test_a_packet_that_is_too_large_is_refused_before_it_has_come() -> None:
    claim = b"\x30\xff\xff\xff\x7f"  # 256 MiB are announced, five bytes are there
    with pytest.raises(PeerViolation) as caught:
        split(claim, 0, 1_000_000)
    assert caught.value.reason_code == ReasonCode.PACKET_TOO_LARGE
    assert split(claim, 0, NO_LIMIT) is None


def test_the_maximum_packet_size_counts_the_fixed_header() -> None:
    packet = encode(Publish(topic="a", payload=b"12345"), 4)
    assert split(packet, 0, len(packet)) == (0x30, 2, len(packet))
    with pytest.raises(PeerViolation):
        split(packet, 0, len(packet) - 1)


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_383, 16_384])
def test_a_packet_lacks_what_has_not_come(size: int) -> None:
    """Never more than it does, and exactly that once its length is known."""
    whole = b"xx" + b"\x30" + encode_variable_byte_integer(size) + bytes(size)
    head_bytes = len(whole) - size
    for end in {3, head_bytes - 1, head_bytes, (head_bytes + len(whole)) // 2, len(whole) - 1} - {2, len(whole)}:
        assert split(whole[:end], 2, 1 << 20) is None
        lacks = missing_bytes(whole[:end], 2)
        assert lacks == len(whole) - end if end >= head_bytes else lacks == 1
