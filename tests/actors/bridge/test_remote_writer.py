"""Output to the remote: whole packets, others before the next burst, and no more than the socket takes."""

from __future__ import annotations

from actors.process.mailbox import READ, WRITE
from tests.actors.lane_parts import LaneParts

PUBLISH_A, PUBLISH_B = (b"\x32\x06\x00\x01t\x00" + ends for ends in (b"\x01a", b"\x02b"))
PINGREQ = b"\xc0\x00"


def test_other_packets_go_before_the_next_burst_and_never_into_one() -> None:
    parts = LaneParts(kernel_bytes=4)
    parts.connect()
    writer = parts.exchange.writer
    parts.publish(b"a")
    assert parts.written() == PUBLISH_A[:4]
    writer.say(PINGREQ)
    parts.publish(b"b")
    assert not writer.between_packets

    rest = b""
    while writer.waits:
        writer.writable()
        rest += parts.written()

    assert rest == PUBLISH_A[4:] + PINGREQ + PUBLISH_B
    assert writer.between_packets


def test_a_full_socket_is_left_alone_until_the_poll_says_that_it_takes_more() -> None:
    parts = LaneParts(kernel_bytes=4)
    parts.connect()
    writer, fd = parts.exchange.writer, parts.remote.fileno()
    assert parts.mailbox.watched == {fd: READ}
    parts.publish(b"a")
    writer.write(parts.mailbox.clock_s)
    assert parts.mailbox.watched == {fd: READ | WRITE}
    parts.carried()

    writer.write(parts.mailbox.clock_s)
    assert parts.carried() == b"", "nobody has said that it takes more"
    writer.writable()
    assert parts.written() == PUBLISH_A[4:8]
    writer.writable()
    assert parts.written() == PUBLISH_A[8:]
    assert parts.mailbox.watched == {fd: READ}


def test_what_was_given_and_what_has_left_is_counted_on_each_connection() -> None:
    parts = LaneParts(kernel_bytes=4)
    parts.connect()
    writer = parts.exchange.writer
    writer.say(PINGREQ)
    assert (writer.written_bytes, writer.left_bytes) == (2, 0)
    parts.publish(b"a")
    writer.write(parts.mailbox.clock_s)
    assert writer.written_bytes == 2 + len(PUBLISH_A)
    assert writer.left_bytes == 0, "the kernel has it still"
    parts.carried()
    assert writer.left_bytes == 4

    parts.exchange.on_disconnected(by_remote=False)
    assert not writer.waits, "what was not written is not for the next connection"
    parts.connect()
    assert (writer.written_bytes, writer.left_bytes) == (0, 0)


def test_the_time_for_a_suback_begins_when_its_subscribe_is_given_and_anew_as_it_leaves() -> None:
    parts = LaneParts(kernel_bytes=4, connect_timeout_s=10.0, keep_alive_s=0)
    parts.connect()
    writer, mailbox = parts.exchange.writer, parts.mailbox
    began_s = mailbox.clock_s
    writer.say_subscribe(b"\x82\x06\x00\x01\x00\x01t\x01")
    assert writer.suback_due_s == began_s + 10.0

    writer.write(parts.mailbox.clock_s)
    parts.carried()
    mailbox.clock_s += 5.0
    parts.exchange.check_link(mailbox.clock_s)

    assert writer.suback_due_s == began_s + 15.0
