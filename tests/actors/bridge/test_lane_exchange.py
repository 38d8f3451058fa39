"""One lane's exchange from connection to connection: what each brings, what it leaves, and whether it lives."""

from __future__ import annotations

from actors.bridge.lane_exchange import HELD_TIMER
from tests.actors.lane_parts import SESSION, LaneParts
from tests.wire.outbound_model import PUBACK, ack
from wire.exchange.remote_limits import RemoteLimits
from wire.status.link_faults import LinkFault, fault_of

PINGREQ = b"\xc0\x00"


def test_a_session_with_something_of_ours_is_wanted_where_it_is() -> None:
    parts = LaneParts()
    exchange = parts.exchange
    assert exchange.wanted_place == "", "nothing was sent in it"
    parts.connect()
    parts.publish(b"a")
    parts.written()

    exchange.on_disconnected(by_remote=False)

    assert SESSION.endswith("@" + exchange.wanted_place)
    assert exchange.wanted_place == "far:1"


def test_an_exchange_is_unfinished_until_all_is_written_and_answered() -> None:
    parts = LaneParts()
    parts.connect()
    assert not parts.exchange.unfinished
    parts.exchange.writer.say(PINGREQ)
    assert parts.exchange.unfinished
    parts.written()
    assert not parts.exchange.unfinished
    parts.publish(b"a")
    parts.written()
    assert parts.exchange.unfinished
    parts.flow.on_received(ack(PUBACK, 1))
    assert not parts.exchange.unfinished


def test_the_smaller_maximum_packet_size_holds() -> None:
    for ours, theirs in ((20, 1000), (1000, 20), (None, 20), (20, None)):
        parts = LaneParts(protocol=5, packet_max_bytes=ours)
        parts.connect(limits=RemoteLimits(packet_max_bytes=theirs))
        parts.publish(b"x" * 30)
        assert parts.written() == b""
        assert parts.flow.counts.too_large == 1


def test_the_remote_s_keep_alive_goes_before_ours_and_is_kept_by_a_pingreq() -> None:
    parts = LaneParts(protocol=5, keep_alive_s=60, connect_timeout_s=10.0, stall_timeout_s=1000.0)
    parts.connect(keep_alive_s=20)
    exchange, mailbox = parts.exchange, parts.mailbox
    assert exchange.check_link(mailbox.clock_s + 14.0) is None
    assert parts.written() == b""

    assert exchange.check_link(mailbox.clock_s + 15.0) is None
    assert parts.written() == PINGREQ

    mailbox.clock_s += 15.0
    exchange.check_link(mailbox.clock_s)
    error = exchange.check_link(mailbox.clock_s + 10.0)
    assert error is not None
    assert (error.message, fault_of(error)) == ("no PINGRESP in time", LinkFault.SILENT)


def test_an_acknowledgement_that_is_owed_for_too_long_is_a_stall() -> None:
    parts = LaneParts(keep_alive_s=0, stall_timeout_s=30.0)
    parts.connect()
    parts.publish(b"a")
    parts.written()
    now_s = parts.mailbox.clock_s
    assert [parts.exchange.check_link(now_s + waited_s) for waited_s in (0.0, 1.0, 29.0)] == [None, None, None]

    error = parts.exchange.check_link(now_s + 30.0)
    assert error is not None
    assert (error.message, fault_of(error)) == ("no acknowledgement in time", LinkFault.STALLED)


def test_a_turn_begins_when_what_is_held_back_may_leave() -> None:
    parts = LaneParts(protocol=5, on_refusal="retry")
    parts.connect()
    exchange, timers = parts.exchange, parts.mailbox.timers
    exchange.time_held()
    assert HELD_TIMER not in timers
    parts.publish(b"a")
    parts.written()
    parts.flow.on_received(ack(PUBACK, 1, 0x97))
    assert parts.written() == b"", "it is held back"

    exchange.time_held()
    assert timers[HELD_TIMER] == exchange.flow.exchange.refusals.hold.until_s
    timers.clear()
    exchange.time_held()
    assert not timers, "a timer for each time"
