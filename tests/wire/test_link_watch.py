"""LinkWatch and CreditGiver by example."""

from __future__ import annotations

import pytest

from wire.credit import CreditGiver
from wire.link_watch import LinkWatch, Verdict


def watch(*, keep_alive_s: int = 60, stall_timeout_s: float = 30.0) -> LinkWatch:
    """A watch on a connection that came up at 100 s."""
    link = LinkWatch(stall_timeout_s=stall_timeout_s, answer_timeout_s=10.0)
    link.started(100.0, keep_alive_s=keep_alive_s)
    return link


@pytest.mark.parametrize("busy", ["sent", "received"])
def test_w1_a_ping_is_due_when_one_direction_was_quiet(busy: str) -> None:
    """Sending QoS 0 only says nothing about the remote; hearing from it does not keep our side alive."""
    link = watch()
    getattr(link, busy)(140.0)
    assert link.look(144.9, in_flight=0, acknowledged=0) is Verdict.ALIVE
    assert link.look(145.0, in_flight=0, acknowledged=0) is Verdict.PING
    assert link.look(145.1, in_flight=0, acknowledged=0) is Verdict.ALIVE


def test_w2_silence_after_a_ping_is_death_and_any_byte_is_life() -> None:
    link = watch()
    assert link.look(145.0, in_flight=0, acknowledged=0) is Verdict.PING
    assert link.look(154.9, in_flight=0, acknowledged=0) is Verdict.ALIVE
    assert link.look(155.0, in_flight=0, acknowledged=0) is Verdict.SILENT
    link.received(155.0)
    link.sent(155.0)
    assert link.look(156.0, in_flight=0, acknowledged=0) is Verdict.ALIVE


def test_w3_no_acknowledgement_while_messages_are_in_flight_is_a_stall() -> None:
    """PINGRESPs do not count as progress, and idle time does not count against it."""
    link = watch(keep_alive_s=0)
    assert link.look(200.0, in_flight=0, acknowledged=5) is Verdict.ALIVE
    assert link.look(229.9, in_flight=3, acknowledged=5) is Verdict.ALIVE
    link.received(229.9)
    assert link.look(230.0, in_flight=3, acknowledged=5) is Verdict.STALLED
    assert link.look(230.0, in_flight=3, acknowledged=6) is Verdict.ALIVE
    assert link.look(259.9, in_flight=3, acknowledged=6) is Verdict.ALIVE


def test_nothing_is_judged_when_both_limits_are_off() -> None:
    link = watch(keep_alive_s=0, stall_timeout_s=0.0)
    assert link.look(1e6, in_flight=3, acknowledged=0) is Verdict.ALIVE


def test_credit_is_granted_at_once_and_then_by_quarters() -> None:
    giver = CreditGiver(messages_in_hand=100, bytes_in_hand=1000)
    assert giver.grant(0, 0) == (100, 1000)
    assert giver.grant(24, 249) is None
    assert giver.grant(25, 0) == (125, 1000)
    assert giver.grant(25, 250) == (125, 1250)
    giver.clear()
    assert giver.grant(0, 0) == (100, 1000)
