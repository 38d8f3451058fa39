"""Changes valid traffic at random: from one seed, the same each time."""

from __future__ import annotations

from random import Random

from tests.fuzz.recordings import RECORDINGS
from tests.support.mqtt_packets import variable

CHANGES_MAX = 4
TELLING_BYTES = (0x00, 0x01, 0x02, 0x04, 0x10, 0x23, 0x26, 0x2B, 0x2F, 0x30, 0x32, 0x34, 0x62, 0x7F, 0x80, 0x82, 0xC0, 0xE0, 0xFF)
TELLING_LENGTHS = (b"\x00", b"\x01", b"\x7f", b"\x80\x01", b"\xff\x7f", b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff\x7f", b"\x80\x00")
TELLING_TEXTS = (b"\x00\x00", b"\x00\x01#", b"\x00\x01\x00", b"\x00\x03\xed\xa0\x80", b"\xff\xff", b"\x00\x07$share/")


def mutated(seed: int) -> bytes:
    """The traffic of one connection: a recording with up to ``CHANGES_MAX`` changes, of packets first and then of bytes."""
    rng = Random(seed)
    packets = list(rng.choice(RECORDINGS))
    changes = rng.randint(1, CHANGES_MAX)
    for _ in range(changes):
        if rng.random() < 0.35:
            _change_packets(rng, packets)
        else:
            at = rng.randrange(len(packets))
            packets[at] = _change_bytes(rng, packets[at])
    data = b"".join(packets)
    if rng.random() < 0.1:
        data = _change_bytes(rng, data)
    return data


def _change_packets(rng: Random, packets: list[bytes]) -> None:
    """Leave out, repeat, exchange or put in whole packets; never leaves none."""
    at = rng.randrange(len(packets))
    kind = rng.randrange(5)
    if kind == 0 and len(packets) > 1:
        del packets[at]
    elif kind == 1:
        packets[at:at] = [packets[at]] * rng.choice((1, 1, 2, 50))
    elif kind == 2:
        other = rng.randrange(len(packets))
        packets[at], packets[other] = packets[other], packets[at]
    elif kind == 3:
        packets.insert(at, rng.choice(rng.choice(RECORDINGS)))
    else:
        other_client = rng.choice(RECORDINGS)  # the end of another client's traffic
        packets[at:] = other_client[rng.randrange(len(other_client)) :]


def _change_bytes(rng: Random, data: bytes) -> bytes:
    if not data:
        return bytes((rng.choice(TELLING_BYTES),))
    at = rng.randrange(len(data))
    kind = rng.randrange(9)
    if kind == 0:
        return data[:at] + bytes((data[at] ^ 1 << rng.randrange(8),)) + data[at + 1 :]
    if kind == 1:
        return data[:at] + bytes((rng.choice(TELLING_BYTES),)) + data[at + 1 :]
    if kind == 2:
        return data[:at] + rng.randbytes(rng.randint(1, 8)) + data[at:]
    if kind == 3:
        return data[:at] + data[at + rng.randint(1, 8) :]
    if kind == 4:
        return data[:at]
    if kind == 5:
        other = rng.choice(rng.choice(RECORDINGS))
        return data[:at] + other[rng.randrange(len(other)) :]
    if kind == 6:
        return data[:at] + rng.choice(TELLING_TEXTS) + data[at:]
    if kind == 7:
        return data[:1] + rng.choice(TELLING_LENGTHS) + data[2:]
    if kind == 8 and len(data) < 130:  # another body, and the length that it has
        body = _change_bytes(rng, data[2:])
        return data[:1] + variable(len(body)) + body
    return data[:at] + data[at:] * 2


def pieces(rng: Random, data: bytes) -> list[bytes]:
    """``data`` cut at random: byte by byte, in a few pieces, or in one."""
    if not data:
        return []
    count = rng.choice((1, 2, 3, 8, len(data)))
    cuts = sorted(rng.randrange(len(data)) for _ in range(min(count, 400) - 1))
    return [data[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True) if start < stop]
