"""One life of a store between a publisher and a remote that outlive it, for the tests of lost power.

``World`` is what is outside the machine, known from the lines that were said: what the publisher sent and was told, and what the
remote got. ``Life`` drives a real store with it, QoS 2 on both sides, and says each line when the word leaves the machine. As a
program it makes so many turns:

    python -m tests.faults.lost_power FOLDER SAID LIFE TURNS SEED SYNC

The store is in FOLDER/store. The lines go to the file SAID, which has those of earlier lives; in FOLDER, a recorder finds them
among what was done to the disk.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import storage.engine.engine
from storage.engine.engine import RocksEngine
from tests.faults.stores import MANY, OTHER, settings
from tests.storage.building import QUEUE, append_frame, batch, messages, settle_frame
from tests.support.stores import open_store
from wire.exchange.packet_identifiers import PACKET_IDS
from wire.frames.batch import Batch, unpack_column
from wire.frames.frame import Frame
from wire.frames.intake import Committed, SessionOpen, SessionOpened
from wire.frames.lanes import Credit, HandOut, LaneOpen, LaneOpened, LaneReopen, Settled

SESSION = "c"
REMOTE = "edge@remote"
IN_FLIGHT = 20
QUEUES = (QUEUE, OTHER)


@dataclass
class World:
    """Publisher and remote. A message is its packet identifier at the publisher, in the order in which it was sent.

    open: sent and not acknowledged. acknowledged: and no PUBREL was sent yet. releasing: and no PUBCOMP came yet. held: what the
    remote got under which identifier, and has no PUBREL for. got: what it got, once each. sessions: queues whose remote session is
    on record. wrong: what must not be.
    """

    open: dict[int, tuple[str, str]] = field(default_factory=dict)
    acknowledged: dict[int, tuple[str, str]] = field(default_factory=dict)
    releasing: set[int] = field(default_factory=set)
    sent: dict[str, list[str]] = field(default_factory=lambda: {queue: [] for queue in QUEUES})
    promised: set[str] = field(default_factory=set)
    held: dict[str, dict[int, str]] = field(default_factory=lambda: {queue: {} for queue in QUEUES})
    got: dict[str, list[str]] = field(default_factory=lambda: {queue: [] for queue in QUEUES})
    sessions: set[str] = field(default_factory=set)
    last: int = 0
    wrong: list[str] = field(default_factory=list)

    def hear(self, line: dict[str, Any]) -> None:
        """One word between the machine and the world."""
        match line:
            case {"offered": [int(number), str(queue), str(payload)]}:
                if number > self.last:
                    self.last, self.open[number] = number, (queue, payload)
                    self.sent[queue].append(payload)
            case {"pubrec": list(numbers)}:
                for number in numbers:
                    self.acknowledged[number] = self.open.pop(number)
                    self.promised.add(self.acknowledged[number][1])
            case {"pubrel": list(numbers)}:
                for number in numbers:
                    self.acknowledged.pop(number, None)
                    self.releasing.add(number)
            case {"pubcomp": list(numbers)}:
                self.releasing.difference_update(numbers)
            case {"publish": [str(queue), int(packet_id), str(payload)]}:
                held = self.held[queue].get(packet_id)
                if held is None:
                    self.held[queue][packet_id] = payload
                    self.got[queue].append(payload)
                elif held != payload:
                    self.wrong.append(f"{queue}: {payload[:20]} came under {packet_id}, which the remote holds for {held[:20]}")
            case {"release": [str(queue), int(packet_id)]}:
                self.held[queue].pop(packet_id, None)
            case {"session": str(queue)}:
                self.sessions.add(queue)

    def judge(self) -> None:
        """After all was sent: all that was promised came, nothing twice, each queue's in its order."""
        for queue, got in self.got.items():
            places = {payload: place for place, payload in enumerate(self.sent[queue])}
            came = [places[payload] for payload in got]
            missing = [payload[:20] for payload in self.sent[queue] if payload in self.promised and payload not in set(got)]
            if missing:
                self.wrong.append(f"{queue}: lost {len(missing)}: {missing[:5]}")
            if len(set(came)) < len(came):
                self.wrong.append(f"{queue}: doubled {len(came) - len(set(came))}")
            if came != sorted(came):
                self.wrong.append(f"{queue}: out of order: {came[-30:]}")
        if self.wrong:
            raise AssertionError("; ".join(self.wrong))


def outlived(folder: Path, said: bytes, life: int) -> None:
    """The rest that a loss of power left in ``folder`` is opened and emptied.

    Raises:
        AssertionError: a promise is broken.
    """
    world = known(said)
    one = Life(folder, life, world, lambda line: None)
    try:
        one.drain()
        world.judge()
        for queue, figures in one.store.status(1000).queues.items():
            assert figures.ledger_closes, f"{queue}: {figures}"
            assert not figures.dropped, f"{queue}: {figures}"
        assert not list(folder.glob("store.damaged-*")), "lost power is no damage"
    finally:
        one.close()


class Life:
    """One life of the store in ``folder``; say: is told each line before it takes effect outside."""

    def __init__(self, folder: Path, life: int, world: World, say: Callable[[dict[str, Any]], None], *, sync: str = "full") -> None:
        self.world = world
        self._say = say
        self._life = life
        self.engine = RocksEngine(folder / "store")
        chosen = settings(folder / "store", sync)
        self._promised = chosen.persistence
        self.store = open_store(self.engine, chosen, life)
        self._epochs = dict.fromkeys(QUEUES, life << 20)
        self._number = self._settles = 0
        self._sent: dict[int, tuple[list[int], list[int]]] = {}  # appends: what they bring, what they release
        self._taken: dict[str, list[int]] = {queue: [] for queue in QUEUES}  # sequences that the remote has answered with PUBREC
        self._released: dict[str, dict[int, list[int]]] = {queue: {} for queue in QUEUES}
        self._completed: dict[str, list[int]] = {queue: [] for queue in QUEUES}
        self._handed = dict.fromkeys(QUEUES, 0)
        self._now_s = 100.0
        self._begin()

    def turn(self, new: Sequence[tuple[str, str]]) -> bool:
        """One turn, in which the publisher sends ``new``: (queue, payload) each; whether anything happened."""
        frames = [*self._settlements(), *self._credits()]
        if new or self.world.acknowledged:
            frames.append(self._append([(self.world.last + 1 + row, queue, payload) for row, (queue, payload) in enumerate(new)]))
        return self._commit(frames)

    def drain(self) -> None:
        """Turns until nothing happens any more."""
        quiet = 0
        for _ in range(10_000):
            quiet = 0 if self.turn([]) else quiet + 1
            if quiet > 3:
                return
        raise AssertionError("the store never comes to rest")

    def close(self) -> None:
        self.store.close()

    def _hear(self, line: dict[str, Any]) -> None:
        self._say(line)
        self.world.hear(line)

    def _begin(self) -> None:
        """The client comes back, and both lanes are opened; what is not on record is sent again."""
        opening = SessionOpen(sender="listener", epoch=self._life, request=1, session=SESSION, clean=False, expiry_s=0xFFFFFFFF)
        answers = self._turn([opening])
        (opened,) = [frame for frame in answers if isinstance(frame, SessionOpened)]
        received = set(unpack_column("H", opened.received))
        lost = [number for number in self.world.acknowledged if number not in received]
        if lost:
            self.world.wrong.append(f"identifiers of what was acknowledged are not on record: {lost[:5]}")
        known = [number for number in self.world.open if number in received]
        if known:
            self._hear({"pubrec": known})
        again = [(number, queue, payload) for number, (queue, payload) in sorted(self.world.open.items())]
        if again or self.world.releasing:
            self._commit([self._append(again)])
        self._commit([LaneOpen(queue=queue, epoch=epoch) for queue, epoch in self._epochs.items()])

    def _append(self, rows: list[tuple[int, str, str]]) -> Frame:
        parts: dict[str, tuple[Batch, Sequence[int] | None]] = {}
        for queue in QUEUES:
            places = [place for place, row in enumerate(rows) if row[1] == queue]
            if places:
                parts[queue] = (batch([rows[place][2].encode() for place in places], 2), places)
        for number, queue, payload in rows:
            self._hear({"offered": [number, queue, payload]})
        releases = [*self.world.acknowledged, *self.world.releasing]
        if self.world.acknowledged:
            self._hear({"pubrel": list(self.world.acknowledged)})
        self._number += 1
        numbers = [number for number, _, _ in rows]
        self._sent[self._number] = (numbers, releases)
        received: dict[str, Sequence[int]] = {SESSION: numbers} if rows else {}
        released: dict[str, Sequence[int]] = {SESSION: releases} if releases else {}
        return append_frame(
            self._number,
            parts,
            rows=len(rows),
            received=received,
            released=released,
            epoch=self._life,
            promised=self._promised,
        )

    def _settlements(self) -> Iterator[Frame]:
        for queue in QUEUES:
            taken, completed = self._taken[queue], self._completed[queue]
            if not taken and not completed:
                continue
            self._settles += 1
            ranges = tuple((seq, seq + 1) for seq in taken)
            settled = (("delivered", tuple((seq, seq + 1) for seq in sorted(completed))),) if completed else ()
            yield settle_frame(self._settles, self._epochs[queue], *settled, released=ranges, queue=queue)
            self._released[queue][self._settles] = list(taken)
            taken.clear()
            completed.clear()

    def _credits(self) -> Iterator[Frame]:
        for queue in QUEUES:
            free = IN_FLIGHT - len(self.world.held[queue])
            yield Credit(queue=queue, epoch=self._epochs[queue], messages=self._handed[queue] + max(0, free), size_bytes=MANY)

    def _commit(self, frames: Iterable[Frame]) -> bool:
        answers = self._turn(frames)
        for frame in answers:
            self._take(frame)
        return bool(answers)

    def _turn(self, frames: Iterable[Frame]) -> list[Frame]:
        for frame in frames:
            self.store.receive(frame)
        self._now_s += 1
        return [frame for _, frame in self.store.commit(self._now_s, 1000)]

    def _take(self, frame: Frame) -> None:
        match frame:
            case Committed():
                for number in [number for number in self._sent if number <= frame.number]:
                    brought, released = self._sent.pop(number)
                    if brought:
                        self._hear({"pubrec": brought})
                    if released:
                        self._hear({"pubcomp": released})
            case LaneOpened():
                self._opened(frame)
            case LaneReopen():
                self._epochs[frame.queue] += 1
                self._handed[frame.queue] = 0
                self._commit([LaneOpen(queue=frame.queue, epoch=self._epochs[frame.queue])])
            case HandOut():
                for seq, payload in messages(frame):
                    self._handed[frame.queue] += 1
                    self._hear({"publish": [frame.queue, seq % PACKET_IDS + 1, payload.decode()]})
                    self._taken[frame.queue].append(seq)
            case Settled():
                waiting = self._released[frame.queue]
                for number in [number for number in waiting if number <= frame.number]:
                    for seq in waiting.pop(number):
                        self._release(frame.queue, seq)

    def _opened(self, frame: LaneOpened) -> None:
        queue = frame.queue
        if not frame.session:
            if queue in self.world.sessions:
                self.world.wrong.append(f"{queue}: the remote session is not on record any more")
            self._settles += 1
            session = settle_frame(self._settles, frame.epoch, session=REMOTE, generation=frame.generation, queue=queue)
            answers = self._turn([session])
            if any(isinstance(answer, Settled) for answer in answers):
                self._hear({"session": queue})
            for answer in answers:
                self._take(answer)
        for start, stop in frame.released:
            for seq in range(start, stop):
                self._release(queue, seq)

    def _release(self, queue: str, seq: int) -> None:
        self._hear({"release": [queue, seq % PACKET_IDS + 1]})
        self._completed[queue].append(seq)


def traffic(chance: random.Random, world: World) -> list[tuple[str, str]]:
    """The publisher's next message."""
    first = world.last + 1
    size = chance.choice((10, 200, 900, 4500))
    return [(chance.choice(QUEUES), f"{first + row} {chance.randbytes(size // 2).hex()}") for row in range(chance.randint(1, 3))]


def read_lines(said: bytes) -> list[dict[str, Any]]:
    """The lines; the last one may be torn."""
    whole, _, _ = said.rpartition(b"\n")
    return [json.loads(line) for line in whole.splitlines()]


def use_small_files() -> None:
    """Logs are written over after a few hundred messages, and tables come and go."""
    storage.engine.engine.MEMTABLE_BYTES = 64 << 10
    storage.engine.engine.WAL_MAX_BYTES = 128 << 10


def known(said: bytes) -> World:
    """The world after what was said."""
    world = World()
    for line in read_lines(said):
        world.hear(line)
    return world


def main(folder: Path, said: Path, life: int, turns: int, seed: int, sync: str) -> None:
    """Live."""
    use_small_files()
    world = known(said.read_bytes())
    out = os.open(said, os.O_WRONLY | os.O_APPEND)

    def say(line: dict[str, Any]) -> None:
        os.write(out, json.dumps(line).encode() + b"\n")

    chance = random.Random(seed)
    sys.stdout.write("opening\n")
    sys.stdout.flush()
    one = Life(folder, life, world, say, sync=sync)
    for _ in range(turns):
        one.turn(traffic(chance, world) if chance.random() < 0.8 else [])
        if chance.random() < 0.02:
            one.engine.free_bytes()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
