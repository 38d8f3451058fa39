"""Publishers at MQTT 3.1.1 whose messages the store refuses: held, offered again in order, and no more than was on the way."""

from __future__ import annotations

import random
import socket
from array import array
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from actors.broker.client_input import BESIDE_ROWS
from actors.broker.listener import Listener
from actors.broker.puback_release import RETRY_REFUSED_S, RETRY_TIMER
from actors.door.client import Client
from actors.process.local_messages import Published
from actors.process.mailbox import READ, Mailbox, PollGroup
from tests.supervisor.settings import node_settings
from wire.exchange.receiver import ReceiverHalf
from wire.exchange.refused_messages import OFFER_ROWS_MIN
from wire.frames.base import Frame
from wire.frames.batch import OFFERED, pack_column, unpack_column
from wire.frames.intake import Committed, SessionGone, SourceResumed
from wire.frames.names import QUEUE_STORE
from wire.frames.sending_link import BATCH_ROWS_MAX

PINGREQ, PINGRESP = b"\xc0\0", b"\xd0\0"
DISCONNECT = b"\xe0\0"
EPOCH = 5


class Poll(PollGroup):
    """Which sockets are watched, and for what."""

    def __init__(self) -> None:
        self.events: dict[int, int] = {}

    def watch(self, descriptor: int, events: int, token: object) -> None:
        self.events[descriptor] = events

    def forget(self, descriptor: int) -> None:
        self.events.pop(descriptor, None)

    def hear(self, heard: bool) -> None:
        """All or none of them."""


class Store:
    """The store by its promises: a row for which there is no room, and all that follow of its source until it is resumed."""

    def __init__(self) -> None:
        self.room = 0
        self.taken: list[bytes] = []
        self.told: list[SourceResumed] = []
        self.offered: list[bytes] = []
        self.largest = 0
        self._stalled: dict[int, int] = {}

    def resume(self, frame: SourceResumed) -> None:
        self.told.append(frame)
        if self._stalled.get(frame.source, frame.number) < frame.number:
            del self._stalled[frame.source]

    def commit(self, frame: Published) -> Committed:
        batch = frame.batch
        self.largest = max(self.largest, len(batch))
        refused = []
        for row, (source, payload) in enumerate(zip(unpack_column("I", frame.sources), batch.rows_payloads(), strict=True)):
            if source in self._stalled or not self.room:
                self._stalled[source] = frame.number
                refused.append(row)
            else:
                self.room -= 1
                self.taken.append(payload)
                self.offered += [payload] if batch.flags[row] & OFFERED else []
        rows = {frame.number: pack_column(array("H", refused))} if refused else {}
        return Committed(sender="listener", epoch=EPOCH, store=1, number=frame.number, refused=rows)


class Node:
    """The mailbox of a Listener, with its clients and its store."""

    name = "listener"

    def __init__(self, folder: Path) -> None:
        self.store = Store()
        self.seconds = 0.0
        self.timers: dict[str, float] = {}
        self.poll = Poll()
        self.batches: list[Published] = []
        self.clients: dict[int, tuple[Client, socket.socket]] = {}
        self.fars: dict[int, socket.socket] = {}
        self._resumes: list[SourceResumed] = []
        self._unsent: dict[int, bytes] = {}
        self._sockets = ExitStack()
        self.listener = Listener(cast(Mailbox, self), node_settings(folder), EPOCH)
        self.listener.ready()

    def group(self) -> Poll:
        return self.poll

    def now_s(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return 0

    def random(self) -> float:
        return 0.5

    def watch(self, descriptor: int, events: int, token: object) -> None:
        """Who lingers after its end has nothing more to say here."""

    def unwatch(self, descriptor: int) -> None: ...

    def send(self, peer: str, frame: Frame) -> None:
        if isinstance(frame, SourceResumed):
            assert peer == QUEUE_STORE
            self._resumes.append(frame)
        elif isinstance(frame, Published):
            self.batches.append(frame)

    def set_timer(self, name: str, at_s: float) -> None:
        self.timers[name] = at_s

    def cancel_timer(self, name: str) -> None:
        self.timers.pop(name, None)

    def look_again(self) -> None:
        """The sockets are looked at in each turn."""

    def connect(self, number: int, session: str = "", queue: str = "") -> socket.socket:
        near, far = socket.socketpair()
        self._sockets.enter_context(far)
        self._sockets.callback(near.close)
        far.setblocking(False)
        self.fars[number] = far
        client = Client(near, f"unix:{number}", number, self.poll, 0.0)
        client.level, client.session, client.queue = 4, session or f"client-{number}", queue
        client.flow = ReceiverHalf(number=number, session=client.session, level=4, receive_maximum=65_535, topic_alias_maximum=0)
        self.listener.clients.add(client)
        self.listener.acknowledgements.opened(client)
        self.clients[number] = client, near
        return far

    def publish(self, number: int, data: bytes) -> None:
        """Have client ``number`` send ``data`` as its socket takes it."""
        self._unsent[number] = self._unsent.get(number, b"") + data

    def turn(self) -> None:
        """What is due, what has come, and what the store says of it."""
        for number, data in self._unsent.items():
            try:
                self._unsent[number] = data[self.fars[number].send(data) if data else 0 :]
            except BlockingIOError:
                pass
        for name in [name for name, at_s in self.timers.items() if at_s <= self.seconds]:
            del self.timers[name]
            self.listener.on_timer(name, self.seconds)
        ready = [(client, READ) for client, near in self.clients.values() if not client.closed and self._reads(near)]
        self.listener.on_sockets(cast(Any, ready))
        self.listener.on_turn_end(self.seconds)
        for frame in self._resumes:
            self.store.resume(frame)
        self._resumes = []
        if self.batches:
            self.listener.on_frame(self.store.commit(self.batches.pop(0)))
            self.listener.on_turn_end(self.seconds)

    def wait(self, seconds: float = RETRY_REFUSED_S) -> None:
        """Turns until everything that came of the time is done."""
        self.seconds += seconds
        self.turn()
        while self.batches:
            self.turn()

    def held(self) -> int:
        return sum(len(held.messages) for held in self.listener.acknowledgements._held.values())

    def _reads(self, near: socket.socket) -> bool:
        return bool(self.poll.events.get(near.fileno(), 0) & READ)

    def close(self) -> None:
        self._sockets.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.close()


def publish(payload: bytes, qos: int = 0, packet_id: int = 0, *, dup: bool = False) -> bytes:
    body = b"\0\1t" + (packet_id.to_bytes(2, "big") if qos else b"") + payload
    assert len(body) < 128
    return bytes((0x30 | qos << 1 | dup << 3, len(body))) + body


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%06d" % number for number in range(start, start + count)]


def test_no_more_is_held_than_was_on_the_way_and_all_of_it_comes_in_order(node: Node) -> None:
    """However much it goes on to send while nothing has room, and however long; afterwards nothing is missing or overtaken."""
    node.connect(1)
    payloads = numbered(60_000)
    node.publish(1, b"".join(map(publish, payloads)))
    node.wait()
    on_the_way = node.held()
    assert 0 < on_the_way < len(payloads) // 2
    for _ in range(200):
        node.wait()
        assert node.held() <= on_the_way

    node.store.room = len(payloads)
    for _ in range(1_000):
        node.wait()
        if len(node.store.taken) == len(payloads):
            break
    assert node.store.taken == payloads
    assert node.store.largest <= BATCH_ROWS_MAX + BESIDE_ROWS
    assert not node.held()


def test_many_clients_that_wait_for_room_are_offered_in_batches_of_their_size(node: Node) -> None:
    """Together they wait with more than one batch can have; as there is room, each comes to its turn."""
    clients, each = 700, 20
    for number in range(1, clients + 1):
        far = node.connect(number)
        far.sendall(b"".join(publish(b"%d-%02d" % (number, at), 1, at + 1) for at in range(each)))
    for _ in range(40):
        node.wait()
    assert node.held() > BATCH_ROWS_MAX

    for _ in range(2_000):
        node.store.room = 500
        node.wait()
        if len(node.store.taken) == clients * each:
            break
    of_client: dict[bytes, list[bytes]] = {}
    for payload in node.store.taken:
        of_client.setdefault(payload.partition(b"-")[0], []).append(payload)
    assert set(of_client) == {b"%d" % number for number in range(1, clients + 1)}
    assert all(came == sorted(came) and len(came) == each for came in of_client.values())
    assert node.store.largest <= BATCH_ROWS_MAX


@pytest.mark.parametrize("seed", range(20))
def test_room_that_comes_and_goes_costs_neither_order_nor_a_message(node: Node, seed: int) -> None:
    """Offers that are taken in part, while more is sent at every QoS, and answers for what was taken and no other."""
    chance = random.Random(seed)
    fars = {number: node.connect(number) for number in (1, 2, 3)}
    sent: dict[int, list[bytes]] = {number: [] for number in fars}
    ids = dict.fromkeys(fars, 0)
    answered: dict[int, bytes] = dict.fromkeys(fars, b"")
    owed: dict[int, list[int]] = {number: [] for number in fars}
    for _ in range(60):
        for number in fars:
            for _ in range(chance.choice((0, 0, 1, 3, 40, 3 * OFFER_ROWS_MIN))):
                qos = chance.choice((0, 1))
                ids[number] += qos
                payload = b"%d-%06d" % (number, len(sent[number]))
                node.publish(number, publish(payload, qos, ids[number]))
                sent[number].append(payload)
                owed[number] += [ids[number]] * qos
        node.store.room = chance.choice((0, 0, 1, 10, 100, 1_000))
        node.wait(chance.choice((0.0, 0.1, 0.2)))
    node.store.room = 10**9
    for _ in range(200):
        node.wait()
    for number, far in fars.items():
        assert [payload for payload in node.store.taken if payload.startswith(b"%d-" % number)] == sent[number]
        while True:
            try:
                answered[number] += far.recv(65_536)
            except BlockingIOError:
                break
        assert [int.from_bytes(answered[number][at + 2 : at + 4], "big") for at in range(0, len(answered[number]), 4)] == owed[
            number
        ]


def test_who_is_held_back_is_still_there(node: Node) -> None:
    """What is no PUBLISH is answered, so a client that publishes seldom keeps its connection while a queue is full."""
    far = node.connect(1)
    far.sendall(publish(b"first", 1, 1))
    node.wait()
    far.sendall(PINGREQ)
    node.wait()
    assert far.recv(100) == PINGRESP

    far.sendall(publish(b"second", 1, 2) + PINGREQ)
    node.wait()
    assert not node.clients[1][0].heard
    node.store.room = 2
    for _ in range(3):
        node.wait()
    assert far.recv(100) == b"\x40\2\0\1" + PINGRESP + b"\x40\2\0\2"
    assert node.store.taken == [b"first", b"second"]


@pytest.mark.parametrize("goodbye", [DISCONNECT, b""])
def test_who_leaves_while_it_is_held_back_is_noticed(node: Node, monkeypatch: pytest.MonkeyPatch, goodbye: bytes) -> None:
    """What it sent is not acknowledged, so it comes again; and the DISCONNECT behind it is heard, which its Will depends on."""
    wills: list[bool] = []
    monkeypatch.setattr(node.listener.sessions, "closed", lambda client, *, publish_will: wills.append(publish_will))
    far = node.connect(1)
    far.sendall(publish(b"first", 1, 1))
    node.wait()
    far.sendall(b"".join(publish(payload, 1, 2) for payload in numbered(100)))
    node.wait()
    far.sendall(goodbye)
    far.close()

    for _ in range(3):
        node.wait()

    assert node.clients[1][0].closed
    assert wills == [not goodbye]
    assert not node.held()
    assert node.store.taken == []


@pytest.mark.parametrize("leaves", ["while all of it waits", "while it is offered"])
def test_the_store_is_told_of_each_qos_0_message_that_is_given_up_because_its_publisher_left(node: Node, leaves: str) -> None:
    """Nobody sends it again. At QoS 1 the client has it still: that is no loss."""
    far = node.connect(1)
    far.sendall(publish(b"0") + publish(b"1", 1, 1) + publish(b"2") + publish(b"3"))
    node.wait()
    assert node.held() == 4
    if leaves == "while it is offered":
        node.listener.on_timer(RETRY_TIMER, node.seconds)
        assert not node.held()
    node.listener.clients.close_client(node.clients[1][0], "gone")

    for _ in range(3):
        node.wait()

    assert (node.store.told[-1].source, node.store.told[-1].held, node.store.told[-1].given_up) == (1, 0, 3)
    assert sum(told.given_up for told in node.store.told) == 3


def test_the_store_is_told_how_much_goes_on_waiting_beside_what_is_offered(node: Node) -> None:
    far = node.connect(1)
    count = 3 * OFFER_ROWS_MIN
    far.sendall(b"".join(publish(payload) for payload in numbered(count)))
    node.wait()
    node.store.room = count

    for _ in range(3):
        node.wait()

    assert [told.held for told in node.store.told][-2:] == [count - OFFER_ROWS_MIN, 0]
    assert len(node.store.taken) == count


@pytest.mark.parametrize("behind", ["a repeat of what is held", "a repeat of what is committed", "what is forbidden"])
@pytest.mark.parametrize("apart", [False, True])
def test_the_answers_behind_what_is_held_wait_for_its_own(node: Node, behind: str, apart: bool) -> None:
    """exchange.answers-in-order: also where they come in the batch behind the one that is refused."""
    far = node.connect(1)
    flow = node.clients[1][0].flow
    assert flow is not None
    packets = publish(b"held", 2, 5)
    if behind == "a repeat of what is held":
        late = publish(b"held", 2, 5, dup=True)
        answers = b"\x50\2\0\5\x50\2\0\5"
    elif behind == "a repeat of what is committed":
        flow.received.add(6)
        late = publish(b"known", 2, 6, dup=True)
        answers = b"\x50\2\0\5\x50\2\0\6"
    else:
        flow.may_publish = lambda topic: topic != b"u"
        late = publish(b"forbidden", 2, 7).replace(b"\0\1t", b"\0\1u")
        answers = b"\x50\2\0\5\x50\2\0\7"
    far.sendall(packets if apart else packets + late)
    if apart:
        take = node.store.commit

        def commit(frame: Published) -> Committed:
            """The store answers the first batch when the second is on its way."""
            node.store.commit = take  # type: ignore[method-assign]
            answer = take(frame)
            far.sendall(late)
            node.listener.on_sockets(cast(Any, [(node.clients[1][0], READ)]))
            node.listener.on_turn_end(node.seconds)
            return answer

        node.store.commit = commit  # type: ignore[method-assign]
    for _ in range(5):
        node.wait()
    with pytest.raises(BlockingIOError):
        far.recv(100)

    node.store.room = 1
    for _ in range(5):
        node.wait()
    assert far.recv(100) == answers
    assert node.store.taken == [b"held"]


def test_only_one_timer_runs_for_all_who_wait(node: Node) -> None:
    """Else those who come to wait later would put off those who wait already."""
    for number in range(1, 8):
        node.connect(number).sendall(publish(b"%d" % number, 1, 1))
        node.wait(0.05)
        if number == 1:
            due_s = node.timers[RETRY_TIMER]
        assert node.timers[RETRY_TIMER] == due_s or node.seconds >= due_s


def test_qos_2_that_was_refused_is_known_when_its_publisher_comes_back(node: Node) -> None:
    """Connected clients have had it live, so for them it is offered again (P2): by DUP, and in the same session only."""
    queue = "session:65537:c"
    node.connect(1, "c", queue).sendall(b"".join(publish(b"%d" % packet_id, 2, packet_id) for packet_id in (7, 8, 9, 10)))
    node.wait()
    node.fars[1].sendall(publish(b"11", 2, 11))  # behind them, and never taken
    node.wait(0.0)
    node.fars[1].close()
    node.wait()
    assert node.clients[1][0].closed

    node.store.room = 10
    again = [publish(b"%d" % packet_id, 2, packet_id, dup=True) for packet_id in (7, 8, 11)]
    node.connect(2, "c", queue).sendall(b"".join(again) + publish(b"new", 2, 9))
    node.connect(3, "c2", "session:65538:c").sendall(publish(b"of another", 2, 10, dup=True))
    for _ in range(3):
        node.wait()
    assert sorted(node.store.taken) == [b"11", b"7", b"8", b"new", b"of another"]
    assert node.store.offered == [b"7", b"8"]

    def comes_back(number: int) -> set[int]:
        """The client goes and comes again; what is known of it."""
        node.listener.clients.close_client(node.clients[number - 1][0], "gone")
        node.connect(number, "c", queue)
        flow = node.clients[number][0].flow
        assert flow is not None
        return flow.refused_before

    node.listener.clients.close_client(node.clients[3][0], "gone")
    node.clients[3] = node.clients[2]
    assert comes_back(4) == {10}, "it has not come yet"
    node.listener.clients.close_client(node.clients[4][0], "gone")
    node.listener.on_frame(SessionGone(session="c", queue=queue))
    assert comes_back(5) == set()
