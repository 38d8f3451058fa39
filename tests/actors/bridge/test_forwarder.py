"""The Forwarder by its frames: what it passes on to its Connection, and when."""

from __future__ import annotations

from array import array
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from actors.bridge.forwarder import Forwarder
from actors.process.local_messages import LinkStateChanged, Passed
from actors.process.mailbox import Mailbox
from tests.storage.building import batch
from tests.supervisor.settings import node_settings
from tests.support.settings import bridge
from tests.wire.outbound_model import lane_opened
from tests.wire.rules import rule
from wire.frames.batch import QOS_MASK, pack_column
from wire.frames.frame import Frame
from wire.frames.lanes import Credit, HandOut, LaneOpen, LaneReopen, Settle
from wire.frames.names import QUEUE_STORE
from wire.mqtt.publish_properties import with_message_expiry
from wire.routing.message_route import MessageRoute
from wire.status.states import LinkState

QUEUE = "bridge:cloud:0"
CONNECTION = "connection:cloud:0"
WAY = MessageRoute("rule", "{#}", True, b"").encode()


class RecordingMailbox:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.name = "forwarder:cloud:0"
        self.sent: list[tuple[str, Frame]] = []

    def wall_ms(self) -> int:
        return 1000

    def send(self, peer: str, frame: Frame) -> None:
        self.sent.append((peer, frame))

    def passed_on(self) -> list[int]:
        """First sequences of what the Connection got."""
        return [frame.first_seq for peer, frame in self.sent if peer == CONNECTION and isinstance(frame, Passed)]


class Lane:
    """A Forwarder whose peers are the test."""

    def __init__(self, folder: Path, max_age_s: float | None = None, *, max_qos: int = 2) -> None:
        self.mailbox = RecordingMailbox()
        plain = bridge("cloud", local_subscriptions=(replace(rule(1, "#"), max_qos=max_qos),))
        settings = replace(plain, limits=replace(plain.limits, max_age_s=max_age_s))
        self.forwarder = Forwarder(cast(Mailbox, self.mailbox), node_settings(folder, settings), 5)

    def open(self) -> int:
        """Open the lane (anew) with credit for whatever comes; its epoch."""
        (opening,) = [frame for peer, frame in self.mailbox.sent if peer == QUEUE_STORE and isinstance(frame, LaneOpen)][-1:]
        self.turn(lane_opened(epoch=opening.epoch), Credit(queue=QUEUE, epoch=opening.epoch, messages=100, size_bytes=1 << 20))
        return opening.epoch

    def granted(self) -> list[int]:
        """The totals of messages that the store was granted."""
        return [frame.messages for peer, frame in self.mailbox.sent if peer == QUEUE_STORE and isinstance(frame, Credit)]

    def turn(self, *frames: Frame) -> None:
        for frame in frames:
            self.forwarder.on_frame(frame)
        self.forwarder.on_turn_end(1.0)


def hand_out(seq: int, epoch: int) -> HandOut:
    ruled = replace(batch([b"m"], 1), routes=[WAY], route_of=[0])
    return HandOut(queue=QUEUE, epoch=epoch, first_seq=seq, count=1, size_bytes=2, offsets=b"", bodies=(ruled.encode(),))


def test_a_lane_that_is_opened_anew_has_no_link_until_its_connection_says_so(tmp_path: Path) -> None:
    lane = Lane(tmp_path)
    lane.forwarder.on_peer_up(QUEUE_STORE, 1)
    former = lane.open()
    lane.turn(LinkStateChanged(state=LinkState.CONNECTED))
    lane.turn(LaneReopen(queue=QUEUE))
    epoch = lane.open()

    lane.turn(hand_out(0, epoch), hand_out(7, former))
    assert not lane.mailbox.passed_on(), "the remote is away: Tier 2 holds what comes"

    lane.turn(LinkStateChanged(state=LinkState.CONNECTED), hand_out(1, epoch))
    assert lane.mailbox.passed_on() == [0, 1], "the remote is there"

    lane.turn(LinkStateChanged(state=LinkState.BACKOFF), hand_out(2, epoch))
    assert lane.mailbox.passed_on() == [0, 1]


@pytest.mark.parametrize("max_age_s", [None, 60.0])
def test_the_store_hands_out_nothing_while_the_remote_is_away(tmp_path: Path, max_age_s: float | None) -> None:
    """A message that was never handed out was never sent: it may be dropped, expire and be purged."""
    lane = Lane(tmp_path, max_age_s)
    lane.forwarder.on_peer_up(QUEUE_STORE, 1)
    epoch = lane.open()
    assert lane.granted() == [], "no link has stood yet"
    lane.turn(LinkStateChanged(state=LinkState.CONNECTED))
    lane.turn(hand_out(0, epoch))
    (granted,) = lane.granted()
    assert granted > 0
    lane.turn(LinkStateChanged(state=LinkState.BACKOFF))
    lane.turn()
    assert lane.granted() == [granted, 0], "withdrawn"
    lane.turn(LinkStateChanged(state=LinkState.CONNECTED))
    assert lane.granted() == [granted, 0, granted + 1], "as much as before is ahead of what was passed on"


@pytest.mark.parametrize("session", ["", "edge@here"])
@pytest.mark.parametrize("aged_by", ["its interval", "max_age"])
def test_what_has_expired_at_qos_1_and_2_is_left_to_the_connection_and_at_qos_0_it_goes_no_further(
    tmp_path: Path, session: str, aged_by: str
) -> None:
    """Only the Connection knows whether it may have been sent, and what may not pass it before that is on record
    (exchange.expiry-committed-first).
    """
    lane = Lane(tmp_path, max_age_s=1.5 if aged_by == "max_age" else None)
    lane.forwarder.on_peer_up(QUEUE_STORE, 1)
    ((_, opening),) = lane.mailbox.sent
    assert isinstance(opening, LaneOpen)
    epoch = opening.epoch
    lane.turn(
        lane_opened(epoch=epoch, tail=3, dup_below=1, session=session),
        Credit(queue=QUEUE, epoch=epoch, messages=100, size_bytes=1 << 20),
        LinkStateChanged(state=LinkState.CONNECTED),
    )
    old = replace(batch([b"0", b"1", b"2"], [1, 0, 2]), routes=[WAY], route_of=[0], accepted_ms=-1000)
    if aged_by == "its interval":
        old = replace(old, properties={row: with_message_expiry(b"", 2) for row in range(3)})
    lane.turn(HandOut(queue=QUEUE, epoch=epoch, first_seq=0, count=3, size_bytes=6, offsets=b"", bodies=(old.encode(),)))
    assert [frame.settled for _, frame in lane.mailbox.sent if isinstance(frame, Settle)] == [(("expired", ((1, 2),)),)]
    (passed,) = [frame for peer, frame in lane.mailbox.sent if peer == CONNECTION and isinstance(frame, Passed)]
    assert passed.batch.rows_payloads() == [b"0", b"2"]
    assert list(passed.offsets or ()) == [0, 2]
    assert passed.size_bytes == passed.batch.size_bytes()


@pytest.mark.parametrize("max_qos", [2, 1, 0])
@pytest.mark.parametrize("offsets", [False, True])
def test_a_max_qos_that_was_lowered_holds_for_what_waits_and_was_never_sent(tmp_path: Path, max_qos: int, offsets: bool) -> None:
    """routing.waiting-qos-lowered: what may have been sent, and what has come since, is as it was."""
    lane = Lane(tmp_path, max_qos=max_qos)
    lane.forwarder.on_peer_up(QUEUE_STORE, 1)
    ((_, opening),) = lane.mailbox.sent
    assert isinstance(opening, LaneOpen)
    lane.turn(
        lane_opened(epoch=opening.epoch, tail=6, dup_below=2, session="edge@here"),
        Credit(queue=QUEUE, epoch=opening.epoch, messages=100, size_bytes=1 << 20),
        LinkStateChanged(state=LinkState.CONNECTED),
    )
    for first_seq in (0, 4):
        places = array("I", (0, 1, 3) if offsets else (0, 1, 2, 3))
        ruled = replace(batch([b"m"] * len(places), [2] * len(places)), routes=[WAY], route_of=[0])
        lane.turn(
            HandOut(
                queue=QUEUE,
                epoch=opening.epoch,
                first_seq=first_seq,
                count=len(places),
                size_bytes=10,
                offsets=pack_column(places) if offsets else b"",
                bodies=(ruled.encode(),),
            )
        )
    flags = {
        frame.first_seq + offset: flag & QOS_MASK
        for peer, frame in lane.mailbox.sent
        if peer == CONNECTION and isinstance(frame, Passed)
        for offset, flag in zip(frame.offsets or range(len(frame.batch)), frame.batch.flags, strict=True)
    }
    assert flags == {seq: max_qos if 2 <= seq < 6 else 2 for seq in range(8) if not offsets or seq not in (2, 6)}
    settled = [frame.settled for _, frame in lane.mailbox.sent if isinstance(frame, Settle)]
    assert bool(settled) == (max_qos == 0), "what leaves at QoS 0 is settled as it is passed on"
