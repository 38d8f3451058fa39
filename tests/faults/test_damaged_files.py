"""Bits flip in the store's files: noticed by checksum, isolated, counted, the rest served, never a silent gap."""

from __future__ import annotations

import random
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage.engine.commit_mark import MARK_NAME
from storage.engine.store_folder import DAMAGED_KEPT_MAX
from tests.faults.stores import Filled, copy_store, emptied, filled, judge
from tests.support.waiting import PATIENCE_S
from wire.errors import StorageDamaged

SEED = 11
FLIPS = 12
SOAK_FLIPS = 2000
DATA = ("*.log", "*.sst", "*.blob", "MANIFEST-*")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def small_files() -> Iterator[None]:
    """Several tables, blob files and logs after a few hundred messages."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("storage.engine.engine.MEMTABLE_BYTES", 256 << 10)
        monkeypatch.setattr("storage.engine.engine.WAL_MAX_BYTES", 512 << 10)
        yield


@pytest.fixture(scope="module")
def made(small_files: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    """A store of which every test damages copies."""
    with filled(tmp_path_factory.mktemp("live") / "store", SEED, commits=220, size_bytes=4200, watched=1) as made:
        made.engine.free_bytes()  # once a second: the spare MANIFEST is brought up to date
        yield made


def flip(path: Path, at: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.unlink()
    path.write_bytes(data)


def written(made: Filled, path: Path) -> int:
    """How much of ``path`` is in use; behind it a log has its former life."""
    if path == made.log_path():
        return made.commits[-1].end
    return path.stat().st_size


@pytest.mark.parametrize(
    "pattern", ["*.log", "*.sst", "*.blob", "MANIFEST-*", "CURRENT", MARK_NAME, "SPARE", "OPTIONS-*", "IDENTITY"]
)
def test_a_flipped_bit_is_never_a_silent_gap(made: Filled, tmp_path: Path, pattern: str, soak: bool) -> None:
    """Each message is delivered as it was or counted as damaged, or the store says that it cannot be opened."""
    chance = random.Random(f"{SEED} {pattern}")
    opened = refused = lost = 0
    totals = {queue: len(payloads) for queue, payloads in made.payloads.items()}
    paths = sorted(path for path in made.folder.glob(pattern) if written(made, path) > 0)
    assert paths
    for trial in range(SOAK_FLIPS if soak else FLIPS if pattern in DATA else FLIPS // 2):
        path = chance.choice(paths)
        at, bit = chance.randrange(written(made, path)), chance.randrange(8)
        if trial % 4 == 0:
            at = written(made, path) - 1 - chance.randrange(min(1200, written(made, path)))  # a table's index stands at its end
        where = f"{path.name} at {at} bit {bit}, trial {trial}, seed {SEED}"
        image = tmp_path / "image" / "store"
        copy_store(made.folder, image, changed=path.name)
        flip(image / path.name, at, bit)
        tables = {entry.name for entry in image.glob("*.sst")}
        try:
            found = emptied(image)
        except StorageDamaged:
            refused += 1
            kept = {entry.name for folder in image.parent.glob("store*") for entry in folder.glob("*.sst")}
            assert kept >= tables, f"the files are kept: {where}"
        else:
            opened += 1
            try:
                lost += judge(found, made.payloads, totals, may_lose=True)
            except AssertionError as error:
                raise AssertionError(f"{where}: {error}") from error
        shutil.rmtree(image.parent)
    sys.stdout.write(f"{pattern}: {opened} served, {refused} refused, {lost} messages lost and counted\n")
    if pattern != "*.sst":
        assert refused == 0
    assert opened > 0
    if pattern not in ("*.log", "*.sst", "*.blob"):
        assert lost == 0, "nothing but order depends on this file"


_OPENER = """
import os, sys
from pathlib import Path
import storage.engine.engine
from storage.engine.engine import EngineDatabase, RocksEngine
from storage.engine.commit_mark import CommitMark
from storage.engine.store_folder import StoreFolder
from tests.support.stores import open_store
from tests.faults.stores import settings
from tests.storage.building import QUEUE

def die(folder, of, name, when):
    owner = {"folder": StoreFolder, "mark": CommitMark, "database": EngineDatabase, "engine": RocksEngine}[of]
    original = getattr(owner, name)
    def dying(*arguments, **keywords):
        if when == "before":
            os._exit(9)
        original(*arguments, **keywords)
        os._exit(9)
    setattr(owner, name, dying)
    open_store(RocksEngine(Path(folder)), settings(Path(folder)), 2)
    os._exit(1)

for line in sys.stdin:
    if os.fork() == 0:
        die(*line.rstrip("\\n").split("\\t"))
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@pytest.fixture(scope="module")
def opens_and_dies() -> Iterator[Callable[[Path, str, str, str], int]]:
    """Opens a store in a process of its own, which dies at a step; its exit status is 9 then."""
    words = [sys.executable, "-c", _OPENER]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        asks, told = process.stdin, process.stdout
        assert asks is not None
        assert told is not None

        def open_and_die(image: Path, of: str, name: str, when: str) -> int:
            asks.write("\t".join((str(image), of, name, when)) + "\n")
            asks.flush()
            assert select.select([told], [], [], PATIENCE_S)[0], "the store neither opens nor dies"
            return int(told.readline())

        yield open_and_die
        process.kill()


@pytest.mark.parametrize(
    ("of", "name"),
    [("folder", "keep_evidence"), ("mark", "owe"), ("database", "open"), ("engine", "commit")],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_during_recovery_changes_nothing(
    made: Filled, tmp_path: Path, opens_and_dies: Callable[[Path, str, str, str], int], of: str, name: str, when: str
) -> None:
    """A log with a flipped bit, and the process that recovers it dies at each step: the next one does the whole again."""
    totals = {queue: len(payloads) for queue, payloads in made.payloads.items()}
    image = tmp_path / "image" / "store"
    path = made.log_path()
    copy_store(made.folder, image, changed=path.name)
    flip(image / path.name, made.commits[-1].end // 2, 1)
    for _ in range(2):
        assert opens_and_dies(image, of, name, when) == 9
        if name in ("owe", "commit") and when == "after":
            break  # it was done, and is not done again

    found = emptied(image, life=3)

    lost = judge(found, made.payloads, totals, may_lose=True)
    assert lost > 0
    kept = len(list(image.parent.glob("store.damaged-*")))
    assert 1 <= kept <= DAMAGED_KEPT_MAX
    assert kept == 1 or (of, when) in (("folder", "after"), ("mark", "before")), "once it is written down it is not kept again"
