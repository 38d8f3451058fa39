"""Which messages others may pass since a culprit may be looked for."""

from __future__ import annotations

from tests.simulation.lone import LoneMessages
from wire.exchange.quarantine import FIRST


def test_a_message_may_be_passed_when_it_was_alone_at_so_many_ends() -> None:
    lone = LoneMessages()
    for connection in range(FIRST + 1):
        assert not lone.may_be_passed(b"a")
        lone.written("edge", connection, b"before")
        lone.heard("edge", b"before")
        lone.written("edge", connection, b"a")
        lone.written("edge-1", connection, b"of another lane")
    lone.written("edge", FIRST + 1, b"b")

    assert lone.may_be_passed(b"a")
    assert not lone.may_be_passed(b"before")
    assert not lone.may_be_passed(b"b")


def test_a_message_may_not_be_passed_that_was_in_a_burst_or_arrived() -> None:
    lone = LoneMessages()
    for connection in range(2 * FIRST):
        lone.written("edge", connection, b"a")
        lone.written("edge", connection, b"b")
    for connection in range(2 * FIRST, 4 * FIRST):
        lone.written("edge", connection, b"c")
        lone.heard("edge", b"c")

    assert not any(map(lone.may_be_passed, (b"a", b"b", b"c")))
