"""A Connection over a link that carries a message for longer than any of its time-outs, on a clock that the test moves.

The Connection is the real one; its mailbox, its clock and its remote are the test's. A slow link is waited for, and one that
carries nothing any more is left when the time-out says so.
"""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import actors.remote.remote_dialer
from actors.bridge.connection import Connection
from actors.process.local_messages import LinkStateChanged, Passed
from actors.process.mailbox import READ, WRITE
from actors.remote.remote_socket import Connack, Remote
from tests.actors.slow_remote import RATE, SlowRemote
from tests.actors.still_mailbox import StillMailbox
from tests.support.present import present
from tests.support.settings import bridge, node
from tests.support.waiting import PATIENCE_S, wait_until
from tests.wire.outbound_model import lane_opened
from wire.config_settings import RuleSettings
from wire.exchange.remote_dialects import Dialect
from wire.frames.batch import from_rows
from wire.frames.frame import Frame
from wire.frames.intake import SessionOpen, SessionOpened
from wire.frames.lanes import Settle

PAYLOAD_BYTES = 200_000  # so it takes 200 seconds
STALL_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 10.0
STEP_S = 0.25
KERNELS = pytest.mark.parametrize("kernel_bytes", [4_000, 10_000_000], ids=["small buffer", "all in the buffer"])
PINGREQ, PINGRESP = b"\xc0\x00", b"\xd0\x00"
PUBACK = b"\x40\x02\x00\x01"


class Lane:
    """One Connection over a slow link, its lane open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kernel_bytes: int, *, subscribes: bool = False, **remote: Any) -> None:
        self.remotes: list[SlowRemote] = []

        def open_slowly(*arguments: object, **options: object) -> Remote:
            self.remotes.append(SlowRemote(kernel_bytes))
            return self.remotes[-1]

        monkeypatch.setattr(actors.remote.remote_dialer, "open_remote", open_slowly)
        rule = RuleSettings(
            name="in",
            filters=("in/#",),
            excludes=(),
            destination="{#}",
            max_qos=2,
            preserve_retain=True,
            user_properties=(),
        )
        plain = bridge("cloud", remote_subscriptions=(rule,) if subscribes else ())
        limits = {"stall_timeout_s": STALL_TIMEOUT_S, "connect_timeout_s": CONNECT_TIMEOUT_S} | remote
        settings = node(replace(plain, remote=replace(plain.remote, client_id="edge", **limits)))
        self.mailbox = StillMailbox("connection:cloud:0")
        self.connection = Connection(self.mailbox, settings, 1)
        self.connection.on_start()
        self.tell(lane_opened(session="edge@far:1"))

    @property
    def remote(self) -> SlowRemote:
        """The newest connection."""
        return self.remotes[-1]

    @property
    def links(self) -> list[str]:
        return [frame.state for frame in self.mailbox.sent if isinstance(frame, LinkStateChanged)]

    def tell(self, frame: Frame) -> None:
        self.connection.on_receive(frame)
        self._turn()

    def publish(self, qos: int) -> None:
        """A message that takes long."""
        batch = from_rows([(b"t", qos, bytes(PAYLOAD_BYTES))])
        self.tell(Passed(first_seq=0, offsets=None, size_bytes=batch.size_bytes(), batch=batch))

    def pass_time(self, period_s: float) -> None:
        """Let the link carry and the Connection look, a step at a time."""
        for _ in range(int(period_s / STEP_S)):
            self.mailbox.clock_s += STEP_S
            self.remote.pass_time(STEP_S)
            self._turn()

    def seconds_until_left(self) -> float:
        """How long it goes on with its connection."""
        began_s, count = self.mailbox.clock_s, self.links.count("backoff")
        while self.links.count("backoff") == count:
            assert self.mailbox.clock_s - began_s < 1_000.0, "the connection is kept for ever"
            self.pass_time(STEP_S)
        return self.mailbox.clock_s - began_s

    def error(self) -> str:
        """Why it left."""
        return str(present(self.connection.status().link).error)

    def _turn(self) -> None:
        for message in self.mailbox.due():
            self.connection.on_receive(message)
        if self.remotes and not self.remote.closed:
            self.connection.on_sockets([(self.remote, READ)])
            if self.remote.room:
                self.connection.on_sockets([(self.remote, WRITE)])
        self.connection.on_turn_end(self.mailbox.clock_s)


@KERNELS
@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_that_takes_longer_than_the_stall_timeout_crosses(
    monkeypatch: pytest.MonkeyPatch, kernel_bytes: int, qos: int
) -> None:
    """exchange.owed-answer-stalls: 200 s for one PUBLISH, with a stall timeout of 30 s; the PUBACK then comes 20 s later."""
    lane = Lane(monkeypatch, kernel_bytes, keep_alive_s=0)
    lane.publish(qos)
    lane.pass_time(220.0)
    assert lane.links == ["connected"]
    assert len(lane.remote.arrived) > PAYLOAD_BYTES
    lane.remote.answers.append((lane.remote.arrived, PUBACK if qos == 1 else b"\x50\x02\x00\x01"))
    lane.pass_time(2.0)
    facts = [frame for frame in lane.mailbox.sent if isinstance(frame, Settle)]
    assert [(frame.settled, frame.released) for frame in facts] == [
        ((("delivered", ((0, 1),)),), ()) if qos == 1 else ((), ((0, 1),))
    ]


@KERNELS
def test_a_link_that_carries_nothing_any_more_is_left_after_the_stall_timeout(
    monkeypatch: pytest.MonkeyPatch, kernel_bytes: int
) -> None:
    """exchange.owed-answer-stalls"""
    lane = Lane(monkeypatch, kernel_bytes, keep_alive_s=0)
    lane.publish(1)
    lane.pass_time(100.0)
    lane.remote.rate = 0.0
    assert STALL_TIMEOUT_S <= lane.seconds_until_left() <= STALL_TIMEOUT_S + 2.0
    assert lane.error() == "no acknowledgement in time"


@KERNELS
def test_a_message_that_has_crossed_without_an_answer_is_a_stall(monkeypatch: pytest.MonkeyPatch, kernel_bytes: int) -> None:
    """exchange.owed-answer-stalls"""
    lane = Lane(monkeypatch, kernel_bytes, keep_alive_s=0)
    lane.publish(1)
    taken_s = PAYLOAD_BYTES / RATE + STALL_TIMEOUT_S
    assert taken_s <= lane.seconds_until_left() <= taken_s + 3.0


@KERNELS
def test_a_pingreq_has_its_time_once_it_is_out(monkeypatch: pytest.MonkeyPatch, kernel_bytes: int) -> None:
    """exchange.owed-answer-stalls: PINGREQ waits behind a QoS 0 message of 200 s, and the remote has 10 s for its answer."""
    lane = Lane(monkeypatch, kernel_bytes, keep_alive_s=20)
    lane.publish(0)
    lane.pass_time(190.0)
    assert PINGREQ not in lane.remote.arrived
    lane.remote.answers.append((PINGREQ, PINGRESP))
    lane.pass_time(17.0)
    assert not lane.remote.answers
    assert lane.links == ["connected"]


@KERNELS
@pytest.mark.parametrize("dies_after_s", [100.0, 210.0])
def test_a_pingreq_that_gets_no_answer_is_noticed_behind_a_long_message(
    monkeypatch: pytest.MonkeyPatch, kernel_bytes: int, dies_after_s: float
) -> None:
    """exchange.owed-answer-stalls: the link dies under the message, or the remote does not answer what has reached it."""
    lane = Lane(monkeypatch, kernel_bytes, keep_alive_s=20)
    lane.publish(0)
    if dies_after_s < PAYLOAD_BYTES / RATE:
        lane.pass_time(dies_after_s)
        lane.remote.rate = 0.0
        assert CONNECT_TIMEOUT_S <= lane.seconds_until_left() <= CONNECT_TIMEOUT_S + 2.0
    else:
        taken_s = PAYLOAD_BYTES / RATE + CONNECT_TIMEOUT_S
        assert taken_s <= lane.seconds_until_left() <= taken_s + 3.0
    assert lane.error() == "no PINGRESP in time"


@KERNELS
def test_a_suback_has_its_time_once_the_subscribe_is_out(monkeypatch: pytest.MonkeyPatch, kernel_bytes: int) -> None:
    """exchange.owed-answer-stalls: the store answers, so that SUBSCRIBE may leave, when a message of 200 s is on its way
    already.
    """
    lane = Lane(monkeypatch, kernel_bytes, subscribes=True, keep_alive_s=0)
    lane.publish(1)
    opened = next(frame for frame in lane.mailbox.sent if isinstance(frame, SessionOpen))
    lane.tell(
        SessionOpened(
            store=1,
            sender=opened.sender,
            epoch=opened.epoch,
            request=opened.request,
            session=opened.session,
            present=True,
            received=b"",
        )
    )
    lane.pass_time(190.0)
    assert lane.links == ["connected"]
    lane.remote.answers.append((b"\x00\x04in/#", PUBACK))
    assert CONNECT_TIMEOUT_S <= lane.seconds_until_left() <= 10.0 + CONNECT_TIMEOUT_S + 3.0
    assert not lane.remote.answers, "SUBSCRIBE has not left"
    assert lane.error() == "no SUBACK in time"


def test_the_bytes_that_the_far_end_does_not_take_are_counted_as_unsent(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        with near, far:
            near.setblocking(False)
            far.settimeout(PATIENCE_S)
            remote = Remote(None, near, Connack(session_present=False), "far", dialect=Dialect(4), websocket=False)  # type: ignore[arg-type]  # no paho here
            assert remote.unsent_bytes() == 0
            sent = 0
            while count := remote.send(memoryview(bytes(1 << 20))):
                sent += count
            full = remote.unsent_bytes()
            assert 0 < full <= sent
            taken = len(far.recv(1 << 20))
            while taken < sent:
                taken += len(far.recv(1 << 20))
            wait_until(lambda: remote.unsent_bytes() == 0, PATIENCE_S, "all is confirmed")
