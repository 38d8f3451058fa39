"""The receiver's half of a Connection: its session is opened by the store before anything is taken or subscribed to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

from actors.bridge.lane_names import Lane
from actors.bridge.remote_intake import RemoteIntake
from actors.process.mailbox import Mailbox
from actors.remote.remote_socket import Connack
from tests.supervisor.settings import node_settings
from tests.wire.rules import bridge_of, rule
from wire.exchange import remote_packets
from wire.exchange.remote_limits import NO_LIMITS
from wire.frames.frame import Frame
from wire.frames.intake import Committed, SessionOpen, SessionOpened
from wire.frames.names import QUEUE_STORE

SUBACK_DUE_S = 10.0


class Ends:
    """The mailbox and the writer of an intake: what it asks of the store, and what it says to the remote. Time stands still."""

    name = "connection:cloud:0"

    def __init__(self, tmp_path: Path) -> None:
        self.asked: list[SessionOpen] = []
        self.said = b""
        self.timers: dict[str, float] = {}
        self.session_known = True
        bridge = replace(bridge_of("cloud"), remote_subscriptions=(rule(1, "cmd/#"),))
        settings = node_settings(tmp_path, bridge)
        self.intake = RemoteIntake(
            cast(Mailbox, self),
            1,
            settings,
            Lane(self.name, settings),
            writer=self,
            session_known=lambda: self.session_known,
        )

    def now_s(self) -> float:
        return 0.0

    def wall_ms(self) -> int:
        return 0

    def send(self, peer: str, frame: Frame) -> None:
        if isinstance(frame, SessionOpen):
            self.asked.append(frame)

    def set_timer(self, name: str, at_s: float) -> None:
        self.timers[name] = at_s

    def cancel_timer(self, name: str) -> None:
        self.timers.pop(name, None)

    def say(self, data: bytes) -> None:
        self.said += data

    def on_subscribed(self) -> None:
        """Nothing waits for it."""

    def say_subscribe(self, data: bytes) -> None:
        self.said += data

    @property
    def suback_due_s(self) -> float:
        return SUBACK_DUE_S

    def turn_ends(self) -> None:
        """As its Connection ends a turn in which nothing came."""
        assert not self.intake.flush_turn(0.0)
        assert not self.intake.turn_end(0.0)


def opened(asked: SessionOpen) -> SessionOpened:
    return SessionOpened(
        sender=asked.sender,
        epoch=asked.epoch,
        store=1,
        request=asked.request,
        session=asked.session,
        present=False,
        received=b"",
    )


def test_a_remote_s_messages_wait_for_the_last_opening(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    intake = ends.intake

    intake.on_connected("c@one", Connack(session_present=False), NO_LIMITS, 5)
    intake.peer_up(QUEUE_STORE, 2)
    first, second = ends.asked
    intake.frame(opened(first))

    assert not ends.said, "a store has died with what this one said"
    intake.frame(opened(second))
    assert ends.said[0] == 0x82, "SUBSCRIBE"


def test_a_session_is_opened_under_its_own_name_once_the_store_knows_it(tmp_path: Path) -> None:
    """A message that was received in one at another address is neither forgotten nor taken for one that comes in this one
    [MQTT-4.3.3-10]."""
    ends = Ends(tmp_path)
    intake = ends.intake
    intake.on_connected("c@one#1", Connack(session_present=True), NO_LIMITS, 5)
    intake.frame(opened(ends.asked.pop()))
    intake.on_disconnected()
    ends.session_known = False
    intake.on_connected("c@two#2", Connack(session_present=False), NO_LIMITS, 5)
    ends.turn_ends()
    assert not ends.asked, "a crash now would make another session of it"

    ends.session_known = True
    ends.turn_ends()
    intake.on_disconnected()
    intake.on_connected("c@one#1", Connack(session_present=True), NO_LIMITS, 5)

    assert [(asked.session, asked.clean) for asked in ends.asked] == [("c@two#2", False), ("c@one#1", False)]


def test_what_a_lane_has_given_up_is_off_the_record_once_the_remote_has_answered_and_is_quiet(tmp_path: Path) -> None:
    """It subscribes to nothing any more. A message that was kept for it comes first, and is committed. A store that has died with
    that is told again.
    """
    ends = Ends(tmp_path)
    intake, quiet_s = ends.intake, node_settings(tmp_path, bridge_of("cloud")).bridges[0].remote.connect_timeout_s
    assert intake.subscribe_to(())
    intake.on_connected("c@one", Connack(session_present=True), NO_LIMITS, 5)
    intake.frame(replace(opened(ends.asked.pop()), subscriptions=(("$share/g/cmd/#", 0, 0),)))
    assert ends.said[0] == 0xA2, "UNSUBSCRIBE"
    assert ends.timers == {"quiet": quiet_s}
    assert not intake.timer("quiet", quiet_s)
    assert (ends.asked, ends.timers) == ([], {"quiet": 2 * quiet_s}), "no UNSUBACK yet"
    unsuback = b"\xb0\x04\xfd\xe9\x00\x00"
    assert intake.packet(remote_packets.next_packet(unsuback, 0, bytes_max=100, publish_bytes_max=100))  # type: ignore[arg-type]
    publish = b"\x32\x0a\x00\x05cmd/1\x00\x01\x00"
    assert intake.take(publish[:-1], 0) == 0
    intake.timer("quiet", quiet_s)
    assert not ends.asked, "one is coming"
    assert not intake.idle
    assert intake.take(publish, 0) == len(publish)
    intake.timer("quiet", quiet_s)
    assert not ends.asked, "one has come"
    ends.turn_ends()
    intake.timer("quiet", quiet_s)
    assert not ends.asked, "it is not committed"
    intake.frame(Committed(sender=ends.name, epoch=1, number=1, store=1))
    intake.timer("quiet", quiet_s)
    assert [asked.given_up for asked in ends.asked] == [("$share/g/cmd/#",)]
    assert intake.gives_up, "it is not on record"
    intake.timer("quiet", quiet_s)
    assert [asked.given_up for asked in ends.asked] == [("$share/g/cmd/#",)] * 2
    intake.frame(opened(ends.asked[-1]))
    assert not intake.gives_up
    intake.timer("quiet", quiet_s)
    assert len(ends.asked) == 2


def test_of_several_what_is_given_up_is_off_the_record_once_the_remote_has_answered(tmp_path: Path) -> None:
    """exchange.filter-asked-once: else it would be given up by each connection anew. What MQTT 5 refuses to give up stays."""
    ends = Ends(tmp_path)
    intake = ends.intake
    intake.on_connected("c@one", Connack(session_present=True), NO_LIMITS, 5)
    known = (("a", 0, 0), ("b", 0, 0), ("cmd/#", 0, 0))
    intake.frame(replace(opened(ends.asked.pop()), subscriptions=known))
    assert (ends.said[0], ends.said[ends.said[1] + 2]) == (0x82, 0xA2), "SUBSCRIBE, UNSUBSCRIBE"
    assert not ends.asked

    unsuback = b"\xb0\x05\xfd\xea\x00\x00\x87"
    assert intake.packet(remote_packets.next_packet(unsuback, 0, bytes_max=100, publish_bytes_max=100))  # type: ignore[arg-type]

    assert [asked.given_up for asked in ends.asked] == [("a",)]
    assert "quiet" not in ends.timers, "it does not end"


def test_a_remote_that_does_not_answer_a_subscribe_in_time_is_given_up(tmp_path: Path) -> None:
    ends = Ends(tmp_path)
    intake = ends.intake
    intake.on_connected("c@one", Connack(session_present=False), NO_LIMITS, 5)
    intake.frame(opened(ends.asked.pop()))
    ((name, at_s),) = ends.timers.items()
    assert at_s == SUBACK_DUE_S, "counted from when the SUBSCRIBE is out"

    assert intake.timer(name, SUBACK_DUE_S - 1.0) == ""
    assert ends.timers == {name: SUBACK_DUE_S}, "it was written later than thought"
    publish = b"\x32\x0a\x00\x05cmd/1\x00\x01\x00"
    intake.take(publish[:-1], 0)
    assert intake.timer(name, SUBACK_DUE_S) == "", "it may come behind what is coming"
    assert ends.timers[name] > SUBACK_DUE_S
    intake.take(publish, 0)
    assert intake.timer(name, SUBACK_DUE_S) == "no SUBACK in time"
    assert intake.timer("another's", SUBACK_DUE_S) == ""
