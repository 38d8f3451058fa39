"""The store that the first version wrote, as an archive that stays: every later version must read it.

``python -m tests.storage.first_store`` writes the archive anew; that is done once for each format, before its first release.
"""

from __future__ import annotations

import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path

from storage.engine.engine import RocksEngine
from tests.storage.building import QUEUE, append_frame, batch, bridge, node, settle_frame
from tests.support.stores import open_store
from wire.config_settings import NodeSettings
from wire.frames.batch import RETAIN, from_rows
from wire.frames.frame import Frame
from wire.frames.intake import SenderResumes, SessionClose, SessionOpen
from wire.frames.lanes import Credit, LaneOpen
from wire.frames.names import RETAINED
from wire.frames.subscriptions import SubscriptionsAdd

ARCHIVE = Path(__file__).with_name("first_store.tar.xz")
LANE_EPOCH = 5 << 20
WALL_MS = 1_700_000_000_000
SESSION = "sensor-1"
WILL = (b"plant/will", 1, b"gone", b"", 0)


def settings() -> NodeSettings:
    """Two bridges, one of which keeps what has left."""
    kept = replace(bridge(), retention_s=86_400.0 * 36_500, retention_max_bytes=1 << 20)
    return node(kept, bridge("away"))


def fill(folder: Path) -> None:
    """Write a store that has a row of each kind."""
    engine = RocksEngine(folder)
    store = open_store(engine, settings(), 4)

    def turn(*frames: Frame) -> None:
        for frame in frames:
            store.receive(frame)
        store.admit(100.0, WALL_MS)
        store.commit(100.0, WALL_MS, at_once=True)

    turn(SenderResumes(sender="listener", epoch=1, number=1))
    lasting = {"clean": False, "expiry_s": 0xFFFFFFFF, "source": 1, "will": WILL, "user": "ada"}
    turn(SessionOpen(sender="listener", epoch=1, request=1, session=SESSION, **lasting))  # type: ignore[arg-type]  # of several types
    (queue,) = [name for name in store.lanes.all if name.startswith("session:")]
    turn(
        SubscriptionsAdd(epoch=1, request=2, session=SESSION, source=1, queue=queue, filters=(("plant/#", 1, 7, False),)),
        LaneOpen(queue=QUEUE, epoch=LANE_EPOCH),
    )
    mixed = batch([b"m%d" % at for at in range(8)], [1, 2, 1, 2, 1, 1, 2, 1], accepted_ms=WALL_MS)
    first = append_frame(1, {QUEUE: (mixed, None), "bridge:away:0": (mixed, None)}, received={SESSION: [3, 4]})
    retained = from_rows([(b"plant/a", 1 | RETAIN, b"kept")], accepted_ms=WALL_MS)
    second = append_frame(2, {queue: (batch([b"for the session"]), None), RETAINED: (retained, None)}, rows=1)
    turn(first, second, Credit(queue=QUEUE, epoch=LANE_EPOCH, messages=8, size_bytes=1 << 20))
    turn(settle_frame(1, LANE_EPOCH, session="edge@there", generation=1))
    turn(settle_frame(2, LANE_EPOCH, ("delivered", ((0, 1), (2, 3))), ("dead:0x87", ((4, 5),)), released=((1, 2),), generation=1))
    turn(SessionClose(sender="listener", epoch=1, session=SESSION, source=1, wall_ms=WALL_MS, expiry_s=0xFFFFFFFF, keep_will=True))
    store.tick(200.0, WALL_MS + 1000)
    store.commit(200.0, WALL_MS + 1000, at_once=True)
    store.close()


def unpack(folder: Path) -> Path:
    """The store as the archive has it, in ``folder``."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "store"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        fill(store)
        for log in [*store.glob("LOG*"), *store.glob("*/LOG*")]:
            log.unlink()
        with tarfile.open(ARCHIVE, "w:xz") as archive:
            archive.add(store, "store")


if __name__ == "__main__":
    main()
