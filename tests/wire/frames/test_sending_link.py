"""The sender's half of a link: numbers, what is kept, when it is sent again (frames.uncommitted-resent)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wire.frames.sending_link import BATCHES_OUTSTANDING_MAX, OVERLAPPING_ROWS_MIN, RESEND_AFTER_S, SendingLink


def link() -> SendingLink[bytes, str]:
    return SendingLink()


def test_numbers_run_from_one_and_acknowledged_batches_are_returned_in_order() -> None:
    sender = link()
    letters = "abcdefgh"[:BATCHES_OUTSTANDING_MAX]
    for letter in letters:
        assert sender.may_send()
        sender.on_sent(letter.encode(), letter, 0.0)
    assert not sender.may_send()
    assert [batch.kept for batch in sender.acknowledge(len(letters), 1.0)] == list(letters)
    assert sender.committed == len(letters)
    assert sender.next_number == len(letters) + 1


def test_a_lone_batch_goes_at_once_and_one_beside_it_when_it_is_worth_it() -> None:
    sender = link()
    assert sender.worth_sending(0, full=False)  # what it says is for its sender to know
    assert sender.worth_sending(1, full=False)
    sender.on_sent(b"a", "a", 0.0)
    assert not sender.worth_sending(OVERLAPPING_ROWS_MIN - 1, full=False)
    assert sender.worth_sending(OVERLAPPING_ROWS_MIN, full=False)
    assert sender.worth_sending(1, full=True)  # a few large ones
    while sender.may_send():
        sender.on_sent(b"b", "b", 0.0)
    assert not sender.worth_sending(OVERLAPPING_ROWS_MIN, full=True)


def test_a_repeated_acknowledgement_returns_nothing() -> None:
    sender = link()
    sender.on_sent(b"a", "a", 0.0)
    assert [batch.kept for batch in sender.acknowledge(1, 0.0)] == ["a"]
    assert sender.acknowledge(1, 0.0) == []


def test_everything_outstanding_is_sent_again_in_order() -> None:
    sender = link()
    for letter in "ab":
        sender.on_sent(letter.encode(), letter, 0.0)
    sender.acknowledge(1, 0.0)
    sender.on_sent(b"c", "c", 0.0)
    assert sender.resend(1.0) == [b"b", b"c"]


@given(st.floats(0.0, 1e9))
def test_it_is_overdue_at_the_time_for_which_a_timer_is_set(sent_s: float) -> None:
    """Else the timer would run out at once again, until the clock is read anew."""
    sender = link()
    sender.on_sent(b"a", "a", sent_s)
    assert sender.overdue(sender.overdue_at_s)


def test_overdue_counts_from_the_last_progress() -> None:
    sender = link()
    assert not sender.overdue(100.0)
    sender.on_sent(b"a", "a", 100.0)
    sender.on_sent(b"b", "b", 101.0)
    assert not sender.overdue(99.9 + RESEND_AFTER_S)
    assert sender.overdue(100.0 + RESEND_AFTER_S)
    sender.acknowledge(1, 110.0)
    assert not sender.overdue(109.9 + RESEND_AFTER_S)
    assert sender.overdue(110.0 + RESEND_AFTER_S)
    sender.resend(120.0)
    assert not sender.overdue(120.1)


@given(st.lists(st.one_of(st.just("send"), st.integers(0, 30))))
def test_no_batch_is_forgotten_before_its_number_is_acknowledged(steps: list[str | int]) -> None:
    sender, sent, acknowledged = link(), 0, 0
    for step in steps:
        if step == "send":
            if sender.may_send():
                sent = sender.on_sent(b"", "x", 0.0)
        else:
            assert isinstance(step, int)
            number = min(step, sent)
            sender.acknowledge(number, 0.0)
            acknowledged = max(acknowledged, number)
        assert [batch.number for batch in sender.outstanding] == list(range(acknowledged + 1, sent + 1))
