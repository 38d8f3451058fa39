"""Echoes are told by topic and payload, as many as were sent; hypothesis holds it against a plain list of what is owed."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from wire.frames.batch import RETAIN, Batch, from_rows
from wire.routing.echo_filter import EchoFilter

WINDOW_S = 10.0


def batch(*messages: tuple[bytes, bytes], flags: int = 1) -> Batch:
    return from_rows((topic, flags, payload) for topic, payload in messages)


def echo_filter(messages_max: int = 100, *, settled_below: int = 0, wants: bytes = b"") -> EchoFilter:
    found = EchoFilter(window_s=WINDOW_S, messages_max=messages_max, wants=lambda topic: topic.startswith(wants))
    found.on_connected(0.0, echoes=True, session_present=False, settled_below=settled_below)
    return found


ON, OFF = (b"t", b"on"), (b"t", b"off")


def test_as_many_are_left_out_as_were_sent() -> None:
    """routing.echo-left-out: what somebody else publishes beside the echo comes, whichever of the two it is."""
    echoes = echo_filter()
    echoes.on_sent(batch(ON, OFF, ON), 3)
    assert echoes.take(batch((b"u", b"on"), ON)) == {1}
    assert echoes.take(batch(OFF, ON, ON, OFF)) == {0, 1}
    assert echoes.echoes == 3


def test_what_is_sent_by_one_and_taken_by_no_rule_is_not_waited_for() -> None:
    echoes = echo_filter(wants=b"both/")
    echoes.on_sent(batch((b"both/a", b"x"), (b"out/a", b"x")), 2)
    assert echoes.take(batch((b"out/a", b"x"), (b"both/a", b"x"))) == {1}


def test_what_the_remote_has_retained_is_no_echo() -> None:
    echoes = echo_filter()
    echoes.on_sent(batch(ON), 1)
    assert echoes.take(batch(ON, flags=1 | RETAIN)) == set()
    assert echoes.take(batch(ON)) == {0}


def test_an_echo_is_waited_for_until_long_after_it_was_settled() -> None:
    """However long that took: found by the simulation, where the window ended soon after the last answer."""
    echoes = echo_filter()
    echoes.on_sent(batch(ON, OFF), 1)
    echoes.expire(WINDOW_S * 5, settled_below=0)
    echoes.expire(WINDOW_S * 5.9, settled_below=1)
    echoes.expire(WINDOW_S * 6.8, settled_below=1)
    assert echoes.take(batch(ON)) == {0}
    echoes.expire(WINDOW_S * 6.9, settled_below=1)
    assert echoes.take(batch(OFF)) == set()


def test_of_more_than_are_remembered_the_oldest_are_forgotten() -> None:
    echoes = echo_filter(messages_max=2)
    echoes.on_sent(batch(ON), 1)
    echoes.on_sent(batch(OFF, (b"t", b"x")), 3)
    assert echoes.take(batch(ON, OFF)) == {1}


def test_a_session_that_goes_on_still_has_the_echoes_and_one_that_is_lost_has_not() -> None:
    kept, lost = echo_filter(), echo_filter()
    for each in (kept, lost):
        each.on_sent(batch(ON), 1)
        each.on_sent(batch(OFF), 2)
        each.on_connected(WINDOW_S * 3, echoes=True, session_present=each is kept, settled_below=1)
        each.expire(WINDOW_S * 3.5, settled_below=2)
    assert kept.take(batch(ON, OFF)) == {0, 1}
    assert lost.take(batch(ON, OFF)) == {1}, "what goes again comes back"


def test_a_remote_that_knows_a_bridge_sends_none() -> None:
    echoes = echo_filter()
    echoes.on_sent(batch(ON), 1)
    echoes.on_connected(1.0, echoes=False, session_present=True, settled_below=0)
    echoes.on_sent(batch(ON), 2)
    assert echoes.take(batch(ON)) == set()


@given(st.lists(st.tuples(st.sampled_from(["sent", "came"]), st.lists(st.sampled_from([ON, OFF]), min_size=1, max_size=4))))
def test_it_is_as_a_list_of_what_is_owed(steps: Sequence[tuple[str, list[tuple[bytes, bytes]]]]) -> None:
    """Each step takes a second; what is owed is owed for ten, the oldest first."""
    echoes, owed = echo_filter(), list[tuple[float, tuple[bytes, bytes]]]()
    for now_s, (step, messages) in enumerate(steps):
        echoes.expire(now_s, settled_below=1 << 40)
        owed = [one for one in owed if now_s - one[0] < WINDOW_S]
        if step == "sent":
            echoes.on_sent(batch(*messages), now_s)
            owed += [(now_s, message) for message in messages]
            continue
        expected = set()
        for row, message in enumerate(messages):
            found = next((one for one in owed if one[1] == message), None)
            if found is not None:
                owed.remove(found)
                expected.add(row)
        assert echoes.take(batch(*messages)) == expected


def test_of_what_was_sent_where_nothing_comes_back_no_echo_is_awaited() -> None:
    """5.0, then 3.1.1 in that session: No Local holds for what goes again before SUBSCRIBE: an equal message is another's."""
    echoes = echo_filter()
    echoes.on_connected(1.0, echoes=False, session_present=True, settled_below=0)
    echoes.on_sent(batch(ON), 1)
    echoes.on_connected(2.0, echoes=True, session_present=True, settled_below=0)
    assert echoes.take(batch(ON)) == set()
