"""The link's life on a clock that the test moves: what is opened when, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from actors.bridge.lane_reports import LaneReports
from actors.bridge.remote_link import DIAL_TIMER, FIRST_TIMER, LOOK_TIMER, RETRY_TIMER, RemoteLink
from actors.process.local_messages import LinkStateChanged
from actors.process.mailbox import Mailbox
from actors.remote.remote_dialer import OpeningEnded, ProbeEnded
from actors.remote.remote_socket import Connack, Remote
from tests.actors.lane_parts import LaneParts
from tests.actors.slow_remote import SlowRemote
from wire.config_settings import WhenNeededSettings
from wire.errors import PeerViolation, Unavailable
from wire.exchange.refusal_policy import RefusalPolicy
from wire.exchange.remote_dialects import Dialect
from wire.frames.lanes import LaneAwaited, LaneWaits
from wire.frames.supervision import NodeEvents
from wire.status.link_faults import LinkFault

DISCONNECT = b"\xe0\x00"
BOTH = (("far", 1), ("near", 2))


class LinkEnds:
    """A lane's link; what its threads would do is the test's to say. threads: the names of those that were begun."""

    def __init__(self, *, is_open: bool = True, **remote: Any) -> None:
        self.threads: list[str] = []
        self.parts = LaneParts(**({"addresses": (("far", 1),)} | remote))
        if not is_open:
            self.parts.exchange.settlements.open(0)
        self.parts.mailbox.in_thread = self._in_thread  # type: ignore[method-assign]
        lane, mailbox = self.parts.lane, self.parts.mailbox
        reports = LaneReports(mailbox, lane, self.parts.flow, RefusalPolicy(lane.bridge.on_refusal))
        self.link = RemoteLink(mailbox, lane, self.parts.exchange, reports, lambda message: True)

    def _in_thread(self, name: str, job: Callable[[], None]) -> None:
        self.threads.append(name)

    def accept(
        self, address: str = "far:1", *, session_present: bool = True, tried_first: bool = False, clean: bool = False
    ) -> Any:
        """The opening thread has connected; its end of the connection."""
        remote = SlowRemote(1 << 20)
        remote.rate = float(1 << 40)
        remote.address, remote.connack = address, Connack(session_present=session_present)
        remote.dialect = Dialect(self.parts.lane.bridge.remote.levels[0])
        self.link.on_opening_ended(OpeningEnded(remote=remote, error=None, clean=clean, tried_first=tried_first))
        return remote

    def refuse(self, why: str = "far:1: tcp: refused") -> None:
        """The opening thread could not connect."""
        self.link.on_opening_ended(OpeningEnded(remote=None, error=Unavailable(why), clean=False, tried_first=True))

    @property
    def mailbox(self) -> Mailbox:
        return self.parts.mailbox

    @property
    def timers(self) -> dict[str, float]:
        return self.parts.mailbox.timers

    @property
    def told(self) -> list[str]:
        """The states that the Forwarder was told."""
        return [frame.state for frame in self.parts.mailbox.sent if isinstance(frame, LinkStateChanged)]

    @property
    def events(self) -> list[tuple[str, str]]:
        """Kind and reason of what the store was told to keep."""
        sent = self.parts.mailbox.sent
        return [(event[1], event[5]) for frame in sent if isinstance(frame, NodeEvents) for event in frame.events]

    @property
    def details(self) -> list[Mapping[str, Any]]:
        """The details of the same."""
        return [event[7] for frame in self.parts.mailbox.sent if isinstance(frame, NodeEvents) for event in frame.events]


def heard(remote: SlowRemote) -> bytes:
    """The packets that have reached that remote."""
    remote.pass_time(1.0)
    return remote.arrived


def fail(error: Exception) -> Callable[[], None]:
    def step() -> None:
        raise error

    return step


def test_nothing_is_opened_before_the_lane_is() -> None:
    ends = LinkEnds(is_open=False)
    ends.link.connect("too soon")
    assert not ends.threads
    assert ends.link.status.reason == "the lane is not open yet"

    ends.parts.exchange.settlements.open(7)
    ends.link.connect("the lane was opened")
    ends.link.connect("asked for again")

    assert ends.threads == ["opening"], "one at a time"
    assert ends.told == [], "the Forwarder takes it for connecting already"


def test_a_refused_attempt_is_waited_for_and_success_is_told_to_forwarder_and_store() -> None:
    ends = LinkEnds()
    ends.link.connect("the lane was opened")
    ends.refuse()
    status = ends.link.status
    assert (status.state, status.reason, status.error) == ("backoff", "far:1: tcp: refused", "far:1: tcp: refused")
    assert ends.timers == {RETRY_TIMER: status.next_attempt_at_s}

    ends.link.connect("tries again")
    remote = ends.accept()

    assert ends.link.remote is remote
    assert set(ends.timers) == {LOOK_TIMER}
    assert ends.told == ["backoff", "connecting", "connected"]
    assert ends.events == [("link.failed", "far:1: tcp: refused"), ("link.up", "")]
    assert ends.details == [{"attempt": 1, "fault": "other"}, {"address": "far:1", "attempts_failed": 1}]
    assert (status.state, status.error) == ("connected", "")


def test_a_pause_leaves_in_good_order_and_what_was_being_opened_is_left_too() -> None:
    ends = LinkEnds()
    ends.link.connect("the lane was opened")
    first = ends.accept()
    ends.link.pause()
    assert first.closed
    assert heard(first) == DISCONNECT
    assert ends.events[-1] == ("link.down", "paused")

    ends.link.resume()
    assert ends.link.status.reason == "resumed"
    ends.link.pause()
    late = ends.accept()
    assert late.closed
    assert heard(late) == DISCONNECT
    assert ends.link.remote is None

    assert ends.told == ["connected", "paused", "connecting", "paused"]


def test_a_resumed_link_is_paused_no_longer_though_its_lane_is_not_open() -> None:
    ends = LinkEnds(is_open=False)
    ends.link.pause()
    assert ends.link.status.state == "paused"

    ends.link.resume()

    assert not ends.threads
    assert (ends.link.status.state, ends.link.status.reason) == ("connecting", "the lane is not open yet")


def test_a_session_that_is_on_no_record_is_ended_and_no_second_time(caplog: pytest.LogCaptureFixture) -> None:
    ends = LinkEnds()
    ends.link.connect("the lane was opened")
    unknown = ends.accept("other:1")
    assert unknown.closed
    assert heard(unknown) == DISCONNECT
    assert ends.threads == ["opening", "opening"]
    assert ends.link.status.reason == "the remote has a session that is on no record"

    ends.accept("other:1", clean=True)

    assert ends.link.status.error == "the remote resumes a session that was ended"
    assert ends.events == [*[("session.unknown", "new store")] * 2, ("link.failed", "the remote resumes a session that was ended")]
    assert [record.getMessage() for record in caplog.records].count("session.unknown") == 2


def test_a_failed_step_ends_the_connection_and_a_violation_is_told_to_a_remote_of_mqtt_5() -> None:
    for protocol, words in ((4, b""), (5, b"\xe0\x01\x82")):
        ends = LinkEnds(protocol=protocol)
        ends.link.connect("the lane was opened")
        remote = ends.accept()

        ends.link.guarded(fail(PeerViolation("MQTT-2.1.2 nonsense")))

        assert heard(remote) == words
        assert remote.closed
        assert ends.link.status.error == "MQTT-2.1.2 nonsense"
        assert ends.events[-1] == ("link.down", "MQTT-2.1.2 nonsense")
        assert set(ends.timers) == {RETRY_TIMER}, "nothing of the connection is left"


def test_a_session_taken_over_twice_in_a_row_is_contended(caplog: pytest.LogCaptureFixture) -> None:
    ends = LinkEnds()
    taken_over, other = Unavailable("the remote disconnected", taken_over=True), Unavailable("closed")
    contended, notes = [], []
    for error in (taken_over, other, taken_over, taken_over, other):
        ends.link.connect("tries again")
        ends.accept()
        caplog.clear()
        ends.link.guarded(fail(error))
        contended.append("session.contended" in [record.getMessage() for record in caplog.records])
        notes.append(ends.link.note()[0])

    assert contended == [False, False, False, True, False]
    assert notes == ["", "", "", "another client uses this client identifier", ""]


def test_a_remote_that_forgets_early_is_said_in_note_and_event() -> None:
    ends = LinkEnds(protocol=5, session_expiry_s=3600)
    ends.link.connect("the lane was opened")
    remote: Remote = SlowRemote(1 << 20)
    remote.connack = Connack(session_present=True, session_expiry_s=60)
    ends.link.on_opening_ended(OpeningEnded(remote=remote, error=None, clean=False, tried_first=False))

    assert ends.link.kept_s == 60
    assert ends.link.note() == ("remote keeps the session 60 s only", LinkFault.SHORT_SESSION)


def test_while_it_is_down_its_address_is_the_one_that_is_tried_first() -> None:
    ends = LinkEnds(addresses=BOTH, primary_retry_s=5.0)
    assert ends.link.address == "far:1", "nothing was tried yet"
    ends.link.connect("the lane was opened")
    ends.refuse()
    assert ends.link.address == "far:1"
    ends.link.connect("after a while")
    ends.accept("near:2", session_present=False)
    assert ends.link.figures(ends.mailbox.now_s()).address == "near:2"
    ends.link.disconnect("the operator's")
    assert ends.link.address == "far:1"


def test_it_goes_back_to_the_first_address_once_that_answers_and_nothing_is_unfinished() -> None:
    ends = LinkEnds(addresses=BOTH, primary_retry_s=5.0)
    ends.link.connect("the lane was opened")
    later = ends.accept("near:2", session_present=False)
    assert ends.timers[FIRST_TIMER] == ends.mailbox.now_s(), "it was not tried before"
    ends.link.probe_first(ends.mailbox.now_s())
    assert ends.threads == ["opening", "probing"]
    assert ends.link.note() == ("uses near:2; far:1 is being probed", LinkFault.OTHER_ADDRESS)
    ends.link.on_probe_ended(ProbeEnded(number=1, error=""))
    assert ends.link.failback.finishing
    ends.parts.exchange.writer.say(b"\xc0\x00")
    ends.link.finish(ends.mailbox.now_s())
    assert not later.closed, "something waits to be written"

    ends.link.guarded(ends.parts.exchange.writer.write, ends.mailbox.now_s())
    ends.link.finish(ends.mailbox.now_s())

    assert ends.link.remote is None
    assert heard(later).endswith(DISCONNECT)
    assert ends.threads[-1] == "opening"
    assert ends.link.status.reason == "back to far:1"


def test_it_stays_where_what_is_unfinished_takes_too_long(caplog: pytest.LogCaptureFixture) -> None:
    ends = LinkEnds(addresses=BOTH, primary_retry_s=5.0, stall_timeout_s=10.0)
    ends.link.connect("the lane was opened")
    later = ends.accept("near:2", session_present=False, tried_first=True)
    now_s = ends.mailbox.now_s()
    assert ends.timers[FIRST_TIMER] == now_s + 5.0, "it was tried just now"
    ends.link.probe_first(now_s + 5.0)
    ends.link.on_probe_ended(ProbeEnded(number=1, error=""))
    ends.parts.exchange.writer.say(b"\xc0\x00")

    ends.link.finish(now_s + 30.0)

    assert not later.closed
    assert not ends.link.failback.finishing
    assert ends.timers[FIRST_TIMER] == now_s + 35.0
    assert heard(later) == b"\xc0\x00", "and goes on"
    assert "bridge.stays" in [record.getMessage() for record in caplog.records]


def test_a_stopped_link_opens_nothing_any_more() -> None:
    ends = LinkEnds()
    ends.link.connect("the lane was opened")
    ends.link.stop()

    late = ends.accept()

    assert late.closed
    assert ends.link.remote is None


# --- closed by choice ---


NEEDED: dict[str, Any] = {"dial": "when-needed", "when_needed": WhenNeededSettings(messages=3, bytes=None, age_s=None, idle_s=40.0)}


def stands(ends: LinkEnds, remote: SlowRemote) -> bool:
    """Whether that connection is the live one."""
    return ends.link.remote is remote


def awaited(ends: LinkEnds) -> list[LaneAwaited]:
    return [frame for frame in ends.parts.mailbox.sent if isinstance(frame, LaneAwaited)]


def test_a_link_that_is_dialled_when_needed_waits_for_the_store_and_leaves_when_it_is_idle() -> None:
    ends = LinkEnds(**NEEDED)
    ends.link.connect("the lane was opened")
    assert not ends.threads
    assert (ends.link.status.state, ends.link.status.down_since_s) == ("closed", None)
    assert [(frame.messages, frame.size_bytes, frame.age_ms) for frame in awaited(ends)] == [(3, 0, -1)]
    ends.link.on_waiting(LaneWaits(queue="bridge:cloud:0", epoch=0))
    assert not ends.threads, "that was of another opening"

    ends.link.on_waiting(LaneWaits(queue="bridge:cloud:0", epoch=1))
    remote = ends.accept()
    assert ends.link.status.state == "connected"
    ends.parts.publish(b"x")
    pass_time(ends, 60.0)
    assert stands(ends, remote), "something is to be sent"
    ends.parts.remote = remote
    assert ends.parts.written()
    pass_time(ends, 60.0)
    assert stands(ends, remote), "something is under way"
    ends.parts.flow.on_received(b"\x40\x02\x00\x01")
    pass_time(ends, 30.0)
    assert stands(ends, remote)
    pass_time(ends, 30.0)

    assert remote.closed
    assert heard(remote) == DISCONNECT
    assert (ends.link.status.state, ends.link.status.reason) == ("closed", "nothing is to be sent")
    assert len(awaited(ends)) > 1
    assert ends.events[-1] == ("link.down", "nothing is to be sent")


def test_a_link_ends_with_its_hours_once_nothing_is_under_way_and_begins_with_them() -> None:
    ends = LinkEnds(hours=("08:00-09:00",), time_zone="UTC")
    ends.parts.mailbox.clock_s = (7 * 3_600_000 + 1_800_000) / 1000
    ends.link.connect("the lane was opened")
    assert ends.link.status.state == "closed"
    assert ends.link.status.reason == "outside its hours until Thu 1970-01-01 08:00 UTC"
    pass_time(ends, 1790.0)
    assert not ends.threads
    pass_time(ends, 20.0)
    assert ends.threads == ["opening"]
    ends.refuse()
    assert ends.link.status.state == "backoff"
    ends.link.connect("tries again")
    remote = ends.accept()
    ends.parts.publish(b"x")
    ends.parts.remote = remote
    ends.parts.written()
    pass_time(ends, 3600.0)
    assert stands(ends, remote), "what is under way may end"
    ends.parts.flow.on_received(b"\x40\x02\x00\x01")
    ends.link.finish(ends.mailbox.now_s())

    assert remote.closed
    assert (ends.link.status.state, ends.link.status.down_since_s) == ("closed", None)


def test_what_is_tried_when_the_hours_end_is_given_up_and_the_connection_that_comes_late_is_left() -> None:
    ends = LinkEnds(hours=("08:00-09:00",), time_zone="UTC")
    ends.parts.mailbox.clock_s = (8 * 3_600_000 + 3_590_000) / 1000
    ends.link.connect("the lane was opened")
    assert ends.threads == ["opening"]
    pass_time(ends, 20.0)
    assert ends.link.status.state == "closed"
    late = ends.accept()
    assert late.closed
    assert ends.link.status.state == "closed"


def test_a_pause_counts_for_more_than_hours_and_needs() -> None:
    ends = LinkEnds(**NEEDED)
    ends.link.connect("the lane was opened")
    ends.link.pause()
    pass_time(ends, 120.0)
    ends.link.on_waiting(LaneWaits(queue="bridge:cloud:0", epoch=1))
    assert (ends.link.status.state, ends.threads) == ("paused", [])
    ends.link.resume()
    assert ends.threads == ["opening"]


def pass_time(ends: LinkEnds, seconds: float) -> None:
    """Time passes, and the timer of the dialling fires when it is due."""
    until_s = ends.mailbox.now_s() + seconds
    while (due_s := ends.timers.get(DIAL_TIMER, until_s)) < until_s:
        ends.parts.mailbox.clock_s = due_s
        ends.timers.pop(DIAL_TIMER)
        ends.link.look_at_dial(due_s)
    ends.parts.mailbox.clock_s = until_s
