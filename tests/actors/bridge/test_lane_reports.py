"""Reports to people on messages that a remote refuses, or closes its connections on."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from actors.bridge.lane_reports import REFUSALS_LOGGED_EACH_S, LaneReports
from tests.actors.lane_parts import LaneParts
from tests.wire.outbound_model import PUBACK, ack, parse
from wire.config_settings import RefusalSettings
from wire.exchange.quarantine import BARREN
from wire.exchange.refusal_policy import RefusalPolicy
from wire.frames.supervision import NodeEvents

CONNECTIONS_MAX = 60


class Told:
    """A lane, and what is told of it. on_refusal: what is done with each refused message."""

    def __init__(self, on_refusal: str) -> None:
        self.parts = LaneParts(protocol=5, on_refusal=on_refusal)
        policy = RefusalPolicy(RefusalSettings(default=on_refusal, codes=()))
        self.reports = LaneReports(self.parts.mailbox, self.parts.lane, self.parts.flow, policy)

    def events(self) -> list[tuple[Any, ...]]:
        """The events that the store was told to keep, without the time."""
        sent = self.parts.mailbox.sent
        return [event[1:] for frame in sent if isinstance(frame, NodeEvents) for event in frame.events]


def refuse(parts: LaneParts, *payloads: bytes, reason_code: int) -> None:
    """The remote refuses these messages."""
    before = parts.flow.counts.published
    parts.publish(*payloads)
    parts.written()
    for number in range(len(payloads)):
        parts.flow.on_received(ack(PUBACK, before + number + 1, reason_code))


def close_on_the_first(parts: LaneParts) -> None:
    parts.connect()
    parts.written()
    parts.exchange.on_disconnected(by_remote=True)


def test_refusals_are_logged_by_name_at_once_and_then_gather(caplog: pytest.LogCaptureFixture) -> None:
    told = Told("dead-letter")
    parts, reports = told.parts, told.reports
    parts.connect()
    reports.refusals(100.0)
    assert not caplog.records, "there are none"

    refuse(parts, b"a", b"b", reason_code=0x87)
    reports.refusals(101.0)
    refuse(parts, b"c", reason_code=0x90)
    reports.refusals(101.0 + REFUSALS_LOGGED_EACH_S / 2)
    refuse(parts, b"d", reason_code=0x90)
    reports.refusals(101.0 + REFUSALS_LOGGED_EACH_S)

    assert [record.getMessage() for record in caplog.records] == ["messages.refused"] * 2
    assert [vars(record)["reasons"] for record in caplog.records] == [
        {"not authorized (0x87)": 2},
        {"topic name invalid (0x90)": 2},
    ]


def test_the_note_names_what_the_remote_says_before_what_it_closes_on() -> None:
    told = Told("retry")
    parts, reports = told.parts, told.reports
    assert reports.note()[0] == ""
    parts.publish(b"poison")
    for _ in range(BARREN + 2):
        close_on_the_first(parts)
    [figures] = reports.figures()
    assert reports.note()[0] == f"remote closes on message 0 (t, {figures.bytes} B), 2 times"
    assert (figures.seq, figures.topic, figures.closed) == (0, "t", 2)

    parts.connect()
    parts.written()
    parts.flow.on_received(ack(PUBACK, 1, 0x97))
    assert reports.note()[0] == "remote says quota exceeded"


def test_each_close_is_logged_and_the_first_is_an_event_of_the_lane(caplog: pytest.LogCaptureFixture) -> None:
    told = Told("dead-letter")
    parts, reports = told.parts, told.reports
    parts.publish(b"poison")
    for _ in range(BARREN + 3):
        close_on_the_first(parts)
        assert not reports.report_quarantine(), "nothing is proven where no other is taken"
        assert not reports.report_quarantine()

    assert [(record.getMessage(), vars(record)["closed"]) for record in caplog.records if record.levelno == logging.WARNING] == [
        ("message.suspected", count) for count in (1, 2, 3)
    ]
    [(kind, bridge, lane, actor, reason, count, details)] = told.events()
    assert (kind, bridge, lane, actor) == ("message.suspected", "cloud", 0, "connection:cloud:0")
    assert (reason, count, details["seq"], details["topic"]) == ("connection_closed", 1, 0, "t")


def test_a_message_that_is_given_up_is_told_of_once_with_what_becomes_of_it(caplog: pytest.LogCaptureFixture) -> None:
    told = Told("dead-letter")
    parts, reports = told.parts, told.reports
    parts.publish(b"poison")
    for _ in range(CONNECTIONS_MAX):
        parts.connect()
        parts.publish(b"good")
        while (packets := parse(parts.written(), 5)) and packets[0].payload != b"poison":
            parts.flow.on_received(b"".join(ack(PUBACK, packet.packet_id) for packet in packets if packet.payload == b"good"))
            if packets[-1].payload == b"poison":
                break
        parts.exchange.on_disconnected(by_remote=True)
        if reports.report_quarantine():
            break

    [record] = [record for record in caplog.records if record.getMessage() == "message.given_up"]
    assert (vars(record)["seq"], vars(record)["on_refusal"]) == (0, "dead:connection_closed")
    assert [event[0] for event in told.events()] == ["message.suspected", "message.given_up"]
    assert not reports.report_quarantine(), "once"
    assert (reports.note(), reports.figures()) == (("", None), ())
