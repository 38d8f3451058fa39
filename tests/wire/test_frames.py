"""Every frame kind round-trips, its bytes are pinned, and what is not known is refused."""

from __future__ import annotations

import msgpack
import pytest

from wire.errors import UnknownFrame
from wire.frames import (
    AclChanged,
    Append,
    Command,
    Committed,
    Credit,
    Deliver,
    Frame,
    HandOut,
    Heartbeat,
    LaneOpen,
    LaneOpened,
    LaneReopen,
    LinkState,
    PeerUp,
    Publishes,
    QueueAnswer,
    QueueCommand,
    ReportNow,
    ResetMarkers,
    SenderResumes,
    SessionOpen,
    SessionOpened,
    Settle,
    Settled,
    SourceResumed,
    Stop,
    Subscribe,
    Unsubscribe,
    decode,
    encode,
    known_kinds,
)

QUEUE = "bridge:cloud:0"
GOLDEN: list[tuple[Frame, str]] = [
    (
        Publishes(sender="l", epoch=2, number=3, sources=b"\1", received={"s": (b"a", b"b")}, released={}, bodies=(b"x",)),
        "980101a16c0203c4010181a17392c40161c4016280",
    ),
    (
        Append(
            sender="l",
            epoch=2,
            number=3,
            sources=b"",
            received={},
            released={"s": b"a"},
            refusable=b"\0",
            parts=((QUEUE, 1, 2, 0, b""),),
            bodies=(b"x",),
        ),
        "9a0201a16c0203c4008081a173c40161c401009195ae6272696467653a636c6f75643a30010200c400",
    ),
    (Committed(sender="l", epoch=2, number=3, refused={3: b"\0\0"}), "960301a16c02038103c4020000"),
    (SourceResumed(sender="l", epoch=2, source=9, number=3), "960401a16c020903"),
    (SessionOpen(sender="l", epoch=2, request=1, session="s", clean=True), "970502a16c0201a173c3"),
    (SessionOpened(sender="l", epoch=2, request=1, session="s", present=False, received=b""), "980602a16c0201a173c2c400"),
    (SenderResumes(sender="l", epoch=2, number=4), "950701a16c0204"),
    (Subscribe(epoch=2, source=9, filters=(("a/#", 0),)), "950a0102099192a3612f2300"),
    (Unsubscribe(epoch=2, source=9, filters=("a/#",)), "950b01020991a3612f23"),
    (
        Deliver(sender="l", sender_epoch=2, number=3, epoch=2, groups=((b"\1", b""),), bodies=(b"x",)),
        "970c01a16c0203029192c40101c400",
    ),
    (LaneOpen(queue=QUEUE, epoch=2), "941401ae6272696467653a636c6f75643a3002"),
    (
        LaneOpened(queue=QUEUE, epoch=2, head=1, tail=9, dup_below=3, settled=((4, 6),), released=(), generation=1, session="c@h"),
        "9b1501ae6272696467653a636c6f75643a300201090391920406900 1a3634068".replace(" ", ""),
    ),
    (Credit(queue=QUEUE, epoch=2, messages=10, size_bytes=100), "961601ae6272696467653a636c6f75643a30020a64"),
    (
        HandOut(queue=QUEUE, epoch=2, first_seq=1, count=1, size_bytes=3, offsets=b"", bodies=(b"x",)),
        "981701ae6272696467653a636c6f75643a3002010103c400",
    ),
    (
        Settle(queue=QUEUE, epoch=2, number=1, settled=(("delivered", ((1, 2),)),), released=((3, 4),), session=None, generation=1),
        "991801ae6272696467653a636c6f75643a300201919 2a964656c69766572656491920102 91920304c001".replace(" ", ""),
    ),
    (Settled(queue=QUEUE, epoch=2, number=1), "951901ae6272696467653a636c6f75643a300201"),
    (LaneReopen(queue=QUEUE), "931a01ae6272696467653a636c6f75643a30"),
    (LinkState(queue=QUEUE, state="backoff"), "941b01ae6272696467653a636c6f75643a30a76261636b6f6666"),
    (
        Heartbeat(name="l", epoch=2, pid=7, state="ready", request=0, status={"a": 1}),
        "982801a16c0207a572656164790081a16101",
    ),
    (ReportNow(request=1), "93290101"),
    (PeerUp(name="l", epoch=2), "942a01a16c02"),
    (ResetMarkers(queue=QUEUE), "932b01ae6272696467653a636c6f75643a30"),
    (Command(verb="pause"), "932c01a57061757365"),
    (Stop(), "922d01"),
    (
        QueueCommand(request=3, verb="peek", arguments={"bridge": "b", "lane": 0}),
        "952e0103a47065656b82a6627269646765a162a46c616e6500",
    ),
    (QueueAnswer(request=3, error="", message="", result={"next": None}), "962f0103a0a081a46e657874c0"),
    (
        AclChanged(path="p", rules=((True, False, True, ("u",), False, ("c*",), ("a/%u",)),)),
        "943c01a1709197c3c2c391a175c291a2632a91a4612f2575",
    ),
]


@pytest.mark.parametrize(("frame", "golden"), GOLDEN, ids=lambda value: type(value).__name__)
def test_a_frame_has_the_bytes_it_always_had_and_comes_back(frame: Frame, golden: str) -> None:
    parts = encode(frame)
    assert parts[0].hex() == golden
    assert decode(parts) == frame


def test_every_kind_is_pinned() -> None:
    assert {type(frame) for frame, _ in GOLDEN} == known_kinds()


@pytest.mark.parametrize(
    "part",
    [b"", b"\xc1", msgpack.packb([99, 1]), msgpack.packb([45, 2]), msgpack.packb([41, 1]), msgpack.packb(7), b"\x93\x01"],
    ids=["empty", "not msgpack", "unknown kind", "newer version", "field missing", "not an array", "cut off"],
)
def test_what_is_not_a_known_frame_is_refused(part: bytes) -> None:
    with pytest.raises(UnknownFrame):
        decode([part])
