"""Which sessions a lane keeps at addresses that it has left."""

from __future__ import annotations

from wire.exchange.former_sessions import LeftSession, LeftSessions, left_rows

ONE, TWO, OTHER = (LeftSession(session, number, 0, (), ()) for number, session in enumerate(("c@one", "c@two", "c@other"), start=1))


def test_a_lane_that_takes_nothing_from_its_remote_keeps_none() -> None:
    """exchange.left-session-on-record"""
    left = LeftSessions()
    left.open((ONE,))
    left.leave(TWO)

    assert (left.kept, left.rows()) == (False, ())


def test_there_is_one_for_each_configured_address_and_none_that_is_in_use() -> None:
    """exchange.left-session-on-record"""
    left = LeftSessions()
    left.keep(("c@one", "c@two"))
    left.open(left_rows([ONE, OTHER]))
    left.leave(TWO)
    left.leave(again := TWO._replace(generation=7))

    assert left.rows() == (ONE, again)
    left.drop("c@one")
    assert (left.get("c@one"), left.get("c@two")) == (None, again)


def test_no_two_sessions_of_a_lane_have_one_number() -> None:
    """exchange.session-number-unique"""
    left = LeftSessions()
    left.keep(("c@one", "c@two"))

    assert left.next_number(4) == 5
    left.leave(TWO._replace(generation=9))
    assert left.next_number(4) == 10
