"""A node's store without its processes: the real Tier 1 over RocksDB, with a clock in the caller's hands.

For the generator and for tests: a day of traffic takes seconds, and the snapshots are made by the code that makes a node's. The
caller decides who publishes what, and what becomes of it at the remote.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from storage.engine.engine import RocksEngine
from storage.snapshots.manifest import STORE_NAME
from storage.snapshots.snapshot_folder import SnapshotFolder
from tests.support.stores import open_store
from wire.config_settings import NodeSettings, PersistenceSettings
from wire.durability import Durability
from wire.frames.batch import QOS_MASK, RETAIN, Batch, unpack_column
from wire.frames.frame import Effects, Frame, Ranges
from wire.frames.intake import Append
from wire.frames.lanes import Credit, HandOut, LaneOpen, Settle
from wire.frames.names import LANE_EPOCH_SHIFT, LISTENER, RETAINED
from wire.ranges import RangeSet, ranges_of
from wire.routing.retained_topics import pack_owned

TICK_MS = 1000
CREDIT = 1 << 40


class LaneModel:
    """The knowledge of a lane's Forwarder and Connection: the messages in hand, the QoS 0 ones apart."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.epoch = 0
        self.number = 0
        self.window = CREDIT  # messages that it takes at a time
        self.settled = 0
        self.in_hand = RangeSet()  # QoS 1 and 2, handed out and not settled
        self.qos0 = RangeSet()

    def take(self, frame: HandOut) -> None:
        """``frame`` was handed out."""
        flags = Batch.decode(frame.bodies[0]).flags
        offsets = unpack_column("I", frame.offsets) if frame.offsets else range(frame.count)
        if not any(flag & QOS_MASK == 0 for flag in flags) and not frame.offsets:
            self.in_hand.add(frame.first_seq, frame.first_seq + frame.count)
            return
        for into, wanted in ((self.qos0, False), (self.in_hand, True)):
            seqs = [frame.first_seq + at for at, flag in zip(offsets, flags, strict=True) if bool(flag & QOS_MASK) == wanted]
            for start, stop in ranges_of(seqs):
                into.add(start, stop)


class NodeModel:
    """One node's store in ``folder``; use it in ``with``. ``wall_ms`` is its clock, UTC epoch, and ``advance`` alone moves it."""

    def __init__(
        self,
        folder: Path,
        settings: NodeSettings,
        *,
        start_ms: int,
        epoch: int = 1,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.settings = replace(settings, node=replace(settings.node, data_dir=str(folder)))
        self.wall_ms = start_ms
        self.epoch = epoch
        self.boot_id = str(uuid.UUID(int=start_ms))
        self._start_ms = start_ms
        self._ticked_ms = start_ms
        self._number = 0
        self.lanes: dict[str, LaneModel] = {}
        self.engine = RocksEngine(folder / STORE_NAME)
        self.store = open_store(self.engine, self.settings, epoch)
        self._jumped_ms = 0

    def __enter__(self) -> NodeModel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.store.close()

    @property
    def now_s(self) -> float:
        """The monotonic clock."""
        return (self.wall_ms - self._jumped_ms - self._start_ms) / 1000 + 1.0

    def jump(self, ms: int) -> None:
        """The wall clock is put forward, or back."""
        self.wall_ms += ms
        self._jumped_ms += ms
        self._ticked_ms += ms

    def restart(self) -> None:
        """The node dies and starts again: what was in memory only is gone, and every lane is to be opened anew."""
        self.store.close()
        self.epoch += 1
        self._number = 0
        self.lanes.clear()
        self.engine = RocksEngine(self.folder / STORE_NAME)
        self.store = open_store(self.engine, self.settings, self.epoch)
        self.turn()

    def turn(self, *frames: Frame) -> Effects:
        """Take ``frames``, commit, and note what was handed out."""
        store = self.store
        for frame in frames:
            store.receive(frame)
        effects = [*store.admit(self.now_s, self.wall_ms), *store.commit(self.now_s, self.wall_ms)]
        for _, frame in effects:
            if isinstance(frame, HandOut) and frame.queue in self.lanes:
                self.lanes[frame.queue].take(frame)
        return effects

    def advance(self, ms: int) -> None:
        """Let ``ms`` pass; what time brings is done once a second."""
        self.wall_ms += ms
        if self.wall_ms - self._ticked_ms >= TICK_MS:
            self._ticked_ms = self.wall_ms
            self.store.tick(self.now_s, self.wall_ms)
            self.turn()

    def publish(self, parts: Mapping[str, Batch], *, retained: Batch | None = None) -> Effects:
        """Append a batch to each of some queues, as the Listener's next one."""
        self._number += 1
        rows = max(map(len, parts.values()), default=0)
        entries = [(queue, len(of), of.size_bytes(), _qos0(of), b"") for queue, of in parts.items()]
        bodies = [of.encode() for of in parts.values()]
        if retained is not None:
            entries.append((RETAINED, len(retained), retained.size_bytes(), _qos0(retained), b""))
            bodies.append(pack_owned(retained, ["user made"] * len(retained)))
            rows = max(rows, len(retained))
        frame = Append(
            sender=LISTENER,
            epoch=self.epoch,
            number=self._number,
            rows=rows,
            received={},
            released={},
            durability=Durability.of(PersistenceSettings()),
            parts=tuple(entries),
            bodies=tuple(bodies),
        )
        return self.turn(frame)

    def open_lane(self, queue: str, *, window: int = CREDIT) -> LaneModel:
        """A Forwarder opens the lane, anew if it was open, and takes ``window`` messages at a time."""
        lane = self.lanes.setdefault(queue, LaneModel(queue))
        first = (self.epoch + 1) << LANE_EPOCH_SHIFT
        lane.epoch = lane.epoch + 1 if lane.epoch >= first else first
        lane.number = lane.settled = 0
        lane.window = window
        lane.in_hand.clear()
        lane.qos0.clear()
        self.turn(LaneOpen(queue=queue, epoch=lane.epoch))
        self.turn(Credit(queue=queue, epoch=lane.epoch, messages=window, size_bytes=CREDIT))
        return lane

    def settle(
        self, lane: LaneModel, settled: Sequence[tuple[str, Ranges]], *, released: Ranges = (), session: str | None = None
    ) -> Effects:
        """The lane's Connection (its Forwarder, if ``session`` is None) settles messages in hand."""
        number = 0
        if session is not None or released:
            number = lane.number = lane.number + 1
        for outcome, ranges in settled:
            if outcome != "redelivered":
                lane.settled += sum(stop - start for start, stop in ranges)
                for start, stop in ranges:
                    lane.in_hand.discard(start, stop)
                    lane.qos0.discard(start, stop)
        return self.turn(
            Settle(
                queue=lane.queue,
                epoch=lane.epoch,
                number=number,
                settled=tuple(settled),
                released=released,
                session=session,
                generation=0,
            ),
            Credit(queue=lane.queue, epoch=lane.epoch, messages=lane.window + lane.settled, size_bytes=CREDIT),
        )

    def snapshot(self, target: Path) -> Path:
        """Make a snapshot below ``target``; its folder."""
        folder = SnapshotFolder(target, self.folder / STORE_NAME)
        part = folder.begin(self.settings.node.name, self.wall_ms, self.epoch)
        self.store.flush()
        facts = self.store.checkpoint(str(part / STORE_NAME), self.now_s, self.wall_ms).facts()
        limits = self.settings.limits
        manifest = folder.finish(
            part,
            {
                **facts,
                "node": self.settings.node.name,
                "boot_id": self.boot_id,
                "versions": {"bascule": "0.1.0", **facts["versions"]},
                "limits": {
                    "max_messages": limits.max_messages,
                    "max_bytes": limits.max_bytes,
                    "min_free_disk_bytes": limits.min_free_disk_bytes,
                },
            },
        )
        return target / manifest.id


def _qos0(batch: Batch) -> int:
    return sum(1 for flags in batch.flags if not flags & QOS_MASK)


def retained_rows(batch: Batch) -> Batch | None:
    """The rows of ``batch`` with RETAIN; None if there are none."""
    rows = [row for row, flags in enumerate(batch.flags) if flags & RETAIN]
    return batch.select(rows) if rows else None
