"""Every packet survives its own bytes; the bytes are those of the specification; what is malformed is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    """What the packet at the front of ``data`` is or breaks; None if it is not all there."""
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


MALFORMED = [
    # fixed header
    ("reserved type 0", 5, "0000", "MQTT-2.1.2", 0x81),
    ("AUTH at level 4", 4, "f000", "MQTT-2.1.2", 0x81),
    ("flags of PUBREL", 4, "6002 0001", "MQTT-2.1.3-1", 0x81),
    ("flags of SUBSCRIBE", 4, "8006 0001 000161 00", "MQTT-2.1.3-1", 0x81),
    ("flags of UNSUBSCRIBE", 5, "a006 0001 00 000161", "MQTT-2.1.3-1", 0x81),
    ("flags of PINGREQ", 5, "c100", "MQTT-2.1.3-1", 0x81),
    ("flags of PUBACK", 5, "4202 0001", "MQTT-2.1.3-1", 0x81),
    ("remaining length of five bytes", 4, "30 ffffffff01", "MQTT-1.5.5 ", 0x81),
    ("remaining length with a needless byte", 4, "c0 8000", "MQTT-1.5.5-1", 0x81),
    ("bytes behind PINGREQ", 4, "c001 00", "MQTT-2.1.4", 0x81),
    ("bytes behind PUBACK", 4, "4003 0001 00", "MQTT-2.1.4", 0x81),
    ("PUBACK without its identifier", 4, "4001 00", "MQTT-2.1.4", 0x81),
    # strings
    ("surrogate in a string", 4, "100f 00044d515454 04 02 0000 0003 eda080", "MQTT-1.5.4-1", 0x81),
    ("overlong NUL in a string", 4, "100e 00044d515454 04 02 0000 0002 c080", "MQTT-1.5.4-1", 0x81),
    ("NUL in a string", 5, "100e 00044d515454 05 02 0000 00 0001 00", "MQTT-1.5.4-2", 0x81),
    ("string longer than the packet", 4, "100d 00044d515454 04 02 0000 0009 61", "MQTT-2.1.4", 0x81),
    # CONNECT
    ("protocol name", 4, "100f 00064d5149736470 03 02 0000 000161", "MQTT-3.1.2-1", 0x84),
    ("protocol level", 4, "100d 00044d515454 06 02 0000 000161", "MQTT-3.1.2-2", 0x84),
    ("reserved flag of CONNECT", 4, "100d 00044d515454 04 03 0000 000161", "MQTT-3.1.2-3", 0x81),
    ("Will QoS without a Will", 4, "100d 00044d515454 04 0a 0000 000161", "MQTT-3.1.2-11", 0x81),
    ("Will QoS 3", 4, "1013 00044d515454 04 1e 0000 000161 000161 000161", "MQTT-3.1.2-12", 0x81),
    ("Will Retain without a Will", 4, "100d 00044d515454 04 22 0000 000161", "MQTT-3.1.2-13", 0x81),
    ("password without a user name", 4, "1010 00044d515454 04 42 0000 000161 000161", "MQTT-3.1.2-22 (3.1.1)", 0x81),
    ("Will flag without a Will", 4, "100d 00044d515454 04 06 0000 000161", "MQTT-2.1.4", 0x81),
    ("wildcard in a Will topic", 4, "1013 00044d515454 04 06 0000 000161 000123 000161", "MQTT-3.3.2-2", 0x81),
    ("bytes behind CONNECT", 4, "100e 00044d515454 04 02 0000 000161 00", "MQTT-2.1.4", 0x81),
    # properties, in CONNECT and elsewhere
    ("property twice", 5, "1017 00044d515454 05 02 0000 0a 1100000001 1100000001 0000", "MQTT-2.2.2.2", 0x82),
    ("property of another packet", 5, "1010 00044d515454 05 02 0000 03 230001 0000", "MQTT-2.2.2.2", 0x81),
    ("property nobody knows", 5, "100f 00044d515454 05 02 0000 02 7f00 0000", "MQTT-2.2.2.2", 0x81),
    ("property cut short", 5, "100e 00044d515454 05 02 0000 01 21 0000", "MQTT-2.1.4", 0x81),
    ("properties longer than the packet", 5, "100b 00044d515454 05 02 0000 7f", "MQTT-2.1.4", 0x81),
    ("receive maximum 0", 5, "1010 00044d515454 05 02 0000 03 210000 0000", "MQTT-3.1.2.11.3", 0x82),
    ("maximum packet size 0", 5, "1012 00044d515454 05 02 0000 05 2700000000 0000", "MQTT-3.1.2.11.4", 0x82),
    ("request problem information 2", 5, "100f 00044d515454 05 02 0000 02 1702 0000", "MQTT-2.2.2.2", 0x82),
    ("authentication data alone", 5, "1011 00044d515454 05 02 0000 04 16000161 0000", "MQTT-3.1.2.11.10", 0x82),
    ("Will delay outside the Will", 5, "1012 00044d515454 05 02 0000 05 1800000001 0000", "MQTT-2.2.2.2", 0x81),
    ("topic alias 0", 5, "3007 000161 03 230000", "MQTT-3.3.2-8", 0x94),
    ("subscription identifier 0", 5, "8209 0001 02 0b00 000161 00", "MQTT-3.8.2.1.2", 0x82),
    ("two subscription identifiers", 5, "820b 0001 04 0b010b02 000161 00", "MQTT-2.2.2.2", 0x82),
    ("wildcard in a response topic", 5, "3008 000161 04 08000123", "MQTT-3.3.2-14", 0x82),
    ("ill-formed user property", 5, "300b 000161 07 260001ff000161", "MQTT-1.5.4-1", 0x81),
    # CONNACK
    ("reserved flags of CONNACK", 4, "2002 02 00", "MQTT-3.2.2-1", 0x81),
    ("session present in a refusal", 5, "2003 01 87 00", "MQTT-3.2.2-6", 0x82),
    ("return code 6", 4, "2002 00 06", "MQTT-3.2.2-6 (3.1.1)", 0x82),
    ("reason code of CONNACK", 5, "2003 00 01 00", "MQTT-3.2.2-8", 0x82),
    # PUBLISH
    ("QoS 3", 4, "3605 000161 0001", "MQTT-3.3.1-4", 0x81),
    ("DUP at QoS 0", 4, "3803 000161", "MQTT-3.3.1-2", 0x81),
    ("packet identifier 0", 4, "3205 000161 0000", "MQTT-2.2.1-3", 0x82),
    ("wildcard in a topic name", 4, "3003 000123", "MQTT-3.3.2-2", 0x81),
    ("NUL in a topic name", 4, "3003 000100", "MQTT-1.5.4-2", 0x81),
    ("ill-formed topic name", 4, "3003 0001ff", "MQTT-1.5.4-1", 0x81),
    ("empty topic name", 4, "3002 0000", "MQTT-4.7.3-1", 0x81),
    ("empty topic name without an alias", 5, "3003 0000 00", "MQTT-3.3.2.1", 0x82),
    ("topic longer than the packet", 4, "3003 000261", "MQTT-2.1.4", 0x81),
    ("no room for a packet identifier", 4, "3204 000161 00", "MQTT-2.1.4", 0x81),
    ("no property length", 5, "3003 000161", "MQTT-2.1.4", 0x81),
    # acknowledgements
    ("PUBACK 0", 4, "4002 0000", "MQTT-2.2.1-3", 0x82),
    ("reason code of PUBACK", 5, "4003 0001 01", "MQTT-3.4.2-1", 0x82),
    ("reason code of PUBREC", 5, "5003 0001 92", "MQTT-3.5.2-1", 0x82),
    ("reason code of PUBREL", 5, "6203 0001 80", "MQTT-3.6.2-1", 0x82),
    ("reason code of PUBCOMP", 5, "7003 0001 10", "MQTT-3.7.2-1", 0x82),
    # subscriptions
    ("SUBSCRIBE of nothing", 4, "8202 0001", "MQTT-3.8.3-2", 0x82),
    ("SUBSCRIBE with identifier 0", 4, "8206 0000 000161 00", "MQTT-2.2.1-3", 0x82),
    ("subscription without options", 4, "8205 0001 000161", "MQTT-2.1.4", 0x81),
    ("options of level 5 at level 4", 4, "8206 0001 000161 04", "MQTT-3.8.3-5", 0x81),
    ("reserved option bits", 5, "8207 0001 00 000161 40", "MQTT-3.8.3-5", 0x81),
    ("subscription at QoS 3", 5, "8207 0001 00 000161 03", "MQTT-3.8.3.1", 0x82),
    ("retain handling 3", 5, "8207 0001 00 000161 30", "MQTT-3.8.3.1", 0x82),
    ("No Local on a shared one", 5, "8210 0001 00 000a2473686172652f672f74 04", "MQTT-3.8.3-4", 0x82),
    ("empty topic filter", 4, "8205 0001 0000 00", "MQTT-4.7.3-1", 0x81),
    ("'#' inside a filter", 4, "8208 0001 0003232f61 00", "MQTT-4.7.1-1", 0x81),
    ("'#' inside a level", 4, "8207 0001 00026123 00", "MQTT-4.7.1-1", 0x81),
    ("'+' inside a level", 4, "8207 0001 0002612b 00", "MQTT-4.7.1-2", 0x81),
    ("share without a name", 5, "820f 0001 00 00092473686172652f2f74 00", "MQTT-4.8.2-1", 0x81),
    ("share without a filter", 5, "820e 0001 00 00082473686172652f67 00", "MQTT-4.8.2-2", 0x81),
    ("wildcard in a share name", 5, "8210 0001 00 000a2473686172652f2b2f74 00", "MQTT-4.8.2-2", 0x81),
    ("SUBACK of nothing", 4, "9002 0001", "MQTT-3.9.3-2", 0x82),
    ("reason code of SUBACK", 4, "9003 0001 03", "MQTT-3.9.3-2", 0x82),
    ("UNSUBSCRIBE of nothing", 5, "a203 0001 00", "MQTT-3.10.3-2", 0x82),
    ("ill-formed filter of UNSUBSCRIBE", 4, "a205 0001 0001ff", "MQTT-1.5.4-1", 0x81),
    ("reason code of UNSUBACK", 5, "b004 0001 00 01", "MQTT-3.11.3-2", 0x82),
    # the end
    ("DISCONNECT with a body at level 4", 4, "e001 00", "MQTT-2.1.4", 0x81),
    ("reason code of DISCONNECT", 5, "e001 01", "MQTT-3.14.2-1", 0x82),
    ("reason code of AUTH", 5, "f001 01", "MQTT-3.15.2-1", 0x82),
]


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
