"""The state of a link with its reason, since when it is so, the last error, and when the next attempt is."""

from __future__ import annotations

from actors.bridge.link_status import LinkStatus
from wire.config_settings import BackoffSettings
from wire.exchange.qos2_window import Qos2Window
from wire.status.bridges import LinkFigures

BACKOFF = BackoffSettings(initial_s=1.0, max_s=8.0, factor=2.0, jitter=0.0, stable_s=60.0)


def status_at(now_s: float) -> LinkStatus:
    return LinkStatus(BACKOFF, lambda: 0.5, now_s, int(now_s * 1000))


def figures(status: LinkStatus, now_s: float) -> LinkFigures:
    return status.figures(
        now_s,
        address="",
        protocol=5,
        note="",
        note_fault=None,
        first_address=None,
        session_expiry_s=None,
        in_flight=0,
        qos2_window=Qos2Window(20),
        suspects=(),
        lacks=(),
        credential_ends_in_s=None,
        certificate_ends_in_s=None,
    )


def test_before_the_lane_is_open_it_says_what_it_waits_for() -> None:
    status = status_at(5.0)

    assert (status.state, status.reason) == ("connecting", "the lane is not open yet")
    assert (status.since_s, status.since_ms) == (5.0, 5000)
    assert (status.error, status.next_attempt_at_s) == ("", None)


def test_a_failed_attempt_is_the_reason_to_wait_and_says_until_when() -> None:
    status = status_at(0.0)

    assert status.on_failed("tcp: refused", 2.0, 2000) == 1.0

    assert (status.state, status.reason, status.error) == ("backoff", "tcp: refused", "tcp: refused")
    assert (status.since_s, status.next_attempt_at_s) == (2.0, 3.0)


def test_the_last_error_stays_while_it_tries_again_and_goes_with_success() -> None:
    status = status_at(0.0)
    status.on_failed("tcp: refused", 2.0, 2000)

    status.connecting("tries again", 3.0, 3000)
    assert (status.state, status.reason, status.error) == ("connecting", "tries again", "tcp: refused")
    assert status.next_attempt_at_s is None, "it is under way"

    status.on_connected(4.0, 4000)
    assert (status.state, status.reason, status.error, status.since_s) == ("connected", "", "", 4.0)


def test_another_reason_for_the_same_state_does_not_begin_it_anew() -> None:
    status = status_at(0.0)
    status.connecting("the lane was opened", 1.0, 1000)
    status.connecting("the remote has a session that is on no record", 2.0, 2000)

    assert (status.since_s, status.since_ms) == (0.0, 0)
    assert status.reason == "the remote has a session that is on no record"


def test_it_counts_connections_and_attempts_that_failed_and_not_one_as_the_other() -> None:
    status = status_at(0.0)
    status.connecting("the lane was opened", 1.0, 1000)
    status.on_failed("tcp: refused", 2.0, 2000)
    status.connecting("tries again", 3.0, 3000)
    status.on_connected(4.0, 4000)
    status.on_lost(5.0)
    status.on_failed("the remote closed the connection", 5.0, 5000)

    assert (status.connections, status.connections_lost, status.attempts_failed) == (1, 1, 1)


def test_nothing_is_attempted_while_it_is_paused() -> None:
    status = status_at(0.0)
    status.on_failed("tcp: refused", 1.0, 1000)

    status.paused(1.5, 1500)

    assert (status.state, status.since_ms, status.next_attempt_at_s) == ("paused", 1500, None)
    assert "operator" in status.reason


def test_waits_grow_until_a_connection_has_lasted() -> None:
    status = status_at(0.0)
    assert [status.on_failed("refused", 0.0, 0) for _ in range(5)] == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert figures(status, 0.0).attempt == 5

    status.on_connected(0.0, 0)
    status.on_lost(59.0)
    assert status.on_failed("closed", 59.0, 0) == 8.0, "it was up too short to tell"
    status.on_connected(100.0, 0)
    status.on_lost(160.0)
    assert status.on_failed("closed", 160.0, 0) == 1.0


def test_one_wait_may_be_short_and_all_are_once_the_cause_is_given_up() -> None:
    status = status_at(0.0)
    assert [status.on_failed("refused", 0.0, 0) for _ in range(3)] == [1.0, 2.0, 4.0]

    assert status.on_failed("closed", 0.0, 0, soon=True) == 1.0
    assert status.on_failed("closed", 0.0, 0) == 8.0
    status.forgive()
    assert status.on_failed("closed", 0.0, 0) == 1.0


def test_the_figures_count_down_to_the_next_attempt_and_never_below_nothing() -> None:
    status = status_at(0.0)
    status.on_failed("tcp: refused", 10.0, 10_000)

    for key in ("retry_in_s", "next_attempt_s"):
        assert [getattr(figures(status, now_s), key) for now_s in (10.0, 10.25, 12.0)] == [1.0, 0.75, 0.0]
    told = figures(status, 10.25)
    assert (told.state, told.reason, told.error) == ("backoff", "tcp: refused", "tcp: refused")
    assert (told.since, told.since_s, told.down_s) == ("1970-01-01T00:00:10.000+00:00", 0.25, 10.25)
    assert (told.attempts, told.attempt, told.retry_in_s, told.next_attempt_s) == (1, 1, 0.75, 0.75)
    assert (told.connections, told.connections_lost, told.attempts_failed) == (0, 0, 1)
    status.on_connected(11.0, 11_000)
    assert (figures(status, 12.0).retry_in_s, figures(status, 12.0).next_attempt_s) == (0.0, None)


def test_a_link_is_down_since_it_stood_whatever_is_attempted_meanwhile() -> None:
    status = status_at(0.0)
    status.on_connected(5.0, 0)
    assert (figures(status, 7.0).down_s, status.attempts) == (None, 0)

    status.on_lost(10.0)
    status.on_failed("closed", 10.0, 0)
    for second in (11.0, 13.0, 17.0):
        status.connecting("", second, 0)
        status.on_failed("refused", second + 0.5, 0)

    told = figures(status, 55.0)
    assert (told.state, told.since_s < 45.0) == ("backoff", True)
    assert (told.down_s, told.attempts) == (45.0, 3)


def test_a_pause_is_not_down_and_what_was_resumed_is_so_from_then_on() -> None:
    status = status_at(0.0)
    status.paused(10.0, 0)
    assert figures(status, 50.0).down_s is None
    status.connecting("resumed", 60.0, 0)
    assert figures(status, 61.0).down_s == 1.0
