"""RefusalPolicy and RefusalHold by example: which reason ends how, and how long a lane is held back."""

from __future__ import annotations

import pytest

from wire.backoff import Backoff
from wire.config_settings import BackoffSettings, RefusalSettings
from wire.exchange.refusal_policy import CLOSED, REASONS, WRONGLY_ACKNOWLEDGED, RefusalHold, RefusalPolicy, Refusals, code_of


def hold_back() -> RefusalHold:
    """Delays of 1, 2, 4, 4, ... seconds."""
    return RefusalHold(Backoff(BackoffSettings(initial_s=1.0, max_s=4.0, factor=2.0, jitter=0.0, stable_s=9.0), lambda: 0.5))


def test_the_reasons_are_those_that_a_puback_may_give_and_three_of_our_own() -> None:
    assert REASONS == {
        "unspecified-error": 0x80,
        "implementation-specific-error": 0x83,
        "not-authorized": 0x87,
        "topic-name-invalid": 0x90,
        "packet-identifier-in-use": 0x91,
        "packet-too-large": 0x95,
        "quota-exceeded": 0x97,
        "payload-format-invalid": 0x99,
        "connection-closed": CLOSED,
        "wrongly-acknowledged": WRONGLY_ACKNOWLEDGED,
    }


@pytest.mark.parametrize(("word", "code"), [("quota-exceeded", 0x97), ("0x99", 0x99), ("0XfF", 0xFF), ("0x80", 0x80)])
def test_a_reason_is_a_name_or_a_code(word: str, code: int) -> None:
    assert code_of(word) == code


@pytest.mark.parametrize("word", ["", "0x", "0x7f", "0x10", "0x999", "99", "153", "quota", "0xg0", "0x-1", "0x 9"])
def test_what_is_no_failure_is_no_reason(word: str) -> None:
    with pytest.raises(ValueError, match="reason"):
        code_of(word)


def test_each_reason_has_its_action_and_all_others_the_default() -> None:
    policy = RefusalPolicy(RefusalSettings(default="dead-letter", codes=((0x97, "retry"), (0x99, "drop"))))
    assert policy.outcome(0x97) is None
    assert policy.outcome(0x99) == "dropped:remote_0x99"
    assert policy.outcome(0x87) == "dead:remote_0x87"
    assert policy.too_large == "dead:packet_too_large"


@pytest.mark.parametrize(
    ("default", "codes", "outcome"),
    [
        ("dead-letter", (), "dead:connection_closed"),
        ("drop", (), "dropped:connection_closed"),
        ("retry", (), None),
        ("retry", ((CLOSED, "dead-letter"),), "dead:connection_closed"),
        ("dead-letter", ((CLOSED, "retry"), (0x95, "drop")), None),
    ],
)
def test_what_the_remote_closes_on_has_an_action_too(default: str, codes: tuple[tuple[int, str], ...], outcome: str | None) -> None:
    assert RefusalPolicy(RefusalSettings(default=default, codes=codes)).closed == outcome


@pytest.mark.parametrize(
    ("default", "codes", "outcome"),
    [
        ("drop", (), "dropped"),
        ("retry", (), "dead"),
        ("retry", ((0x95, "drop"),), "dropped"),
        ("drop", ((0x95, "dead-letter"),), "dead"),
    ],
)
def test_what_is_too_large_is_never_tried_again(default: str, codes: tuple[tuple[int, str], ...], outcome: str) -> None:
    assert RefusalPolicy(RefusalSettings(default=default, codes=codes)).too_large == f"{outcome}:packet_too_large"


def test_a_hold_lasts_its_delay_and_refusals_in_between_lengthen_nothing() -> None:
    """exchange.hold-back-no-publish"""
    hold = hold_back()
    assert hold.poll_over(10.0)
    hold.on_refused(0x97)
    assert not hold.poll_over(10.0)
    hold.on_refused(0x91)
    assert (hold.reason_code, hold.until_s) == (0x97, 11.0)
    assert not hold.poll_over(10.9)
    assert hold.poll_over(11.0)
    assert (hold.reason_code, hold.until_s) == (0, None)


def test_delays_grow_until_the_remote_accepts_a_message_again() -> None:
    """exchange.hold-back-no-publish: what it accepts while the lane is held back was sent before the refusal: it proves nothing."""
    hold, now_s, delays = hold_back(), 0.0, []
    for accepted_late in (False, True, False, False, True):
        hold.on_refused(0x97)
        hold.poll_over(now_s)
        assert hold.until_s is not None
        delays.append(hold.until_s - now_s)
        if accepted_late:
            hold.on_accepted()
        now_s = hold.until_s
        assert hold.poll_over(now_s)
    assert delays == [1, 2, 4, 4, 4]
    hold.on_accepted()
    hold.on_refused(0x97)
    assert not hold.poll_over(now_s)
    assert hold.until_s == now_s + 1


def test_refusals_are_counted_by_reason_until_they_are_taken() -> None:
    backoff = Backoff(BackoffSettings(initial_s=1.0, max_s=8.0, factor=2.0, jitter=0.0, stable_s=0.0), lambda: 0.5)
    refusals = Refusals(RefusalPolicy(RefusalSettings(default="retry", codes=())), backoff)
    for reason_code in (0x97, 0x80, 0x97):
        refusals.count(reason_code)
    assert (refusals.take_counts(), refusals.take_counts()) == ({0x97: 2, 0x80: 1}, {})
