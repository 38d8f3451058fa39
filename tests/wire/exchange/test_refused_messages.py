"""A refused row leads back to its client, its packet identifier and its message."""

from __future__ import annotations

from array import array

from wire.exchange.receiver import AnswerBurst, ReceiverHalf
from wire.exchange.refused_messages import RefusedMessage, held_back, offer_again, refused_messages, wait_behind
from wire.frames.batch import REFUSABLE, from_rows, pack_column
from wire.mqtt.publish_stream import BatchBuilder


def test_rows_of_two_clients_and_all_qos_are_told_apart() -> None:
    batch = from_rows([(b"a", 1, b"0"), (b"a", 2 | REFUSABLE, b"1"), (b"b", 1, b"2"), (b"a", 0, b"3"), (b"a", 1, b"4")])
    batch.properties = {1: b"\x01\x01"}
    sources = pack_column(array("I", [7, 8, 7, 7, 9]))
    received = {"eight": (pack_column(array("H", [600])), pack_column(array("H", [1])))}
    rows = pack_column(array("H", [1, 2, 3]))

    refused = refused_messages(batch, sources, {7: [b"\0\1", b"\0\2"], 9: [b"\0\5"]}, received, rows)

    assert [(m.source, m.packet_id, m.topic, m.qos, m.payload, m.refusable) for m in refused] == [
        (8, (600).to_bytes(2, "big"), b"a", 2, b"1", True),
        (7, b"\0\2", b"b", 1, b"2", False),
        (7, b"", b"a", 0, b"3", False),
    ]
    assert refused[0].properties == b"\x01\x01"


def test_a_will_has_no_packet_identifier_to_be_told_about() -> None:
    """It is in the batch beside the last messages of its client, at any QoS."""
    batch = from_rows([(b"a", 1, b"0"), (b"w", 1, b"will"), (b"w", 2, b"will")])
    sources = pack_column(array("I", [7, 7, 8]))
    refused = refused_messages(batch, sources, {7: [b"\0\1"]}, {}, pack_column(array("H", [0, 1, 2])), {1, 2})
    assert [(message.packet_id, message.payload) for message in refused] == [(b"\0\1", b"0")]


def message(number: int, qos: int) -> RefusedMessage:
    return RefusedMessage(source=1, packet_id=bytes((0, number)), topic=b"t", flags=qos, payload=b"", properties=b"")


def ids(*numbers: int) -> list[bytes]:
    return [bytes((0, number)) for number in numbers]


def test_a_client_that_sends_again_on_one_connection_has_as_many_answers_as_it_sent() -> None:
    burst, messages = AnswerBurst(ids(1, 1, 2, 1), [], [], frozenset()), [message(1, 1), message(1, 1), message(1, 1)]
    leaves, held = held_back(burst, messages)
    assert leaves.pubacks == []
    assert [list(each.pubacks_behind) for each in held] == [[], ids(2), []]


def test_the_answers_behind_a_message_that_is_held_wait_for_its_own() -> None:
    """exchange.answers-in-order: each kind by itself. PUBCOMPs answer what is not held."""
    burst = AnswerBurst(ids(1, 2, 3), ids(1, 4, 5, 10, 6, 7), ids(9, 10), frozenset())

    leaves, held = held_back(burst, [message(2, 1), message(4, 2), message(6, 2)])

    assert (leaves.pubacks, leaves.pubrecs, leaves.pubcomps) == (ids(1), ids(1), ids(9, 10))
    assert [(list(each.pubacks_behind), list(each.pubrecs_behind)) for each in held] == [
        (ids(3), []),
        ([], ids(5)),
        ([], ids(7)),
    ]
    leaves, held = wait_behind(AnswerBurst(ids(8), ids(8), ids(5), frozenset()), held)
    assert (leaves.pubacks, leaves.pubrecs, leaves.pubcomps) == ([], [], ids(5))
    builder = BatchBuilder(rows_max=10, bytes_max=1_000)
    flow = ReceiverHalf(number=1, session="s", level=4, receive_maximum=10, topic_alias_maximum=0)
    for each in held:
        offer_again(builder, flow, each)
    assert (flow.puback_ids, flow.pubrec_ids) == (ids(2, 3, 8), ids(4, 6, 7, 8)), "the exchanges of 5 and 10 are over"
