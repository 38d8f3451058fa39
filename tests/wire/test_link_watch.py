"""LinkWatch and CreditGiver by example."""

from __future__ import annotations

import pytest

from wire.credit import CreditGiver
from wire.link_watch import LinkWatch, Verdict

IDLE = (None, None, None)


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
    assert link.look(144.9, owed=IDLE) is Verdict.ALIVE
    assert link.look(145.0, owed=IDLE) is Verdict.PING
    assert link.look(145.1, owed=IDLE) is Verdict.ALIVE


def test_w2_silence_after_a_ping_is_death_and_any_byte_is_life() -> None:
    link = watch()
    assert link.look(145.0, owed=IDLE) is Verdict.PING
    assert link.look(154.9, owed=IDLE) is Verdict.ALIVE
    assert link.look(155.0, owed=IDLE) is Verdict.SILENT
    link.received(155.0)
    link.sent(155.0)
    assert link.look(156.0, owed=IDLE) is Verdict.ALIVE


def test_w3_an_answer_that_is_owed_too_long_is_a_stall() -> None:
    """PINGRESPs do not count as progress, and idle time does not count against it."""
    link = watch(keep_alive_s=0)
    assert link.look(200.0, owed=IDLE) is Verdict.ALIVE
    assert link.look(210.0, owed=(7, None, None)) is Verdict.ALIVE
    link.received(239.9)
    assert link.look(239.9, owed=(7, None, None)) is Verdict.ALIVE
    assert link.look(240.0, owed=(7, None, None)) is Verdict.STALLED
    assert link.look(240.0, owed=(8, None, None)) is Verdict.ALIVE
    assert link.look(269.9, owed=(8, None, None)) is Verdict.ALIVE
    assert link.look(500.0, owed=IDLE) is Verdict.ALIVE
    assert link.look(500.1, owed=(8, None, None)) is Verdict.ALIVE


@pytest.mark.parametrize("kind", range(3))
def test_w3_what_else_is_answered_does_not_hide_a_stall(kind: int) -> None:
    """A PUBREL, or one PUBLISH, that is never answered is noticed under a stream of other acknowledgements."""
    link = watch(keep_alive_s=0)
    verdicts = []
    for second in range(31):
        owed = [second, second, second]
        owed[kind] = 7
        verdicts.append(link.look(200.0 + second, owed=owed))
    assert verdicts == [Verdict.ALIVE] * 30 + [Verdict.STALLED]


def test_w3_a_new_connection_owes_nothing_yet() -> None:
    link = watch(keep_alive_s=0)
    link.look(200.0, owed=(7, None, None))
    link.started(300.0, keep_alive_s=0)
    assert link.look(300.0, owed=(7, None, None)) is Verdict.ALIVE


def test_nothing_is_judged_when_both_limits_are_off() -> None:
    link = watch(keep_alive_s=0, stall_timeout_s=0.0)
    assert link.look(1e6, owed=(1, 2, 3)) is Verdict.ALIVE


def test_credit_is_granted_at_once_and_then_by_quarters() -> None:
    giver = CreditGiver(messages_in_hand=100, bytes_in_hand=1000)
    assert giver.grant(0, 0) == (100, 1000)
    assert giver.grant(24, 249) is None
    assert giver.grant(25, 0) == (125, 1000)
    assert giver.grant(25, 250) == (125, 1250)
    giver.clear()
    assert giver.grant(0, 0) == (100, 1000)
