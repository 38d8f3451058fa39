"""Times of snapshots, and how much room on the disk snapshots leave to messages."""

from __future__ import annotations

import os
from dataclasses import dataclass

from wire.config_settings import NodeSettings

MARGIN_BYTES = 64 << 20
MARGIN_SHARE = 10  # of min_free_disk: a tenth


def next_s(every_s: float, last_ms: int | None, now_s: float, wall_ms: int) -> float:
    """The time, on the monotonic clock, at which a snapshot is due: ``every_s`` after the last one, however the wall clock has
    jumped."""
    if last_ms is None:
        return now_s
    return now_s + min(max(0.0, every_s - (wall_ms - last_ms) / 1000), every_s)


@dataclass(frozen=True, slots=True)
class SnapshotSpace:
    """The room that snapshots leave: they go before intake stops for want of it."""

    path: str
    wanted_bytes: int

    @classmethod
    def of(cls, settings: NodeSettings) -> SnapshotSpace:
        """Above every ``min_free_disk``, the node's and the bridges', by a tenth and at least 64 MiB."""
        limits = (settings.limits, *(bridge.limits for bridge in settings.bridges))
        least = max(each.min_free_disk_bytes for each in limits)
        return cls(settings.node.data_dir, least + max(MARGIN_BYTES, least // MARGIN_SHARE))

    def free_bytes(self) -> int | None:
        """Free space on the disk of the data folder; None where it cannot be told."""
        try:
            disk = os.statvfs(self.path)
        except OSError:
            return None
        return disk.f_bavail * disk.f_frsize

    def enough_free(self) -> bool:
        """Whether there is as much as is wanted, as far as can be told."""
        free_bytes = self.free_bytes()
        return free_bytes is None or free_bytes >= self.wanted_bytes
