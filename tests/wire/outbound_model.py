"""A remote broker and a store as plain as can be, to judge SenderHalf: they share no code with it but the frames."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import pytest

from wire.backoff import Backoff
from wire.config_settings import BackoffSettings, RefusalSettings
from wire.exchange import due_messages, held_identifiers, identifier_span, lane_messages
from wire.exchange.lane_record import Facts
from wire.exchange.lane_sender import LaneSender
from wire.exchange.refusal_policy import RefusalPolicy
from wire.exchange.sender import SenderHalf
from wire.frames.batch import Batch, from_rows, pack_column
from wire.frames.lanes import HandOut, LaneOpened
from wire.mqtt.publish_properties import with_message_expiry
from wire.ranges import ranges_of

# Places at which it is asked how many packet identifiers there are, but for where packets are made.
IDENTIFIER_MODULES = (held_identifiers, identifier_span, lane_messages, due_messages)

PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP, PINGREQ = 3, 4, 5, 6, 7, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One packet as the flow wrote it; ``raw`` is all of its bytes."""

    kind: int
    flags: int
    packet_id: int
    topic: bytes = b""
    properties: bytes = b""
    payload: bytes = b""
    reason_code: int = 0
    raw: bytes = b""

    @property
    def qos(self) -> int:
        return self.flags >> 1 & 3

    @property
    def dup(self) -> bool:
        return bool(self.flags & 8)


def _variable(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def parse(data: bytes, level: int) -> list[Sent]:
    """The whole packets in ``data``; there must be nothing else in it."""
    packets = []
    at = 0
    while at < len(data):
        begin = at
        kind, flags = data[at] >> 4, data[at] & 15
        length, at = _variable(data, at + 1)
        end = at + length
        assert end <= len(data), "half a packet"
        if kind == PUBLISH:
            size = int.from_bytes(data[at : at + 2], "big")
            topic, at = data[at + 2 : at + 2 + size], at + 2 + size
            packet_id, properties = 0, b""
            if flags & 6:
                packet_id, at = int.from_bytes(data[at : at + 2], "big"), at + 2
            if level == 5:
                size, at = _variable(data, at)
                properties, at = data[at : at + size], at + size
            packets.append(
                Sent(
                    kind=kind,
                    flags=flags,
                    packet_id=packet_id,
                    topic=topic,
                    properties=properties,
                    payload=data[at:end],
                    raw=data[begin:end],
                )
            )
        else:
            reason_code = data[at + 2] if length > 2 else 0
            packet_id = int.from_bytes(data[at : at + 2], "big")
            packets.append(Sent(kind=kind, flags=flags, packet_id=packet_id, reason_code=reason_code, raw=data[begin:end]))
        at = end
    return packets


def ack(kind: int, packet_id: int, reason_code: int | None = None) -> bytes:
    """PUBACK, PUBREC or PUBCOMP."""
    body = packet_id.to_bytes(2, "big") + (b"" if reason_code is None else bytes([reason_code]))
    return bytes([kind << 4, len(body)]) + body


def few_identifiers(patch: pytest.MonkeyPatch, count: int) -> None:
    """Of 65,000 packet identifiers only so many are used."""
    for module in IDENTIFIER_MODULES:
        patch.setattr(module, "PACKET_IDS", count)


def hand_out(first_seq: int, batch: Batch, *, epoch: int = 1, offsets: list[int] | None = None) -> HandOut:
    """A HandOut of ``batch``."""
    return HandOut(
        queue="bridge:cloud:0",
        epoch=epoch,
        first_seq=first_seq,
        count=len(batch),
        size_bytes=batch.size_bytes(),
        offsets=b"" if offsets is None else pack_column(array("I", offsets)),
        bodies=(batch.encode(),),
    )


Flow = TypeVar("Flow", SenderHalf, LaneSender)


def outbound_flow(
    *,
    receive_maximum: int = 100,
    qos2_maximum: int = 20,
    republish: bool = False,
    default: str = "dead-letter",
    codes: tuple[tuple[int, str], ...] = ((0x91, "retry"), (0x97, "retry")),
    max_age_s: float | None = None,
) -> SenderHalf:
    """A flow with plain defaults; it is held back 1 s, 2 s, 4 s, ... up to 8 s after refusals that are retried."""
    return _flow(SenderHalf, receive_maximum, qos2_maximum, republish, default, codes, max_age_s)


def lane_flow(
    *sessions: str, receive_maximum: int = 100, qos2_maximum: int = 20, republish: bool = False, default: str = "dead-letter"
) -> LaneSender:
    """The same for a lane that takes what its remote publishes, in these ``sessions``; without any it takes nothing."""
    flow = _flow(LaneSender, receive_maximum, qos2_maximum, republish, default, (), None)
    flow.keep(sessions)
    return flow


def _flow(
    kind: type[Flow],
    receive_maximum: int,
    qos2_maximum: int,
    republish: bool,
    default: str,
    codes: tuple[tuple[int, str], ...],
    max_age_s: float | None,
) -> Flow:
    return kind(
        receive_maximum=receive_maximum,
        qos2_maximum=qos2_maximum,
        republish=republish,
        policy=RefusalPolicy(RefusalSettings(default=default, codes=codes)),
        backoff=Backoff(BackoffSettings(initial_s=1.0, max_s=8.0, factor=2.0, jitter=0.0, stable_s=0.0), lambda: 0.5),
        max_age_s=max_age_s,
    )


def lane_opened(
    *,
    head: int = 0,
    tail: int = 0,
    dup_below: int = 0,
    settled: list[int] | None = None,
    released: list[int] | None = None,
    generation: int = 0,
    session: str = "",
    epoch: int = 1,
) -> LaneOpened:
    """A LaneOpened with plain defaults."""
    return LaneOpened(
        queue="bridge:cloud:0",
        epoch=epoch,
        head=head,
        tail=tail,
        dup_below=dup_below,
        settled=ranges_of(settled or []),
        released=tuple((seq, seq + 1) for seq in released or []),
        generation=generation,
        session=session,
    )


@dataclass(slots=True)
class RemoteModel:
    """A broker's receiving half: forwards QoS 2 when the PUBLISH comes, keeps its identifier until PUBREL."""

    level: int
    receive_maximum: int
    qos2_maximum: int
    packet_max: int = 1 << 20
    maximum_qos: int = 2
    published: list[int] = field(default_factory=list)
    refusing: deque[int] = field(default_factory=deque)  # reason codes for the next PUBLISHes; below 0x80 it accepts
    refused: dict[int, set[int]] = field(default_factory=dict)  # sequence -> reason codes it was ever refused with
    retried: set[int] = field(default_factory=set)  # refused on this connection, so that they may come again
    session: bool = False
    received_ids: set[int] = field(default_factory=set)
    unsettled: dict[int, int] = field(default_factory=dict)  # packet id -> QoS, on this connection
    seen: set[int] = field(default_factory=set)  # sequences PUBLISHed on this connection
    held_before: set[int] = field(default_factory=set)  # packet ids received earlier, not PUBLISHed on this connection
    highest: int = -1
    pubrecs: dict[int, int] = field(default_factory=dict)  # packet id -> place of its last PUBREC in this session
    pubrecs_sent: int = 0
    released_last: int = 0  # the place of the PUBREC that the last PUBREL of this connection answers
    pubrecs_here: set[int] = field(default_factory=set)  # packet ids that had a PUBREC on this connection
    said_again: set[int] = field(default_factory=set)  # those that had two

    def connect(self) -> bool:
        """CONNECT without a clean start; whether the session is present."""
        present, self.session = self.session, True
        self.unsettled = dict.fromkeys(self.received_ids, 2)
        self.held_before = set(self.received_ids)
        self.seen = set()
        self.retried = set()
        self.highest = -1
        self.released_last = 0
        self.pubrecs_here = set()
        self.said_again = set()
        return present

    def forget_session(self) -> None:
        self.session = False
        self.received_ids.clear()
        self.pubrecs.clear()

    def never_heard(self, packet_ids: Iterable[int]) -> None:
        """Their PUBRECs were lost: PUBRELs of what was abandoned keep no order (exchange.pubrels-in-pubrec-order,
        exchange.abandoned-identifier-released).
        """
        for packet_id in packet_ids:
            self.pubrecs.pop(packet_id, None)

    def say_again(self) -> bytes:
        """The PUBRECs of this connection once more, of which the PUBRELs have not come."""
        again = sorted(self.pubrecs_here & self.received_ids)
        self.said_again.update(again)
        return b"".join(ack(PUBREC, packet_id) for packet_id in again)

    def take(self, packet: Sent) -> bytes:
        """Judge a packet and answer it."""
        if packet.kind == PUBREL:
            known = packet.packet_id in self.received_ids
            self.received_ids.discard(packet.packet_id)
            self.unsettled.pop(packet.packet_id, None)
            repeated = not known and packet.packet_id in self.said_again
            if not repeated and (place := self.pubrecs.get(packet.packet_id)) is not None:
                assert place > self.released_last, f"exchange.pubrels-in-pubrec-order: PUBREL {packet.packet_id} is out of order"
                self.released_last = place
            return ack(PUBCOMP, packet.packet_id, 0x92 if self.level == 5 and not known else None)
        assert packet.kind == PUBLISH
        assert len(packet.raw) <= self.packet_max, "larger than the maximum packet size"
        seq = int(packet.payload)
        if seq in self.retried:
            assert not packet.dup, f"MQTT-4.4.0-2: {seq} was retransmitted after a refusal"
            self.retried.discard(seq)
            self.highest = seq  # what was in flight behind it has been sent: those do not come again
        assert seq not in self.seen, f"exchange.nothing-twice-live: {seq} was sent twice on one connection"
        assert seq >= self.highest, f"exchange.publish-in-order: {seq} after {self.highest}"
        self.seen.add(seq)
        self.highest = seq
        if packet.qos == 0:
            assert not packet.dup
            self.published.append(seq)
            return b""
        assert packet.qos <= self.maximum_qos, "a QoS that the remote does not take"
        assert packet.packet_id == seq % 65_000 + 1
        repeated = packet.packet_id in self.received_ids
        if packet.qos == 1 and repeated:  # lowered since: Mosquitto releases what it held under that identifier
            self.never_heard({packet.packet_id})
            self.received_ids.discard(packet.packet_id)
            self.unsettled.pop(packet.packet_id, None)
            repeated = False
        if not repeated:
            assert packet.packet_id not in self.unsettled, "exchange.identifier-never-twice: a packet identifier was given twice"
            reason_code = self.refusing.popleft() if self.refusing and self.level == 5 else 0
            if reason_code >= 0x80:
                self.refused.setdefault(seq, set()).add(reason_code)
                self.retried.add(seq)
                self.seen.discard(seq)
                return ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id, reason_code)
        else:
            reason_code = 0
        self.unsettled[packet.packet_id] = packet.qos
        self.held_before.discard(packet.packet_id)
        # Mosquitto 2.0 counts what it holds of an earlier connection as well, but level 4 has no receive maximum, and one of 1 has
        # no slot to keep free (exchange.qos2-maximum-kept).
        counted = self.unsettled if self.level == 5 and self.receive_maximum > 1 else self.unsettled.keys() - self.held_before
        assert len(counted) <= self.receive_maximum, "exchange.receive-maximum-kept: more than the receive maximum"
        if self.level == 4:
            assert list(self.unsettled.values()).count(2) <= self.qos2_maximum, (
                "exchange.qos2-maximum-kept: too many QoS 2 messages"
            )
        if packet.qos == 1:
            self.published.append(seq)
            del self.unsettled[packet.packet_id]
            return ack(PUBACK, packet.packet_id, reason_code or None)
        if not repeated:
            self.published.append(seq)
            self.received_ids.add(packet.packet_id)
        self.pubrecs_sent += 1
        self.pubrecs_here.add(packet.packet_id)
        self.pubrecs[packet.packet_id] = self.pubrecs_sent
        return ack(PUBREC, packet.packet_id, reason_code or None)


@dataclass(slots=True)
class StoreModel:
    """The committed state of one lane."""

    head: int
    republish: bool
    rows: dict[int, int] = field(default_factory=dict)  # seq -> QoS, rising
    large: set[int] = field(default_factory=set)
    expires_s: dict[int, int] = field(default_factory=dict)  # seq -> when its time is up, for those that have a limit
    tail: int = 0
    handed_stop: int = 0
    cursor: int = 0
    settled: dict[int, str] = field(default_factory=dict)
    released: dict[int, None] = field(default_factory=dict)  # in the order of the PUBRECs
    session: str = ""
    generation: int = 0
    epoch: int = 0

    def __post_init__(self) -> None:
        self.tail = self.handed_stop = self.cursor = self.head

    def append(self, qos: list[int], *, large: bool = False, expires_s: int | None = None) -> None:
        """expires_s: when the time of every other one is up."""
        for place, level in enumerate(qos):
            self.rows[self.tail] = level
            if expires_s is not None and not place % 2:
                self.expires_s[self.tail] = expires_s
            if large:
                self.large.add(self.tail)
            self.tail += 1

    def payload(self, seq: int) -> bytes:
        return b"%050d" % seq if seq in self.large else b"%d" % seq

    def open(self) -> LaneOpened:
        """Put the cursor back; QoS 0 that was handed out is gone."""
        self.epoch += 1
        head = next((seq for seq in self.rows if seq not in self.settled), self.tail)
        self.cursor = head
        return lane_opened(
            head=head,
            tail=self.tail,
            dup_below=self.handed_stop,
            settled=sorted(seq for seq in self.settled if seq > head),
            released=list(self.released),
            generation=self.generation,
            session=self.session,
            epoch=self.epoch,
        )

    def hand_out(self, count: int) -> HandOut | None:
        """The next ``count`` messages that are not settled, as one batch; None if there are none."""
        seqs = [seq for seq in self.rows if seq >= self.cursor and seq not in self.settled][:count]
        if not seqs:
            return None
        self.cursor = seqs[-1] + 1
        self.handed_stop = max(self.handed_stop, self.cursor)
        batch = from_rows((b"t/%d" % (seq % 3), self.rows[seq], self.payload(seq)) for seq in seqs)
        batch.properties = {
            row: with_message_expiry(b"", self.expires_s[seq]) for row, seq in enumerate(seqs) if seq in self.expires_s
        }
        offsets = [seq - seqs[0] for seq in seqs]
        for seq in seqs:
            if not self.rows[seq]:
                self.settled[seq] = "delivered"  # the Forwarder settles QoS 0 when it passes it on
        plain = offsets == list(range(len(seqs)))
        return hand_out(seqs[0], batch, epoch=self.epoch, offsets=None if plain else offsets)

    def commit(self, facts: Facts) -> None:
        if facts.generation != self.generation:
            self.generation = facts.generation
            self.released.clear()
        if facts.session is not None:
            self.session = facts.session
        for outcome, ranges in facts.settled:
            if outcome == "redelivered":
                continue
            for start, stop in ranges:
                for seq in range(start, stop):
                    assert seq not in self.settled, f"{seq} was settled twice"
                    self.settled[seq] = outcome
                    self.released.pop(seq, None)
        for start, stop in facts.released:
            self.released.update(dict.fromkeys(range(start, stop)))
