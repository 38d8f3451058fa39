"""The judge of a recorded link: who has lost a message, who has doubled it."""

from __future__ import annotations

import pytest

from tests.support.link_record import LinkRecord
from tests.support.mqtt_packets import PUBACK, PUBREC, PUBREL, acknowledge_bytes, connack_bytes, connect_bytes, publish_bytes
from tests.support.tape import Tape


def recorded(*connections: list[tuple[bool, bytes]]) -> LinkRecord:
    """A record of these connections: what went up to the remote (True) and came down."""
    tape = Tape()
    for number, packets in enumerate(connections):
        tape.opened(number)
        tape.passed_up(number, connect_bytes(4, "bridge", clean=False))
        tape.came_down(number, connack_bytes(4, session_present=number > 0))
        for up, data in packets:
            (tape.passed_up if up else tape.came_down)(number, data)
    return LinkRecord(tape)


def publish(payload: str, packet_id: int = 7, *, qos: int = 2, dup: bool = False) -> bytes:
    return publish_bytes(4, "t", payload, qos, packet_id, dup=dup)


def ack(kind: int, packet_id: int = 7) -> bytes:
    return acknowledge_bytes(kind, packet_id)


def test_what_the_remote_never_acknowledged_is_ours() -> None:
    record = recorded([(True, publish("a", 1, qos=1)), (False, ack(PUBACK, 1)), (True, publish("b", 2, qos=1))])
    record.judge_out(["a"], exactly_once=[], lowered=False)
    with pytest.raises(AssertionError, match="never acknowledged"):
        record.judge_out(["a", "b"], exactly_once=[], lowered=False)
    assert record.remotes_loss(["a", "b"], out=True) == {"a"}


@pytest.mark.parametrize(
    ("again", "released"), [(publish("a"), False), (publish("a", 8, dup=True), False), (publish("a", dup=True), True)]
)
def test_a_repeat_that_the_remote_could_not_tell_is_ours(again: bytes, released: bool) -> None:
    first = [(True, publish("a")), (False, ack(PUBREC))] + [(True, ack(PUBREL))] * released
    recorded(first, [(True, publish("a", dup=True))] if not released else []).judge_out(["a"], exactly_once=["a"], lowered=False)
    with pytest.raises(AssertionError, match="twice in one session"):
        recorded(first, [(True, again)]).judge_out(["a"], exactly_once=["a"], lowered=False)


def test_what_came_once_and_arrived_twice_is_ours_and_what_the_remote_sent_as_two_is_its() -> None:
    came = [(False, publish("a")), (True, ack(PUBREC))]
    with pytest.raises(AssertionError, match="twice in one session"):
        recorded(came, [(False, publish("a"))]).judge_back(["a"])
    recorded([*came, (False, ack(PUBREL))], [(False, publish("a"))]).judge_back(["a"])
    recorded(came, [(False, publish("a", 8))]).judge_back(["a"])


def test_the_remote_has_lost_what_it_never_sent_again_and_not_what_waits_for_our_answer() -> None:
    record = recorded([(False, publish("a", 1)), (False, publish("b", 2)), (True, ack(PUBREC, 2))], [(False, publish("c", 3))])
    assert record.remotes_loss(["a", "b", "c", "d"], out=False) == {"a", "d"}


def test_a_message_under_an_identifier_that_another_has_is_lost_by_the_remote() -> None:
    first = [(False, publish("a")), (True, ack(PUBREC))]
    second = [(False, publish("b")), (True, ack(PUBREC)), (False, ack(PUBREL))]
    assert recorded([*first, *second]).remotes_loss(["a", "b"], out=False) == {"b"}
    assert recorded([*first, (False, ack(PUBREL)), *second]).remotes_loss(["a", "b"], out=False) == set()
    assert recorded([*first, (False, publish("a", dup=True))]).remotes_loss(["a"], out=False) == set()
