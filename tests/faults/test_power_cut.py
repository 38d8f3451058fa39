"""The power goes: what was synced is there; the rest of the log is gone, torn at any byte, or followed by its former life."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from storage.engine.commit_mark import MARK_NAME
from storage.engine.engine import RocksEngine
from storage.store.store import Store
from tests.faults.stores import MANY, OTHER, Filled, copy_store, emptied, filled, judge, settings
from tests.storage.building import QUEUE, append_frame, batch, settle_frame
from tests.support.stores import open_store
from wire.frames.frame import Frame
from wire.frames.intake import Committed
from wire.frames.lanes import Credit, HandOut, LaneOpen, LaneOpened

TORN_BYTES = 4096
CI_STEP = 291
SEED = 7
TAILS = ("cut", "zeros", "garbage", "former life", "hole")


@pytest.fixture(autouse=True, scope="module")
def small_logs() -> Iterator[None]:
    """Logs are written over after a few hundred messages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("storage.engine.engine.MEMTABLE_BYTES", 64 << 10)
        patch.setattr("storage.engine.engine.WAL_MAX_BYTES", 128 << 10)
        yield


@pytest.fixture(scope="module")
def made(small_logs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    """A store with each commit synced, of which every test looks at copies."""
    folder = tmp_path_factory.mktemp("live") / "store"
    with filled(folder, SEED, commits=400, size_bytes=900, watched=30, log_bytes=2 * TORN_BYTES) as made:
        yield made


def behind(made: Filled, log: bytes, at: int, tail: str) -> bytes:
    """The log from ``at`` on after a power cut."""
    rest = len(log) - at
    match tail:
        case "cut":
            return b""
        case "zeros":
            return bytes(rest)
        case "garbage":
            return bytes((at * 31 + index * 7) & 0xFF for index in range(rest))
        case "former life":
            return made.former[at:]
        case "hole":  # the disk wrote what came later first
            return bytes(8) + log[at + 8 :]
    raise AssertionError(tail)


@pytest.mark.parametrize("tail", TAILS)
def test_what_was_acknowledged_outlives_a_log_torn_at_any_byte(made: Filled, tmp_path: Path, tail: str, soak: bool) -> None:
    """Everything acknowledged is there, once, with its identifiers; the ledger closes, and the store goes on."""
    path = made.log_path()
    log = path.read_bytes()
    last = made.commits[-1]
    assert last.log == path.name
    assert any(made.former[last.end :]), "the log has a former life"
    ends = [commit.end for commit in made.commits if commit.log == path.name and commit.end]
    first = last.end - TORN_BYTES
    assert first >= ends[0]
    places = range(last.end, first - 1, -1) if soak else range(last.end - TAILS.index(tail), first - 1, -CI_STEP)
    for at in places:
        image = tmp_path / "image" / "store"
        copy_store(made.folder, image, changed=path.name)
        (image / path.name).write_bytes(log[:at] + behind(made, log, at, tail))
        synced = [commit for commit in made.commits if commit.log != path.name or commit.end <= at][-1]
        (image / MARK_NAME).write_bytes(synced.mark)

        found = emptied(image)

        judge(found, made.payloads, synced.totals, may_lose=False)
        raised = found.status.queues[QUEUE].raised
        assert raised is not None
        assert synced.raised <= raised <= made.raised, f"what was raised from QoS 0 is counted, cut at {at}"
        assert found.received >= made.commits.index(synced) + 371, f"an identifier for each commit, cut at {at}, seed {SEED}"
        assert not list(image.parent.glob("store.damaged-*")), "a torn tail is no damage"
        shutil.rmtree(image.parent)


@pytest.mark.parametrize("behind", [(0,), (0, 0), (0, 2)])
def test_the_mark_may_outlive_what_was_not_synced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, behind: tuple[int, ...]
) -> None:
    """The kernel writes the mark back when it likes. QoS 0 that went with the power is no loss, and the remote's session stays,
    with what is in flight in it; if what was synced behind that is gone, it is one.
    """
    live, image = tmp_path / "live" / "store", tmp_path / "image" / "store"
    with closing(RocksEngine(live)) as engine:
        store = open_store(engine, settings(live), 1)
        _turn(store, LaneOpen(queue=QUEUE, epoch=1 << 20))
        _turn(store, Credit(queue=QUEUE, epoch=1 << 20, messages=9, size_bytes=MANY))
        _turn(store, settle_frame(1, 1 << 20, session="edge@remote", generation=1))
        answers = _turn(store, append_frame(1, {QUEUE: (batch([b"in flight"], 2), None)}))
        assert any(isinstance(frame, HandOut) for frame in answers)
        path = max(live.glob("*.log"), key=lambda path: int(path.stem))
        log = path.read_bytes()
        for number, qos in enumerate(behind, 2):
            answers = _turn(store, append_frame(number, {QUEUE: (batch([b"gone"], qos), None)}))
            assert any(isinstance(frame, Committed) for frame in answers)
        copy_store(live, image, changed=path.name)
        (image / path.name).write_bytes(log)

    with closing(RocksEngine(image)) as engine:
        store = open_store(engine, settings(image), 2)
        answers = _turn(store, LaneOpen(queue=QUEUE, epoch=2 << 20))

        opened = next(frame for frame in answers if isinstance(frame, LaneOpened))
        synced = sum(qos > 0 for qos in behind)
        assert opened.session == ("" if synced else "edge@remote")
        assert (opened.head, opened.dup_below) == (0, 1)
        dropped = store.status(1000).queues[QUEUE].dropped
        assert dropped == ({"damaged": len(behind)} if synced else {})
        assert ("store.commits_missing" in caplog.messages) == bool(synced)
        assert bool(list(image.parent.glob("store.damaged-*"))) == bool(synced)


def _turn(store: Store, *frames: Frame) -> list[Frame]:
    for frame in frames:
        store.receive(frame)
    return [frame for _, frame in store.commit(1.0, 1000)]


def test_with_sync_os_what_a_power_cut_took_is_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The configuration permits the loss; it is told all the same, and no sequence is used twice."""
    with filled(
        tmp_path / "live" / "store", SEED, commits=400, size_bytes=900, watched=30, log_bytes=2 * TORN_BYTES, sync="os"
    ) as made:
        path = made.log_path()
        ends = [commit.end for commit in made.commits if commit.log == path.name and commit.end]
        at = ends[-3] - 1
        image = tmp_path / "image" / "store"
        copy_store(made.folder, image, changed=path.name)
        (image / path.name).write_bytes(path.read_bytes()[:at])

        found = emptied(image)

        totals = {queue: len(payloads) for queue, payloads in made.payloads.items()}
        lost = judge(found, made.payloads, totals, may_lose=True)
        kept = made.commits[-4].totals
        assert lost == sum(totals.values()) - sum(kept.values())
        assert [max(found.handed[queue]) for queue in (QUEUE, OTHER)] == [totals[QUEUE], totals[OTHER]], "sequences are not reused"
        assert "store.commits_missing" in caplog.messages
