"""How sequences look on the wire: packet identifiers, and tables of packets in the order of the sequences.

The packet identifier of a message follows from its sequence, so it needs no table, no memory and no write. The acknowledgements of
sequences that follow each other are one slice of a table, so that a burst of them is made, or compared, in one step. Tables are
bytes, not lists: what a process reads of them it shares with the one that it was forked from.
"""

from __future__ import annotations

import struct
from functools import cache

# Identifiers above are left to SUBSCRIBE and the like. What is unsettled never spans more sequences than this.
PACKET_IDS = 65_000

PUBACK = 0x40
PUBREC = 0x50
PUBREL = 0x62
PUBCOMP = 0x70

_BLOCK = 64
_BLOCK_OF_FIELDS = struct.Struct("2s" * _BLOCK)


def _all_fields() -> bytes:
    """The fields of all identifiers, in the order of the sequences."""
    fields = bytearray(2 * PACKET_IDS)
    fields[0::2] = b"".join(bytes([high]) * 256 for high in range(256))[1 : PACKET_IDS + 1]
    fields[1::2] = (bytes(range(256)) * 256)[1 : PACKET_IDS + 1]
    return bytes(fields)


_FIELDS = _all_fields()


def packet_id_of(seq: int) -> int:
    """The packet identifier of the message ``seq``."""
    return seq % PACKET_IDS + 1


def seq_of(packet_id: int, low: int) -> int | None:
    """The one sequence in ``[low, low + PACKET_IDS)`` with this identifier; None if no message ever has it."""
    if not 1 <= packet_id <= PACKET_IDS:
        return None
    return low + (packet_id - 1 - low) % PACKET_IDS


def id_fields(seq: int, count: int) -> list[bytes]:
    """The identifier fields of ``count`` sequences from ``seq`` on; at most ``PACKET_IDS`` of them."""
    place = seq % PACKET_IDS
    turn = PACKET_IDS - place
    if count > turn:
        return id_fields(seq, turn) + id_fields(seq + turn, count - turn)
    fields: list[bytes] = []
    while count > _BLOCK:
        fields += _BLOCK_OF_FIELDS.unpack_from(_FIELDS, 2 * place)
        place += _BLOCK
        count -= _BLOCK
    fields += struct.unpack_from("2s" * count, _FIELDS, 2 * place)
    return fields


@cache
def ack_table(first_byte: int, tail: bytes = b"") -> bytes:
    """The packets ``first_byte``, length, identifier, ``tail`` for each identifier, joined."""
    stride = 4 + len(tail)
    count = len(_FIELDS) // 2
    table = bytearray(stride * count)
    table[0::stride] = bytes([first_byte]) * count
    table[1::stride] = bytes([2 + len(tail)]) * count
    table[2::stride] = _FIELDS[0::2]
    table[3::stride] = _FIELDS[1::2]
    for index, value in enumerate(tail):
        table[4 + index :: stride] = bytes([value]) * count
    return bytes(table)


def ack_slice(first_byte: int, seq: int, count: int) -> bytes:
    """The plain packets (no reason code) of ``count`` sequences from ``seq`` on; at most ``PACKET_IDS`` of them."""
    table, start = ack_table(first_byte), seq % PACKET_IDS
    stop = start + count
    if stop <= PACKET_IDS:
        return table[4 * start : 4 * stop]
    return table[4 * start : 4 * PACKET_IDS] + table[: 4 * (stop - PACKET_IDS)]


def matching(buffer: bytes, position: int, first_byte: int, tail: bytes, seq: int, count: int) -> int:
    """How many packets of ``buffer`` from ``position`` are those of ``seq``, ``seq + 1``, ...; at most ``count``.

    One comparison when all are, a binary search when not.
    """
    table = ack_table(first_byte, tail)
    stride = 4 + len(tail)
    turn = PACKET_IDS - seq % PACKET_IDS
    count = min(count, (len(buffer) - position) // stride)
    if count > turn:
        matched = matching(buffer, position, first_byte, tail, seq, turn)
        if matched < turn:
            return matched
        return turn + matching(buffer, position + stride * turn, first_byte, tail, seq + turn, count - turn)
    start = seq % PACKET_IDS * stride
    if buffer.startswith(table[start : start + stride * count], position):
        return count
    matched = 0  # so many do, and ``count`` do not
    while count - matched > 1:
        middle = (matched + count) // 2
        if buffer.startswith(table[start + stride * matched : start + stride * middle], position + stride * matched):
            matched = middle
        else:
            count = middle
    return matched


ack_table(PUBACK)  # nearly every lane uses it: here it is made before a process is forked
