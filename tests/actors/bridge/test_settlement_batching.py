"""Settlements wait for more of them until they are many, or much, or a small queue waits for the room."""

from __future__ import annotations

from actors.bridge.settlement_batching import MESSAGES_MAX, Settling
from tests.support.settings import limits

BYTES_MAX = 1000


def test_many_messages_or_much_that_has_passed_wait_for_no_more() -> None:
    settling = Settling(limits(), limits(), bytes_max=BYTES_MAX)
    assert not settling.is_enough(MESSAGES_MAX - 1, BYTES_MAX - 1)
    assert settling.is_enough(MESSAGES_MAX, 0)
    assert settling.is_enough(1, BYTES_MAX)
    assert not settling.is_enough(0, BYTES_MAX), "there is nothing to be sent"


def test_what_has_passed_counts_since_settlements_were_sent_last() -> None:
    settling = Settling(limits(), bytes_max=BYTES_MAX)
    settling.on_sent(5000)
    assert not settling.is_enough(1, 5000 + BYTES_MAX - 1)
    assert settling.is_enough(1, 5000 + BYTES_MAX)
    settling.on_opened()
    assert settling.is_enough(1, BYTES_MAX)


def test_an_eighth_of_the_smallest_queue_is_enough() -> None:
    settling = Settling(limits(max_messages=800, max_bytes=80_000), limits(max_messages=80, max_bytes=800), bytes_max=BYTES_MAX)
    assert not settling.is_enough(9, 99)
    assert settling.is_enough(10, 0)
    assert settling.is_enough(1, 100)


def test_a_queue_of_few_messages_waits_for_none() -> None:
    settling = Settling(limits(max_messages=1), bytes_max=BYTES_MAX)
    assert settling.is_enough(1, 0)
    assert not settling.is_enough(0, 0)


def test_other_limits_count_at_once() -> None:
    settling = Settling(limits(), bytes_max=BYTES_MAX)
    assert not settling.is_enough(10, 10)
    settling.limit(limits(max_messages=80), limits())
    assert settling.is_enough(10, 10)
    settling.limit(limits(max_bytes=80))
    assert settling.is_enough(1, 10)
    assert not settling.is_enough(1, 9)
