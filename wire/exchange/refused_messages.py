"""Which messages of a batch a refusal means: from row numbers back to clients and packet identifiers. Pure; off the fast path.

Where they are held, to be offered again, the answers behind them wait with them (exchange.answers-in-order). Such an answer is to
a repeat, or to a message of which the store was to have nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from wire.exchange.receiver import AnswerBurst, ReceiverHalf
from wire.frames.batch import QOS_MASK, REFUSABLE, Batch, unpack_column
from wire.mqtt.publish_stream import BatchBuilder

OFFER_ROWS_MIN = 64  # what is offered again begins small: most of it would only come back
OFFER_ROWS_MAX = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedMessage:
    """One PUBLISH of which nothing was enqueued. packet_id: two bytes, empty at QoS 0.

    pubacks_behind, pubrecs_behind: the identifiers of answers that wait for its own.
    """

    source: int
    packet_id: bytes
    topic: bytes
    flags: int
    payload: bytes
    properties: bytes
    pubacks_behind: tuple[bytes, ...] = ()
    pubrecs_behind: tuple[bytes, ...] = ()

    @property
    def qos(self) -> int:
        return self.flags & QOS_MASK

    @property
    def refusable(self) -> bool:
        """Whether its publisher can be told with a reason code (MQTT 5)."""
        return bool(self.flags & REFUSABLE)


def refused_messages(
    batch: Batch,
    sources: bytes,
    puback_ids: Mapping[int, list[bytes]],
    received: Mapping[str, tuple[bytes, bytes]],
    rows: bytes,
    wills: Collection[int] = (),
) -> list[RefusedMessage]:
    """The messages of ``batch`` in ``rows`` (u16 column), in order, save those that are ``wills``: no client waits for an answer.

    sources: the batch's source column. puback_ids: source -> identifiers of its QoS 1 rows, in order. received: session ->
    (identifiers, rows) of the QoS 2 rows.
    """
    qos2_ids: dict[int, bytes] = {}
    for ids, at_rows in received.values():
        for number, row in zip(unpack_column("H", ids), unpack_column("H", at_rows), strict=True):
            qos2_ids[row] = number.to_bytes(2, "big")
    refused = set(unpack_column("H", rows))
    payloads = batch.rows_payloads()
    seen: dict[int, int] = {}
    messages = []
    for row, (source, flags) in enumerate(zip(unpack_column("I", sources), batch.flags, strict=True)):
        if row in wills:
            continue
        qos = flags & QOS_MASK
        packet_id = b""
        if qos == 1:
            nth = seen.get(source, 0)
            seen[source] = nth + 1
            packet_id = puback_ids[source][nth] if source in puback_ids else b""
        elif qos == 2:
            packet_id = qos2_ids[row]
        if row in refused:
            messages.append(
                RefusedMessage(
                    source=source,
                    packet_id=packet_id,
                    topic=batch.topics[batch.topic_of[row]],
                    flags=flags,
                    payload=payloads[row],
                    properties=batch.properties.get(row, b""),
                )
            )
    return messages


def held_back(burst: AnswerBurst, messages: Sequence[RefusedMessage]) -> tuple[AnswerBurst, list[RefusedMessage]]:
    """What of ``burst`` leaves while these ``messages`` of its batch are held, and they with the answers behind each."""
    pubacks, behind_pubacks = _cut(burst.pubacks, 1, messages)
    pubrecs, behind_pubrecs = _cut(burst.pubrecs, 2, messages)
    held = [
        replace(message, pubacks_behind=tuple(behind_pubacks.get(place, ())), pubrecs_behind=tuple(behind_pubrecs.get(place, ())))
        for place, message in enumerate(messages)
    ]
    return replace(burst, pubacks=pubacks, pubrecs=pubrecs), without_completed(held, burst)


def _cut(ids: Iterable[bytes], qos: int, messages: Sequence[RefusedMessage]) -> tuple[list[bytes], dict[int, list[bytes]]]:
    """Those of ``ids`` in front of all ``messages`` of that QoS, and those behind each. Both are in order."""
    held = [(place, message.packet_id) for place, message in enumerate(messages) if message.qos == qos]
    leaving: list[bytes] = []
    waiting: dict[int, list[bytes]] = {}
    last, found = leaving, 0
    for packet_id in ids:
        if found < len(held) and packet_id == held[found][1]:
            last = waiting[held[found][0]] = []
            found += 1
        else:
            last.append(packet_id)
    return leaving, waiting


def wait_behind(burst: AnswerBurst, messages: Iterable[RefusedMessage]) -> tuple[AnswerBurst, list[RefusedMessage]]:
    """What of ``burst``, which came behind all ``messages``, leaves while they are held, and they with the answers that do not."""
    *held, last = messages
    pubacks, pubrecs = (*last.pubacks_behind, *burst.pubacks), (*last.pubrecs_behind, *burst.pubrecs)
    held.append(replace(last, pubacks_behind=pubacks, pubrecs_behind=pubrecs))
    return replace(burst, pubacks=[], pubrecs=[]), without_completed(held, burst)


def without_completed(messages: Iterable[RefusedMessage], burst: AnswerBurst) -> list[RefusedMessage]:
    """``messages`` without the PUBRECs behind them that nobody waits for: a PUBCOMP of ``burst`` says that the exchange is over.

    One that is sent again on one connection has a PUBREC already. A second one behind PUBCOMP would be taken for the answer to the
    next message under that identifier.
    """
    completed = set(burst.pubcomps)
    return [
        message
        if completed.isdisjoint(message.pubrecs_behind)
        else replace(message, pubrecs_behind=tuple(each for each in message.pubrecs_behind if each not in completed))
        for message in messages
    ]


def offer_again(builder: BatchBuilder, flow: ReceiverHalf, message: RefusedMessage) -> None:
    """Add ``message`` to what the store is offered, and owe its client the answers to it and behind it."""
    builder.add_again(flow, message)
    flow.puback_ids += message.pubacks_behind
    flow.pubrec_ids += message.pubrecs_behind
