"""The function that a fuzzer calls: bytes in, nothing out, and an exception where the product has a bug.

``python -m tests.fuzz.target FILE...`` replays inputs; an external fuzzer calls ``fuzz_one`` (libFuzzer's bindings for Python want
that signature). The first byte says how the rest, the traffic of one connection, is cut into pieces.
"""

from __future__ import annotations

import sys
from array import array
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.fuzz.in_process import LIMITS, InProcessNode, Pipe
from tests.fuzz.mutator import pieces
from wire.errors import PeerViolation
from wire.exchange.receiver import ReceiverHalf
from wire.frames.batch import Batch
from wire.mqtt.codec import decode, split
from wire.mqtt.packets import Connect, Packet
from wire.mqtt.publish_batch_parser import BatchBuilder, parse_publishes
from wire.mqtt.topics import TopicLimits

ANSWERS = (0x4, 0x5, 0x7, 0x9, 0xB)  # PUBACK, PUBREC, PUBCOMP, SUBACK, UNSUBACK: when it is committed
RENEWED_AFTER = 2_000  # connections that one node serves
_node: InProcessNode | None = None
_served = 0


class Heard(NamedTuple):
    """The result of a connection's bytes."""

    packets: list[Packet | tuple[bytes, int, bytes, bytes]]
    violation: str | None


class Outcome(NamedTuple):
    """The views of a client and of the node's other half on one connection.

    answers_too_early: the client acknowledged what it can have got only if that was on its way by then, or in another way.
    """

    answers: list[bytes]
    others: list[bytes]
    closed: bool
    answers_too_early: bool
    messages: list[tuple[bytes, int, bytes, bytes]]


def fuzz_one(data: bytes) -> None:
    """Raises if any actor raises, if the same bytes mean something else in other pieces, or if anything is left behind."""
    rng, traffic = Random(data[0] if data else 0), data[1:]
    cut = pieces(rng, traffic)
    parse_in_pieces(traffic, cut)
    whole, in_pieces = converse([traffic]), converse(cut)
    if not any(outcome.answers_too_early for outcome in (whole, in_pieces)):
        assert_alike(whole, in_pieces)


def TestOneInput(data: bytes) -> None:  # noqa: N802 - the name that libFuzzer's bindings look for
    """``fuzz_one``."""
    fuzz_one(data)


# --- the pure parser ---


def parse_in_pieces(traffic: bytes, cut: list[bytes]) -> None:
    """Raises if the parser takes something else from ``cut`` than from ``traffic``, which is the same in one."""
    one, many = Reader(), Reader()
    one.take(traffic)
    for piece in cut:
        many.take(piece)
    assert one.heard == many.heard, (one.heard, many.heard)
    assert one.left == many.left


class Reader:
    """The Listener's way through a buffer, without a Listener: bytes to packets and messages, up to a violation."""

    def __init__(self) -> None:
        self.left = b""
        self.level = 0
        self.heard = Heard([], None)
        self._flow = ReceiverHalf(number=1, session="s", level=5, receive_maximum=100, topic_alias_maximum=64)
        limits = TopicLimits(LIMITS.topic_levels_max, LIMITS.topic_max_bytes)
        self._builder = BatchBuilder(
            rows_max=60_000, bytes_max=1 << 24, packet_max_bytes=LIMITS.packet_max_bytes, topic_limits=limits
        )

    def take(self, data: bytes) -> None:
        """Go on with ``data``. Every turn of the loop takes something or ends it."""
        if self.heard.violation is not None:
            return
        buffer, position = self.left + data, 0
        try:
            while True:
                if self.level:
                    before = position
                    try:
                        position = parse_publishes(buffer, position, self.level, self._flow, self._builder)
                    finally:
                        self._collect()
                    assert before <= position <= len(buffer)
                packet = split(buffer, position, LIMITS.packet_max_bytes)
                if packet is None:
                    break
                assert position < packet[1] <= packet[2] <= len(buffer)
                position = packet[2]
                decoded = decode(packet[0], buffer[packet[1] : packet[2]], self.level or 5)
                if isinstance(decoded, Connect):
                    self.level = self._flow.level = decoded.level
                self.heard.packets.append(decoded)
        except PeerViolation as error:
            names_its_clause = error.message.startswith("MQTT-") and error.reason_code >= 0x80
            self.heard = Heard(self.heard.packets, str(error))
            self.left = b""
            assert names_its_clause, self.heard.violation
            return
        self.left = buffer[position:]

    def _collect(self) -> None:
        self.heard.packets.extend(messages_of(self._builder.build(0)))
        self._builder.clear()


def messages_of(batch: Batch) -> list[tuple[bytes, int, bytes, bytes]]:
    """(topic, flags, payload, properties) of each message."""
    found = []
    at = 0
    for row, (topic, flags, length) in enumerate(zip(batch.topic_of, batch.flags, array("I", batch.lengths), strict=True)):
        found.append((batch.topics[topic], flags, bytes(batch.payloads[at : at + length]), bytes(batch.properties.get(row, b""))))
        at += length
    return found


# --- the whole way ---


def converse(cut: list[bytes]) -> Outcome:
    """Send ``cut`` piece by piece over a new connection, close it, and see what came of it."""
    host = _host()
    before = len(host.published)
    host.violations.clear()
    pipe = host.connect()
    for piece in filter(None, cut):
        if pipe.closed:
            break
        pipe.sent.append(piece)
        host.settle()
    host.check_waiting(pipe)
    closed = pipe.closed
    answers, others = _packets(pipe)
    host.hang_up(pipe)
    host.pass_time(0.6)
    host.check_idle()
    messages = [message for batch in host.published[before:] for message in messages_of(batch)]
    host.forget_sessions()
    host.published.clear()
    too_early = any("MQTT-4.3" in error.message for error in host.violations)
    return Outcome(answers, others, closed, too_early, messages)


def assert_alike(whole: Outcome, cut: Outcome) -> None:
    """Which answers got out before a close depends on when what came; nothing else does."""
    assert whole.messages == cut.messages, (whole.messages, cut.messages)
    assert whole.others == cut.others, (whole.others, cut.others)
    assert whole.closed == cut.closed
    fewer, more = sorted((whole.answers, cut.answers), key=len)
    assert all(answer in more for answer in fewer)
    assert whole.closed or len(fewer) == len(more), (whole.answers, cut.answers)


def _packets(pipe: Pipe) -> tuple[list[bytes], list[bytes]]:
    """The packets that the client was sent: answers to its messages, and the rest but for messages."""
    answers: list[bytes] = []
    others: list[bytes] = []
    data, position = bytes(pipe.taken), 0
    while (packet := split(data, position, 1 << 30)) is not None:
        first_byte, _, end = packet
        if first_byte >> 4 in ANSWERS:
            answers.append(data[position:end])
        elif first_byte >> 4 == 0x2:  # an identifier that was made up differs each time
            others.append(data[position : position + 4])
        elif first_byte >> 4 not in (0x3, 0x6):
            others.append(data[position:end])
        position = end
    assert position == len(data), "half a packet"
    return answers, others


def _host() -> InProcessNode:
    global _node, _served
    if _node is None or _served >= RENEWED_AFTER:
        _node, _served = InProcessNode(), 0
    _served += 1
    return _node


def main(paths: list[str]) -> int:
    """Replay files."""
    for path in paths:
        fuzz_one(Path(path).read_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
