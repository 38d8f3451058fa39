"""Input from the remote: when its socket is read, and what becomes of packets that are no acknowledgements."""

from __future__ import annotations

import pytest

from actors.bridge.remote_reader import REST_BUSY_S, REST_LEAST_S, REST_OPEN_S, REST_TIMER, REST_WINDOW_MIN
from actors.process.mailbox import READ
from tests.actors.lane_parts import LaneParts
from tests.wire.outbound_model import PUBACK, PUBREC, ack
from wire.errors import PeerViolation, Unavailable
from wire.status.link_faults import LinkFault, fault_of

PUBLISH_QOS_1, PUBLISH_QOS_2 = b"\x32\x05\x00\x01t\x00\x09", b"\x34\x05\x00\x01t\x00\x0a"


def test_half_a_packet_is_kept_for_the_rest_of_it() -> None:
    parts = LaneParts()
    parts.connect()
    parts.publish(b"a")
    parts.written()
    whole = ack(PUBACK, 1)

    for at in range(len(whole)):
        assert parts.flow.counts.acknowledged == 0
        parts.remote.say(whole[at : at + 1])
        parts.exchange.reader.read(parts.mailbox.clock_s)

    assert parts.flow.counts.acknowledged == 1


def test_a_publish_that_nobody_subscribed_to_is_answered_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    parts = LaneParts()
    parts.connect()
    parts.remote.say(PUBLISH_QOS_1 + PUBLISH_QOS_2)

    parts.exchange.reader.read(parts.mailbox.clock_s)

    assert parts.written() == b"\x40\x02\x00\x09\x50\x02\x00\x0a"
    assert parts.exchange.reader.unexpected_publishes == 2
    assert [record.getMessage() for record in caplog.records] == ["remote.unexpected_publish"]


@pytest.mark.parametrize(
    ("farewell", "words", "by_remote", "taken_over"),
    [
        (b"\xe0\x01\x8e", "session taken over (0x8e)", False, True),
        (b"\xe0\x02\x8b\x00", "server shutting down (0x8b)", False, False),
        (b"\xe0\x02\x95\x00", "packet too large (0x95)", True, False),
        (b"\xe0\x00", "normal disconnection (0x00)", False, False),
    ],
)
def test_a_disconnect_says_why_and_whether_a_message_or_another_client_may_be_the_cause(
    farewell: bytes, words: str, by_remote: bool, taken_over: bool
) -> None:
    parts = LaneParts(protocol=5)
    parts.connect()
    parts.remote.say(farewell)

    with pytest.raises(Unavailable, match="the remote disconnected") as ended:
        parts.exchange.reader.read(parts.mailbox.clock_s)

    assert ended.value.message.endswith(words)
    assert (ended.value.fields["by_remote"], ended.value.fields["taken_over"]) == (by_remote, taken_over)
    assert fault_of(ended.value) is (LinkFault.TAKEN_OVER if taken_over else LinkFault.CLOSED)


@pytest.mark.parametrize(("protocol", "packet"), [(4, b"\xe0\x00"), (5, b"\xc0\x00"), (4, b"\x10\x00")])
def test_a_packet_that_only_a_client_may_send_is_a_violation(protocol: int, packet: bytes) -> None:
    parts = LaneParts(protocol=protocol)
    parts.connect()
    parts.remote.say(packet)

    with pytest.raises(PeerViolation, match="only a client may send"):
        parts.exchange.reader.read(parts.mailbox.clock_s)


@pytest.mark.parametrize(
    ("packet", "by_remote"),
    [
        (b"\x30\xff\xff\xff\xff\xff", False),
        (b"\x62\xff\xff\xff\xff\xff", False),
        (b"\x40\xff\xff\xff\xff\xff", True),
        (b"\x00\x00", True),
    ],
)
def test_of_a_violation_only_what_the_remote_sends_unasked_has_nothing_to_do_with_a_message_of_ours(
    packet: bytes, by_remote: bool
) -> None:
    parts = LaneParts()
    parts.connect()
    parts.remote.say(packet)

    with pytest.raises(PeerViolation) as violation:
        parts.exchange.reader.read(parts.mailbox.clock_s)

    assert violation.value.fields["by_remote"] is by_remote


def test_acknowledgements_gather_while_the_window_is_open_and_are_read_along_after_a_while() -> None:
    parts = LaneParts(receive_maximum=8)
    parts.connect()
    reader, mailbox, fd = parts.exchange.reader, parts.mailbox, parts.remote.fileno()
    parts.publish(b"a")
    parts.written()

    reader.rest(mailbox.clock_s)
    assert mailbox.timers[REST_TIMER] == mailbox.clock_s + REST_OPEN_S
    assert mailbox.watched[fd] == 0, "the timer says when it is read"
    assert not reader.reads_along(mailbox.clock_s), "too soon"
    mailbox.clock_s += 2 * REST_LEAST_S
    assert reader.reads_along(mailbox.clock_s)
    assert REST_TIMER not in mailbox.timers
    assert not reader.reads_along(mailbox.clock_s), "once"

    parts.publish(b"b")
    parts.written()
    reader.rest(mailbox.clock_s)
    assert mailbox.watched[fd] == READ, "a quarter of the window is taken: each acknowledgement counts"


@pytest.mark.parametrize("qos", [1, 2])
def test_a_large_window_that_is_more_than_half_taken_is_read_a_little_later(qos: int) -> None:
    parts = LaneParts(receive_maximum=REST_WINDOW_MIN, protocol=5)
    parts.connect()
    reader, mailbox = parts.exchange.reader, parts.mailbox
    parts.publish(*[b""] * (REST_WINDOW_MIN // 2 + 1), qos=qos)
    parts.written()

    reader.rest(mailbox.clock_s)

    assert mailbox.timers[REST_TIMER] == mailbox.clock_s + REST_BUSY_S
    assert reader.rested()
    assert not reader.reads_along(mailbox.clock_s), "the timer does not run"


def test_what_waits_for_a_commit_gives_the_remote_nothing_to_work_on() -> None:
    parts = LaneParts(receive_maximum=REST_WINDOW_MIN, protocol=5)
    parts.connect()
    reader, mailbox = parts.exchange.reader, parts.mailbox
    parts.publish(*[b""] * (REST_WINDOW_MIN // 2 + 1), qos=2)
    parts.written()
    parts.flow.on_received(ack(PUBREC, 1))

    reader.rest(mailbox.clock_s)

    assert REST_TIMER not in mailbox.timers
    assert mailbox.watched[parts.remote.fileno()] == READ


def test_a_reader_that_waits_for_the_intake_leaves_the_socket_alone() -> None:
    parts = LaneParts()
    parts.connect()
    reader, watched, fd = parts.exchange.reader, parts.mailbox.watched, parts.remote.fileno()

    reader.hear(False)
    assert watched[fd] == 0
    assert not reader.rested()
    reader.hear(True)
    assert watched[fd] == READ
    assert reader.rested()

    reader.hear(False)
    parts.exchange.on_disconnected(by_remote=False)
    parts.connect()
    assert watched[fd] == READ, "another connection is heard again"
