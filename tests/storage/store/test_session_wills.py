"""What becomes on record of a Will once it is published (store.will-kept-until-published)."""

from __future__ import annotations

import pytest

from storage.engine.memory_engine import MemoryEngine
from storage.store.session_rows import Session, Sessions
from storage.store.session_wills import SessionWills

WILL = (b"will", 1, b"gone", b"", 0)


def with_wills(*names: str) -> tuple[Sessions, SessionWills]:
    sessions = Sessions(MemoryEngine())
    for name in names:
        session = Session(name)
        sessions.keep(session)
        sessions.put_will(session, WILL)
    return sessions, SessionWills(sessions)


def test_a_will_that_came_in_is_off_the_record() -> None:
    sessions, wills = with_wills("a", "b")

    wills.sent([("a", 0, 0, 0)], (1, 7), refused=())

    a, b = sessions.get("a"), sessions.get("b")
    assert a is not None
    assert b is not None
    assert (a.will, b.will) == (None, WILL)


def test_a_refused_will_stays_under_its_batch_until_another_brings_it_in() -> None:
    sessions, wills = with_wills("a")

    wills.sent([("a", 4, 0, 0)], (1, 7), refused=(4,))
    session = sessions.get("a")
    assert session is not None
    assert (session.will, session.refused_wills, wills.refused) == (None, {(1, 7): WILL}, 1)
    assert SessionWills(sessions).refused == 1, "a new life counts it, too"

    wills.sent([("a", 0, 1, 7)], (1, 9), refused=(0,))
    assert wills.refused == 1, "it was refused again"
    wills.sent([("a", 0, 1, 7)], (1, 11), refused=())

    assert (session.refused_wills, wills.refused) == ({}, 0)


def test_so_many_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.store.session_wills.REFUSED_WILLS_MAX", 2)
    _, wills = with_wills("a", "b", "c")

    wills.sent([("a", 0, 0, 0), ("b", 1, 0, 0), ("c", 2, 0, 0)], (1, 7), refused=(0, 1, 2))

    assert (wills.refused, wills.dropped) == (2, 1)
