"""SUBSCRIBE and UNSUBSCRIBE go behind what their client has published, and behind nothing else, while the store takes nothing."""

from __future__ import annotations

import pytest

from tests.broker.raw import connect_packet, publish_packet
from tests.fuzz.in_process import InProcessNode, Pipe
from tests.support.mqtt_packets import publish_bytes, subscribe_bytes, unsubscribe_bytes
from wire.frames.names import STORE

CONNACK, SUBACK, UNSUBACK, PUBACK = b"\x20\x02\x00\x00", b"\x90\x03\x00\x09\x00", b"\xb0\x02\x00\x08", b"\x40\x02\x00\x07"
SUBSCRIBE, UNSUBSCRIBE = subscribe_bytes(4, 9, [("t", 0)]), unsubscribe_bytes(4, 8, ["t"])
PINGREQ, PINGRESP = b"\xc0\x00", b"\xd0\x00"
LIVE = publish_bytes(4, "t", b"x")
PASSED_S = 0.01  # what is of QoS 0 is passed on
LATE_S = 0.8  # the store is not waited for any longer


def joined(host: InProcessNode, name: str) -> Pipe:
    pipe = host.connect()
    said(host, pipe, connect_packet(name), CONNACK)
    return pipe


def said(host: InProcessNode, pipe: Pipe, sent: bytes, answer: bytes) -> None:
    """``sent`` by the client is answered so, and with nothing else."""
    pipe.taken.clear()
    pipe.sent.append(sent)
    host.settle()
    assert bytes(pipe.taken) == answer
    pipe.taken.clear()


def held_up() -> InProcessNode:
    """The store takes nothing, and has a batch."""
    host = InProcessNode()
    other = joined(host, "other")
    host.stopped.add(STORE)
    said(host, other, publish_packet("elsewhere", b"", 7), b"")
    return host


def test_it_waits_for_its_own_publish_and_nobody_else_does() -> None:
    host = InProcessNode()
    behind, free = joined(host, "behind"), joined(host, "free")
    host.stopped.add(STORE)
    said(host, free, publish_packet("elsewhere", b"", 7), b"")
    said(host, behind, publish_packet("t", b"x", 7) + SUBSCRIBE + PINGREQ, b"")

    said(host, free, PINGREQ, PINGRESP)
    said(host, free, SUBSCRIBE, SUBACK)
    assert not behind.taken

    host.stopped.clear()
    host.settle()
    assert bytes(behind.taken) == PINGRESP + SUBACK + PUBACK
    assert bytes(free.taken) == PUBACK + LIVE, "whose SUBSCRIBE came before it"


@pytest.mark.parametrize("others", [False, True], ids=["alone", "others subscribed"])
def test_behind_qos_0_it_waits_until_that_was_passed_on(others: bool) -> None:
    """Also where nobody was to get it: what it has published is not for who subscribes then."""
    host = InProcessNode()
    client, other = joined(host, "client"), joined(host, "other")
    if others:
        said(host, other, SUBSCRIBE, SUBACK)
    host.stopped.add(STORE)
    said(host, other, publish_packet("elsewhere", b"", 7), b"")

    said(host, client, LIVE + SUBSCRIBE + publish_bytes(4, "t", b"y") + PINGREQ, b"")
    host.pass_time(PASSED_S)
    assert bytes(client.taken) == PINGRESP + SUBACK
    assert bytes(other.taken) == (LIVE + publish_bytes(4, "t", b"y") if others else b"")
    host.pass_time(LATE_S)

    assert bytes(client.taken) == PINGRESP + SUBACK + publish_bytes(4, "t", b"y"), "it waits no longer for what is retained"


def test_behind_a_retained_message_it_waits_for_the_store() -> None:
    host = held_up()
    client = joined(host, "client")
    said(host, client, publish_bytes(4, "t", b"kept", retain=True) + SUBSCRIBE, b"")
    host.pass_time(LATE_S)
    assert not client.taken

    host.stopped.clear()
    host.settle()
    assert bytes(client.taken) == SUBACK + publish_bytes(4, "t", b"kept", retain=True)


def test_an_unsubscribe_waits_too() -> None:
    host = InProcessNode()
    client, other = joined(host, "client"), joined(host, "other")
    said(host, client, SUBSCRIBE, SUBACK)
    host.stopped.add(STORE)
    said(host, other, publish_packet("elsewhere", b"", 7), b"")

    said(host, client, LIVE + UNSUBSCRIBE + LIVE, b"")
    host.pass_time(PASSED_S)
    host.pass_time(LATE_S)

    assert bytes(client.taken) == LIVE + UNSUBACK


def test_who_has_published_nothing_is_subscribed_at_once() -> None:
    host = InProcessNode()
    client, other = joined(host, "client"), joined(host, "other")
    host.stopped.add(STORE)
    for _ in range(3):
        said(host, other, publish_packet("elsewhere", b"", 7), b"")
    said(host, client, SUBSCRIBE, SUBACK)
