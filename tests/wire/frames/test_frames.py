"""Every frame kind round-trips, its bytes are pinned, and what is not known is refused."""

from __future__ import annotations

import msgpack
import pytest

from wire.errors import UnknownFrame
from wire.frames.codec import decode, encode
from wire.frames.frame import KINDS, Frame
from wire.frames.intake import (
    Append,
    Committed,
    CommitWanted,
    Publishes,
    Room,
    RoomWanted,
    SenderResumes,
    SessionClose,
    SessionClosed,
    SessionGone,
    SessionOpen,
    SessionOpened,
    SessionsKnown,
    SessionsWanted,
)
from wire.frames.lanes import Credit, HandOut, LaneAwaited, LaneClose, LaneOpen, LaneOpened, LaneReopen, LaneWaits, Settle, Settled
from wire.frames.subscriptions import RetainedPiece, RetainedWanted, SubscriptionsAdd, SubscriptionsDrop, SubscriptionsKept
from wire.frames.supervision import (
    AclChanged,
    ChildBegins,
    Command,
    Heartbeat,
    LinkStands,
    NodeEvents,
    NodeFigures,
    NodeTopics,
    PeerUp,
    QueueAnswer,
    QueueCommand,
    Reconfigure,
    ReportNow,
    ResetMarkers,
    RoleChanged,
    SessionCommand,
    SnapshotMade,
    SnapshotWanted,
    Stop,
)
from wire.frames.traces import TopicCounts, TopicsWanted, TraceFollow, TraceMark, TraceStep, TraceWanted

QUEUE = "bridge:cloud:0"
GOLDEN: list[tuple[Frame, str]] = [
    (
        Publishes(sender="l", epoch=2, number=3, received={"s": b"ab"}, released={}, bodies=(b"x",)),
        "980101a16c020381a173c40261628000",
    ),
    (
        Append(
            sender="l",
            epoch=2,
            number=3,
            rows=1,
            received={},
            released={"s": b"a"},
            room=4,
            refused={QUEUE: 2},
            raised={QUEUE: (1, 0)},
            thinned=(QUEUE,),
            rules=9,
            durability=(True, 0.5, False),
            parts=((QUEUE, 1, 2, 0, b""),),
            bodies=(b"x",),
        ),
        "dc00110201a16c0203018081a173c4016190900481ae6272696467653a636c6f75643a300281ae6272696467653a636c6f75643a30920100"
        "91ae6272696467653a636c6f75643a300993c3cb3fe0000000000000c29195ae6272696467653a636c6f75643a30010200c400",
    ),
    (Committed(sender="l", epoch=2, store=9, number=3), "960301a16c020903"),
    (CommitWanted(epoch=2), "930c0102"),
    (RoomWanted(epoch=2, wanted={"cloud": (1, 20)}), "9404010281a5636c6f7564920114"),
    (Room(epoch=2, store=9, number=3, queues={"": (1, 4, 99)}), "960b0102090381a093010463"),
    (SessionOpen(sender="l", epoch=2, request=1, session="s", clean=True), "dc00100501a16c0201a173c30000c0c2c0a0a09090"),
    (
        SessionOpened(sender="l", epoch=2, store=9, request=1, session="s", present=False, received=b""),
        "9c0601a16c020901a173c2c400a090a0",
    ),
    (SenderResumes(sender="l", epoch=2, number=4), "950701a16c0204"),
    (
        SessionClose(sender="l", epoch=2, session="s", source=9, wall_ms=1, expiry_s=0, keep_will=True),
        "990801a16c02a173090100c3",
    ),
    (SessionGone(session="s", queue="session:1:s", drops_will=True), "950901a173ab73657373696f6e3a313a73c3"),
    (SessionClosed(epoch=2, source=9), "940a010209"),
    (
        SessionCommand(request=7, verb="list", arguments={"like": "a*"}, asker="listener", live=({"depth": 1},), until="b"),
        "98300107a46c69737481a46c696b65a2612aa86c697374656e65729181a5646570746801a162",
    ),
    (SessionsWanted(epoch=2), "93100102"),
    (
        SessionsKnown(
            epoch=2,
            store=9,
            sessions=(("s", "session:1:s", (("a/#", 1, 0),), (b"t", 1, b"p", b"", 5), 7, "ada", "h:1", "user ada"),),
            last=True,
        ),
        "96110102099198a173ab73657373696f6e3a313a739193a3612f23010095c4017401c40170c4000507a3616461a3683a31a87573657220616461c3",
    ),
    (
        SubscriptionsAdd(epoch=2, request=1, session="s", source=9, queue="", filters=(("a/#", 1, 0, True),)),
        "9812010201a17309a09194a3612f230100c3",
    ),
    (SubscriptionsDrop(epoch=2, request=1, session="s", source=9, queue="", filters=("a/#",)), "9813010201a17309a091a3612f23"),
    (SubscriptionsKept(epoch=2, request=1, source=9), "951d01020109"),
    (RetainedPiece(epoch=2, request=3, done=1, after=b"a", places=(0,), bodies=(b"x",)), "971e01020301c401619100"),
    (
        RetainedWanted(epoch=2, request=3, messages=9, size_bytes=10, filters=(("a/#", b"a", True),)),
        "971f010203090a9193a3612f23c40161c3",
    ),
    (LaneClose(queue=QUEUE, epoch=2, sent_below=7), "951c01ae6272696467653a636c6f75643a300207"),
    (LaneAwaited(queue=QUEUE, epoch=2, messages=3, size_bytes=0, age_ms=-1), "974c01ae6272696467653a636c6f75643a30020300ff"),
    (LaneWaits(queue=QUEUE, epoch=2), "944d01ae6272696467653a636c6f75643a3002"),
    (LaneOpen(queue=QUEUE, epoch=2), "941401ae6272696467653a636c6f75643a3002"),
    (
        LaneOpened(
            queue=QUEUE,
            epoch=2,
            head=1,
            tail=9,
            dup_below=3,
            settled=((4, 6),),
            released=(),
            generation=2,
            session="c@h",
            left=(("c@i", 1, 5, ((1, 2),), ((3, 4),)),),
        ),
        "9d1501ae6272696467653a636c6f75643a3002010903919204069002a3634068c29195a363406901059192010291920304",
    ),
    (Credit(queue=QUEUE, epoch=2, messages=10, size_bytes=100), "961601ae6272696467653a636c6f75643a30020a64"),
    (
        HandOut(queue=QUEUE, epoch=2, first_seq=1, count=1, size_bytes=3, offsets=b"", bodies=(b"x",)),
        "981701ae6272696467653a636c6f75643a3002010103c400",
    ),
    (
        Settle(
            queue=QUEUE,
            epoch=2,
            number=1,
            settled=(("delivered", ((1, 2),)),),
            released=((3, 4),),
            session=None,
            generation=1,
            times=((1, 5),),
        ),
        "9b1801ae6272696467653a636c6f75643a3002019192a964656c6976657265649192010291920304c0019091920105",
    ),
    (Settled(queue=QUEUE, epoch=2, number=1), "951901ae6272696467653a636c6f75643a300201"),
    (LaneReopen(queue=QUEUE), "931a01ae6272696467653a636c6f75643a30"),
    (
        Heartbeat(
            name="l",
            epoch=2,
            pid=7,
            state="ready",
            request=0,
            states={"a": "ready"},
            settings=3,
            traffic=(4, 5, 6),
            figures={"a": (1, 2)},
        ),
        "9b2801a16c0207a572656164790081a161a57265616479039304050681a161920102",
    ),
    (ReportNow(request=1), "93290101"),
    (PeerUp(name="l", epoch=2), "942a01a16c02"),
    (ResetMarkers(queue=QUEUE, epoch=2), "942b01ae6272696467653a636c6f75643a3002"),
    (Command(verb="pause"), "932c01a57061757365"),
    (Stop(), "922d01"),
    (
        QueueCommand(request=3, verb="peek", arguments={"bridge": "b", "lane": 0}),
        "952e0103a47065656b82a6627269646765a162a46c616e6500",
    ),
    (QueueAnswer(request=3, error="", message="", result={"next": None}), "962f0103a0a081a46e657874c0"),
    (
        AclChanged(path="p", rules=((("a/%u",), True, "subscribe", ("u",), False, ("c*",)),)),
        "943c01a170919691a4612f2575c3a973756273637269626591a175c291a2632a",
    ),
    (Reconfigure(number=2, settings=b"s", children=("store",)), "95310102c4017391a573746f7265"),
    (ChildBegins(process=1, child="store", epoch=2, settings=3, flags=()), "97420101a573746f7265020390"),
    (NodeFigures(version="1", uptime_s=7, values={"a": 1}), "953d01a1310781a16101"),
    (LinkStands(actor="connection:c:0", epoch=7, stands=True), "954301ae636f6e6e656374696f6e3a633a3007c3"),
    (NodeTopics(states={"a": b"1"}, events=(("b", b"2"),)), "94440181a161c401319192a162c40132"),
    (SnapshotWanted(request=4, path="/p"), "943f0104a22f70"),
    (SnapshotMade(request=4, error="", message="", facts={"at_ms": 1}), "96400104a0a081a561745f6d7301"),
    (
        NodeEvents(events=((7, "link.up", "cloud", 0, "connection:cloud:0", "", 0, {"address": "h:1"}),)),
        "933e01919807a76c696e6b2e7570a5636c6f756400b2636f6e6e656374696f6e3a636c6f75643a30a00081a761646472657373a3683a31",
    ),
    (RoleChanged(role="standby", at_once=True, epoch=7, reason="r"), "964101a77374616e646279c307a172"),
    (TraceWanted(request=5, topic_filter="a/#", timeout_s=2.0), "95460105a3612f23cb4000000000000000"),
    (TraceMark(request=5, sender="l", epoch=2, number=3, row=4, source=9, qos=1), "99470105a16c0203040901"),
    (TraceFollow(request=5, queue=QUEUE, seq=7), "95480105ae6272696467653a636c6f75643a3007"),
    (
        TraceStep(request=5, step="sent", actor="a", queue=QUEUE, at_s=1.5, details={"qos": 1}),
        "98490105a473656e74a161ae6272696467653a636c6f75643a30cb3ff800000000000081a3716f7301",
    ),
    (TopicsWanted(request=6, count=10), "944a01060a"),
    (TopicCounts(request=6, since_s=2.0, topics=((b"a", 1, 3),), others=4), "964b0106cb40000000000000009193c40161010304"),
]


@pytest.mark.parametrize(("frame", "golden"), GOLDEN, ids=lambda value: type(value).__name__)
def test_a_frame_has_the_bytes_it_always_had_and_comes_back(frame: Frame, golden: str) -> None:
    parts = encode(frame)
    assert parts[0].hex() == golden
    assert decode(parts) == frame


def test_every_kind_is_pinned() -> None:
    assert {type(frame) for frame, _ in GOLDEN} == set(KINDS.values())


@pytest.mark.parametrize(
    "part",
    [b"", b"\xc1", msgpack.packb([99, 1]), msgpack.packb([45, 2]), msgpack.packb([41, 1]), msgpack.packb(7), b"\x93\x01"],
    ids=["empty", "not msgpack", "unknown kind", "newer version", "field missing", "not an array", "cut off"],
)
def test_what_is_not_a_known_frame_is_refused(part: bytes) -> None:
    with pytest.raises(UnknownFrame):
        decode([part])
