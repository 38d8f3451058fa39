"""What was refused of a session's QoS 2 messages, while nobody is connected to it."""

from __future__ import annotations

from actors.broker.refused_qos2_repeats import RefusedBefore


def test_the_next_connection_of_the_session_has_what_was_noted_and_nobody_else() -> None:
    refused = RefusedBefore()
    refused.note("session:1:c", [5])
    refused.note("session:1:c", [6])
    refused.note("session:2:d", [7])
    assert refused.take("session:1:c") == {5, 6}
    assert refused.take("session:1:c") == set()
    assert "session:2:d" in refused


def test_nothing_is_kept_of_a_session_of_which_nothing_was_refused_or_that_has_ended() -> None:
    refused = RefusedBefore()
    refused.note("session:1:c", [])
    assert "session:1:c" not in refused
    refused.note("session:1:c", [5])
    refused.forget("session:1:c")
    refused.forget("session:1:c")
    assert refused.take("session:1:c") == set()
