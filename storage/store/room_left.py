"""How much may still come in: for each queue the room of its bridge, or of its session, and that of the node.

A measurement is good for as long as it is large enough: takings since then are taken from it, and departures from the queues since
then only add to it. So a queue that is far from full is not measured anew for each batch.
"""

from __future__ import annotations

from collections.abc import Iterable

from storage.queue.admission import DAMAGED, AdmissionRoom, fits
from storage.store.disk_trouble import Disk
from storage.store.lanes import Lanes
from storage.store.session_queues import SessionQueues
from wire.frames.intake import Append
from wire.settings import SettingsNow


class Rooms:
    """Counts what is there against the limits.

    measured: by queue, what was measured last, less what was taken since. of: the same by bridge, and for the node under an empty
    name.
    """

    def __init__(self, lanes: Lanes, session_queues: SessionQueues, disk: Disk, settings: SettingsNow) -> None:
        self._lanes = lanes
        self._session_queues = session_queues
        self._disk = disk
        self._settings = settings
        self.measured: dict[str, list[AdmissionRoom]] = {}
        self.of: dict[str, AdmissionRoom] = {}
        self._free_bytes: int | None = None  # on the disk, when that was

    def forget(self) -> None:
        """Measure anew before anything comes in: limits have changed, or what is there in another way than from turn to turn."""
        self.measured = {}

    def hold(self, frame: Append, now_s: float) -> bool:
        """Whether all of ``frame`` fits, as far as is known without measuring."""
        self._disk.measure_room(now_s)
        measured = self.measured
        if self._disk.free_bytes != self._free_bytes:
            return False
        for part in frame.parts:
            if part[0] not in measured:
                return False
        return fits(frame, measured)

    def measure(self, now_s: float, wanted: Iterable[str]) -> dict[str, list[AdmissionRoom]]:
        """For each queue of a bridge, and the ``wanted`` ones, both rooms as they are now; a wanted one is made if need be."""
        lanes, of_node = self._lanes, self._settings.now.limits
        for name in wanted:
            if name not in lanes.all:
                lanes.open(name)
        self._disk.measure_room(now_s)
        used: dict[str, tuple[int, int]] = {}
        limits = {}
        for lane in lanes.of_bridges.values():
            limits[lane.bridge] = lane.limits
            messages, size_bytes = used.get(lane.bridge, (0, 0))
            used[lane.bridge] = (messages + lane.queue.depth, size_bytes + lane.queue.size_bytes)
        free_bytes = self._free_bytes = self._disk.free_bytes
        node = AdmissionRoom.of(
            of_node,
            sum(messages for messages, _ in used.values()) + self._session_queues.messages,
            sum(size_bytes for _, size_bytes in used.values()) + self._session_queues.size_bytes,
            disk_full=free_bytes is not None and free_bytes < of_node.min_free_disk_bytes,
        )
        bridges: dict[str, AdmissionRoom] = {}
        for name, (messages, size_bytes) in used.items():
            disk_full = free_bytes is not None and free_bytes < limits[name].min_free_disk_bytes
            bridges[name] = AdmissionRoom.of(limits[name], messages, size_bytes, disk_full=disk_full)
        for lane in lanes.of_bridges.values():
            if lane.is_unreadable:
                bridges[lane.bridge] = AdmissionRoom(messages=0, size_bytes=0, overflow=DAMAGED, disk_full=True)
        self.of = {"": node, **bridges}
        rooms = {name: [bridges[lane.bridge], node] for name, lane in lanes.of_bridges.items()}
        for name in wanted:
            if name not in rooms:
                lane = lanes.all[name]
                room = AdmissionRoom.of(lane.limits, lane.queue.depth, lane.queue.size_bytes, disk_full=False)
                if lane.is_unreadable:
                    room = AdmissionRoom(messages=0, size_bytes=0, overflow="drop-newest")
                rooms[name] = [room, node]
        self.measured = rooms
        return rooms
