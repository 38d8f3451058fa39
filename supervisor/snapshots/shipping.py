"""Brings each snapshot of the node to the folder that the configuration names, in a thread; what fails is tried again.

A shipped snapshot is noted, so that an operator may take it away there. The copy itself is
``storage/snapshots/snapshot_copy.py``'s.
"""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

from actors.process.actor import PolledActor
from storage.snapshots.manifest import MANIFEST_NAME, read_manifest
from storage.snapshots.snapshot_copy import copy_snapshot, prune_target
from storage.snapshots.snapshot_folder import SnapshotFolder
from supervisor.workers import Worker, words
from wire.config_settings import SettingsNow
from wire.errors import BasculeError
from wire.figure import to_map
from wire.status.node_status import ShippedSnapshot, SnapshotFailure

log = logging.getLogger("bascule")

TIMER = "snapshot_ship"
RETRY_S = 60.0


class Shipping:
    """The copies of one node's snapshots, in the actor ``host``. Without a target it does nothing."""

    def __init__(self, host: PolledActor, settings: SettingsNow, folder: SnapshotFolder) -> None:
        self._host = host
        self._settings = settings
        self._folder = folder
        self._worker = Worker(host, "snapshot copy")
        self._stopping = False
        self.shipped: ShippedSnapshot | None = None
        self.failure: SnapshotFailure | None = None

    @property
    def target(self) -> str | None:
        """The folder to which they are copied."""
        return self._settings.now.snapshots.to

    def ship(self) -> None:
        """Bring what is not there yet."""
        if self.target and not self._stopping and not self._worker.busy:
            self._host.mailbox.cancel_timer(TIMER)
            self._worker.do(partial(self._ship_all, Path(self.target)), self._on_all_shipped, self._on_failed)

    def stop(self) -> None:
        """Begin no further one; the next life of the node goes on with one that is under way."""
        self._stopping = True
        self._host.mailbox.cancel_timer(TIMER)

    # --- inside ---

    def _ship_all(self, target: Path) -> list[ShippedSnapshot]:
        """In the thread: copy what was never shipped, the oldest first."""
        keep = self._settings.now.snapshots.keep_in_target
        shipped, done = self._folder.shipped(), []
        names = [name for name in self._folder.names() if name not in shipped]
        for name in names[-keep:] if keep else names:
            try:
                copied = copy_snapshot(self._folder.path / name, target)
            except BasculeError:
                if (self._folder.path / name / MANIFEST_NAME).exists():
                    raise
                continue  # it was removed meanwhile
            shipped.add(name)
            self._folder.note_shipped(shipped)
            at_ms = read_manifest(copied.path).at_ms
            copied_bytes, kept_bytes = copied.copied_bytes, copied.kept_bytes
            done.append(ShippedSnapshot(id=name, at_ms=at_ms, copied_bytes=copied_bytes, kept_bytes=kept_bytes))
        if keep:
            prune_target(target, self._settings.now.node.name, keep, self._host.mailbox.wall_ms())
        return done

    def _on_all_shipped(self, done: list[ShippedSnapshot]) -> None:
        self.failure = None
        for self.shipped in done:
            log.info("snapshot.shipped", extra={**to_map(self.shipped), "target": self.target})
        if done:  # one may have been made meanwhile
            self.ship()

    def _on_failed(self, error: OSError | BasculeError) -> None:
        why = words(error)
        if self.failure is None or self.failure.message != why:
            log.error("snapshot.not_shipped", extra={"target": self.target, "error": why})
        self.failure = SnapshotFailure(at_ms=self._host.mailbox.wall_ms(), message=why)
        if not self._stopping:
            self._host.mailbox.set_timer(TIMER, self._host.mailbox.now_s() + RETRY_S)
