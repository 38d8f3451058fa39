"""Packets that a remote broker was sent and that it acknowledged: the judge between a bridge and its remote.

A ``Recorder`` is the ``tap`` of a ``Proxy`` between a Connection and the remote. It reads MQTT on each connection: PUBLISH and
PUBREL as they are passed up, CONNACK, PUBACK, PUBREC and PUBCOMP as they come from the remote, also those that a cut link keeps
from the bridge. So it knows what the remote has taken responsibility for, whatever the remote itself loses later.

*Remote session*: from one CONNACK without session present to the next. It is the remote's word that counts: one that was killed
and comes back with an older state of a session still resumes that session.

*Taken*: the remote acknowledged the message, with PUBACK or PUBREC and a reason code below 0x80.

*Duplicate* (QoS 2): a message of which a PUBLISH was sent that a conforming remote has to take as a new message although it has
taken it before in the same session. That is so when its PUBREL was sent earlier in the session, or when it goes under a second
packet identifier, then in any session (the bridge took it in twice).

A message that the remote refused with a reason code of 0x80 or above is not taken; it may be sent again as new [MQTT-4.4.0-2].

Of a bridge of fewer than 65,000 messages each packet identifier names one message; messages are told apart by topic and payload.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from tests.support.mqtt_packets import CONNACK, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Conversation, Packet

_FAILURE = 0x80

Message = tuple[str, str]  # topic, payload


@dataclass(slots=True)
class Record:
    """The sightings of one packet identifier, and so of one QoS 1 or 2 message that the bridge had in its queue."""

    packet_id: int
    message: Message
    qos: int
    sent_in: list[int] = field(default_factory=list)  # the session of each PUBLISH
    taken_in: list[int] = field(default_factory=list)  # the session of each PUBACK or PUBREC
    taken_at: int = -1  # position, among all PUBLISHes, of the first one that was acknowledged
    released_in: list[int] = field(default_factory=list)  # the session of each PUBREL
    completed_in: list[int] = field(default_factory=list)  # the session of each PUBCOMP


@dataclass(slots=True)
class _Stream:
    """One connection: its packets, and the PUBLISHes that wait for an acknowledgement."""

    packets: Conversation = field(default_factory=Conversation)
    sent: dict[int, int] = field(default_factory=dict)  # packet identifier -> position of its PUBLISH
    others: bool = False  # it is another client's


class Recorder:
    """The record of all connections of one bridge lane to its remote. ``faults`` are what no MQTT sender may do, in words."""

    def __init__(self, client_id: str | None = None) -> None:
        """client_id: that of the lane, where others go by the same proxy."""
        self._client_id = client_id
        self._lock = threading.Lock()
        self._streams: dict[int, _Stream] = {}
        self._records: dict[int, Record] = {}
        self._ids: dict[Message, list[int]] = {}
        self._at_most_once: list[Message] = []
        self._position = 0
        self.session = 0
        self.connects = 0
        self.refused: list[tuple[Message, int]] = []
        self.faults: list[str] = []

    # --- what the proxy tells ---

    def opened(self, connection: int) -> None:
        """A connection begins."""
        self._streams[connection] = _Stream()

    def passed_up(self, connection: int, data: bytes) -> None:
        """``data`` goes to the remote now."""
        stream = self._streams[connection]
        with self._lock:
            for packet in stream.packets.passed_up(data):
                if packet.connect is not None and self._client_id is not None:
                    stream.others = packet.connect.client_id != self._client_id
                if not stream.others:
                    self._take_up(stream, packet)

    def came_down(self, connection: int, data: bytes) -> None:
        """``data`` came from the remote; whether it reaches the bridge is another question."""
        stream = self._streams[connection]
        with self._lock:
            for packet in stream.packets.came_down(data):
                if not stream.others:
                    self._take_down(stream, packet)

    # --- what a test asks ---

    def records(self, topic: str) -> list[Record]:
        """The QoS 1 and 2 messages of ``topic`` that were sent, in the order of their first PUBLISH."""
        with self._lock:
            return [record for record in self._records.values() if record.message[0] == topic]

    def taken(self, topic: str) -> list[str]:
        """The payloads of ``topic`` that the remote took, each once, in the order of the first PUBLISH that it acknowledged."""
        records = sorted((record for record in self.records(topic) if record.taken_in), key=lambda record: record.taken_at)
        return list(dict.fromkeys(record.message[1] for record in records))

    def sent_at_most_once(self, topic: str) -> list[str]:
        """The payloads of QoS 0 that were sent on ``topic``, in order, repeats included."""
        with self._lock:
            return [payload for name, payload in self._at_most_once if name == topic]

    def duplicates(self) -> list[Record]:
        """The QoS 2 messages that were sent as new again after the remote had taken them (see above)."""
        found = []
        with self._lock:
            for record in self._records.values():
                twice_named = len(self._ids[record.message]) > 1
                if record.qos == 2 and (twice_named or self._published_after_release(record)):
                    found.append(record)
        return found

    def sent_again_after_release(self) -> list[Record]:
        """The QoS 2 messages that were sent as new in a later session although released in an earlier one."""
        with self._lock:
            return [
                record
                for record in self._records.values()
                if record.released_in and max(record.sent_in, default=0) > record.released_in[0]
            ]

    def unfinished(self) -> list[Record]:
        """The QoS 2 messages that were taken and never completed, in a session that was not lost afterwards."""
        with self._lock:
            return [
                record
                for record in self._records.values()
                if record.qos == 2 and record.taken_in and record.taken_in[-1] == self.session not in record.completed_in
            ]

    # --- inside ---

    def _published_after_release(self, record: Record) -> bool:
        return any(fault.startswith(f"PUBLISH after PUBREL: {record.packet_id} ") for fault in self.faults)

    def _take_up(self, stream: _Stream, packet: Packet) -> None:
        if packet.kind == PUBLISH and packet.topic.startswith("$SYS/"):
            return  # the bridge tells of itself, by no queue
        if packet.kind == PUBLISH:
            self._position += 1
            message = (packet.topic, packet.payload.decode())
            if packet.qos == 0:
                self._at_most_once.append(message)
            else:
                self._published(stream, packet, message)
        elif packet.kind == PUBREL:
            record = self._records.get(packet.packet_id)
            if record is None or not record.taken_in:
                self.faults.append(f"PUBREL without PUBREC: {packet.packet_id} in session {self.session}")
            else:
                record.released_in.append(self.session)

    def _published(self, stream: _Stream, packet: Packet, message: Message) -> None:
        packet_id = packet.packet_id
        record = self._records.get(packet_id)
        if record is None:
            record = self._records[packet_id] = Record(packet_id, message, packet.qos)
            self._ids.setdefault(message, []).append(packet_id)
        what = f"{packet_id} {record.message} in session {self.session}"
        if record.message != message or record.qos != packet.qos:
            self.faults.append(f"packet identifier given twice: {what}, now {message} at QoS {packet.qos}")
        if packet_id in stream.sent:
            self.faults.append(f"sent twice on one connection: {what} [MQTT-4.4.0-1]")
        if self.session in record.sent_in and not packet.dup:
            self.faults.append(f"sent again without DUP: {what} [MQTT-3.3.1-1]")
        if self.session in record.released_in:
            self.faults.append(f"PUBLISH after PUBREL: {what} [MQTT-4.3.3-6]")
        record.sent_in.append(self.session)
        stream.sent[packet_id] = self._position

    def _take_down(self, stream: _Stream, packet: Packet) -> None:
        if packet.kind == CONNACK:
            if packet.reason_code == 0:
                self.connects += 1
                self.session += not packet.session_present
            return
        record = self._records.get(packet.packet_id) if packet.kind in (PUBACK, PUBREC, PUBCOMP) else None
        if record is None:
            return
        if packet.kind == PUBCOMP:
            record.completed_in.append(self.session)
        elif packet.packet_id in stream.sent:
            if packet.reason_code >= _FAILURE:
                self.refused.append((record.message, packet.reason_code))
                del stream.sent[packet.packet_id]
                record.sent_in = [session for session in record.sent_in if session != self.session]
                return
            if not record.taken_in:
                record.taken_at = stream.sent[packet.packet_id]
            record.taken_in.append(self.session)
