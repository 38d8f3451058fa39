"""RemoteKeepAlive and CreditGiver by example."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from wire.exchange.remote_keep_alive import RemoteKeepAlive, Verdict
from wire.frames.credit import CreditGiver

IDLE = (None, None, None)


def watch(*, keep_alive_s: int = 60, stall_timeout_s: float = 30.0) -> RemoteKeepAlive:
    """A watch on a connection that came up at 100 s."""
    link = RemoteKeepAlive(stall_timeout_s=stall_timeout_s, answer_timeout_s=10.0)
    link.on_started(100.0, keep_alive_s=keep_alive_s)
    return link


def look(link: RemoteKeepAlive, now_s: float, *, owed: Sequence[object], given: int = 0, left: int = 0) -> Verdict:
    """Look; without numbers all that was given to the connection left at once."""
    return link.judge(now_s, owed=owed, given=given, left=left)


@pytest.mark.parametrize("busy", ["on_sent", "on_received"])
def test_a_ping_is_due_when_one_direction_was_quiet(busy: str) -> None:
    """exchange.silent-after-ping-is-dead: sending QoS 0 says nothing about the remote, nor hearing from it of our side."""
    link = watch()
    getattr(link, busy)(140.0)
    assert look(link, 144.9, owed=IDLE) is Verdict.ALIVE
    assert look(link, 145.0, owed=IDLE) is Verdict.PING
    assert look(link, 145.1, owed=IDLE) is Verdict.ALIVE


def test_silence_after_a_ping_is_death_and_any_byte_is_life() -> None:
    """exchange.silent-after-ping-is-dead"""
    link = watch()
    assert look(link, 145.0, owed=IDLE) is Verdict.PING
    assert look(link, 154.9, owed=IDLE) is Verdict.ALIVE
    assert look(link, 155.0, owed=IDLE) is Verdict.SILENT
    link.on_received(155.0)
    link.on_sent(155.0)
    assert look(link, 156.0, owed=IDLE) is Verdict.ALIVE


def test_an_answer_that_is_owed_too_long_is_a_stall() -> None:
    """exchange.owed-answer-stalls: PINGRESPs do not count as progress, and idle time does not count against it."""
    link = watch(keep_alive_s=0)
    assert look(link, 200.0, owed=IDLE) is Verdict.ALIVE
    assert look(link, 210.0, owed=(7, None, None)) is Verdict.ALIVE
    link.on_received(239.9)
    assert look(link, 239.9, owed=(7, None, None)) is Verdict.ALIVE
    assert look(link, 240.0, owed=(7, None, None)) is Verdict.STALLED
    assert look(link, 240.0, owed=(8, None, None)) is Verdict.ALIVE
    assert look(link, 269.9, owed=(8, None, None)) is Verdict.ALIVE
    assert look(link, 500.0, owed=IDLE) is Verdict.ALIVE
    assert look(link, 500.1, owed=(8, None, None)) is Verdict.ALIVE


@pytest.mark.parametrize("kind", range(3))
def test_what_else_is_answered_does_not_hide_a_stall(kind: int) -> None:
    """exchange.owed-answer-stalls: A PUBREL, or one PUBLISH, that is never answered is noticed under a stream of other
    acknowledgements.
    """
    link = watch(keep_alive_s=0)
    verdicts = []
    for second in range(31):
        owed = [second, second, second]
        owed[kind] = 7
        verdicts.append(look(link, 200.0 + second, owed=owed))
    assert verdicts == [Verdict.ALIVE] * 30 + [Verdict.STALLED]


def test_a_new_connection_owes_nothing_yet() -> None:
    """exchange.owed-answer-stalls"""
    link = watch(keep_alive_s=0)
    look(link, 200.0, owed=(7, None, None))
    link.on_started(300.0, keep_alive_s=0)
    assert look(link, 300.0, owed=(7, None, None)) is Verdict.ALIVE


def test_what_still_leaves_is_no_stall_and_what_has_stopped_leaving_is_one() -> None:
    """exchange.owed-answer-stalls: A message of a million bytes leaves at a thousand a second, and then nothing more does."""
    link = watch(keep_alive_s=0)
    verdicts = {look(link, 200.0 + second, owed=(7, None, None), given=10**6, left=1000 * second) for second in range(600)}
    assert verdicts == {Verdict.ALIVE}
    assert look(link, 828.9, owed=(7, None, None), given=10**6, left=599_000) is Verdict.ALIVE
    assert look(link, 829.0, owed=(7, None, None), given=10**6, left=599_000) is Verdict.STALLED


def test_what_leaves_behind_the_message_does_not_excuse_its_answer() -> None:
    """exchange.owed-answer-stalls: the message ends at byte 100; much follows it, and keeps leaving."""
    link = watch(keep_alive_s=0)
    verdicts = [look(link, 200.0, owed=(7, None, None), given=100, left=0)]
    verdicts += [look(link, 200.0 + second, owed=(7, None, None), given=10**6, left=50 * second) for second in range(1, 33)]
    assert verdicts == [Verdict.ALIVE] * 32 + [Verdict.STALLED]  # its last byte had left at 202 s


def test_a_count_that_falls_back_for_a_moment_begins_nothing_anew() -> None:
    """exchange.owed-answer-stalls: TLS adds bytes to what waits: what has left once has left."""
    link = watch(keep_alive_s=0)
    look(link, 200.0, owed=(7, None, None), given=100, left=0)
    assert look(link, 210.0, owed=(7, None, None), given=100, left=100) is Verdict.ALIVE
    for second in range(211, 240):
        assert look(link, float(second), owed=(7, None, None), given=1000, left=90 + second % 2) is Verdict.ALIVE
    assert look(link, 240.0, owed=(7, None, None), given=1000, left=90) is Verdict.STALLED


def test_the_time_for_a_pingresp_runs_from_when_the_pingreq_has_left() -> None:
    """exchange.owed-answer-stalls"""
    link = watch()
    assert look(link, 145.0, owed=IDLE, given=500, left=0) is Verdict.PING
    assert look(link, 154.0, owed=IDLE, given=502, left=400) is Verdict.ALIVE
    assert look(link, 160.0, owed=IDLE, given=502, left=500) is Verdict.ALIVE
    assert look(link, 169.0, owed=IDLE, given=900, left=502) is Verdict.ALIVE
    assert look(link, 178.9, owed=IDLE, given=900, left=800) is Verdict.ALIVE
    assert look(link, 179.0, owed=IDLE, given=900, left=900) is Verdict.SILENT


def test_the_time_for_a_suback_runs_from_when_the_subscribe_has_left() -> None:
    """exchange.owed-answer-stalls"""
    link = watch(keep_alive_s=0)
    link.subscribing(100.0, 500)
    assert link.suback_due_s == 110.0
    look(link, 105.0, owed=IDLE, given=900, left=400)
    assert link.suback_due_s == 115.0
    look(link, 112.0, owed=IDLE, given=900, left=600)
    look(link, 113.0, owed=IDLE, given=900, left=700)
    assert link.suback_due_s == 122.0


def test_a_new_connection_has_sent_nothing_yet() -> None:
    """exchange.owed-answer-stalls"""
    link = watch(keep_alive_s=0)
    look(link, 200.0, owed=(7, None, None), given=10**6, left=10**6)
    link.on_started(300.0, keep_alive_s=0)
    look(link, 300.0, owed=(7, None, None), given=100, left=0)
    look(link, 310.0, owed=(7, None, None), given=100, left=10)
    assert look(link, 339.9, owed=(7, None, None), given=100, left=10) is Verdict.ALIVE
    assert look(link, 340.0, owed=(7, None, None), given=100, left=10) is Verdict.STALLED


def test_nothing_is_judged_when_both_limits_are_off() -> None:
    link = watch(keep_alive_s=0, stall_timeout_s=0.0)
    assert look(link, 1e6, owed=(1, 2, 3)) is Verdict.ALIVE


def test_credit_is_granted_at_once_and_then_by_quarters() -> None:
    giver = CreditGiver(messages_in_hand=100, bytes_in_hand=1000)
    assert giver.grant(0, 0) == (100, 1000)
    assert giver.grant(24, 249) is None
    assert giver.grant(25, 0) == (125, 1000)
    assert giver.grant(25, 250) == (125, 1250)
    giver.clear()
    assert giver.grant(0, 0) == (100, 1000)
