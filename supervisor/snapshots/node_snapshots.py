"""Snapshots of the running node: when one is made, what becomes of it, and what is said of it.

The store makes the checkpoint; everything that reads or writes files is done in a thread by
``storage/snapshots/snapshot_folder.py``. Copies are ``shipping.py``'s, in another, so that a target that hangs holds up nothing.
This class is in the supervisor's actor: it decides, and it never blocks.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from actors.process.actor import PolledActor
from actors.system.clocks import machine_run
from storage.snapshots.manifest import STORE_NAME, Manifest
from storage.snapshots.snapshot_folder import FOLDER_NAME, SnapshotFolder, Usage, figures_of
from storage.store.event_rows import Detail
from supervisor.control.control_socket import ControlError, Request
from supervisor.snapshots.shipping import Shipping
from supervisor.snapshots.snapshot_schedule import SnapshotSpace, next_s
from supervisor.version import VERSION
from supervisor.workers import Worker, words
from wire.config_settings import SettingsNow, SnapshotSettings
from wire.errors import BasculeError, DiskFull, Unavailable
from wire.figure import joined, to_map
from wire.frames.names import QUEUE_STORE
from wire.frames.supervision import SnapshotMade, SnapshotWanted
from wire.status.answers import SnapshotBegun, SnapshotState
from wire.status.node_status import SnapshotFailure, SnapshotFigures, SnapshotsFigures
from wire.status.refusals import Refusal

log = logging.getLogger("bascule")

TIMER = "snapshots"  # the next one that the schedule wants
LATE_TIMER = "snapshot_late"
UPKEEP_TIMER = "snapshot_upkeep"

LATE_S = 120.0  # a store that lives and says nothing for so long has lost the order
RETRY_S = 60.0
UPKEEP_S = 5.0
USAGE_S = 60.0
RESULTS_MAX = 100
STANDS_BY = "standing by"  # the state of the store of a node that follows another one

Note = Callable[[str, int, dict[str, Detail]], None]  # the snapshot or why there is none, messages, details


@dataclass(slots=True)
class _Making:
    """The snapshot that is being made. stage: beginning, checkpoint, finishing."""

    number: int
    scheduled: bool
    began_s: float
    stage: str = "beginning"
    part: Path | None = None


class Snapshots:
    """The snapshots of one node, in the actor ``host``."""

    def __init__(self, host: PolledActor, settings: SettingsNow, store_state: Callable[[], str], note: Note) -> None:
        """store_state: whether the store is ``ready``, or else what it is. note: has an event ``snapshot.made`` kept."""
        self._host = host
        self._settings = settings
        self._store_state = store_state
        self._note = note
        data_dir = Path(settings.now.node.data_dir)
        self._folder = SnapshotFolder(data_dir / FOLDER_NAME, data_dir / "store", lambda: host.mailbox.wall_ms())
        self._durable = settings.now.persistence.mode != "in-memory"
        self._stopping = False
        self._number = 0
        self._making: _Making | None = None
        self._results: dict[int, SnapshotState] = {}
        self._worker = Worker(host, "snapshots")
        self._shipping = Shipping(host, settings, self._folder)
        self._usage = Usage()
        self._usage_s = float("-inf")
        self._last: SnapshotFigures | None = None
        self._failure: SnapshotFailure | None = None
        self._skipped = 0
        self._due_s: float | None = None

    # --- events ---

    def start(self) -> None:
        """The node starts: remove what its former life left half made, and begin the schedule."""
        if self._folder.path.exists():
            self._worker.do(self._look_around, self._looked_around, self._on_upkeep_failed)
        else:
            self._schedule(None)

    @property
    def _own(self) -> SnapshotSettings:
        return self._settings.now.snapshots

    @property
    def _space(self) -> SnapshotSpace:
        return SnapshotSpace.of(self._settings.now)

    def on_settings_changed(self) -> None:
        """Others hold, from the next snapshot and the next look at what is too much on."""
        self._usage_s = float("-inf")
        self._shipping.ship()
        self._host.mailbox.cancel_timer(TIMER)
        self._due_s = None
        self._schedule(self._last.at_ms if self._last is not None else None)

    def stop(self) -> None:
        """The node stops: nothing new is begun, and what is half made is for the next life to remove."""
        self._stopping = True
        for timer in (TIMER, LATE_TIMER, UPKEEP_TIMER):
            self._host.mailbox.cancel_timer(timer)
        self._shipping.stop()

    def on_timer(self, name: str, now_s: float) -> bool:
        """Whether the timer ``name``, which has run out, was of a snapshot."""
        match name:
            case "snapshots":
                self._on_scheduled(now_s)
            case "snapshot_late":
                self._give_up(f"the store has not answered within {LATE_S:g} s")
            case "snapshot_upkeep":
                self._worker.do(partial(self._upkeep, now_s - self._usage_s >= USAGE_S), self._kept_up, self._on_upkeep_failed)
            case "snapshot_ship":
                self._shipping.ship()
            case _:
                return False
        return True

    def on_store_ended(self) -> None:
        """The store has ended: what it was making is not whole."""
        if self._making is not None and self._making.stage == "checkpoint":
            self._give_up("the queue store ended meanwhile")

    # --- making ---

    def take(self, *, scheduled: bool = False) -> int:
        """Begin a snapshot; its number, by which ``result`` knows it.

        Raises:
            ControlError: it cannot be begun now.
        """
        if self._stopping:
            raise ControlError(Refusal.STOPPING, "the node is stopping")
        if not self._durable:
            raise ControlError(Refusal.IN_MEMORY, "persistence.mode is in-memory: nothing is on a disk to make a snapshot of")
        if self._making is not None:
            raise ControlError(Refusal.BUSY, "a snapshot is being made already; ask again when it is done")
        state = self._store_state()
        if state != "ready":
            raise ControlError(Refusal.UNAVAILABLE, f"the queue store is {state}; no snapshot was made")
        self._number += 1
        making = self._making = _Making(self._number, scheduled, self._host.mailbox.now_s())
        at_ms = self._host.mailbox.wall_ms()
        self._worker.do(partial(self._begin, at_ms, making.number), partial(self._begun, making), partial(self._on_failed, making))
        return making.number

    def result(self, text: str) -> SnapshotState:
        """The state of the snapshot of that number.

        Raises:
            ControlError: there is none.
        """
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
        if self._making is not None and self._making.number == number:
            return SnapshotState(state="making", stage=self._making.stage)
        if number not in self._results:
            raise ControlError(Refusal.UNKNOWN, f"no snapshot of number {text!r} was asked of this life of the node")
        return self._results[number]

    def _begin(self, at_ms: int, number: int) -> Path:
        """In a thread: the folder for a new one."""
        free_bytes = self._space.free_bytes()
        if free_bytes is not None and free_bytes < self._space.wanted_bytes:
            what = "the disk has too little room for a snapshot, which would keep old files from going"
            raise Unavailable(what, free_bytes=free_bytes, wanted_bytes=self._space.wanted_bytes)
        return self._folder.begin(self._settings.now.node.name, at_ms, number)

    def _begun(self, making: _Making, part: Path) -> None:
        making.part = part
        if self._store_state() != "ready":
            self._give_up("the queue store ended meanwhile")
            return
        making.stage = "checkpoint"
        self._host.send(QUEUE_STORE, SnapshotWanted(request=making.number, path=str(part / STORE_NAME)))
        self._host.mailbox.set_timer(LATE_TIMER, self._host.mailbox.now_s() + LATE_S)

    def on_made(self, frame: SnapshotMade) -> None:
        """The store has answered."""
        making = self._making
        if making is None or making.number != frame.request or making.stage != "checkpoint":
            log.warning("snapshot.late", extra={"request": frame.request})
            keep = making.part if making is not None else None
            self._worker.do(partial(self._folder.clean, keep=keep), lambda _: None, self._on_upkeep_failed)
            return
        self._host.mailbox.cancel_timer(LATE_TIMER)
        if frame.error:
            self._give_up(frame.message, frame.error)
            return
        making.stage = "finishing"
        assert making.part is not None
        fields = {**frame.facts, **self._facts()}
        fields["versions"] = {"bascule": VERSION, **frame.facts["versions"]}
        pause_ms = fields.pop("pause_ms")
        done = partial(self._on_finished, making, pause_ms)
        self._worker.do(partial(self._finish, making.part, fields), done, partial(self._on_failed, making))

    def _facts(self) -> dict[str, Any]:
        """The part of the manifest that the supervisor knows."""
        limits = self._settings.now.limits
        return {
            "node": self._settings.now.node.name,
            "limits": {
                "max_messages": limits.max_messages,
                "max_bytes": limits.max_bytes,
                "min_free_disk_bytes": limits.min_free_disk_bytes,
            },
        }

    def _finish(self, part: Path, fields: dict[str, Any]) -> Manifest:
        """In a thread: checksums, the manifest, the name."""
        return self._folder.finish(part, {**fields, "boot_id": machine_run()})

    def _on_finished(self, making: _Making, pause_ms: float, manifest: Manifest) -> None:
        self._making = None
        took_s = round(self._host.mailbox.now_s() - making.began_s, 3)
        path = self._folder.path / manifest.id
        self._last, self._failure = figures_of(manifest, path, took_s=took_s, pause_ms=pause_ms), None
        self._keep_result(making.number, joined(SnapshotState, self._last, state="made"))
        log.info("snapshot.made", extra={**to_map(self._last), "scheduled": making.scheduled})
        details: dict[str, Detail] = {"made": True, "bytes": manifest.size_bytes, "took_s": took_s, "pause_ms": pause_ms}
        self._note(manifest.id, sum(queue.depth for queue in manifest.queues), details)
        self._schedule(manifest.at_ms)
        self._worker.do(partial(self._upkeep, True), self._kept_up, self._on_upkeep_failed)
        self._shipping.ship()

    def _on_failed(self, making: _Making, error: OSError | BasculeError) -> None:
        if self._making is making:
            self._give_up(words(error), Refusal.DISK_FULL if _is_full(error) else Refusal.UNAVAILABLE)

    def _give_up(self, why: str, kind: str = Refusal.UNAVAILABLE) -> None:
        making, self._making = self._making, None
        if making is None:
            return
        self._host.mailbox.cancel_timer(LATE_TIMER)
        self._keep_result(making.number, SnapshotState(state="failed", kind=kind, message=why))
        self._failure = SnapshotFailure(at_ms=self._host.mailbox.wall_ms(), kind=kind, message=why)
        log.error("snapshot.failed", extra={"kind": kind, "error": why, "scheduled": making.scheduled})
        self._note(kind, 0, {"made": False, "error": why})
        self._worker.do(self._folder.clean, lambda _: None, self._on_upkeep_failed)
        if self._own.every_s and not self._stopping:
            self._arm(self._host.mailbox.now_s() + min(self._own.every_s, RETRY_S))

    def _keep_result(self, number: int, result: SnapshotState) -> None:
        self._results[number] = result
        self._results.pop(number - RESULTS_MAX, None)

    # --- schedule ---

    def _schedule(self, last_ms: int | None) -> None:
        """The next one is due ``every`` after the last one, which was made at ``last_ms``."""
        if self._own.every_s and self._durable and not self._stopping and self._store_state() != STANDS_BY:
            now_s, wall_ms = self._host.mailbox.now_s(), self._host.mailbox.wall_ms()
            self._arm(next_s(self._own.every_s, last_ms, now_s, wall_ms))

    def _arm(self, at_s: float) -> None:
        self._due_s = at_s
        self._host.mailbox.set_timer(TIMER, at_s)

    def _on_scheduled(self, now_s: float) -> None:
        self._due_s = None
        free_bytes = self._space.free_bytes()
        if free_bytes is not None and free_bytes < self._space.wanted_bytes:
            self._skipped += 1
            log.warning("snapshot.skipped", extra={"free_bytes": free_bytes, "wanted_bytes": self._space.wanted_bytes})
            self._note("min_free_disk", 0, {"made": False, "free_bytes": free_bytes})
            self._arm(now_s + self._own.every_s)
            return
        try:
            self.take(scheduled=True)
        except ControlError as error:
            log.info("snapshot.put_off", extra={"reason": error.kind})
            self._arm(now_s + min(self._own.every_s, RETRY_S if error.kind != Refusal.UNAVAILABLE else UPKEEP_S))

    # --- upkeep ---

    def _look_around(self) -> tuple[list[str], Usage, SnapshotFigures | None]:
        """In a thread, first of all: remove what is half made; what there is."""
        cleaned = self._folder.clean()
        last = None
        for path, manifest in self._folder.manifests():
            last = figures_of(manifest, path)
        return cleaned, self._folder.usage(), last

    def _looked_around(self, found: tuple[list[str], Usage, SnapshotFigures | None]) -> None:
        cleaned, self._usage, self._last = found
        if cleaned:
            log.info("snapshot.cleaned", extra={"half_made": cleaned})
        self._schedule(self._last.at_ms if self._last is not None else None)
        self._watch()
        self._shipping.ship()

    def _upkeep(self, count: bool) -> tuple[list[tuple[str, str]], Usage | None]:
        """In a thread: remove what is too much; what is left, if that is to be counted or has changed."""
        if not count and self._space.enough_free():
            return [], None
        own = self._own
        removed = self._folder.prune(keep=own.keep, max_bytes=own.max_bytes, enough_free=self._space.enough_free)
        return removed, self._folder.usage()

    def _kept_up(self, done: tuple[list[tuple[str, str]], Usage | None]) -> None:
        removed, usage = done
        for name, reason in removed:
            log.info("snapshot.removed", extra={"id": name, "reason": reason})
        if usage is not None:
            self._usage, self._usage_s = usage, self._host.mailbox.now_s()
        self._watch()

    def _on_upkeep_failed(self, error: OSError | BasculeError) -> None:
        log.warning("snapshot.upkeep_failed", extra={"error": words(error)})
        self._watch()

    def _watch(self) -> None:
        if not self._stopping:
            self._host.mailbox.set_timer(UPKEEP_TIMER, self._host.mailbox.now_s() + UPKEEP_S)

    # --- figures ---

    def figures(self) -> SnapshotsFigures:
        """Figures of snapshots for ``status``."""
        now_s = self._host.mailbox.now_s()
        return SnapshotsFigures(
            count=self._usage.count,
            bytes=self._usage.size_bytes,
            own_bytes=self._usage.own_bytes,
            making=self._making.stage if self._making is not None else None,
            last=self._last,
            failure=self._failure,
            skipped=self._skipped,
            every_s=self._own.every_s,
            next_in_s=None if self._due_s is None else round(max(0.0, self._due_s - now_s), 3),
            to=self._shipping.target,
            shipped=self._shipping.shipped,
            ship_failure=self._shipping.failure,
        )


def _is_full(error: OSError | BasculeError) -> bool:
    return isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT))


def obey(snapshots: Snapshots, request: Request) -> SnapshotBegun | SnapshotState:
    """Begin a snapshot, or say what became of one, as ``request`` wants it.

    Raises:
        ControlError: nothing was done.
    """
    try:
        if request.command == "snapshot.result":
            return snapshots.result(request.arguments["number"])
        number = snapshots.take()
    except ControlError as error:
        raise ControlError(error.kind, error.message, request.request_id) from error
    log.info("control.obeyed", extra={"command": request.command, "number": number})
    return SnapshotBegun(number=number)
