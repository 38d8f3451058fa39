"""How sequences look on the wire: packet identifiers, and tables of packets in the order of the sequences.

The packet identifier of a message follows from its sequence, so it needs no table, no memory and no write. The acknowledgements of
sequences that follow each other are one slice of a table, so that a burst of them is made, or compared, in one step.
"""

from __future__ import annotations

import sys
from array import array
from functools import cache

# Identifiers above are left to SUBSCRIBE and the like. What is unsettled never spans more sequences than this.
PACKET_IDS = 65_000

PUBACK = 0x40
PUBREC = 0x50
PUBREL = 0x62
PUBCOMP = 0x70


def packet_id_of(seq: int) -> int:
    """The packet identifier of the message ``seq``."""
    return seq % PACKET_IDS + 1


def seq_of(packet_id: int, low: int) -> int | None:
    """The one sequence in ``[low, low + PACKET_IDS)`` with this identifier; None if no message ever has it."""
    if not 1 <= packet_id <= PACKET_IDS:
        return None
    return low + (packet_id - 1 - low) % PACKET_IDS


@cache
def packet_id_fields() -> list[bytes]:
    """The identifier field of each sequence; twice the round, so that slices need not wrap."""
    fields = [packet_id.to_bytes(2, "big") for packet_id in range(1, PACKET_IDS + 1)]
    return fields + fields


@cache
def ack_table(first_byte: int, tail: bytes = b"") -> bytes:
    """The packets ``first_byte``, length, identifier, ``tail`` for each sequence, joined; twice the round.

    The packets of ``count`` sequences from ``seq`` are the slice that ``ack_slice`` gives.
    """
    ids = array("H", range(1, PACKET_IDS + 1))
    if sys.byteorder == "little":
        ids.byteswap()
    columns = ids.tobytes()
    stride = 4 + len(tail)
    table = bytearray(stride * PACKET_IDS)
    table[0::stride] = bytes([first_byte]) * PACKET_IDS
    table[1::stride] = bytes([2 + len(tail)]) * PACKET_IDS
    table[2::stride] = columns[0::2]
    table[3::stride] = columns[1::2]
    for index, value in enumerate(tail):
        table[4 + index :: stride] = bytes([value]) * PACKET_IDS
    return bytes(table) * 2


def ack_slice(first_byte: int, seq: int, count: int) -> bytes:
    """The plain packets (no reason code) of ``count`` sequences from ``seq`` on; at most ``PACKET_IDS`` of them."""
    start = seq % PACKET_IDS * 4
    return ack_table(first_byte)[start : start + 4 * count]


def matching(buffer: bytes, position: int, first_byte: int, tail: bytes, seq: int, count: int) -> int:
    """How many packets of ``buffer`` from ``position`` are those of ``seq``, ``seq + 1``, ...; at most ``count``.

    One comparison when all are, a binary search when not.
    """
    table = ack_table(first_byte, tail)
    stride = 4 + len(tail)
    start = seq % PACKET_IDS * stride
    count = min(count, (len(buffer) - position) // stride)
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
