"""Stores for the tests of damage: filled by the real code, copied as a power cut leaves them, opened again and emptied."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from storage.engine.commit_mark import MARK_NAME
from storage.engine.engine import RocksEngine
from storage.store.store import Store
from tests.storage.building import QUEUE, append_frame, batch, bridge, messages, node, settle_frame, wait_idle
from tests.support.stores import open_store
from wire.config_settings import NodeSettings
from wire.frames.batch import RAISED, RETAIN, UNPROMISED, Batch
from wire.frames.frame import Frame
from wire.frames.intake import Committed, SessionOpen, SessionOpened
from wire.frames.lanes import Credit, HandOut, LaneOpen, LaneReopen
from wire.mqtt.packets import SESSION_NEVER_EXPIRES_S
from wire.status.store import StoreReport

OTHER = "bridge:cloud:1"
SESSION = "c"
MANY = 1 << 40
RAISED_TO_2 = bytes(flags & RETAIN | 2 | RAISED | UNPROMISED for flags in range(256))
LANES = 2


@dataclass
class Commit:
    """One acknowledged commit: where its record ends in which log (0: not known), the mark after it, what each queue held.

    raised: how much of ``QUEUE`` a rule had raised.
    """

    log: str
    end: int
    mark: bytes
    totals: dict[str, int]
    raised: int


@dataclass
class Filled:
    """A store that was filled and is still open."""

    folder: Path
    engine: RocksEngine
    payloads: dict[str, list[bytes]] = field(default_factory=lambda: {QUEUE: [], OTHER: []})
    commits: list[Commit] = field(default_factory=list)
    raised: int = 0
    former: bytes = b""  # the newest log when it came into use: what stands behind its first record is its former life

    def is_recycled(self, log_bytes: int) -> bool:
        """Whether the newest log has so much in measured commits, and its former life behind them."""
        end = self.commits[-1].end
        first = next((commit.end for commit in self.commits if commit.log == self.commits[-1].log and commit.end), end)
        return end - first >= log_bytes and any(self.former[end:])

    def log_path(self) -> Path:
        return max(self.folder.glob("*.log"), key=lambda path: int(path.stem))


def settings(folder: Path, sync: str = "full") -> NodeSettings:
    return node(bridge(lanes=LANES), data_dir=str(folder.parent), sync=sync)


@contextmanager
def filled(
    folder: Path, seed: int, *, commits: int, size_bytes: int, watched: int = 0, log_bytes: int = 0, sync: str = "full"
) -> Iterator[Filled]:
    """A store with so many commits of about ``size_bytes``, QoS 2; the last ``watched`` are measured in the log. In ``QUEUE`` each
    second commit's came at QoS 0, and a rule has raised it.

    It goes on until those in the newest log are ``log_bytes``, and that was another one before: RocksDB recycles those it is done
    with in time. Its work in the background has ended then, and the files stay as they are.
    """
    chance = random.Random(seed)
    engine = RocksEngine(folder)
    chosen = settings(folder, sync)
    store = open_store(engine, chosen, 1)
    made = Filled(folder, engine)
    store.receive(
        SessionOpen(sender="listener", epoch=1, request=1, session=SESSION, clean=False, expiry_s=SESSION_NEVER_EXPIRES_S)
    )
    store.commit(0.0, 1000)
    newest = ""
    number = 0
    while number < commits or (watched and not made.is_recycled(log_bytes)):
        number += 1
        parts: dict[str, tuple[Batch, Sequence[int] | None]] = {}
        for queue in (QUEUE, OTHER):
            if queue == QUEUE or number % 3 == 0:
                rows = chance.randint(1, 5)
                first = len(made.payloads[queue])
                new = [b"%s %d " % (queue.encode(), first + row) + chance.randbytes(size_bytes // rows) for row in range(rows)]
                made.payloads[queue] += new
                part = batch(new, 2)
                if queue == QUEUE and number % 2:
                    part.change_flags(0, part.flags.translate(RAISED_TO_2))
                    made.raised += rows
                parts[queue] = (part, None)
        before = made.log_path()
        if before.name != newest:
            newest, made.former = before.name, before.read_bytes()
        watching = number > commits - watched
        old = before.read_bytes() if watching else b""
        store.receive(append_frame(number, parts, received={SESSION: [number]}, promised=chosen.persistence))
        assert any(isinstance(frame, Committed) for _, frame in store.commit(float(number), 1000))
        if watching:
            after = made.log_path()
            new_log = after.read_bytes()
            changed = (at + 1 for at in range(len(new_log)) if at >= len(old) or new_log[at] != old[at])
            end = max(changed) if after == before else 0  # nobody knows what a log had that has just come into use
            totals = {queue: len(all_of) for queue, all_of in made.payloads.items()}
            made.commits.append(Commit(after.name, end, (folder / MARK_NAME).read_bytes(), totals, made.raised))
    wait_idle(engine)
    yield made
    store.close()


def copy_store(source: Path, target: Path, *, changed: str = "") -> None:
    """The disk of ``source`` now; files that do not change are linked, but for the one that is to be ``changed``."""
    target.mkdir(parents=True)
    for entry in source.iterdir():
        if entry.name == "LOCK" or entry.name.startswith("LOG"):
            continue
        if entry.suffix in (".sst", ".blob", ".log") and entry.name != changed:
            os.link(entry, target / entry.name)
        else:
            shutil.copyfile(entry, target / entry.name)


@dataclass
class Emptied:
    """The contents of a store: each queue's messages by sequence, and its figures at the end."""

    handed: dict[str, dict[int, bytes]]
    status: StoreReport
    received: int


def emptied(folder: Path, life: int = 2) -> Emptied:
    """Open the store, hand out and settle all there is, go on with a new message, close it."""
    with closing(RocksEngine(folder)) as engine:
        return _emptied(open_store(engine, settings(folder), life), life)


def _emptied(store: Store, life: int) -> Emptied:
    handed: dict[str, dict[int, bytes]] = {QUEUE: {}, OTHER: {}}
    epochs = dict.fromkeys(handed, life << 20)
    now_s = 100.0
    todo: list[Frame] = [
        SessionOpen(sender="listener", epoch=life, request=1, session=SESSION, clean=False, expiry_s=SESSION_NEVER_EXPIRES_S)
    ]
    todo += [LaneOpen(queue=queue, epoch=epoch) for queue, epoch in epochs.items()]
    todo.append(append_frame(1, {queue: (batch([b"new"], 1), None) for queue in handed}, epoch=life))
    received = committed = settles = 0
    for _ in range(10_000):
        todo += [Credit(queue=queue, epoch=epochs[queue], messages=MANY, size_bytes=MANY) for queue in handed]
        for frame in todo:
            store.receive(frame)
        todo, now_s = [], now_s + 1
        effects = store.commit(now_s, 1000)
        for _, frame in effects:
            match frame:
                case HandOut():
                    for seq, payload in messages(frame):
                        assert handed[frame.queue].get(seq, payload) == payload, "a message never changes"
                        handed[frame.queue][seq] = payload
                        settles += 1
                        todo.append(settle_frame(settles, frame.epoch, ("delivered", ((seq, seq + 1),)), queue=frame.queue))
                case LaneReopen():
                    epochs[frame.queue] += 1
                    todo.append(LaneOpen(queue=frame.queue, epoch=epochs[frame.queue]))
                case SessionOpened():
                    received = len(frame.received) // 2
                case Committed():
                    committed = frame.number
        if not effects and not todo:
            break
    assert committed == 1, "the store goes on"
    store.commit(now_s + 1, 1000, at_once=True)  # what was settled last would wait a moment
    return Emptied(handed, store.status(1000), received)


def judge(found: Emptied, payloads: dict[str, list[bytes]], promised: dict[str, int], *, may_lose: bool) -> int:
    """Nothing wrong, nothing twice, nothing silently gone; how many messages were counted as damaged."""
    lost = 0
    for queue, handed in found.handed.items():
        expected = payloads[queue]
        new = [seq for seq, payload in handed.items() if payload == b"new"]
        assert len(new) == 1, f"{queue}: the new message came {len(new)} times"
        old = {seq: payload for seq, payload in handed.items() if payload != b"new"}
        assert all(payload == expected[seq] for seq, payload in old.items()), f"{queue}: a wrong payload"
        assert new[0] >= max(old, default=-1) + 1
        assert list(handed) == sorted(handed) or may_lose, "in order"
        figures = found.status.queues[queue]
        damaged = figures.dropped.get("damaged", 0)
        assert figures.ledger_closes, figures
        assert figures.depth == 0, figures
        assert figures.accepted == (figures.delivered or 0) + damaged, figures
        assert figures.delivered == len(handed), figures
        assert len(old) + damaged >= promised[queue], (
            f"{queue}: a silent gap: {len(old)} + {damaged} of {promised[queue]}; {figures}"
        )
        assert may_lose or not damaged, figures
        lost += damaged
    return lost
