"""Records of sessions: nobody is let in without the store who has, or may have, something there."""

from __future__ import annotations

import pytest

from actors.broker.session_records import SessionRecords
from wire.frames.intake import SessionClose


def records(*found: str) -> SessionRecords:
    known = SessionRecords()
    for session in found:
        known.found(session)
    known.known = True
    return known


def close(source: int, *, expiry_s: int = 0) -> SessionClose:
    return SessionClose(sender="listener", epoch=1, session="c", source=source, wall_ms=0, expiry_s=expiry_s, keep_will=False)


def test_before_the_store_has_said_what_it_has_nothing_is_known() -> None:
    unknown = SessionRecords()
    assert not unknown.keeps_nothing("c", 0)
    unknown.found("c")
    unknown.restart()
    unknown.known = True
    assert unknown.keeps_nothing("c", 0), "the next store has it no more"


def test_nothing_is_kept_of_who_has_nothing_on_record_and_wants_nothing_there() -> None:
    known = records("other")
    assert known.keeps_nothing("c", 0)
    assert not known.keeps_nothing("c", 60)
    assert not known.keeps_nothing("other", 0)
    known.on_gone("other")
    assert known.keeps_nothing("other", 0)


def test_a_session_that_an_operator_ends_is_there_until_it_has_ended() -> None:
    """broker.looked-up-after-commits"""
    known = records()
    known.hold("c")
    assert (known.is_ending("c"), known.keeps_nothing("c", 0)) == (True, False)
    known.release("c")
    known.release("c")
    assert (known.is_ending("c"), known.keeps_nothing("c", 0)) == (False, True)


@pytest.mark.parametrize("lasts", [True, False])
def test_what_is_asked_for_may_be_on_record_until_the_answer_says_that_it_is_not(lasts: bool) -> None:
    known = records()
    known.on_asked("c", 1, 60)
    assert not known.keeps_nothing("c", 0)
    known.on_opened("c", 1, lasts=lasts)
    assert known.keeps_nothing("c", 0) == (not lasts)


def test_an_answer_to_an_earlier_connection_says_nothing_of_a_later_one() -> None:
    known = records()
    known.on_asked("c", 1, 60)
    known.on_asked("c", 2, 0)
    known.on_opened("c", 1, lasts=False)
    assert not known.keeps_nothing("c", 0)
    known.on_refused("c")
    known.on_opened("c", 2, lasts=False)
    assert not known.keeps_nothing("c", 0), "what was on record is still there"


@pytest.mark.parametrize("expiry_s", [0, 60])
def test_an_end_is_told_again_until_it_is_committed(expiry_s: int) -> None:
    """broker.end-told-until-committed"""
    known = records()
    known.on_asked("c", 1, 60)
    end = close(1, expiry_s=expiry_s)
    known.ends(end, answered=True)
    assert known.uncommitted_ends == [end]
    assert (known.awaits_end("c"), known.keeps_nothing("c", 0)) == (False, False)
    known.end_committed(1)
    known.end_committed(1)
    assert known.uncommitted_ends == []
    assert known.keeps_nothing("c", 0) == (not expiry_s)


def test_who_went_without_an_answer_is_waited_for_and_what_became_of_it_is_not_known() -> None:
    known = records()
    known.on_asked("c", 1, 60)
    known.ends(close(1), answered=False)
    assert known.awaits_end("c")
    known.end_committed(2)
    assert known.awaits_end("c")
    known.end_committed(1)
    assert not known.awaits_end("c")
    assert not known.keeps_nothing("c", 0), "the store may have opened it, or have refused to"
