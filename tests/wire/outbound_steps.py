"""Steps of an exchange in tests: offer, pump, commit, and look at what leaves and what is settled."""

from __future__ import annotations

from typing import Any

from tests.wire.outbound_model import (
    PUBLISH,
    Sent,
    hand_out,
    lane_opened,
    outbound_flow,
    parse,
)
from wire.exchange.remote_limits import RemoteLimits
from wire.exchange.sender import SenderHalf
from wire.frames.batch import from_rows
from wire.frames.lanes import HandOut
from wire.mqtt.publish_properties import message_expiry_s, with_message_expiry

EDGE = "edge@here"


def flow_at(
    head: int = 0,
    *,
    level: int = 4,
    receive_maximum: int = 100,
    qos2_maximum: int = 20,
    republish: bool = False,
    remote_maximum: int = 65_535,
    maximum_qos: int = 2,
    retain_available: bool = True,
    maximum_packet_size: int | None = None,
    **policy: Any,
) -> SenderHalf:
    """A flow whose lane begins at ``head``, connected with the session on record."""
    flow = outbound_flow(receive_maximum=receive_maximum, qos2_maximum=qos2_maximum, republish=republish, **policy)
    flow.open(lane_opened(head=head, session=EDGE))
    flow.on_connected(
        session=EDGE,
        session_present=True,
        level=level,
        receive_maximum=remote_maximum,
        limits=RemoteLimits(maximum_qos, retain_available, maximum_packet_size),
    )
    return flow


def offer(flow: SenderHalf, first_seq: int, *flags: int) -> None:
    """Hand out one row for each of ``flags``."""
    flow.hand_out(hand_out(first_seq, from_rows((b"t", flag, b"%d" % (first_seq + at)) for at, flag in enumerate(flags))))


def commit(flow: SenderHalf, number: int) -> dict[str, tuple[tuple[int, int], ...]]:
    """Have all that is known of committed as ``Settle`` ``number``; what it settles."""
    found = settled(flow, number)
    flow.record.on_committed(number)
    return found


def burst(flow: SenderHalf, level: int = 4, now_s: float = 0.0) -> list[Sent]:
    """The packets that leave now."""
    return parse(flow.pump(1 << 20, now_s), level)


def kinds(packets: list[Sent]) -> list[tuple[int, int]]:
    """Kind and packet identifier of each."""
    return [(packet.kind, packet.packet_id) for packet in packets]


def settled(flow: SenderHalf, number: int = 1) -> dict[str, tuple[tuple[int, int], ...]]:
    """The outcomes since the last time."""
    facts = flow.record.facts(number)
    return {} if facts is None else dict(facts.settled)


ACCEPTED_MS = 1_000_000


def aging(first_seq: int, *rows: tuple[int, int | None]) -> HandOut:
    """One row for each (QoS, message expiry interval) of ``rows``, accepted at ``ACCEPTED_MS``."""
    batch = from_rows(((b"t", qos, b"%d" % (first_seq + at)) for at, (qos, _) in enumerate(rows)), accepted_ms=ACCEPTED_MS)
    batch.properties = {row: with_message_expiry(b"", each) for row, (_, each) in enumerate(rows) if each is not None}
    return hand_out(first_seq, batch)


def after(flow: SenderHalf, waited_s: float, level: int = 5) -> list[tuple[int, int | None]]:
    """The packets that leave ``waited_s`` after acceptance: sequence and what each says of its time."""
    packets = parse(flow.pump(1 << 20, 0.0, ACCEPTED_MS + int(waited_s * 1000)), level)
    return [(int(packet.payload), message_expiry_s(packet.properties)) for packet in packets if packet.kind == PUBLISH]
