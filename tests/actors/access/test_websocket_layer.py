"""The WebSocket layer alone: what frames carry comes out whole, however they are cut, and no bytes make it fail."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.access.websocket_layer import WebSocketLayer
from tests.broker.raw import BINARY, PING, frame, upgrade_request

PAYLOADS = st.binary(max_size=300) | st.integers(125, 127).map(bytes) | st.integers(65_530, 66_000).map(bytes)


def upgraded() -> WebSocketLayer:
    layer = WebSocketLayer("/mqtt", (), 1 << 20)
    assert layer.receive(upgrade_request()) == b""
    assert layer.answer().startswith(b"HTTP/1.1 101 ")
    return layer


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@settings(deadline=None)
@given(
    messages=st.lists(st.lists(PAYLOADS, min_size=1, max_size=4), max_size=6),
    pings=st.lists(st.booleans(), min_size=24, max_size=24),
    places=st.lists(st.integers(0, 1 << 20), max_size=40),
    with_request=st.booleans(),
)
def test_what_frames_carry_comes_out_whole(
    messages: list[list[bytes]], pings: list[bool], places: list[int], with_request: bool
) -> None:
    asked = iter(pings)
    sent = b"" if not with_request else upgrade_request()
    for fragments in messages:
        for number, payload in enumerate(fragments):
            if next(asked):
                sent += frame(PING, b"p")
            sent += frame(BINARY if number == 0 else 0, payload, final=number == len(fragments) - 1)
    layer = WebSocketLayer("/mqtt", (), 1 << 20) if with_request else upgraded()

    received = b"".join(layer.receive(part) for part in cut(sent, places))

    assert received == b"".join(payload for fragments in messages for payload in fragments)
    assert layer.established
    assert not layer.ended, layer.ended


@settings(deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=10), st.booleans())
def test_any_bytes_are_taken_or_end_the_connection(parts: list[bytes], after_the_upgrade: bool) -> None:
    layer = upgraded() if after_the_upgrade else WebSocketLayer("/mqtt", (), 1 << 20)
    for part in parts:
        layer.receive(part)
        layer.answer()
    layer.goodbye()


@settings(deadline=None)
@given(
    st.integers(0, 255),
    st.sampled_from([b"\x80", b"\x85", b"\xfe\x00\x05", b"\xff" + struct.pack("!Q", 5), b"\x05"]),
    st.binary(max_size=9),
)
def test_any_frame_head_is_taken_or_ends_the_connection(first: int, length: bytes, rest: bytes) -> None:
    layer = upgraded()
    layer.receive(bytes((first,)) + length + rest)
    layer.receive(rest * 3)
    assert bool(layer.answer()) or not layer.failed, "who is closed is told why"
    layer.goodbye()


def test_a_written_frame_is_what_a_client_reads() -> None:
    layer = upgraded()
    for size in (0, 125, 126, 65_535, 65_536):
        data = bytes(size)
        head = {0: b"\x82\x00", 125: b"\x82\x7d", 126: b"\x82\x7e\x00\x7e", 65_535: b"\x82\x7e\xff\xff"}.get(size)
        assert layer.send(data) == (head or b"\x82\x7f" + struct.pack("!Q", size)) + data
