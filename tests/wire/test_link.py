"""The sender's half of a link: numbers, what is kept, when it is sent again (L3)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wire.link import SendingLink


def link(outstanding_max: int = 3) -> SendingLink[str]:
    return SendingLink(outstanding_max=outstanding_max, resend_after_s=5.0)


def test_numbers_run_from_one_and_acknowledged_batches_are_returned_in_order() -> None:
    sender = link()
    for letter in "abc":
        assert sender.may_send()
        sender.sent([letter.encode()], letter, 0.0)
    assert not sender.may_send()
    assert [batch.kept for batch in sender.acknowledge(2, 1.0)] == ["a", "b"]
    assert sender.committed == 2
    assert sender.next_number == 4


def test_a_repeated_acknowledgement_returns_nothing() -> None:
    sender = link()
    sender.sent([b"a"], "a", 0.0)
    assert [batch.kept for batch in sender.acknowledge(1, 0.0)] == ["a"]
    assert sender.acknowledge(1, 0.0) == []


def test_everything_outstanding_is_sent_again_in_order() -> None:
    sender = link()
    for letter in "abc":
        sender.sent([letter.encode()], letter, 0.0)
    sender.acknowledge(1, 0.0)
    assert sender.resend(1.0) == [[b"b"], [b"c"]]


def test_overdue_counts_from_the_last_progress() -> None:
    sender = link()
    assert not sender.overdue(100.0)
    sender.sent([b"a"], "a", 100.0)
    sender.sent([b"b"], "b", 101.0)
    assert not sender.overdue(104.9)
    assert sender.overdue(105.0)
    sender.acknowledge(1, 105.0)
    assert not sender.overdue(109.9)
    assert sender.overdue(110.0)
    sender.resend(110.0)
    assert not sender.overdue(110.1)


@given(st.lists(st.one_of(st.just("send"), st.integers(0, 30))))
def test_no_batch_is_forgotten_before_its_number_is_acknowledged(steps: list[str | int]) -> None:
    sender, sent, acknowledged = link(outstanding_max=4), 0, 0
    for step in steps:
        if step == "send":
            if sender.may_send():
                sent = sender.sent([b""], "x", 0.0)
        else:
            assert isinstance(step, int)
            number = min(step, sent)
            sender.acknowledge(number, 0.0)
            acknowledged = max(acknowledged, number)
        assert [batch.number for batch in sender] == list(range(acknowledged + 1, sent + 1))
