"""Clients that are closed for what they do not acknowledge, on a clock that the test moves: only those that keep their own messages
waiting."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.access.untaken_input import UntakenInput
from actors.broker.client_deliveries import PUMP_BELOW_BYTES
from actors.broker.client_packets import ClientPackets
from actors.broker.client_stalls import ClientStalls
from tests.supervisor.settings import node_settings
from tests.wire.exchange.test_client_outbox import batch, outbox, puback
from wire.config_settings import SettingsNow
from wire.exchange.subscriber_copies import Parcel

STALL_S = 30.0
STEP_S = 0.5


class Desk:
    """One client with a window of two, as the Listener sees it."""

    def __init__(self, folder: Path, level: int = 5) -> None:
        self.now_s = 100.0
        self.closed: list[str] = []
        self.limited: Counter[str] = Counter()
        self.written = b""
        self.box = outbox(level=level, receive_maximum=2)
        self.box.begin()
        self.client: Any = SimpleNamespace(
            number=7,
            label="c",
            address="here:1",
            level=level,
            outbox=self.box,
            heard=True,
            input=UntakenInput(),
            output_bytes=0,
            written_bytes=0,
            left_bytes=0,
        )
        host: Any = SimpleNamespace(
            mailbox=SimpleNamespace(now_s=lambda: self.now_s),
            on_limited=lambda limit: self.limited.update((limit,)),
            write=self._write,
            close_client=lambda client, why: self.closed.append(why),
        )
        unused: Any = None
        settings = node_settings(folder)
        settings = replace(settings, clients=replace(settings.clients, stall_timeout_s=STALL_S))
        host.settings = SettingsNow(settings)
        packets = ClientPackets(host, unused, unused, unused)
        self.stalls = ClientStalls(host, packets, lambda: [] if self.closed else [self.client])

    def _write(self, client: Any, data: bytes) -> None:
        self.written += data

    def put(self, count: int, qos: int = 1) -> None:
        self.box.put(Parcel(batch(count, qos=qos)))
        self._give()

    def answer(self, data: bytes) -> None:
        self.box.on_received(data, 0)
        self._give()

    def _give(self) -> None:
        size = len(self.box.pump(1 << 20, self.now_s, 0))
        self.client.written_bytes += size
        self.client.left_bytes += size

    def pass_time(self, seconds: float, *, stood_still: bool = False) -> bool:
        """Look twice a second; whether the client is still there."""
        for _ in range(int(seconds / STEP_S)):
            self.now_s += STEP_S
            self.stalls.close_stalled(self.now_s, stood_still=stood_still)
        return not self.closed


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize(("level", "told"), [(4, b""), (5, b"\xe0\x01\x97")])
def test_who_keeps_its_messages_waiting_is_closed_told_why_and_counted(tmp_path: Path, level: int, told: bytes) -> None:
    desk = Desk(tmp_path, level)
    desk.put(3)
    assert desk.pass_time(STALL_S)
    assert not desk.pass_time(STEP_S)
    assert (desk.closed, desk.written, desk.limited) == (["stalled"], told, {"stall_timeout": 1})


@pytest.mark.parametrize("answers", [(), (0x50,), (0x50, 0x70)], ids=["PUBREC", "PUBCOMP", "of the second"])
def test_each_acknowledgement_of_qos_2_is_waited_for(desk: Desk, answers: tuple[int, ...]) -> None:
    desk.put(4, qos=2)
    for first_byte in answers:
        desk.answer(puback(1, first_byte=first_byte))
    assert desk.pass_time(STALL_S)
    assert not desk.pass_time(STEP_S)


def test_where_nothing_waits_a_message_may_be_unacknowledged_for_ever(desk: Desk) -> None:
    desk.put(2)
    assert desk.pass_time(100 * STALL_S)
    desk.put(1)
    assert desk.pass_time(STALL_S), "its time has begun when something came to wait"
    assert not desk.pass_time(STEP_S)


def test_who_acknowledges_slowly_is_not_closed(desk: Desk) -> None:
    desk.put(10)
    for packet_id in range(1, 9):
        assert desk.pass_time(STALL_S)
        desk.answer(puback(packet_id))
    assert desk.pass_time(100 * STALL_S), "two are left, and nothing waits"


def test_a_message_that_others_pass_is_waited_for_as_long_as_any(desk: Desk) -> None:
    desk.put(100)
    desk.answer(puback(2))
    there = 0
    for packet_id in range(3, 100):
        if not desk.pass_time(STEP_S):
            break
        there += 1
        desk.answer(puback(packet_id))
    assert there == STALL_S / STEP_S


def test_a_message_that_still_leaves_has_its_time_and_one_that_has_stopped_leaving_has_not(desk: Desk) -> None:
    desk.put(3)
    desk.client.written_bytes, desk.client.left_bytes = 100_000, 0
    for _ in range(10):
        desk.client.left_bytes += 1000
        assert desk.pass_time(STALL_S)
    assert not desk.pass_time(STEP_S)


def test_who_does_not_read_is_closed_although_its_window_is_open(desk: Desk) -> None:
    desk.put(1)
    desk.client.output_bytes, desk.client.written_bytes = PUMP_BELOW_BYTES, PUMP_BELOW_BYTES
    desk.box.put(Parcel(batch(1)))
    assert desk.pass_time(STALL_S)
    assert not desk.pass_time(STEP_S)


@pytest.mark.parametrize(
    ("name", "value", "then"),
    [("heard", False, True), ("input", SimpleNamespace(missing=10), UntakenInput())],
    ids=["not read", "in the middle of a packet"],
)
def test_what_may_be_behind_what_was_not_read_is_not_held_against_a_client(
    desk: Desk, name: str, value: object, then: object
) -> None:
    desk.put(3)
    assert desk.pass_time(STALL_S)
    setattr(desk.client, name, value)
    assert desk.pass_time(10 * STALL_S)
    setattr(desk.client, name, then)
    assert desk.pass_time(STALL_S)
    assert not desk.pass_time(STEP_S)


def test_a_time_in_which_the_listener_stood_still_is_not_held_against_a_client(desk: Desk) -> None:
    desk.put(3)
    assert desk.pass_time(STALL_S)
    assert desk.pass_time(STEP_S, stood_still=True)
    assert desk.pass_time(STALL_S - STEP_S)
    assert not desk.pass_time(STEP_S)
