"""How sequences look on the wire: packet identifiers, and acknowledgements in the order of the sequences.

The packet identifier of a message follows from its sequence, so it needs no table, no memory and no write. The acknowledgements of
sequences that follow each other are made, or compared, in one step. The table of all identifiers is bytes and not a list: what a
process reads of it it shares with the one that it was forked from.
"""

from __future__ import annotations

import struct

# Identifiers above are left to SUBSCRIBE and the like, and to what a bridge says of itself. The most sequences that unsettled
# messages span.
PACKET_IDS = 65_000
ANNOUNCED_ID = 65_535
SUBSCRIBE_IDS = ANNOUNCED_ID - PACKET_IDS - 1

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
    if count == 1:
        return [_FIELDS[2 * place : 2 * place + 2]]
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


def acks(first_byte: int, seq: int, count: int, tail: bytes = b"") -> bytes:
    """The packets ``first_byte``, length, identifier, ``tail`` of ``count`` sequences from ``seq`` on; at most ``PACKET_IDS``."""
    place, stride = seq % PACKET_IDS, 4 + len(tail)
    fields = _FIELDS[2 * place : 2 * min(place + count, PACKET_IDS)]
    if place + count > PACKET_IDS:  # some are of the next round
        fields += _FIELDS[: 2 * (place + count - PACKET_IDS)]
    packets = bytearray((first_byte, stride - 2, 0, 0, *tail)) * count
    packets[2::stride] = fields[0::2]
    packets[3::stride] = fields[1::2]
    return bytes(packets)


def matching(buffer: bytes, position: int, first_byte: int, tail: bytes, seq: int, count: int) -> int:
    """How many packets of ``buffer`` from ``position`` are those of ``seq``, ``seq + 1``, ...; at most ``count`` (``PACKET_IDS``).

    One comparison when all are, a binary search when not.
    """
    stride = 4 + len(tail)
    count = min(count, PACKET_IDS, (len(buffer) - position) // stride)
    if count == 1:
        place = 2 * (seq % PACKET_IDS)
        return int(buffer.startswith(bytes((first_byte, stride - 2)) + _FIELDS[place : place + 2] + tail, position))
    wanted = acks(first_byte, seq, count, tail)
    if buffer.startswith(wanted, position):
        return count
    matched = 0  # so many do, and ``count`` do not
    while count - matched > 1:
        middle = (matched + count) // 2
        if buffer.startswith(wanted[stride * matched : stride * middle], position + stride * matched):
            matched = middle
        else:
            count = middle
    return matched
