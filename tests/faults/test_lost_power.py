"""P3: the power goes at any instant, on disks that treat names differently; what was promised is there, once, in order.

A real store's calls to the disk are recorded, start and messages alike, and played to a model disk up to some call. The model disk
is made a folder again, in which the real store is opened and emptied.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from contextlib import closing
from fnmatch import fnmatch
from pathlib import Path
from random import Random

import pytest

from storage.engine.engine import RocksEngine, Write
from tests.faults.lost_power import outlived, use_small_files
from tests.support.chance import chance
from tests.support.model_disk import DISCIPLINES, Discipline, Event, ModelDisk, compile_recorder, recorded
from wire.errors import StorageDamaged, StoreGone

LIVES, LIVES_SOAK = 2, 40
CUTS_A_LIFE = 10
TURNS = 60
# Places at which a sync that is left out must show: of the log, of tables, of the list of tables, and of each name that leads
# there.
PLACES = ("store/*.log", "store/*.sst", "store/MANIFEST-*", "store", "")


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_recorder(tmp_path_factory.mktemp("recorder"))


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.engine.engine.MEMTABLE_BYTES", 0)  # so that they are put back
    monkeypatch.setattr("storage.engine.engine.WAL_MAX_BYTES", 0)
    use_small_files()


class Machine:
    """A machine that loses its power again and again: its folder is what the disk is left with.

    forgets: syncs that are not done, by the path in the folder of what would be synced.
    """

    def __init__(
        self,
        tmp_path: Path,
        recorder: Path,
        chance: Random,
        *,
        sync: str = "full",
        forgets: Callable[[str], bool] = lambda path: False,
    ) -> None:
        self.folder = tmp_path / "machine"
        self.folder.mkdir(parents=True)
        self._image, self._log = tmp_path / "image", tmp_path / "recorded"
        self._recorder, self._chance, self._sync, self._forgets = recorder, chance, sync, forgets
        self._lives = 0
        self._said = b""
        self.cuts = 0

    def live(self, disciplines: tuple[Discipline, ...]) -> None:
        """A life on what the last one left. The states after cuts before some of its calls are judged, and one of them is kept.

        Raises:
            AssertionError: a promise is broken.
        """
        self._lives += 1
        said = self.folder / "said"
        said.write_bytes(self._said)
        inode = said.stat().st_ino
        disk = ModelDisk(self.folder, self._forgets)
        events = self._record()
        starting, running = min(300, len(events)), len(events)
        points = {self._chance.randrange(count) for count in (starting, running) for _ in range(CUTS_A_LIFE // 2)}
        for at, event in enumerate(events[: max(points) + 1]):
            where = f"life {self._lives}, before call {at} of {len(events)}, {event.what} {event.path}"
            for discipline in disciplines if at in points else ():
                self._cut(disk, discipline, f"{discipline}, {where}")
            disk.play(event)
            if event.what == "w" and event.inode == inode:
                self._said += event.data
        disk.image(self._image, self._chance.choice(disciplines), self._chance)
        shutil.rmtree(self.folder)
        self._image.rename(self.folder)

    def grow_strict(self, disciplines: tuple[Discipline, ...]) -> None:
        """A life that syncs nothing ends while the power stays, and one that syncs goes on from there. The states after cuts before
        some calls of the second, from its first word on, are judged.

        Raises:
            AssertionError: a promise is broken.
        """
        said = self.folder / "said"
        said.touch()
        inode, disk = said.stat().st_ino, ModelDisk(self.folder, self._forgets)
        for sync in ("os", "full"):
            self._lives += 1
            events = self._record(sync)
            spoken = [at for at, event in enumerate(events) if event.what == "w" and event.inode == inode]
            points = {self._chance.randrange(spoken[0] + 1, len(events)) for _ in range(CUTS_A_LIFE)} | {spoken[0] + 1}
            for at, event in enumerate(events):
                for discipline in disciplines if sync == "full" and at in points else ():
                    self._cut(disk, discipline, f"{discipline}, before call {at} of {len(events)}, {event.what} {event.path}")
                disk.play(event)
                if event.what == "w" and event.inode == inode:
                    self._said += event.data

    def _record(self, sync: str = "") -> list[Event]:
        seed = str(self._chance.randrange(1 << 30))
        words = [str(self.folder), str(self.folder / "said"), str(self._lives), str(TURNS), seed, sync or self._sync]
        return recorded(["-m", "tests.faults.lost_power", *words], self._recorder, self._log, self.folder)

    def _cut(self, disk: ModelDisk, discipline: Discipline, where: str) -> None:
        self.cuts += 1
        disk.image(self._image, discipline, self._chance)
        try:
            outlived(self._image, self._said, self._lives + 1)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
        finally:
            shutil.rmtree(self._image)


def test_what_was_promised_outlives_the_power_on_any_disk(tmp_path: Path, recorder: Path, soak: bool) -> None:
    machine = Machine(tmp_path, recorder, chance())
    live_on(machine, LIVES_SOAK if soak else LIVES, DISCIPLINES)
    sys.stdout.write(f"{machine.cuts} cuts\n")


def test_a_store_that_syncs_again_holds_what_it_had_before_from_its_first_word_on(
    tmp_path: Path, recorder: Path, soak: bool
) -> None:
    """Marks of what may have been sent included: they are those of a log that nobody had synced (queue.handed-out-below-mark)."""
    for number in range(LIVES_SOAK if soak else 1):
        Machine(tmp_path / str(number), recorder, chance()).grow_strict(DISCIPLINES)


def test_with_sync_os_the_power_takes_what_was_promised(tmp_path: Path, recorder: Path) -> None:
    """The configuration permits it, and that what was said to be sent goes again; a test that sees nothing here sees nothing."""
    machine = Machine(tmp_path, recorder, chance(), sync="os")
    with pytest.raises(AssertionError, match=r"lost|doubled|out of order|not on record|dropped"):
        live_on(machine, LIVES_SOAK, DISCIPLINES)


@pytest.mark.parametrize("place", PLACES)
def test_a_sync_that_is_left_out_shows(tmp_path: Path, recorder: Path, place: str) -> None:
    machine = Machine(tmp_path, recorder, chance(), forgets=lambda path: path == place or fnmatch(path, place))
    with pytest.raises((AssertionError, StorageDamaged, StoreGone)):
        live_on(machine, LIVES_SOAK, ("folder",))


_REBUILDS = """
import sys
from pathlib import Path
from storage.engine.engine import RocksEngine, Write
engine = RocksEngine(Path(sys.argv[1]) / "store")
engine.opening.tolerant = True  # damage was met, says RocksDB
engine.reopen()
write = Write()
write.promised = True
write.put("msg", b"new", b"1")
engine.commit(write, sync=True)
open(sys.argv[2], "w").write("committed")
"""


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_a_rebuilt_store_takes_the_place_of_the_old_one_whole_or_not_at_all(
    tmp_path: Path, recorder: Path, discipline: Discipline, soak: bool
) -> None:
    folder, image, log, moments = tmp_path / "machine", tmp_path / "image", tmp_path / "recorded", chance()
    with closing(RocksEngine(folder / "store")) as engine:
        for number in range(20):
            write = Write()
            write.put("msg", b"old %02d" % number, bytes(5000))
            engine.commit(write, sync=True)
    disk, done = ModelDisk(folder), folder / "committed"
    events = recorded(["-c", _REBUILDS, str(folder), str(done)], recorder, log, folder)
    renames = [at for at, event in enumerate(events) if event.what == "r" and event.path.endswith("store.part")]
    assert renames, "the new store has taken the place"
    spread = 20 if soak else 6
    points = {
        *range(renames[0] - spread, renames[0] + spread),
        *(moments.randrange(len(events)) for _ in range(spread)),
        len(events),
    }
    for at, event in enumerate([*events, events[-1]]):
        if at in points:
            disk.image(image, discipline, moments)
            (image / "committed").unlink(missing_ok=True)
            with closing(RocksEngine(image / "store")) as engine:
                keys = [key for key, _ in engine.scan("msg", b"", b"\xff")]
            committed = any(event.path == str(done) for event in events[:at])
            assert [key for key in keys if key != b"new"] == [b"old %02d" % number for number in range(20)], f"before call {at}"
            assert b"new" in keys or not committed, f"before call {at}"
            shutil.rmtree(image)
        disk.play(event)


def live_on(machine: Machine, lives: int, disciplines: tuple[Discipline, ...]) -> None:
    for _ in range(lives):
        machine.live(disciplines)
