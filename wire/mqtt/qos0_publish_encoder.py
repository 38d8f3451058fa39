"""Rows of a batch as QoS 0 PUBLISH packets for a live subscriber, in one loop. One by one: ``codec.py``."""

from __future__ import annotations

from collections.abc import Sequence

from wire.frames.batch import RETAIN, Batch
from wire.mqtt.aliases import Names
from wire.mqtt.encoder import encode_with_length
from wire.mqtt.packets import MQTT_5_0
from wire.mqtt.primitives import VARIABLE_BYTE_INTEGER_MAX, encode_variable_byte_integer

_PUBLISH_QOS_0 = 0x30
_FIXED_HEADER_MAX_BYTES = 5


def encode_deliveries(
    batch: Batch,
    rows: Sequence[int],
    level: int,
    *,
    packet_max_bytes: int = VARIABLE_BYTE_INTEGER_MAX + _FIXED_HEADER_MAX_BYTES,
    retain_as_published: bool = False,
) -> bytes:
    """PUBLISH packets of ``rows`` (empty: all), in order, at QoS 0 and protocol ``level`` 4 or 5.

    RETAIN is 0 unless ``retain_as_published`` (MQTT-3.3.1-12, -13). A packet larger than ``packet_max_bytes`` is left out
    (MQTT-3.1.2-24, -25). Topics and flags come from the batch; at level 5 so do properties.
    """
    if not len(batch):
        return b""
    payloads = batch.rows_payloads()
    heads: dict[tuple[int, int, int], bytes] = {}
    parts: list[bytes] = []
    has_properties = level >= MQTT_5_0 and bool(batch.properties or batch.topic_properties)
    retain_mask = RETAIN if retain_as_published else 0
    topics, topic_of, flags = batch.topics, batch.topic_of, batch.flags
    for row in rows or range(len(batch)):
        payload = payloads[row]
        properties = _properties_of(batch, row) if has_properties else b""
        key = (topic_of[row], len(payload), flags[row] & retain_mask)
        if properties:
            head = _head(topics[key[0]], key[1], key[2], level, properties)
        else:
            known = heads.get(key)
            if known is None:
                known = heads[key] = _head(topics[key[0]], key[1], key[2], level, b"")
            head = known
        if len(head) + len(payload) <= packet_max_bytes:
            parts += (head, payload)
    return b"".join(parts)


def encode_aliased_deliveries(batch: Batch, rows: Sequence[int], names: Names) -> bytes:
    """The same at level 5 for one that takes topic aliases; RETAIN as in the batch, and no packet is left out."""
    payloads = batch.rows_payloads()
    topic_of, flags = batch.topic_of, batch.flags
    parts: list[bytes] = []
    for row in rows or range(len(batch)):
        topic_field, alias = names.take(topic_of[row])
        prefix = encode_with_length(alias + _properties_of(batch, row))
        length = encode_variable_byte_integer(len(topic_field) + len(prefix) + len(payloads[row]))
        parts += (b"\x31" if flags[row] & RETAIN else b"\x30", length, topic_field, prefix, payloads[row])
    return b"".join(parts)


def _properties_of(batch: Batch, row: int) -> bytes:
    own = batch.properties.get(row)
    if own is not None:
        return own
    return batch.topic_properties[batch.topic_of[row]] if batch.topic_properties else b""


def _head(topic: bytes, payload_bytes: int, retain: int, level: int, properties: bytes) -> bytes:
    """Everything of the PUBLISH in front of its payload."""
    prefix = encode_variable_byte_integer(len(properties)) + properties if level >= MQTT_5_0 else b""
    length = encode_variable_byte_integer(2 + len(topic) + len(prefix) + payload_bytes)
    return bytes((_PUBLISH_QOS_0 | bool(retain),)) + length + len(topic).to_bytes(2, "big") + topic + prefix
