"""InFlight: the windows of the remote."""

from __future__ import annotations

from tests.wire.outbound_model import (
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    ack,
)
from tests.wire.outbound_steps import burst, flow_at, kinds, offer
from wire.exchange.in_flight import InFlight


def test_the_window_is_the_smaller_receive_maximum_and_each_puback_opens_it() -> None:
    """exchange.receive-maximum-kept"""
    flow = flow_at(receive_maximum=3, remote_maximum=2, level=5)
    offer(flow, 0, 1, 1, 1, 1)
    assert kinds(burst(flow, 5)) == [(PUBLISH, 1), (PUBLISH, 2)]
    assert burst(flow, 5) == []
    flow.on_received(ack(PUBACK, 1))
    assert kinds(burst(flow, 5)) == [(PUBLISH, 3)]


def test_qos_2_has_a_window_of_its_own_at_level_4_and_its_head_blocks() -> None:
    """exchange.qos2-maximum-kept: A QoS 2 message counts until PUBCOMP; what is behind it waits, QoS 1 too, which Mosquitto 2.0
    would refuse then (exchange.publish-in-order).
    """
    flow = flow_at(qos2_maximum=1)
    offer(flow, 0, 2, 2, 1)
    assert kinds(burst(flow)) == [(PUBLISH, 1)]
    flow.on_received(ack(PUBREC, 1))
    facts = flow.record.facts(1)
    assert facts is not None
    assert facts.released == ((0, 1),)
    flow.record.on_committed(1)
    assert kinds(burst(flow)) == [(PUBREL, 1)]
    flow.on_received(ack(PUBCOMP, 1))
    assert kinds(burst(flow)) == [(PUBLISH, 2)]
    flow.on_received(ack(PUBREC, 2))
    flow.record.facts(2)
    flow.record.on_committed(2)
    assert kinds(burst(flow)) == [(PUBREL, 2)]
    flow.on_received(ack(PUBCOMP, 2))
    assert kinds(burst(flow)) == [(PUBLISH, 3)]


def test_at_level_5_one_slot_of_the_window_is_never_taken_by_qos_2() -> None:
    """exchange.qos2-maximum-kept: A remote that counts the QoS 2 it holds of an earlier connection still has room for what goes
    again before that.
    """
    flow = flow_at(level=5, remote_maximum=3)
    offer(flow, 0, 1, 2, 2, 2)
    assert kinds(burst(flow, 5)) == [(PUBLISH, 1), (PUBLISH, 2), (PUBLISH, 3)]
    flow.on_received(ack(PUBACK, 1))
    assert not burst(flow, 5), "two of three slots are the most that QoS 2 takes"
    alone = flow_at(level=5, remote_maximum=1)
    offer(alone, 0, 2)
    assert kinds(burst(alone, 5)) == [(PUBLISH, 1)], "but for a window of one"


def test_room_is_what_both_windows_leave_and_an_exchange_that_ends_gives_it_back() -> None:
    flight = InFlight(receive_maximum=10, qos2_maximum=2)
    flight.on_connected(4, 5, released=1)
    assert (flight.room(1), flight.room(2)) == (4, 1)
    flight.on_sent(2, 7, 8)
    assert (flight.room(1), flight.room(2)) == (0, 0), "Mosquitto 2.0 would refuse QoS 1 as well"
    flight.on_ended(1, qos2=True)
    flight.on_sent(1, 8, 12)
    assert (flight.room(1), flight.messages, flight.qos2, flight.puback.ranges()) == (0, 5, 1, ((8, 12),))


def test_a_connection_begins_with_what_the_one_before_has_released() -> None:
    flight = InFlight(receive_maximum=10, qos2_maximum=None)
    flight.on_connected(5, 3, released=0)
    flight.on_sent(2, 0, 3)
    flight.begin(2)
    assert (flight.messages, flight.qos2, bool(flight.pubrec)) == (2, 2, False)
