"""Which messages of a batch a refusal means: from row numbers back to clients and packet identifiers. Pure; off the fast path."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from wire.frames.batch import QOS_MASK, REFUSABLE, Batch, unpack_column

OFFER_ROWS_MIN = 64  # what is offered again begins small: most of it would only come back
OFFER_ROWS_MAX = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedMessage:
    """One PUBLISH of which nothing was enqueued. packet_id: two bytes, empty at QoS 0."""

    source: int
    packet_id: bytes
    topic: bytes
    flags: int
    payload: bytes
    properties: bytes

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
