"""RemoteInbox between a model remote broker and a model store: links cut, processes killed, queues full, at any moment.

One topic, messages numbered in their payloads. The models share no code with the inbox but the frames.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, replace

import pytest

from tests.storage.building import u16
from tests.wire.outbound_model import parse
from tests.wire.rules import bridge_of
from tests.wire.rules import rule as any_rule
from wire.config_settings import BridgeSettings
from wire.exchange.remote_inbox import PUBREL, RemoteInbox
from wire.frames.batch import Batch, unpack_column
from wire.frames.intake import Committed, Publishes
from wire.mqtt.codec import encode
from wire.mqtt.packets import Publish, Pubrel
from wire.routing.form_from_remote import LocalForm

SESSION = "s"
ROWS_MAX = 6
PUBACK_KIND, PUBREC_KIND, PUBCOMP_KIND = 4, 5, 7


@dataclass(slots=True)
class InFlight:
    """A QoS 1 or 2 message that the remote has given an identifier."""

    number: int
    qos: int
    packet_id: int
    sent: bool = False
    released: bool = False


def local_form(taken: bool) -> LocalForm:
    """One rule for the one topic; another topic is unmatched."""
    bridge: BridgeSettings = bridge_of("cloud", loop_prevention=taken)
    rules = (any_rule(1, "t", max_qos=1),)  # lowered, so that the answers must not go by the queue's QoS
    return LocalForm(replace(bridge, remote_subscriptions=rules))


class Store:
    """What is committed: payload numbers, identifiers, the last number of the newest epoch. A batch that does not fit waits."""

    def __init__(self) -> None:
        self.messages: list[int] = []
        self.ids: set[int] = set()
        self.epoch = 0
        self.last = 0
        self.waiting: deque[Publishes] = deque()
        self.room: int | None = None

    def begin(self, epoch: int) -> None:
        if epoch > self.epoch:
            self.epoch, self.last = epoch, 0
            self.waiting.clear()

    def take(self, frame: Publishes) -> None:
        self.begin(frame.epoch)
        if frame.epoch == self.epoch and frame.number == self.last + len(self.waiting) + 1:
            self.waiting.append(frame)
        self.admit()

    def admit(self) -> None:
        while self.waiting:
            frame = self.waiting[0]
            batch = Batch.decode(frame.bodies[0])
            if self.room is not None and len(batch) > self.room:
                break
            self.waiting.popleft()
            self.last += 1
            if self.room is not None:
                self.room -= len(batch)
            self.messages += map(int, batch.rows_payloads())
            for ids in frame.received.values():
                self.ids |= set(unpack_column("H", ids))
            for ids in frame.released.values():
                self.ids -= set(unpack_column("H", ids))

    def answer(self, epoch: int) -> Committed:
        return Committed(sender="c", epoch=epoch, store=1, number=self.last if epoch == self.epoch else 0)


class Exchange:
    """The steps that the world may take, one at a time; the models judge every packet and every row."""

    def __init__(self, chance: random.Random, *, level: int, keeps: bool, loop_prevention: bool) -> None:
        self.chance = chance
        self.level = level
        self.keeps = keeps
        self.form = local_form(loop_prevention)
        self.store = Store()
        self.epoch = 0
        self.published: list[int] = []  # QoS of each message
        self.queue: deque[tuple[int, int]] = deque()
        self.flight: list[InFlight] = []
        self.connected = False
        self.now_s = 0.0
        self.start()

    # --- the parts ---

    def start(self) -> None:
        self.epoch += 1
        self.inbox = RemoteInbox(
            self.form,
            sender="c",
            epoch=self.epoch,
            packet_max_bytes=1000,
            rows_max=ROWS_MAX,
            bytes_max=10_000,
        )
        self.on_the_way: deque[Publishes] = deque()
        self.asked = self.opened = False
        self.lost()

    def lost(self) -> None:
        self.connected = self.asked = self.opened = False
        self.to_us = b""
        self.unread = b""
        self.owed: dict[int, list[int]] = {PUBACK_KIND: [], PUBREC_KIND: [], PUBCOMP_KIND: []}

    def packet(self, one: InFlight) -> bytes:
        if one.released:
            self.owed[PUBCOMP_KIND].append(one.packet_id)
            return encode(Pubrel(packet_id=one.packet_id), self.level)
        self.owed[PUBACK_KIND if one.qos == 1 else PUBREC_KIND].append(one.packet_id)
        packet = encode(self.publish_packet(one.number, one.qos, one.packet_id, dup=one.sent), self.level)
        one.sent = True
        return packet

    def publish_packet(self, number: int, qos: int, packet_id: int, *, dup: bool = False) -> Publish:
        return Publish(topic="t", payload=str(number).encode(), qos=qos, packet_id=packet_id, dup=dup)

    def parse(self) -> None:
        """The Connection's part with what was read."""
        buffer, position = self.unread, 0
        while position < len(buffer):
            before = position
            position = self.inbox.take(buffer, position)
            if self.inbox.blocked:
                break
            if position != before:
                continue
            if buffer[position] & 0xF0 != PUBREL or len(buffer) - position < 4:
                break
            self.inbox.pubrel(buffer[position + 2] << 8 | buffer[position + 3])
            position += 4
        self.unread = buffer[position:]

    def pump(self) -> None:
        """The end of a turn."""
        while True:
            frame = self.inbox.next_batch(self.now_s, 0)
            if frame is not None:
                self.on_the_way.append(frame)
            if not (self.inbox.blocked and self.inbox.takes):
                break
            self.parse()
        if self.connected and not self.asked and self.inbox.idle:
            self.asked = True
        if self.inbox.remake:
            self.cut()

    def answered(self, data: bytes) -> None:
        """The remote gets our answers; exchange.answer-after-commit says that each message of them is in the store.

        They come in order (exchange.answers-in-order).
        """
        for packet in parse(data, self.level):
            assert packet.packet_id == self.owed[packet.kind].pop(0)
            one = next(one for one in self.flight if one.packet_id == packet.packet_id)
            assert one.number in self.store.messages
            assert packet.reason_code in ((0, 0x92) if packet.kind == PUBCOMP_KIND else (0,))
            if packet.kind == PUBREC_KIND:
                assert one.qos == 2
                if not one.released:
                    one.released = True
                    self.to_us += self.packet(one)
            else:
                assert packet.kind == (PUBACK_KIND if one.qos == 1 else PUBCOMP_KIND)
                self.owed[PUBREC_KIND] = [each for each in self.owed[PUBREC_KIND] if each != one.packet_id]
                self.flight.remove(one)

    # --- steps ---

    def publish(self) -> None:
        qos = self.chance.choice([0, 1, 1, 2, 2])
        self.queue.append((len(self.published), qos))
        self.published.append(qos)

    def send(self) -> None:
        count = self.chance.randint(1, 12) if self.opened else 0
        for _ in range(min(count, len(self.queue))):
            number, qos = self.queue.popleft()
            if qos:
                used = {one.packet_id for one in self.flight}
                self.flight.append(InFlight(number, qos, next(one for one in range(1, 1000) if one not in used)))
                self.to_us += self.packet(self.flight[-1])
            else:
                self.to_us += encode(self.publish_packet(number, 0, 0), self.level)

    def send_again(self) -> None:
        """MQTT 3.1.1 forbids nobody to do so on one connection."""
        sent = [one for one in self.flight if not one.released and one.packet_id in self.owed[PUBREC_KIND]]
        if sent:
            self.to_us += self.packet(self.chance.choice(sent))

    def read(self, part: float = 0.0) -> None:
        if self.inbox.blocked or not self.connected or not self.to_us:
            return
        size = max(1, int(len(self.to_us) * (part or self.chance.uniform(0.1, 1.0))))
        self.unread, self.to_us = self.unread + self.to_us[:size], self.to_us[size:]
        self.parse()
        self.pump()

    def reach_the_store(self) -> None:
        if self.on_the_way:
            self.store.take(self.on_the_way.popleft())

    def commit(self) -> None:
        if self.store.epoch == self.epoch:
            self.answered(self.inbox.on_committed(self.store.answer(self.epoch), self.now_s))
            self.pump()

    def distributor_dies(self) -> None:
        self.on_the_way.clear()
        for _ in range(self.chance.randint(1, 2)):  # a repeat is harmless
            self.on_the_way.extend(self.inbox.resend(self.now_s))

    def connect(self) -> None:
        if self.connected:
            return
        self.lost()
        self.inbox.on_connected(SESSION, level=self.level, remote_keeps=self.keeps)
        self.connected = True
        for one in self.flight:
            self.to_us += self.packet(one)
        self.pump()

    def open(self) -> None:
        if not self.asked or self.opened:
            return
        self.store.begin(self.epoch)
        self.opened = True
        self.inbox.on_opened(u16(sorted(self.store.ids)))
        self.parse()
        self.pump()

    def cut(self) -> None:
        if not self.connected:
            return
        self.inbox.on_disconnected()
        self.lost()
        self.pump()

    def kill(self) -> None:
        on_the_way = self.on_the_way
        self.start()
        if self.chance.random() < 0.5:
            self.on_the_way.extend(on_the_way)  # fenced, once the new life has said something

    def limit(self) -> None:
        self.store.room = self.chance.choice([None, 0, 1, 3, 8, 20])
        self.store.admit()

    def pass_time(self) -> None:
        """What was not committed meanwhile is sent again, and what cannot be taken may be left out."""
        self.now_s += self.chance.choice([1.0, 4.0])
        if self.inbox.poll_stalled(self.now_s):
            self.on_the_way.extend(self.inbox.resend(self.now_s))
        self.pump()

    # --- what must hold ---

    def judge(self) -> None:
        seen: set[int] = set()
        highest = -1
        for number in self.store.messages:
            if number in seen:
                assert self.published[number] == 1, f"message {number} at QoS {self.published[number]} came twice"
                continue
            assert number > highest, f"message {number} came behind {highest}"
            highest = number
            seen.add(number)
        assert self.inbox.gathered <= ROWS_MAX + 1

    def end(self) -> None:
        """Let everything come to its end, and nothing may be lost."""
        self.store.room = None
        self.store.admit()
        for _ in range(20 * (len(self.published) + 5)):
            if not self.connected:
                self.connect()
            if self.asked and not self.opened:
                self.open()
            if self.opened and self.queue:
                self.send()
            if self.to_us:
                self.read(1.0)
            self.pass_time()
            while self.on_the_way:
                self.reach_the_store()
            self.commit()
            if not self.queue and not self.flight and self.inbox.idle and not self.to_us:
                break
        lost = [number for number, qos in enumerate(self.published) if qos and number not in self.store.messages]
        assert not lost, f"lost {lost}"
        assert not self.flight, f"not completed {self.flight}"
        assert not self.store.ids
        self.judge()


STEPS = {
    "publish": 8, "send": 6, "read": 8, "reach_the_store": 8, "commit": 8, "open": 6, "connect": 6, "pass_time": 1,
    "send_again": 0.5, "distributor_dies": 1, "cut": 1, "kill": 0.5, "limit": 1.5,
}  # fmt: skip


@pytest.mark.parametrize("block", range(4))
def test_nothing_is_lost_doubled_or_overtaken(block: int, soak: bool) -> None:
    seeds_each = 5_000 if soak else 100
    for seed in range(block * seeds_each, (block + 1) * seeds_each):
        chance = random.Random(seed)
        exchange = Exchange(chance, level=chance.choice([4, 5]), keeps=chance.random() < 0.5, loop_prevention=chance.random() < 0.5)
        try:
            for step in chance.choices(list(STEPS), list(STEPS.values()), k=200):
                getattr(exchange, step)()
                exchange.judge()
            exchange.end()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
