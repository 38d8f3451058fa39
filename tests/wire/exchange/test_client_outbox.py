"""Output to one local client at QoS 1 and 2."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.mqtt_packets import Packet, judge
from tests.wire.outbound_model import few_identifiers
from wire.config_settings import SessionSettings
from wire.exchange.client_outbox import ClientOutbox
from wire.exchange.former_sessions import LeftSession
from wire.exchange.packet_identifiers import PACKET_IDS
from wire.exchange.packet_identifiers import PUBREL as PUBREL_BYTE
from wire.exchange.subscriber_copies import Copies, Parcel, as_granted
from wire.exchange.wills import PendingWill, PendingWills
from wire.frames.batch import Batch, from_rows, pack_column
from wire.frames.frame import Ranges
from wire.frames.lanes import HandOut, LaneOpened
from wire.mqtt.aliases import OutgoingAliases
from wire.mqtt.publish_properties import with_message_expiry
from wire.status.bridges import ExchangeFigures

QUEUE = "session:1:c"
TOPIC_ALIAS = 0x23


def outbox(
    queue: str = "", *, level: int = 5, receive_maximum: int = 100, aliases: OutgoingAliases | None = None, **limits: int
) -> ClientOutbox:
    settings = SessionSettings(**{"in_flight_max": 10, **limits})  # type: ignore[arg-type]  # every one of these is a number
    return ClientOutbox(
        queue=queue,
        level=level,
        receive_maximum=receive_maximum,
        packet_max_bytes=None,
        settings=settings,
        aliases=aliases,
    )


def batch(count: int, *, qos: int = 1, first: int = 0, expiry_s: int | None = None) -> Batch:
    made = from_rows([(b"t", qos, str(first + number).encode()) for number in range(count)])
    if expiry_s is not None:
        made.properties = {row: with_message_expiry(b"", expiry_s) for row in range(count)}
    return made


def packets(data: bytes, level: int = 5) -> list[Packet]:
    found = []
    while data:
        length = data[1]  # all of them are short
        found.append(judge(level, data[0], data[2 : 2 + length]))
        data = data[2 + length :]
    return found


def payloads(data: bytes) -> list[bytes]:
    return [packet.payload for packet in packets(data)]


def puback(*packet_ids: int, first_byte: int = 0x40) -> bytes:
    return b"".join(bytes((first_byte, 2)) + packet_id.to_bytes(2, "big") for packet_id in packet_ids)


def lane(
    epoch: int, *, head: int = 0, dup_below: int = 0, settled: Ranges = (), released: Ranges = (), session: str = ""
) -> LaneOpened:
    return LaneOpened(
        queue=QUEUE,
        epoch=epoch,
        head=head,
        tail=100,
        dup_below=dup_below,
        settled=settled,
        released=released,
        generation=0,
        session=session,
    )


def hand_out(epoch: int, first_seq: int, of: Batch, offsets: list[int] | None = None) -> HandOut:
    return HandOut(
        queue=QUEUE,
        epoch=epoch,
        first_seq=first_seq,
        count=len(of),
        size_bytes=of.size_bytes(),
        offsets=b"" if offsets is None else pack_column(array("I", offsets)),
        bodies=(of.encode(),),
    )


def kept(*, session: str = "client", head: int = 0, dup_below: int = 0, released: Ranges = ()) -> ClientOutbox:
    """The outbox of a session that was connected before."""
    box = outbox(QUEUE)
    box.opening(1)
    box.on_opened(lane(1, head=head, dup_below=dup_below, released=released, session=session))
    return box


def test_a_live_client_has_no_more_in_flight_than_it_takes_and_the_rest_waits() -> None:
    box = outbox(receive_maximum=2)
    box.begin()
    box.put(Parcel(batch(5)))

    assert payloads(box.pump(1000, 0.0, 0)) == [b"0", b"1"]
    assert box.pump(1000, 0.0, 0) == b""
    assert box.on_received(puback(1), 0) == 4
    assert payloads(box.pump(1000, 0.0, 0)) == [b"2"]
    assert box.in_flight == 2


def test_a_message_is_held_back_only_by_one_that_the_client_has_not_acknowledged() -> None:
    box = outbox(receive_maximum=2)
    assert not box.held_back
    box.begin()
    box.put(Parcel(batch(2)))
    assert not box.held_back, "it has not been tried"
    box.pump(1000, 0.0, 0)
    assert (box.held_back, box.owed[0] is not None) == (False, True), "nothing waits behind what it owes"
    box.put(Parcel(batch(1, first=2)))
    assert box.held_back
    box.on_received(puback(2), 0)
    box.pump(1000, 0.0, 0)
    assert not box.held_back, "the other slot was enough"


@pytest.mark.parametrize("queue", ["", QUEUE])
def test_one_unacknowledged_message_holds_back_the_one_that_would_have_its_identifier(
    monkeypatch: pytest.MonkeyPatch, queue: str
) -> None:
    """exchange.identifier-never-twice, with 20 identifiers for 65,000."""
    few_identifiers(monkeypatch, 20)
    box = kept() if queue else outbox()
    if queue:
        box.hand_out(hand_out(1, 0, batch(25)))
    else:
        box.begin()
        box.put(Parcel(batch(25)))
    got: list[int] = []
    while data := box.pump(1000, 0.0, 0):
        got += (packet_ids := [packet.packet_id for packet in packets(data)])
        box.on_received(puback(*(packet_id for packet_id in packet_ids if packet_id != 1)), 0)
        if queue and (settle := box.settle()) is not None:
            box.on_settled(settle.number)
    assert got == list(range(1, 21))
    assert (box.in_flight, box.held_back) == (1, True)
    box.on_received(puback(1), 0)
    settle = box.settle()
    assert not box.held_back, "what it waits for now, if for anything, is the record of that, which is not the client's to make"
    if settle is not None:
        box.on_settled(settle.number)
    assert payloads(box.pump(1000, 0.0, 0)) == [b"20", b"21", b"22", b"23", b"24"]


@given(
    window=st.integers(1, 5),
    steps=st.lists(st.tuples(st.integers(1, 4), st.sampled_from([1, 2]), st.lists(st.integers(0, 6), max_size=8)), max_size=30),
)
def test_what_waits_is_held_back_by_an_acknowledgement_that_is_owed_and_by_nothing_else(
    window: int, steps: list[tuple[int, int, list[int]]]
) -> None:
    """A live session, eight identifiers: each step brings messages and has some of what is owed acknowledged, in any order."""
    with pytest.MonkeyPatch.context() as patch:
        few_identifiers(patch, 8)
        box = outbox(in_flight_max=window)
        box.begin()
        owed: list[bytes] = []
        for count, qos, answers in steps:
            box.put(Parcel(batch(count, qos=qos)))
            for place in (-1, *answers):
                if 0 <= place < len(owed):
                    box.on_received(owed.pop(place), 0)
                for packet in packets(box.pump(1 << 16, 0.0, 0)):
                    kind = 0x70 if packet.kind == 6 else 0x40 if packet.qos == 1 else 0x50
                    owed.append(puback(packet.packet_id, first_byte=kind))
                assert box.held_back == box.waits
                assert any(box.owed) == bool(owed)
                assert owed or not box.held_back


def test_what_is_too_large_for_a_client_makes_room_for_what_comes_behind_it() -> None:
    box = ClientOutbox(queue="", level=5, receive_maximum=1, packet_max_bytes=10, settings=SessionSettings())
    box.begin()
    for first in (0, 1_000_000_000, 1_000_000_000, 1):
        box.put(Parcel(batch(1, first=first)))
    assert payloads(box.pump(1000, 0.0, 0)) == [b"0"]
    box.on_received(puback(1), 0)
    assert payloads(box.pump(1000, 0.0, 0)) == [b"1"]
    assert box.counts.too_large == 2


@pytest.mark.parametrize("level", [4, 5])
def test_the_exchange_of_qos_2_needs_no_commit_for_a_live_client(level: int) -> None:
    box = outbox(level=level, receive_maximum=1)
    box.begin()
    box.put(Parcel(batch(2, qos=2)))
    assert [packet.packet_id for packet in packets(box.pump(1000, 0.0, 0), level)] == [1]
    box.on_received(puback(1, first_byte=0x50), 0)
    assert box.pump(1000, 0.0, 0) == puback(1, first_byte=0x62), "and the next PUBLISH has to wait"
    box.on_received(puback(1, first_byte=0x70), 0)
    assert [packet.packet_id for packet in packets(box.pump(1000, 0.0, 0), level)] == [2]


def test_what_finds_no_room_is_dropped_newest_first_and_counted() -> None:
    """exchange.unqueued-wait-bounded"""
    box = outbox(receive_maximum=1, queue_max_messages=3)
    box.begin()
    for first in (0, 2, 4):
        box.put(Parcel(batch(2, first=first)))
    assert box.dropped == 3
    got = []
    for packet_id in (1, 2, 3):
        got += payloads(box.pump(1000, 0.0, 0))
        box.on_received(puback(packet_id), 0)
    assert got == [b"0", b"1", b"2"]


def test_a_refusal_ends_a_message_and_an_unknown_acknowledgement_ends_nothing() -> None:
    box = outbox()
    box.begin()
    box.put(Parcel(batch(1, qos=2)))
    box.pump(1000, 0.0, 0)
    box.on_received(b"\x50\x03\x00\x01\x97" + puback(77) + puback(78, first_byte=0x50), 0)
    assert box.pump(1000, 0.0, 0)[-1:] == b"\x92", "PUBREL for what was never sent says so"
    assert (box.in_flight, box.counts.refused) == (0, 1)


def test_what_expires_while_it_waits_is_not_sent_and_the_rest_has_less_time() -> None:
    """exchange.expired-not-sent"""
    box = outbox(receive_maximum=1)
    box.begin()
    box.put(Parcel(batch(1)))
    box.put(Parcel(batch(3, first=1, expiry_s=5)))
    box.put(Parcel(batch(1, first=4, expiry_s=60)))
    assert payloads(box.pump(1000, 0.0, 0)) == [b"0"]
    box.on_received(puback(1), 0)
    [young] = packets(box.pump(1000, 0.0, 2000))
    assert (young.payload, young.property(0x02)) == (b"1", 3)
    box.on_received(puback(young.packet_id), 0)
    [last] = packets(box.pump(1000, 0.0, 10_000))
    assert (last.payload, last.property(0x02), box.counts.expired) == (b"4", 50, 2)


def test_a_session_is_put_on_record_before_anything_leaves() -> None:
    box = kept(session="")
    box.hand_out(hand_out(1, 0, batch(1)))
    assert box.pump(1000, 0.0, 0) == b""
    assert box.urgent
    settle = box.settle()
    assert settle is not None
    assert settle.session == "client"
    box.on_settled(settle.number)
    assert payloads(box.pump(1000, 0.0, 0)) == [b"0"]


def test_a_resumed_session_goes_on_with_its_identifiers() -> None:
    """exchange.resumed-in-order"""
    box = kept(head=5, dup_below=8, released=((6, 7),))
    box.hand_out(hand_out(1, 5, batch(3, qos=2, first=5), [0, 2, 3]))
    found = packets(box.pump(1000, 0.0, 0))
    assert [(packet.kind, packet.packet_id, packet.dup) for packet in found] == [
        (6, 7, False),
        (3, 6, True),
        (3, 8, True),
        (3, 9, False),
    ]


def test_what_was_released_before_makes_room_for_what_was_handed_out_behind_it() -> None:
    """It is handed out again as well, and is passed over."""
    box = outbox(QUEUE, receive_maximum=1)
    box.opening(1)
    box.on_opened(lane(1, dup_below=1, released=((0, 1),), session="client"))
    assert [packet.kind for packet in packets(box.pump(1000, 0.0, 0))] == [6]
    for seq in range(3):
        box.hand_out(hand_out(1, seq, batch(1, qos=2, first=seq)))
    assert box.pump(1000, 0.0, 0) == b""
    box.on_received(puback(1, first_byte=0x70), 0)
    assert payloads(box.pump(1000, 0.0, 0)) == [b"1"]


def test_what_was_settled_is_told_the_store() -> None:
    box = kept()
    box.hand_out(hand_out(1, 0, batch(3, expiry_s=5)))
    box.hand_out(hand_out(1, 3, batch(2, first=3)))
    assert payloads(box.pump(1000, 0.0, 6000)) == []
    settle = box.settle()
    assert settle is not None
    assert dict(settle.settled) == {"expired": ((0, 3),)}
    box.on_settled(settle.number)
    assert payloads(box.pump(1000, 0.0, 6000)) == [b"3", b"4"]
    box.on_received(puback(4), 0)
    settle = box.settle()
    assert settle is not None
    assert dict(settle.settled) == {"delivered": ((3, 4),)}


def test_what_has_expired_is_on_record_before_anything_behind_it_leaves_and_waits_for_the_next_store() -> None:
    """exchange.expired-not-sent"""
    box = kept()
    box.hand_out(hand_out(1, 0, batch(1)))
    box.hand_out(hand_out(1, 1, batch(2, first=1, expiry_s=5)))
    box.hand_out(hand_out(1, 3, batch(1, first=3)))
    assert payloads(box.pump(1000, 0.0, 6000)) == [b"0"]
    assert box.urgent
    assert box.settle() is not None
    assert not box.urgent
    box.opening(2)  # what it was told dies with the store
    assert box.pump(1000, 0.0, 6000) == b""
    box.on_opened(lane(2, dup_below=4, session="client"))
    again = box.settle()
    assert again is not None
    assert (dict(again.settled), again.session) == ({"expired": ((1, 3),)}, "client")
    box.hand_out(hand_out(2, 0, batch(3)))
    box.hand_out(hand_out(2, 3, batch(1, first=3)))
    assert payloads(box.pump(1000, 0.0, 6000)) == []
    box.on_settled(again.number)
    assert payloads(box.pump(1000, 0.0, 6000)) == [b"3"]
    assert (box.counts.expired, box.in_flight) == (2, 2)


def test_what_expires_of_a_live_session_holds_nothing_up() -> None:
    """Nobody keeps a record of it; the aliases of its client and the time that is left go together."""
    box = outbox(aliases=OutgoingAliases(1))
    box.begin()
    mixed = batch(4)
    mixed.properties = {row: with_message_expiry(b"", 5 if row % 2 == 0 else 60) for row in range(4)}
    box.put(Parcel(mixed, shared=True))
    box.put(Parcel(batch(1, first=4, expiry_s=5)))
    box.put(Parcel(batch(1, first=5)))
    found = packets(box.pump(1000, 0.0, 6000))
    assert [(packet.payload, packet.property(0x02)) for packet in found] == [(b"1", 54), (b"3", 54), (b"5", None)]
    assert box.counts.expired == 3


def test_a_new_store_is_told_again_and_the_client_gets_nothing_twice() -> None:
    """exchange.nothing-twice-live"""
    box = kept()
    box.hand_out(hand_out(1, 0, batch(6, qos=2)))
    assert payloads(box.pump(60, 0.0, 0))[:4] == [b"0", b"1", b"2", b"3"]
    sent = box.in_flight
    box.on_received(puback(1, 2, first_byte=0x50), 0)
    first = box.settle()
    assert first is not None
    box.on_settled(first.number)
    box.pump(1, 0.0, 0)
    box.on_received(puback(1, first_byte=0x70) + puback(3, first_byte=0x50), 0)  # both facts die with the store
    assert box.settle() is not None

    box.opening(2)
    assert box.settle() is None, "nothing is said of a lane that is not open"
    box.on_opened(lane(2, released=((0, 2),), session="client"))
    again = box.settle()
    assert again is not None
    assert (dict(again.settled), again.released) == ({"delivered": ((0, 1),)}, ((2, 3),))
    box.hand_out(hand_out(2, 1, batch(5, qos=2, first=1)))
    box.on_settled(again.number)
    rest = packets(box.pump(1000, 0.0, 0))
    assert [packet.payload for packet in rest if packet.kind == 3] == [str(number).encode() for number in range(sent, 6)]
    assert [packet.packet_id for packet in rest if packet.kind == 6] == [3]


def test_a_new_store_is_asked_again_for_the_record_that_identifiers_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """exchange.identifier-never-twice, with 20 identifiers for 65,000: the one that was asked for died with the store."""
    few_identifiers(monkeypatch, 20)
    box = kept()
    box.hand_out(hand_out(1, 0, batch(25)))
    while data := box.pump(1 << 16, 0.0, 0):
        box.on_received(puback(*(packet.packet_id for packet in packets(data))), 0)
    asked = box.settle()
    assert asked is not None
    assert (dict(asked.settled), asked.session) == ({"delivered": ((0, 20),)}, "client")

    box.opening(2)
    box.on_opened(lane(2, dup_below=20, session="client"))
    box.hand_out(hand_out(2, 0, batch(25)))

    assert box.pump(1 << 16, 0.0, 0) == b"", "the next one has the first one's identifier"
    assert box.urgent
    again = box.settle()
    assert again is not None
    assert (dict(again.settled), again.session) == ({"delivered": ((0, 20),)}, "client")
    box.on_settled(again.number)
    assert payloads(box.pump(1 << 16, 0.0, 0)) == [b"20", b"21", b"22", b"23", b"24"]


def test_a_new_store_is_told_of_what_was_released_before_the_connection_and_completed_on_it() -> None:
    """Nothing was sent as PUBLISH on this connection; what the old store heard may not be on record."""
    one = outbox(QUEUE)
    one.opening(1)
    one.on_opened(lane(1, dup_below=3, released=((0, 2),), session="client"))
    assert [packet.packet_id for packet in packets(one.pump(1 << 16, 0.0, 0))] == [1, 2]
    one.on_received(puback(1, first_byte=0x70), 0)
    told = one.settle()
    assert told is not None
    assert told.settled == (("delivered", ((0, 1),)),)

    one.opening(2)
    one.on_opened(lane(2, dup_below=3, released=((0, 2),), session="client"))

    assert one.has_facts
    told = one.settle()
    assert told is not None
    assert told.settled == (("delivered", ((0, 1),)),)
    one.hand_out(hand_out(2, 0, batch(3, qos=2)))
    assert payloads(one.pump(1 << 16, 0.0, 0)) == [b"2"]


def test_credit_runs_ahead_of_what_has_left() -> None:
    box = kept()
    first = box.grant()
    assert first is not None
    assert box.grant() is None
    box.hand_out(hand_out(1, 0, batch(40)))
    for turn in range(4):
        box.pump(10_000, 0.0, 0)
        box.on_received(puback(*range(turn * 10 + 1, turn * 10 + 11)), 0)
    more = box.grant()
    assert more is not None
    assert more.messages == first.messages + 40


def test_clients_in_step_share_the_bytes() -> None:
    parcel = Parcel(batch(3), shared=True)
    boxes = [outbox() for _ in range(2)]
    for box in boxes:
        box.begin()
        box.put(parcel)
    first, second = (box.pump(1000, 0.0, 0) for box in boxes)
    assert first == second
    late = outbox()
    late.begin()
    late.put(Parcel(batch(1)))
    late.put(parcel)
    assert [(packet.packet_id, packet.payload) for packet in packets(late.pump(1000, 0.0, 0))][1:] == [
        (2, b"0"),
        (3, b"1"),
        (4, b"2"),
    ]


def test_copies_tell_qos_0_from_the_rest() -> None:
    mixed = from_rows([(b"a", 0 | 4, b"0"), (b"a", 2, b"2"), (b"b", 1, b"1")])
    granted = as_granted(mixed, None, qos=1, retain_as_published=False, identifiers=(300,))
    copies = Copies(granted, 0)
    [zero] = packets(copies.qos0(5, 1000))
    assert (zero.topic, zero.payload, zero.retain, zero.property(0x0B)) == ("a", b"0", False, 300)
    assert copies.parcel is not None
    assert copies.parcel.batch.flags == bytes((1, 1))
    assert copies.qos0(5, 3) == b"", "the client takes nothing that large"


def test_a_will_waits_until_it_is_due_or_taken() -> None:
    wills = PendingWills()
    message = (b"t", 0, b"", b"", 5)
    for session, due_s in (("b", 2.0), ("a", 1.0), ("c", 9.0)):
        wills.add(session, PendingWill(message, due_s, 0))
    assert [session for session, _ in wills.take_due(2.0)] == ["a", "b"]
    wills.add("d", PendingWill(message, 9.0, 0, "ada"))
    assert wills.take("d", "bob") is wills.take("d") is None, "it is another user's"
    assert wills.take("d", "ada") is not None
    assert wills.take("c") is not None
    assert wills.take("c") is None
    assert len(wills) == 0


def test_clients_that_take_topic_aliases_share_what_is_encoded_and_later_packets_have_no_topic() -> None:
    """mqtt.alias-given-first, at every QoS: one first packet with the topic, then the alias alone, and the same bytes for all."""
    topic = b"plant/hall/pump"
    parcel = Parcel(from_rows([(topic, 1, b"%d" % number) for number in range(3)]), shared=True)
    names = [OutgoingAliases(10) for _ in range(3)]
    boxes = [outbox(aliases=each) for each in names]
    for box in boxes:
        box.begin()
        box.put(parcel)
    sent = [box.pump(1000, 0.0, 0) for box in boxes]
    assert sent[0] == sent[1] == sent[2]
    assert [(packet.topic, packet.payload) for packet in packets(sent[0])] == [(topic.decode(), b"0"), ("", b"1"), ("", b"2")]
    assert len({packet.property(TOPIC_ALIAS) for packet in packets(sent[0])}) == 1
    copies = Copies(from_rows([(topic, 0, b"3"), (topic, 0, b"4")]), 0)
    zero = [copies.qos0_aliased(each, 1000) for each in names]
    assert zero[0] is zero[1] is zero[2], "encoded once"
    assert [(packet.topic, packet.payload) for packet in packets(zero[0])] == [("", b"3"), ("", b"4")]


def test_what_may_be_too_large_is_sent_without_an_alias() -> None:
    aliases = OutgoingAliases(10)
    topic = b"plant/hall/pump"
    copies = Copies(from_rows([(topic, 0, b"x" * 50), (topic, 0, b"1")]), 0)
    assert [packet.property(TOPIC_ALIAS) for packet in packets(copies.qos0_aliased(aliases, 50))] == [None]
    assert aliases.plan([topic])[0] > 0, "it is still to be told"


def test_a_client_of_a_restored_session_lets_go_of_what_is_on_no_record_before_anything_is_published() -> None:
    """exchange.left-identifiers-released: a message with an identifier that it holds would be a repeat to it."""
    client = outbox(QUEUE)
    client.opening(7)
    left = LeftSession("client", 0, 12, (), ((10, 10 + PACKET_IDS),))
    lane = LaneOpened(
        queue=QUEUE, epoch=7, head=10, tail=12, dup_below=12, settled=(), released=(), generation=0, session="", left=(left,)
    )
    client.on_opened(lane)
    client.hand_out(
        HandOut(queue=QUEUE, epoch=7, first_seq=10, count=2, size_bytes=2, offsets=b"", bodies=(batch(2, qos=2).encode(),))
    )

    pubrels = client.pump(1 << 20, 0.0, 0)
    assert pubrels[::4] == bytes([PUBREL_BYTE]) * (PACKET_IDS - 2)
    assert client.live, "what it answers counts"
    pubcomps = bytearray(pubrels)
    pubcomps[::4] = b"\x70" * (PACKET_IDS - 2)
    client.on_received(bytes(pubcomps[:-4]), 0)
    assert client.pump(1 << 20, 0.0, 0) == b""
    client.on_received(bytes(pubcomps[-4:]), 0)
    assert client.pump(1 << 20, 0.0, 0) == b"", "the session is on record first"
    settle = client.settle()
    assert settle is not None
    assert (settle.session, settle.left) == ("client", ())
    client.on_settled(settle.number)

    assert [(packet.packet_id, packet.dup) for packet in packets(client.pump(1 << 20, 0.0, 0))] == [(11, True), (12, True)]


def rest(box: ClientOutbox) -> ExchangeFigures | None:
    """It is asked to rest twice: the first time it was used lately."""
    return box.rest() or box.rest()


def used(box: ClientOutbox) -> int:
    """How many messages it has sent; the client acknowledges each."""
    found = [packet.packet_id for packet in packets(box.pump(10_000, 0.0, 0))]
    box.on_received(puback(*filter(None, found)), 0)
    return len(found)


def test_an_idle_client_has_no_exchange_and_the_next_one_goes_on_where_the_last_one_stood() -> None:
    box = outbox()
    box.begin()
    assert box.pump(1000, 0.0, 0) == b""
    assert (box.exchange.made is not None, box.live, box.in_flight, box.depth, box.waits) == (False, True, 0, 0, False)
    box.put(Parcel(batch(3)))
    assert used(box) == 3
    counts = rest(box)
    assert counts is not None
    assert (box.exchange.made is not None, counts.acknowledged, box.counts.acknowledged) == (False, 3, 0)

    box.put(Parcel(batch(1)))
    (packet,) = packets(box.pump(1000, 0.0, 0))
    assert (packet.packet_id, packet.dup) == (4, False)
    assert rest(box) is None, "it is not acknowledged"


def test_what_a_client_acknowledges_that_has_nothing_is_counted() -> None:
    box = outbox()
    box.begin()
    assert box.on_received(puback(7), 0) == 4
    assert box.counts.unexpected_acknowledgements == 1


def test_a_session_s_exchange_does_not_rest_before_it_has_told_what_became_of_its_messages() -> None:
    box = kept(head=5)
    assert (box.exchange.made is not None, box.live, box.sent_below) == (False, True, 5)
    box.hand_out(hand_out(1, 5, batch(2)))
    assert used(box) == 2
    assert rest(box) is None
    settle = box.settle()
    assert settle is not None
    assert settle.settled == (("delivered", ((5, 7),)),)
    assert rest(box) is not None
    assert (box.sent_below, box.settle(), box.has_facts, box.urgent) == (7, None, False, False)
    box.hand_out(hand_out(1, 7, batch(1)))
    assert used(box) == 1


def test_a_new_store_is_told_again_what_an_exchange_had_sent_that_rests() -> None:
    """exchange.nothing-twice-live: what the old store was told last may be lost with it."""
    box = kept(head=5)
    box.hand_out(hand_out(1, 5, batch(2)))
    assert used(box) == 2
    assert box.settle() is not None
    assert rest(box) is not None
    box.opening(2)
    box.on_opened(lane(2, head=5, dup_below=7, session="client"))
    box.hand_out(hand_out(2, 5, batch(3)))
    assert payloads(box.pump(1000, 0.0, 0)) == [b"2"]
    told = box.settle()
    assert told is not None
    assert told.settled == (("delivered", ((5, 7),)),)


@pytest.mark.parametrize("queue", ["", QUEUE])
@given(steps=st.lists(st.sampled_from(["put", "pump", "answer", "settle", "rest"]), max_size=60))
def test_rests_in_between_change_nothing_of_what_is_sent(queue: str, steps: list[str]) -> None:
    sent: list[list[bytes]] = []
    for rests in (False, True):
        box = kept() if queue else outbox()
        if not queue:
            box.begin()
        seq, owed, data = 0, [], []
        for step in steps:
            if step == "put" and queue:
                box.hand_out(hand_out(1, seq, batch(2, first=seq)))
            elif step == "put":
                box.put(Parcel(batch(2, first=seq)))
            elif step == "pump":
                data.append(box.pump(1000, 0.0, 0))
                owed += [packet.packet_id or 0 for packet in packets(data[-1])]
            elif step == "answer":
                box.on_received(puback(*owed), 0)
                owed = []
            elif step == "settle":
                box.settle()
            elif rests:
                rest(box)
            seq += 2 * (step == "put")
        sent.append(data)
    assert sent[0] == sent[1]


def test_what_is_handed_out_to_many_is_encoded_once() -> None:
    parcel = Parcel(batch(2))
    frame, sent = hand_out(1, 0, parcel.batch), []
    boxes = [kept() for _ in range(3)]
    for box in boxes:
        box.hand_out(frame, None, parcel)
        parcel.share()
    for box in boxes:
        sent.append(box.pump(1000, 0.0, 0))
    assert parcel.columns.made is not None
    assert (len(parcel.columns.made), len(set(sent)), payloads(sent[0])) == (1, 1, [b"0", b"1"])
