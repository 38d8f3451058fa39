"""A disk that refuses to be read for a moment costs a moment: nothing is passed over, doubled or out of order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from storage.engine.engine import Family
from storage.store.disk_trouble import RETRY_FIRST_S, RETRY_MAX_S
from storage.store.store import TICK_S, Store
from tests.storage.building import RecordingEngine, append_frame, batch, bridge, messages, node, settle_frame
from tests.storage.queues import append, handed, open_queue
from tests.support.stores import open_store
from wire.errors import Unavailable
from wire.frames.frame import Frame
from wire.frames.intake import Committed
from wire.frames.lanes import Credit, HandOut, LaneOpen, LaneOpened, Settled
from wire.frames.names import queue_name
from wire.frames.supervision import QueueAnswer, QueueCommand

ROWS, CHUNKS, SETTLED = 5, 6, 7  # the head is inside the second chunk


class ShakyEngine(RecordingEngine):
    """Refuses one read of a queue's chunks: the one after ``good_reads`` more."""

    good_reads = -1

    def _read(self) -> None:
        self.good_reads -= 1
        if self.good_reads == -1:
            raise Unavailable("input/output error")

    def scan(self, family: Family, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        rows = super().scan(family, start, stop)
        while True:
            if family == "msg":
                self._read()
            row = next(rows, None)
            if row is None:
                return
            yield row

    def seek_before(self, family: Family, key: bytes, low: bytes) -> tuple[bytes, bytes] | None:
        self._read()
        return super().seek_before(family, key, low)


def wake(store: Store, now_s: float, came: list[Frame]) -> tuple[float, list[float]]:
    """Let ``store`` wake twelve times, when it wants to; the time then, and how long it slept each time. came: what it sends."""
    tries = []
    for _ in range(12):
        wakes_s = store.wakes_at_s(now_s)
        assert wakes_s > now_s, "it does not spin"
        tries.append(wakes_s - now_s)
        now_s = wakes_s
        came += turn(store, now_s=now_s)
    return now_s, tries


@pytest.mark.parametrize("good_reads", range(CHUNKS + 3))
def test_a_read_that_is_refused_once_loses_nothing(good_reads: int) -> None:
    """At each read in turn, with a head inside a chunk, as after a crash."""
    engine = ShakyEngine()
    queue = open_queue(engine)
    payloads = [b"%d" % number for number in range(ROWS * CHUNKS)]
    for at in range(0, len(payloads), ROWS):
        append(engine, queue, batch(payloads[at : at + ROWS]))
    queue.hand_out(100, 1 << 20)
    queue.settle("delivered", ((0, SETTLED),))
    append(engine, queue)

    engine.good_reads = good_reads
    again = open_queue(engine)  # what cannot be read now is read when it is handed out
    came: list[bytes] = []
    for _ in range(4):
        try:
            came += handed(again.hand_out(100, 1 << 20))
        except Unavailable:
            assert engine.good_reads < 0
    assert engine.good_reads < 0 or good_reads > CHUNKS, "it was refused somewhere"
    assert came == payloads[SETTLED:]
    again.settle("delivered", ((SETTLED, len(payloads)),))
    assert again.ledger.closes(again.depth)
    assert again.depth == 0


class BadSector(RecordingEngine):
    """Refuses to read the chunks of the queue with ``number``."""

    number = 0

    def scan(self, family: Family, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        if family == "msg" and start.startswith(self.number.to_bytes(4, "big")):
            raise Unavailable("input/output error")
        yield from super().scan(family, start, stop)


def turn(store: Store, *frames: Frame, now_s: float) -> list[Frame]:
    for frame in frames:
        store.receive(frame)
    store.admit(now_s, 1000)
    return [frame for _, frame in store.commit(now_s, 1000)]


def test_a_queue_that_cannot_be_read_waits_alone_and_ever_longer() -> None:
    """The other queues and intake go on; when it can be read again, all of it is handed out."""
    settings = node(bridge("bad"), bridge("good"))
    engine = BadSector()
    before = open_store(engine, settings, 1)
    for number, queue in enumerate(("bridge:bad:0", "bridge:good:0"), 1):
        turn(before, append_frame(number, {queue: (batch([b"a", b"b"]), None)}), now_s=1.0)

    engine.number = 1
    store = open_store(engine, settings, 2)
    now_s = 100.0
    came: list[Frame] = []
    for bridge_name in ("bad", "good"):
        queue = queue_name(bridge_name, 0)
        came += turn(store, LaneOpen(queue=queue, epoch=1 << 20), now_s=now_s)
        came += turn(store, Credit(queue=queue, epoch=1 << 20, messages=10, size_bytes=1000), now_s=now_s)
    came += turn(store, append_frame(3, {"bridge:good:0": (batch([b"c"]), None)}), now_s=now_s)
    now_s, tries = wake(store, now_s, came)
    assert [payload for frame in came if isinstance(frame, HandOut) for _, payload in messages(frame)] == [b"a", b"b", b"c"]
    assert [frame.number for frame in came if isinstance(frame, Committed)] == [3], "intake goes on"
    assert tries[0] <= RETRY_FIRST_S < TICK_S == max(tries)
    assert store.status(1000).state == "disk_error"

    engine.number = 0
    came = turn(store, now_s=now_s + RETRY_MAX_S)
    assert [payload for frame in came if isinstance(frame, HandOut) for _, payload in messages(frame)] == [b"a", b"b"]
    assert store.status(1000).state == "running"


BAD, GOOD = "bridge:bad:0", "bridge:good:0"


def with_a_bad_sector() -> tuple[BadSector, Store]:
    """The first message of two, each a chunk, was handed out; then its queue can no longer be read."""
    engine = BadSector()
    store = open_store(engine, node(bridge("bad"), bridge("good")), 1)
    for queue in (BAD, GOOD):
        turn(store, LaneOpen(queue=queue, epoch=1 << 20), now_s=100.0)
        turn(store, Credit(queue=queue, epoch=1 << 20, messages=10, size_bytes=1000), now_s=100.0)
    for number, payload in enumerate((b"a", b"b"), 1):
        turn(store, append_frame(number, {BAD: (batch([payload]), None)}), now_s=100.0)
    engine.number = 1
    return engine, store


def test_a_message_that_dies_unreadable_holds_up_its_own_lane_only() -> None:
    """The node commits and acknowledges for everybody else; once it can be read, the message is a dead letter."""
    engine, store = with_a_bad_sector()
    came = turn(store, settle_frame(1, 1 << 20, ("dead:remote_0x99", ((0, 1),)), session="", queue=BAD), now_s=100.0)
    came += turn(store, settle_frame(2, 1 << 20, ("delivered", ((1, 2),)), session="", queue=BAD), now_s=100.0)
    came += turn(store, append_frame(3, {GOOD: (batch([b"c"]), None), BAD: (batch([b"d"]), None)}), now_s=100.0)
    now_s, tries = wake(store, 100.0, came)
    assert [frame.number for frame in came if isinstance(frame, Committed)] == [3], "intake goes on"
    assert [payload for frame in came if isinstance(frame, HandOut) for _, payload in messages(frame)] == [b"c"]
    assert not [frame for frame in came if isinstance(frame, Settled)], "and later settlements wait, in order"
    assert tries[0] <= RETRY_FIRST_S < TICK_S == max(tries)
    assert store.status(1000).state == "disk_error"

    engine.number = 0
    came = turn(store, now_s=now_s + RETRY_MAX_S)
    assert [frame.number for frame in came if isinstance(frame, Settled)] == [2]
    assert [payload for frame in came if isinstance(frame, HandOut) for _, payload in messages(frame)] == [b"d"]
    status = store.status(1000)
    assert (status.state, status.queues[BAD].dead_lettered, status.queues[BAD].delivered) == ("running", 1, 1)
    assert status.dead_letters["bad"].held == 1


def test_nothing_of_a_settlement_is_on_record_before_all_of_it_can_be_read() -> None:
    """Else deliveries would be settled without the session that they were made in."""
    engine, store = with_a_bad_sector()
    settled = ("delivered", ((1, 2),)), ("dead:remote_0x99", ((0, 1),))
    turn(store, settle_frame(1, 1 << 20, *settled, session="elsewhere", generation=1, queue=BAD), now_s=100.0)
    turn(store, append_frame(3, {BAD: (batch([b"d"]), None)}), now_s=100.0)

    again = open_store(engine.rebuilt(len(engine.writes)), node(bridge("bad"), bridge("good")), 2)
    assert again.status(1000).queues[BAD].depth == 3
    (opened,) = [frame for frame in turn(again, LaneOpen(queue=BAD, epoch=2 << 20), now_s=1.0) if isinstance(frame, LaneOpened)]
    assert (opened.session, opened.settled) == ("", ())

    engine.number = 0
    turn(store, now_s=100.0 + RETRY_MAX_S)
    again = open_store(engine.rebuilt(len(engine.writes)), node(bridge("bad"), bridge("good")), 2)
    (opened,) = [frame for frame in turn(again, LaneOpen(queue=BAD, epoch=2 << 20), now_s=1.0) if isinstance(frame, LaneOpened)]
    assert (opened.session, opened.head) == ("elsewhere", 2)


def test_a_purge_of_everything_ends_the_waiting_for_what_cannot_be_read() -> None:
    """It is what an operator can do where a sector is lost for good."""
    _, store = with_a_bad_sector()
    turn(store, settle_frame(1, 1 << 20, ("dead:remote_0x99", ((0, 1),)), session="", queue=BAD), now_s=100.0)
    assert store.status(1000).state == "disk_error"
    command = QueueCommand(request=1, verb="purge", arguments={"bridge": "bad", "lane": 0, "in_flight": True})
    (answer,) = [frame for frame in turn(store, command, now_s=100.0) if isinstance(frame, QueueAnswer)]
    assert answer.result["purged"] == 2
    assert store.status(1000).state == "running"
    assert turn(store, now_s=110.0) == []


@pytest.mark.parametrize("good_reads", range(CHUNKS))
def test_what_one_refused_read_cut_short_goes_on_without_a_word_from_anybody(
    good_reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lane's Forwarder has granted all it will; nothing is appended; so only the store itself can go on."""
    monkeypatch.setattr("storage.queue.chunk_reader.READ_AHEAD_CHUNKS", 2)
    settings = node(bridge("b"))
    engine = ShakyEngine()
    queue = queue_name("b", 0)
    before = open_store(engine, settings, 1)
    for number in range(1, CHUNKS + 1):
        turn(before, append_frame(number, {queue: (batch([b"%d" % number]), None)}), now_s=1.0)

    store = open_store(engine, settings, 2)
    came = turn(store, LaneOpen(queue=queue, epoch=1 << 20), now_s=100.0)
    engine.good_reads = good_reads
    came += turn(store, Credit(queue=queue, epoch=1 << 20, messages=1000, size_bytes=1 << 20), now_s=100.0)
    assert engine.good_reads < 0, "a read was refused"
    now_s = 100.0
    for _ in range(3):
        now_s = store.wakes_at_s(now_s)
        came += turn(store, now_s=now_s)

    payloads = [payload for frame in came if isinstance(frame, HandOut) for _, payload in messages(frame)]
    assert payloads == [b"%d" % number for number in range(1, CHUNKS + 1)]
