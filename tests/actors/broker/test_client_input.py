"""Input of a client: taken in order, and left in its socket while it has to wait."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.client_batches import ClientBatches
from actors.broker.client_input import BESIDE_ROWS, PACKETS_PER_TURN, ClientInput
from actors.broker.reserved_topics import ReservedTopics
from actors.broker.waiting_clients import RATE_TIMER, TURN_TIMER
from tests.actors.session_desk import Unconnected
from tests.supervisor.settings import node_settings
from tests.wire.rules import bridge_of, rule
from wire.config_settings import SettingsNow
from wire.errors import PeerViolation
from wire.exchange.receiver import ReceiverHalf
from wire.frames.intake import FULL, NEAR, OPEN, Room
from wire.mqtt.codec import encode
from wire.mqtt.packets import Publish

PINGREQ, PUBACK, SUBSCRIBE = b"\xc0\0", b"\x40\2\0\1", b"\x82\6\0\1\0\1t\0"
ROWS_MAX = 4


class FakeClient(Unconnected):
    """A connection: ``sent`` is in its socket."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.is_called(f"c{number}")
        self.greets(4, bridge=False)
        self.begins(ReceiverHalf(number=number, session=self.session, level=4, receive_maximum=100, topic_alias_maximum=0))
        self.sent: list[bytes] = []
        self.received_at_most: list[int] = []

    left = False

    @property
    def muted(self) -> int:
        return self._muted

    def has_left(self) -> bool:
        return self.left

    def receive(self, bytes_max: int = 0) -> bytes | None:
        self.received_at_most.append(bytes_max)
        return self.sent.pop(0) if self.sent else b""


class Desk:
    """Clients whose packets are handled here; ``handled``: (client, first byte)."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        settings = node_settings(folder, bridge_of("cloud", rule(1, "t")))
        settings = replace(settings, clients=replace(settings.clients, **limits))
        self.now_s = 1.0
        self.timers: dict[str, float] = {}
        self.handled: list[tuple[int, int]] = []
        self.violations: list[str] = []
        self.limited: Counter[str] = Counter()
        self.crowded = 0
        self.acknowledged: list[int] = []
        self.clients: dict[int, Any] = {}
        host: Any = SimpleNamespace(
            name="listener",
            epoch=1,
            mailbox=SimpleNamespace(now_s=lambda: self.now_s, wall_ms=lambda: 0, set_timer=self.timers.__setitem__),
            on_limited=lambda limit: self.limited.update((limit,)),
            client=self.clients.get,
            send=lambda peer, frame: None,
            settings=SettingsNow(settings),
        )
        packets: Any = SimpleNamespace(check_first=lambda first_byte: None, handle=self._handle, violated=self._violated)
        self.batches = ClientBatches(host, ReservedTopics(host))
        self.batches.builder.rows_max = ROWS_MAX
        self.told(1)
        self.input = ClientInput(
            host,
            self.batches,
            packets,
            acknowledged=lambda client: self.acknowledged.append(client.number),
            crowded=self._crowd,
        )

    def told(self, number: int, **queues: tuple[int, int, int]) -> None:
        """What the store says of its queues."""
        self.batches.room.on_report(Room(epoch=1, store=1, number=number, queues=queues))
        if number > 1:
            self.input.room_came(queues)

    def _handle(self, client: Any, first_byte: int, body: bytes) -> None:
        self.handled.append((client.number, first_byte))

    def _violated(self, client: Any, error: PeerViolation) -> None:
        self.violations.append(error.message)
        client.closed = True
        self.input.on_closed(client)

    def _crowd(self) -> None:
        self.crowded += 1

    def client(self, number: int = 1) -> Any:
        client = self.clients[number] = FakeClient(number)
        return client

    def read(self, client: Any, *sent: bytes) -> None:
        client.sent += sent
        for _ in sent:
            assert self.input.read(client, self.now_s)

    def payloads(self) -> list[bytes]:
        return self.batches.builder.payloads


def publish(payload: bytes, qos: int = 0, packet_id: int = 0) -> bytes:
    return encode(Publish(topic="t", payload=payload, qos=qos, packet_id=packet_id), 4)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_packets_are_taken_in_the_order_in_which_they_came_however_they_are_cut(desk: Desk) -> None:
    client = desk.client()
    stream = publish(b"a", 1, 1) + PINGREQ + publish(b"b") + PINGREQ
    desk.read(client, *(stream[at : at + 1] for at in range(len(stream))))
    assert desk.payloads() == [b"a", b"b"]
    assert desk.handled == [(1, 0xC0)] * 2
    assert (client.input.front, client.input.missing, desk.input.held_bytes) == (b"", 0, 0)
    assert desk.batches.touched == {1: client}


def test_a_packet_in_the_making_is_kept_and_counted(desk: Desk) -> None:
    client = desk.client()
    packet = publish(b"x" * 1000, 1, 1)
    desk.read(client, packet[:10], packet[10:20])
    assert desk.input.held_bytes == 20
    assert client.input.missing == len(packet) - 20
    desk.read(client, packet[20:])
    assert desk.payloads() == [b"x" * 1000]
    assert desk.input.held_bytes == 0


def test_what_fills_the_batch_waits_for_room_and_what_is_behind_it_too(desk: Desk) -> None:
    client = desk.client()
    desk.read(client, b"".join(publish(b"%d" % number, 1, number) for number in range(1, ROWS_MAX + 3)) + PINGREQ)
    assert len(desk.payloads()) == ROWS_MAX
    assert (client.muted != 0, list(desk.input.waiting.for_batch), desk.handled) == (True, [1], [])
    desk.input.go_on_with_room()
    assert list(desk.input.waiting.for_batch) == [1], "there is none"
    desk.batches.send(desk.now_s)
    desk.input.go_on_with_room()
    assert desk.payloads() == [b"5", b"6"]
    assert (client.muted, desk.input.waiting.for_batch, desk.handled) == (0, {}, [(1, 0xC0)])


def test_little_is_read_while_the_batch_is_full(desk: Desk) -> None:
    client = desk.client()
    desk.read(client, b"".join(publish(b"x") for _ in range(ROWS_MAX)))
    desk.read(client, PINGREQ)
    assert client.received_at_most[0] > 10 * client.received_at_most[1]


def test_messages_of_qos_0_have_room_beside_a_full_batch(desk: Desk) -> None:
    """But for what they stand behind, and for so many."""
    filling, first, second = (desk.client(number) for number in (1, 2, 3))
    desk.read(filling, b"".join(publish(b"%d" % number, 1, number) for number in range(1, ROWS_MAX + 1)))
    desk.read(first, publish(b"beside") + publish(b"waits", 1, 1) + publish(b"behind"))
    assert desk.payloads()[ROWS_MAX:] == [b"beside"]
    assert (list(desk.input.waiting.for_batch), desk.crowded) == ([2], 0)
    desk.read(second, b"".join(publish(b"x") for _ in range(BESIDE_ROWS)))
    assert len(desk.payloads()) == ROWS_MAX + BESIDE_ROWS
    assert (list(desk.input.waiting.for_batch), desk.crowded) == ([2, 3], 1)
    assert desk.batches.builder.rows_max == ROWS_MAX


def test_the_beginning_of_a_message_of_qos_0_waits_for_its_rest_and_not_for_room(desk: Desk) -> None:
    client = desk.client()
    desk.read(client, b"".join(publish(b"%d" % number, 1, number) for number in range(1, ROWS_MAX + 1)))
    desk.read(client, publish(b"beside")[:-1])
    assert (client.input.missing, client.muted) == (1, 0)


def test_subscribe_goes_behind_what_its_client_has_published(desk: Desk) -> None:
    client, other = desk.client(), desk.client(2)
    desk.read(client, publish(b"x", 1, 1) + SUBSCRIBE)
    desk.read(other, SUBSCRIBE)
    assert desk.handled == [(2, 0x82)]
    desk.batches.send(desk.now_s)
    desk.input.go_on_with_room()
    assert desk.handled == [(2, 0x82), (1, 0x82)]


def test_who_publishes_to_a_full_queue_is_not_read_and_goes_on_when_there_is_room(desk: Desk) -> None:
    client, other = desk.client(), desk.client(2)
    desk.told(2, cloud=(NEAR, 0, 0))
    desk.read(client, PINGREQ + publish(b"waits", 1, 1) + PINGREQ)
    assert (desk.payloads(), desk.handled, client.muted != 0) == ([], [(1, 0xC0)], True)
    desk.read(other, publish(b"0"))
    assert desk.payloads() == [b"0"], "QoS 0 waits for nothing"
    desk.told(3, cloud=(FULL, 0, 0))
    assert (desk.payloads(), client.muted != 0) == ([b"0"], True)
    desk.told(4, cloud=(OPEN, 0, 0))
    assert (desk.payloads(), desk.handled, client.muted) == ([b"0", b"waits"], [(1, 0xC0)] * 2, 0)


def test_what_is_left_goes_to_who_has_waited_longest(desk: Desk) -> None:
    clients = [desk.client(number) for number in (1, 2, 3)]
    desk.told(2, cloud=(NEAR, 0, 0))
    for client in clients:
        desk.read(client, publish(b"%d" % client.number, 1, 1) + publish(b"%d again" % client.number, 1, 2))
    desk.told(3, cloud=(NEAR, 3, 1000))
    assert desk.payloads() == [b"1", b"1 again", b"2"]
    desk.told(4, cloud=(NEAR, 1, 1000))
    assert desk.payloads() == [b"1", b"1 again", b"2", b"2 again"]
    assert [client.muted != 0 for client in clients] == [False, False, True]


def test_what_was_published_by_who_has_left_is_left_out_where_there_is_no_room(desk: Desk) -> None:
    client = desk.client()
    desk.told(2, cloud=(NEAR, 0, 0))
    desk.read(client, publish(b"1", 1, 1) + publish(b"0") + PINGREQ + publish(b"2", 2, 2) + PINGREQ)
    desk.input.read_departed()
    assert desk.handled == []
    client.left = True
    desk.input.read_departed()
    assert (desk.payloads(), desk.handled, client.input.front, client.muted) == ([], [(1, 0xC0)] * 2, b"", 0)


def test_nothing_behind_connect_is_taken_before_the_session_is_known(desk: Desk) -> None:
    client = desk.client()
    flow, client.flow = client.flow, None
    desk.read(client, publish(b"x") + PINGREQ)
    assert (desk.payloads(), desk.handled) == ([], [])
    client.flow = flow
    desk.input.read_on(client)
    assert (desk.payloads(), desk.handled) == ([b"x"], [(1, 0xC0)])


def test_acknowledgements_go_to_the_outbox_in_one_run(desk: Desk) -> None:
    client = desk.client()
    runs: list[tuple[bytes, int]] = []

    def received(data: bytes, position: int) -> int:
        runs.append((data, position))
        return position + 2 * len(PUBACK)

    client.outbox = SimpleNamespace(live=True, on_received=received)
    desk.read(client, PUBACK * 2 + PINGREQ)
    assert runs == [(PUBACK * 2 + PINGREQ, 0)]
    assert (desk.acknowledged, desk.handled) == ([1], [(1, 0xC0)])
    client.outbox.live = False
    desk.read(client, PUBACK)
    assert desk.handled[1:] == [(1, 0x40)], "it answers nothing that was sent on this connection"


def test_who_publishes_faster_than_its_rate_goes_on_when_that_allows(tmp_path: Path) -> None:
    """A message that it may not publish counts too, and ends a run that goes on behind it."""
    desk = Desk(tmp_path, publish_messages_per_s=2.0)
    client = desk.client()
    desk.input.begin(client, desk.now_s)
    client.flow.may_publish = lambda topic: topic != b"secret"
    secret = encode(Publish(topic="secret", payload=b"", qos=0), 4)
    desk.read(client, secret + publish(b"a") + publish(b"b") + publish(b"c") + PINGREQ)
    assert desk.payloads() == [b"a"]
    assert (client.muted != 0, desk.input.waiting.slowed, desk.handled) == (True, 1, [])
    for _ in range(2):
        desk.now_s = desk.timers[RATE_TIMER]
        desk.input.on_timer(RATE_TIMER, desk.now_s)
    assert desk.payloads() == [b"a", b"b", b"c"]
    desk.now_s += 1.0
    desk.input.on_timer(RATE_TIMER, desk.now_s)
    assert (client.muted, desk.handled) == (0, [(1, 0xC0)])


def test_who_sends_many_small_packets_waits_a_turn(desk: Desk) -> None:
    client = desk.client()
    desk.read(client, PINGREQ * (PACKETS_PER_TURN + 3))
    assert len(desk.handled) == PACKETS_PER_TURN
    assert client.muted
    desk.input.on_timer(TURN_TIMER, desk.timers[TURN_TIMER])
    assert (len(desk.handled), client.muted) == (PACKETS_PER_TURN + 3, 0)


def test_a_violation_is_counted_by_the_limit_that_it_broke(tmp_path: Path) -> None:
    desk = Desk(tmp_path, packet_max_bytes=100)
    client = desk.client()
    desk.read(client, publish(b"fits", 1, 1) + publish(b"x" * 200)[:10])
    assert desk.payloads() == [b"fits"], "what came before it is taken"
    assert desk.limited == {"packet_max_bytes": 1}
    assert len(desk.violations) == 1
    assert desk.input.held_bytes == 0


def test_where_all_hold_too_much_who_holds_most_goes(tmp_path: Path) -> None:
    desk = Desk(tmp_path, input_max_bytes=150)
    most, least = desk.client(1), desk.client(2)
    desk.read(most, publish(b"x" * 1000)[:100])
    desk.read(least, publish(b"x" * 1000)[:60])
    assert (most.closed, least.closed) == (True, False)
    assert desk.limited == {"input_max_bytes": 1}
    assert desk.input.held_bytes == 60
