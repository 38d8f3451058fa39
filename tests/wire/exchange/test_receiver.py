"""The receiver's half towards a client: answers in order, in the burst of their batch (exchange.answer-after-commit,
exchange.answers-in-order, exchange.repeat-not-taken-again).
"""

from __future__ import annotations

import pytest

from wire.errors import PeerViolation
from wire.exchange.receiver import ReceiverHalf
from wire.mqtt.codec import encode
from wire.mqtt.packets import Publish
from wire.mqtt.publish_batch_parser import BatchBuilder, parse_publishes


def flow(level: int = 4, receive_maximum: int = 10) -> ReceiverHalf:
    return ReceiverHalf(
        number=1,
        session="c",
        level=level,
        receive_maximum=receive_maximum,
        topic_alias_maximum=0,
    )


def test_a_burst_answers_every_kind_in_order_of_arrival() -> None:
    client = flow()
    client.puback_ids += [b"\0\1", b"\0\3"]
    client.pubrec_ids += [b"\0\2"]
    client.received.add(9)
    client.pubrel(9)
    sealed = client.seal()
    assert sealed is not None
    burst, released = sealed
    assert released == [9]
    assert burst.encode().hex() == "40020001400200035002000270020009"
    assert client.seal() is None


def test_refused_messages_get_their_reason_code_in_their_place() -> None:
    client = flow(level=5)
    client.puback_ids.append(b"\0\1")
    client.refuse(1, b"\0\3")
    client.refuse(2, b"\0\2")
    sealed = client.seal()
    assert sealed is not None
    assert sealed[0].encode().hex() == "4002000140030003975003000297"
    assert client.received == set(), "a QoS 2 exchange that was refused holds no identifier"


def test_pubrel_of_an_unknown_identifier_is_answered_and_in_mqtt_5_says_so() -> None:
    for level, answer in ((4, "70020007"), (5, "7003000792")):
        client = flow(level)
        client.pubrel(7)
        sealed = client.seal()
        assert sealed is not None
        assert sealed[1] == []
        assert sealed[0].encode().hex() == answer


def test_an_mqtt_5_client_is_held_to_its_receive_maximum() -> None:
    client = flow(level=5, receive_maximum=3)
    client.puback_ids += [b"\0\1", b"\0\2"]
    client.received.add(3)
    client.check_quota()
    sealed = client.seal()
    client.puback_ids.append(b"\0\4")
    with pytest.raises(PeerViolation) as caught:
        client.check_quota()
    assert caught.value.reason_code == 0x93
    assert sealed is not None
    client.on_answered(sealed[0])
    client.check_quota()


def test_identifiers_on_record_of_a_remote_are_carried_until_they_are_released() -> None:
    """exchange.receive-maximum-kept"""
    remote = flow(level=5)
    remote.carry([1, 2, 3])
    assert (remote.received, remote.carried) == ({1, 2, 3}, {1, 2, 3})
    remote.pubrel(1)
    assert (remote.received, remote.carried) == ({2, 3}, {2, 3})


def test_what_was_received_on_an_earlier_connection_does_not_count_until_it_is_sent_again() -> None:
    """exchange.receive-maximum-kept"""
    client = flow(level=5, receive_maximum=3)
    client.carry([1, 2, 3, 4])
    client.check_quota()
    publishes = [encode(Publish(topic="a", payload=b"", qos=2, packet_id=n, dup=n < 5), 5) for n in (1, 2, 5, 6)]
    builder = BatchBuilder(rows_max=10, bytes_max=1000)
    parse_publishes(b"".join(publishes[:3]), 0, 5, client, builder)
    client.check_quota()
    assert len(builder) == 1  # 1 and 2 are answered again, not taken again
    client.pubrel(1)
    client.pubrel(3)  # was not sent here: it makes no room
    parse_publishes(publishes[3], 0, 5, client, builder)
    client.check_quota()
    parse_publishes(publishes[3].replace(b"\0\6", b"\0\7"), 0, 5, client, builder)
    with pytest.raises(PeerViolation) as caught:
        client.check_quota()
    assert caught.value.reason_code == 0x93


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("dup", [False, True])
def test_an_identifier_on_record_is_a_repeat_whatever_dup_says_until_its_pubrel(level: int, dup: bool) -> None:
    """exchange.repeat-not-taken-again: Mosquitto 2.1 with a database sends again without DUP after it was killed."""
    sender = flow(level=level)
    sender.carry([1])
    builder = BatchBuilder(rows_max=10, bytes_max=1000)
    packet = encode(Publish(topic="a", payload=b"", qos=2, packet_id=1, dup=dup), level)
    parse_publishes(packet * 2, 0, level, sender, builder)
    assert (len(builder), sender.pubrec_ids) == (0, [b"\0\1"] * 2)
    sender.pubrel(1)
    parse_publishes(packet, 0, level, sender, builder)
    assert (len(builder), sender.pubrec_ids) == (1, [b"\0\1"] * 3), "whatever DUP says, it is another message now"


def test_what_is_forbidden_is_answered_in_its_place() -> None:
    """exchange.answers-in-order; MQTT 5 is told, MQTT 3.1.1 cannot be [MQTT-3.3.5-2]."""
    for level, no in ((5, b"\x03%b\x87"), (4, b"\x02%b")):
        client = flow(level)
        client.puback_ids.append(b"\0\1")
        client.forbid(1, b"\0\2")
        client.puback_ids.append(b"\0\3")
        client.forbid(2, b"\0\4")
        client.forbid(0, b"")
        sealed = client.seal()
        assert sealed is not None
        burst, released = sealed
        assert released == []
        pubacks = b"\x40\x02\0\1" + b"\x40" + no % b"\0\2" + b"\x40\x02\0\3"
        assert burst.encode() == pubacks + b"\x50" + no % b"\0\4"
        assert client.received == set(), "a QoS 2 exchange that was refused holds no identifier"
        client.puback_ids.append(b"\0\2")
        following = client.seal()
        assert following is not None
        assert following[0].encode() == b"\x40\x02\0\2"


def test_a_repeat_of_what_was_accepted_is_answered_as_then() -> None:
    """exchange.repeat-not-taken-again: the rules may have changed between the two."""
    client = flow(5)
    client.received.add(4)
    client.forbid(2, b"\0\4")
    sealed = client.seal()
    assert sealed is not None
    assert sealed[0].encode() == b"\x50\x02\0\4"


def test_an_identifier_that_is_forbidden_and_refused_gets_both_answers() -> None:
    """A client that uses an identifier twice confuses nobody but itself."""
    client = flow(5)
    client.forbid(1, b"\0\1")
    client.refuse(1, b"\0\1")
    sealed = client.seal()
    assert sealed is not None
    assert sealed[0].encode() == b"\x40\x03\0\1\x87\x40\x03\0\1\x97"
