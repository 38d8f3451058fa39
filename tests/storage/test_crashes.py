"""The store dies at any write, as a kill and as a power cut; what it promised is there, nothing is invented, the ledger closes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.engine.engine import RocksEngine
from storage.store.store import Store
from tests.storage.building import QUEUE, RecordingEngine, append_frame, batch, messages, node, settle_frame
from tests.support.stores import open_store
from wire.frames.frame import Effects, Frame
from wire.frames.intake import Committed, SessionOpen, SessionOpened
from wire.frames.lanes import Credit, HandOut, LaneOpen, LaneOpened, Settled

EPOCH = 1 << 20
MANY = 1 << 40


@dataclass
class Promises:
    """The promises up to some write: numbers committed, sequences released, sequences on record as delivered.

    settled: those that the store was told of, whether or not anything was committed since.
    """

    writes: int
    committed: int = 0
    released: set[int] = field(default_factory=set)
    delivered: set[int] = field(default_factory=set)
    settled: set[int] = field(default_factory=set)


def payloads(number: int) -> list[bytes]:
    return [b"%d.%d" % (number, row) for row in range(number % 3 + 1)]


def run(engine: RecordingEngine, script: list[str]) -> list[Promises]:
    """Do what ``script`` says; the promises after each turn."""
    store = open_store(engine, node(), 1)
    store.receive(SessionOpen(sender="listener", epoch=1, request=1, session="c", clean=False, expiry_s=60))
    store.commit(1.0, 1000)
    store.receive(LaneOpen(queue=QUEUE, epoch=EPOCH))
    store.receive(Credit(queue=QUEUE, epoch=EPOCH, messages=0, size_bytes=0))
    number = settles = 0
    flying: list[int] = []
    promises = [Promises(0)]
    now_s = 1.0
    releasing: set[int] = set()
    for step in ["open", *script]:
        last = promises[-1]
        now = Promises(last.writes, last.committed, set(last.released), set(last.delivered), set(last.settled))
        now_s += 0.01
        if step == "publish":
            number += 1
            of = batch(payloads(number), 2)
            ids = range(number * 10, number * 10 + len(of))
            store.receive(append_frame(number, {QUEUE: (of, None)}, received={"c": ids}))
        elif step == "credit":
            store.receive(Credit(queue=QUEUE, epoch=EPOCH, messages=number * 3, size_bytes=MANY))
        elif step == "settle" and flying:
            seq = flying.pop(0)
            settles += 1
            store.receive(settle_frame(settles, EPOCH, ("delivered", ((seq, seq + 1),))))
            now.settled.add(seq)
            now.released.discard(seq)
            releasing.discard(seq)
        elif step == "release" and flying:
            settles += 1
            releasing.add(flying[-1])
            store.receive(settle_frame(settles, EPOCH, released=((flying[-1], flying[-1] + 1),)))
        elif step == "rest":
            now_s = max(now_s, store.wakes_at_s(now_s))
        for _, frame in store.commit(now_s, 1000):
            match frame:
                case Committed():
                    now.committed = frame.number
                case Settled():
                    now.released |= releasing
                case HandOut():
                    flying.extend(seq for seq, _ in messages(frame))
        now.writes = len(engine.writes)
        if step == "rest" or now.writes > last.writes:  # a settlement goes with the next commit, and does not wait long for one
            now.delivered = set(now.settled)
        promises.append(now)
    return promises


def reopen(engine: RecordingEngine) -> tuple[LaneOpened, list[tuple[int, bytes]], Store]:
    store = open_store(engine, node(), 2)
    store.receive(LaneOpen(queue=QUEUE, epoch=EPOCH + (1 << 20)))
    (opened,) = [frame for _, frame in store.commit(1.0, 1000) if isinstance(frame, LaneOpened)]
    store.receive(Credit(queue=QUEUE, epoch=EPOCH + (1 << 20), messages=1000, size_bytes=MANY))
    frames = [frame for _, frame in store.commit(1.0, 1000) if isinstance(frame, HandOut)]
    return opened, [pair for frame in frames for pair in messages(frame)], store


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["publish", "credit", "settle", "release", "rest"]), min_size=1, max_size=14))
def test_what_was_promised_outlives_a_kill_or_a_power_cut_at_any_write(script: list[str]) -> None:
    engine = RecordingEngine()
    promises = run(engine, script)
    everything = [payload for number in range(1, len(script) + 1) for payload in payloads(number)]

    for issued, kept, survivor in engine.survivors(first=1):
        promised = [promise for promise in promises if promise.writes <= issued][-1]
        durable = sum(len(payloads(number)) for number in range(1, promised.committed + 1))
        opened, queue, store = reopen(survivor)

        assert opened.tail >= durable, "P1: what was acknowledged is there"
        assert [payload for _, payload in queue] == [everything[seq] for seq, _ in queue], "nothing is invented or mixed up"
        seqs = {seq for seq, _ in queue}
        gone = set(range(opened.tail)) - seqs
        assert gone <= promises[-1].settled, "only what was delivered is gone"
        if kept == issued:
            assert promised.delivered <= gone, "a kill forgets no settlement that a commit or its time has come for"
        released = {seq for start, stop in opened.released for seq in range(start, stop)}
        assert promised.released <= released | gone, "a released message is never published again"
        figures = store.status(1000).queues[QUEUE]
        assert figures.ledger_closes
        assert figures.depth == len(queue)
        assert opened.dup_below >= min(opened.tail, max(promised.released, default=-1) + 1)
        _resend(store, promised.committed)


def _resend(store: Store, committed: int) -> None:
    """The sender resends from what it knows to be committed; nothing enters twice, and received identifiers match."""
    depth = store.status(1000).queues[QUEUE].accepted
    if committed:
        store.receive(append_frame(committed, {QUEUE: (batch(payloads(committed), 2), None)}))
        answers = [frame for _, frame in store.commit(1.0, 1000) if isinstance(frame, Committed)]
        assert answers
        assert answers[0].number >= committed, "a repeat is known"
        assert store.status(1000).queues[QUEUE].accepted == depth
    store.receive(SessionOpen(sender="listener", epoch=1, request=1, session="c", clean=False, expiry_s=60))
    (opened,) = [frame for _, frame in store.commit(1.0, 1000) if isinstance(frame, SessionOpened)]
    assert len(opened.received) // 2 == depth, "an identifier for each message, in the same commit"


# --- real processes ---

_WRITER = """
import sys
from pathlib import Path
from storage.engine.engine import RocksEngine
from tests.storage.building import QUEUE, append_frame, batch, node
from tests.support.stores import open_store
from wire.frames.intake import Committed
settings = node(sync=sys.argv[2])
store = open_store(RocksEngine(Path(sys.argv[1])), settings, 1)
sender = store.links.senders.get("listener")
number = sender.last if sender else 0
while True:
    number += 1
    rows = batch([b"%d.%d" % (number, row) * 40 for row in range(20)])
    store.receive(append_frame(number, {QUEUE: (rows, None)}, promised=settings.persistence))
    for _, frame in store.commit(float(number), 1000):
        if isinstance(frame, Committed):
            print(frame.number, flush=True)
"""


@pytest.mark.process
@pytest.mark.parametrize("sync", ["full", "os"])
def test_what_a_writer_acknowledged_is_there_after_kill_9(tmp_path: Path, sync: str) -> None:
    """Six times in mid-write on one store, so that the log is recycled and recovered over and over."""
    acknowledged = 0
    for life in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path / "store"), sync], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
        )
        guard = threading.Timer(300.0, writer.kill)
        guard.start()
        assert writer.stdout is not None
        for count, line in enumerate(writer.stdout):
            acknowledged = int(line)
            if count == 40 + 7 * life:
                os.kill(writer.pid, signal.SIGKILL)
                break
        acknowledged = max(
            [acknowledged, *[int(line) for line in writer.stdout.read().splitlines(keepends=True) if line.endswith(b"\n")]]
        )
        writer.wait(60.0)
        guard.cancel()
        assert writer.returncode == -signal.SIGKILL
        writer.stdout.close()

        engine = RocksEngine(tmp_path / "store")
        opened, queue, store = _read_all(engine)
        assert opened.tail >= acknowledged * 20
        assert queue == [b"%d.%d" % (number, row) * 40 for number in range(1, opened.tail // 20 + 1) for row in range(20)]
        assert store.status(1000).queues[QUEUE].ledger_closes
        engine.close()


def _read_all(engine: RocksEngine) -> tuple[LaneOpened, list[bytes], Store]:
    store = open_store(engine, node(), 2)
    effects: Effects = []
    frames: list[Frame] = [LaneOpen(queue=QUEUE, epoch=EPOCH), Credit(queue=QUEUE, epoch=EPOCH, messages=MANY, size_bytes=MANY)]
    for frame in frames:
        store.receive(frame)
        effects.extend(store.commit(1.0, 1000))
    (opened,) = [frame for _, frame in effects if isinstance(frame, LaneOpened)]
    handed = [payload for _, frame in effects if isinstance(frame, HandOut) for _, payload in messages(frame)]
    return opened, handed, store
