"""RefusedByStore: what is held, offered again, given up, and what the store is told of that."""

from __future__ import annotations

from wire.exchange.receiver import AnswerBurst, ReceiverHalf
from wire.exchange.refused_by_store import Held, RefusedByStore, Resumed
from wire.exchange.refused_messages import OFFER_ROWS_MIN, RefusedMessage
from wire.mqtt.publish_properties import message_expiry_s, with_message_expiry
from wire.mqtt.publish_stream import BatchBuilder


def held(number: int, *, qos: int = 1, expiry_s: int | None = None) -> Held:
    packet_id = number.to_bytes(2, "big") if qos else b""
    properties = b"" if expiry_s is None else with_message_expiry(b"", expiry_s)
    message = RefusedMessage(source=1, packet_id=packet_id, topic=b"t", flags=qos, payload=b"%d" % number, properties=properties)
    return Held(message, since_ms=1_000)


def offered(refused: RefusedByStore, *, wall_ms: int = 1_000) -> tuple[list[bytes], list[int], BatchBuilder]:
    """The payloads of what is offered, the rows that have expired, and what they are in."""
    builder = BatchBuilder(rows_max=4_096, bytes_max=1 << 20)
    flow = ReceiverHalf(number=1, session="s", level=5, receive_maximum=65_535, topic_alias_maximum=0)
    again, expired = refused.offer(builder, flow, wall_ms)
    return [each.message.payload for each in again], expired, builder


def test_what_is_refused_again_goes_before_what_was_refused_behind_it() -> None:
    refused = RefusedByStore()
    refused.hold(1, [held(1), held(2), held(3)], again=False)
    assert refused.stalled
    assert offered(refused)[0] == [b"1", b"2", b"3"]
    refused.hold(1, [held(5)], again=False)
    refused.hold(1, [held(2), held(3)], again=True)
    assert offered(refused)[0] == [b"2", b"3", b"5"]


def test_offers_grow_while_they_are_taken_whole_and_begin_small_after_a_refusal() -> None:
    refused = RefusedByStore()
    refused.hold(1, [held(number) for number in range(1, 1_000)], again=False)
    assert (len(offered(refused)[0]), refused.eager) == (OFFER_ROWS_MIN, False)
    refused.taken()
    assert (len(offered(refused)[0]), refused.eager) == (4 * OFFER_ROWS_MIN, True)
    refused.hold(1, [held(1_000)], again=True)
    assert (len(offered(refused)[0]), refused.eager) == (OFFER_ROWS_MIN, False)
    refused.taken()
    refused.over()
    assert (refused.stalled, refused.eager) == (False, False)


def test_message_expiry_intervals_run_on_while_messages_are_held() -> None:
    refused = RefusedByStore()
    refused.hold(1, [held(1, expiry_s=2), held(2, expiry_s=5), held(3)], again=False)
    payloads, expired, builder = offered(refused, wall_ms=4_500)
    assert (payloads, expired) == ([b"1", b"2", b"3"], [0])
    assert message_expiry_s(builder.build(accepted_ms=4_500).properties[1]) == 2


def test_the_store_is_told_once_of_what_it_refuses_what_is_held_and_what_comes_no_more() -> None:
    refused = RefusedByStore()
    refused.hold(3, [held(1), held(2, qos=0)], again=False)
    assert (refused.refusing, refused.resumes(3)) == ((3,), [Resumed(3, held=2, given_up=0)])
    assert refused.disconnected(3) == 1
    refused.forgo(3, 4)
    assert refused.resumes(4) == [Resumed(3, held=0, given_up=5)]
    assert (refused.resumes(4), refused.refusing, len(refused)) == ([], (), 0)


def test_answers_behind_what_is_held_wait_for_its_own_and_so_do_repeats_of_it() -> None:
    """exchange.answers-in-order."""
    one, two, three = (number.to_bytes(2, "big") for number in (1, 2, 3))
    refused = RefusedByStore()
    leaves = refused.hold(1, [held(2)], AnswerBurst([one, two, three], [], [], frozenset()), again=False)
    assert leaves is not None
    assert leaves.pubacks == [one]
    assert refused.wait(AnswerBurst([two], [three], [], frozenset())).packets == 0
