"""The receiver's half of QoS 1 and 2 as a server keeps it for one client, by the letter of MQTT, and the judge of what comes in.

``FakeRemote`` feeds it the packets of one session over all its connections. It answers nothing itself, and shares no code with the
product. The first list below is what it does, the second what it complains about.

Deliveries, MQTT 3.1.1 and 5.0 section 4.3.3: a QoS 2 message is delivered on PUBREL (method A, the message is kept) or on PUBLISH
(method B, the packet identifier is kept). Only the identifier tells a repeat: whatever the peer does wrong is delivered wrong.

exchange.dup-on-repeats: DUP is set on what was received on an earlier connection, and on nothing that comes first on the session's
    first connection.
exchange.resent-unchanged: what is sent again has its original packet identifier, topic, QoS and payload.
exchange.nothing-twice-live: nothing is sent again on a live connection.
exchange.resumed-in-order: PUBLISHes of one connection come in the order in which they first came, and before anything new.
exchange.no-publish-after-pubrec: PUBREL comes for what had a whole PUBREC, once on a connection, and no PUBLISH of it comes after
    it.
exchange.pubrels-in-pubrec-order: PUBRELs of one connection come in the order of their PUBLISHes.
exchange.receive-maximum-kept: at most the receive maximum is unanswered on a connection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tests.support.mqtt_packets import PUBACK, PUBLISH, PUBREC, PUBREL, Packet

FAILURE = 0x80


class Stage(Enum):
    """How far the exchange of one message has come, in what the receiver knows to have left it."""

    PUBLISHED = "published"
    RECEIVED = "received"  # a whole PUBREC was written
    RELEASED = "released"  # PUBREL came
    ENDED = "ended"  # a whole PUBACK or PUBCOMP, or a refusal, was written


@dataclass(slots=True)
class Exchange:
    """One message under its packet identifier. ``order`` numbers first arrivals; connections are those of the last of a kind."""

    order: int
    topic: str
    payload: bytes
    qos: int
    published_on: int
    released_on: int = 0
    released: bool = False
    stage: Stage = Stage.PUBLISHED


class ReceiverSession:
    """One client's session. ``deliver`` takes what the application gets, ``complain`` what breaks a rule, in words."""

    def __init__(self, *, deliver_on: int, deliver: Callable[[Packet], None], complain: Callable[[str], None]) -> None:
        assert deliver_on in (PUBLISH, PUBREL)
        self._deliver_on = deliver_on
        self._deliver = deliver
        self._complain = complain
        self._held: dict[int, Packet] = {}
        self._exchanges: dict[int, Exchange] = {}
        self._ids: dict[tuple[str, bytes], int] = {}
        self._arrivals = 0
        self._first_connection = 0
        self._connection = 0
        self._receive_maximum = 65_535
        self._outstanding: set[int] = set()
        self._last_published = self._last_released = -1

    def connected(self, connection: int, *, receive_maximum: int) -> None:
        """The client is here on connection number ``connection``, which counts upwards."""
        self._first_connection = self._first_connection or connection
        self._connection = connection
        self._receive_maximum = receive_maximum
        self._outstanding.clear()
        self._last_published = self._last_released = -1

    @property
    def unfinished(self) -> int:
        """How many messages came whose exchange has not ended."""
        return sum(exchange.stage is not Stage.ENDED for exchange in self._exchanges.values())

    def publish(self, packet: Packet, reason_code: int = 0) -> None:
        """A whole PUBLISH came; ``reason_code`` is what it will be answered with."""
        if packet.qos == 0:
            if packet.dup:
                self._complain(f"[MQTT-3.3.1-2] DUP on QoS 0: {packet}")
            self._deliver(packet)
            return
        self._judge_publish(packet)
        if packet.qos == 1 or reason_code >= FAILURE:
            if reason_code < FAILURE:
                self._deliver(packet)
            return
        if packet.packet_id not in self._held:
            self._held[packet.packet_id] = packet
            if self._deliver_on == PUBLISH:
                self._deliver(packet)

    def pubrel(self, packet: Packet) -> bool:
        """A whole PUBREL came; whether its packet identifier was known."""
        self._judge_pubrel(packet)
        message = self._held.pop(packet.packet_id, None)
        if message is not None and self._deliver_on == PUBREL:
            self._deliver(message)
        return message is not None

    def answered(self, kind: int, packet_id: int, reason_code: int) -> None:
        """A whole PUBACK, PUBREC or PUBCOMP was written."""
        exchange = self._exchanges.get(packet_id)
        if kind == PUBREC and reason_code < FAILURE:
            if exchange is not None and exchange.stage is Stage.PUBLISHED:
                exchange.stage = Stage.RECEIVED
            return
        self._outstanding.discard(packet_id)
        if exchange is not None:
            exchange.stage = Stage.ENDED

    # --- the judge ---

    def _judge_publish(self, packet: Packet) -> None:
        known = self._exchanges.get(packet.packet_id)
        if known is not None and known.stage is Stage.ENDED and (known.topic, known.payload) != (packet.topic, packet.payload):
            known = None  # the identifier is free for another message
        if known is None:
            exchange = self._begin(packet)
        else:
            exchange = known
            self._judge_repeat(packet, exchange)
        if exchange.order <= self._last_published:
            self._complain(f"exchange.resumed-in-order [MQTT-4.6.0-1] out of the original order: {packet}")
        self._last_published = exchange.order
        exchange.published_on = self._connection
        self._outstanding.add(packet.packet_id)
        if len(self._outstanding) > self._receive_maximum:
            self._complain(
                f"exchange.receive-maximum-kept [MQTT-4.9.0-2] {len(self._outstanding)} of {self._receive_maximum}: {packet}"
            )

    def _begin(self, packet: Packet) -> Exchange:
        content = packet.topic, packet.payload
        earlier = self._ids.get(content)
        if packet.dup:
            if self._connection == self._first_connection:
                self._complain(
                    f"exchange.dup-on-repeats [MQTT-3.3.1-1] DUP on the session's first connection, on what never came: {packet}"
                )
            if earlier is not None and earlier != packet.packet_id:
                self._complain(f"exchange.resent-unchanged [MQTT-4.4.0-1] sent again, first as {earlier}: {packet}")
        self._ids[content] = packet.packet_id
        exchange = Exchange(self._arrivals, packet.topic, packet.payload, packet.qos, self._connection)
        self._arrivals += 1
        self._exchanges[packet.packet_id] = exchange
        return exchange

    def _judge_repeat(self, packet: Packet, exchange: Exchange) -> None:
        if (exchange.topic, exchange.payload, exchange.qos) != (packet.topic, packet.payload, packet.qos):
            self._complain(
                f"exchange.identifier-never-twice [MQTT-2.2.1-3] the packet identifier is in use by {exchange}: {packet}"
            )
        if exchange.published_on == self._connection:
            self._complain(f"exchange.nothing-twice-live [MQTT-4.4.0-1] sent again on a live connection: {packet}")
        if not packet.dup:
            self._complain(f"exchange.dup-on-repeats [MQTT-3.3.1-1] sent again without DUP: {packet}")
        if exchange.released:
            self._complain(f"exchange.no-publish-after-pubrec [MQTT-4.3.3-6] PUBLISH after PUBREL: {packet}")
        if exchange.qos == 1:
            exchange.stage = Stage.PUBLISHED

    def _judge_pubrel(self, packet: Packet) -> None:
        if packet.flags != 2:
            self._complain(f"[MQTT-3.6.1-1] flags of PUBREL: {packet}")
        exchange = self._exchanges.get(packet.packet_id)
        if exchange is None or exchange.qos != 2 or exchange.stage is Stage.PUBLISHED:
            self._complain(f"exchange.release-after-record [MQTT-4.3.3-4] PUBREL of what had no PUBREC: {packet}")
            return
        if exchange.released_on == self._connection:
            self._complain(f"exchange.nothing-twice-live PUBREL again on a live connection: {packet}")
        if exchange.order <= self._last_released:
            self._complain(f"exchange.pubrels-in-pubrec-order [MQTT-4.6.0-4] PUBREL out of order: {packet}")
        self._last_released = exchange.order
        exchange.released_on = self._connection
        exchange.released = True
        exchange.stage = Stage.RELEASED
        self._outstanding.add(packet.packet_id)


def first_answer(qos: int) -> int:
    """The kind of packet that answers a PUBLISH."""
    return PUBACK if qos == 1 else PUBREC
