"""The QueueStore: sole writer of Tier 1. It feeds frames to ``storage/store/store.py``, commits as a turn ends, and sends.

It opens the store when it starts; where the disk refuses it tries again in place, so that a full disk is no crash loop. A snapshot
is made at the end of a turn, after threads have flushed what they can: the checkpoint itself stops everything for its time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from actors.process.actor import MailboxActor
from actors.process.mailbox import Mailbox
from actors.store.leading import LEAD_TIMER, BaseOffered, Leading
from storage.engine.engine import Engine, RocksEngine
from storage.engine.memory_engine import MemoryEngine
from storage.replication.position import leave
from storage.replication.replicated_engine import Replaced
from storage.store.disk_trouble import refusal_of
from storage.store.store import TICK_S, Store
from wire.config_settings import NodeSettings
from wire.errors import BasculeError, StorageDamaged, StoreGone, Unavailable
from wire.frames.frame import Effects, Frame
from wire.frames.names import SUPERVISOR
from wire.frames.supervision import QueueAnswer, QueueCommand, SessionCommand, SnapshotMade, SnapshotWanted
from wire.status.refusals import Refusal
from wire.status.states import StoreState
from wire.status.store import StoreReport

log = logging.getLogger("bascule")

_WAKE = "wake"
_OPEN = "open"
OPEN_RETRY_S = 0.5
FLUSHES = 2  # the second one writes what came while the first one did, and so the checkpoint has little to write


@dataclass(slots=True)
class _Snapshot:
    """A snapshot that is being made."""

    wanted: SnapshotWanted
    flushes: int = 0
    ready: bool = False  # the checkpoint is made at the end of the turn


@dataclass(frozen=True, slots=True)
class _Flushed:
    """Thread -> actor: a flush has ended."""

    refusal: BasculeError | None


@dataclass(frozen=True, slots=True)
class _Noted:
    """Thread -> actor: what the checkpoint of ``request`` holds."""

    request: int
    facts: dict[str, Any]


class QueueStore(MailboxActor):
    """A short loop around ``Store``: frames in, one commit a turn, effects out."""

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> None:
        super().__init__(mailbox, settings, epoch)
        self._store: Store | None = None
        self._refusal: Unavailable | StoreGone | None = None  # why it could not be opened
        self._ticked_s = 0.0
        self._wakes_s: float | None = None  # when its timer is due, if that is set
        self._snapshot: _Snapshot | None = None
        self._leading = Leading(self) if settings.persistence.mode == "replicated" else None

    def on_start(self) -> None:
        super().on_start()
        self._open(self.mailbox.now_s())

    def outlives(self, error: Exception) -> bool:
        """Whichever hook finds out that another node leads, nothing is answered any more."""
        if not isinstance(error, Replaced):
            return False
        self._on_replaced(error)
        return True

    def on_frame(self, frame: Frame) -> None:
        if self._leading is not None and self._leading.obey(frame):
            return
        if type(frame) is SnapshotWanted:
            self._begin_snapshot(frame)
        elif self._store is not None:  # before that nobody was told that we are up; they send again when they are
            self._store.receive(frame)
        elif isinstance(frame, QueueCommand | SessionCommand):
            why = "is not open yet" if self._refusal is None else f"cannot be opened for now: {self._refusal}"
            text = f"the store {why}; nothing was done"
            asker = frame.asker if isinstance(frame, SessionCommand) else SUPERVISOR
            self.send(asker, QueueAnswer(request=frame.request, error=Refusal.UNAVAILABLE, message=text, result={}))

    def on_peer_up(self, name: str, epoch: int) -> None:
        if self._leading is not None:
            self._leading.met(epoch)

    def on_reconfigured(self, before: NodeSettings) -> None:
        if self._store is not None:
            self._store.settings_changed()

    def on_thread_message(self, message: Any) -> None:
        match message:
            case _Flushed():
                self._on_flushed(message.refusal)
            case BaseOffered():
                if self._leading is not None:
                    self._leading.on_offered(message)
            case _Noted():
                self.send(SUPERVISOR, SnapshotMade(request=message.request, error="", message="", facts=message.facts))
            case _:
                super().on_thread_message(message)

    def on_turn_end(self, now_s: float) -> None:
        store = self._store
        if store is None:
            return
        if self._snapshot is not None and self._snapshot.ready:
            self._take_snapshot(self._snapshot.wanted, now_s)
        wall_ms = self.mailbox.wall_ms()
        if store.acknowledges_fast:
            self._send_all(store.admit(now_s, wall_ms))
        self._send_all(store.commit(now_s, wall_ms))
        # The tick keeps its time however many turns there are.
        wakes_s, tick_s = store.wakes_at_s(now_s), self._ticked_s + TICK_S
        if wakes_s > tick_s:
            wakes_s = tick_s
        if wakes_s != self._wakes_s:
            self._wakes_s = wakes_s
            self.mailbox.set_timer(_WAKE, wakes_s)

    def on_timer(self, name: str, now_s: float) -> None:
        if name == _WAKE:
            self._wakes_s = None
        if name == _OPEN:
            self._open(now_s)
        elif name == LEAD_TIMER and self._leading is not None:
            self._leading.tick()
        elif self._store is not None and now_s - self._ticked_s >= TICK_S:
            self._ticked_s = now_s
            self._store.tick(now_s, self.mailbox.wall_ms())  # the turn that ends now commits what it changed

    def on_stopping(self) -> None:
        if self._store is not None:
            now_s = self.mailbox.now_s()
            try:
                self._send_all(self._store.commit(now_s, self.mailbox.wall_ms(), at_once=True))
            except Replaced as error:
                self._on_replaced(error)
        if self._leading is not None:
            self._leading.step_down()
        if self._store is not None:
            self._store.close()
        if self._leading is not None:
            self._leading.close()
        self.on_finished()

    def status(self) -> StoreReport:
        replication = None if self._leading is None else self._leading.figures()
        if self._store is not None:
            return replace(self._store.status(self.mailbox.wall_ms()), replication=replication)
        state, error = (StoreState.OPENING, "") if self._refusal is None else refusal_of(self._refusal)
        return StoreReport(state=state, error=error, mode=self.settings.persistence.mode, replication=replication)

    # --- snapshots ---

    def _begin_snapshot(self, wanted: SnapshotWanted) -> None:
        if self._store is None:
            self._refuse_snapshot(wanted, Refusal.UNAVAILABLE, "the store is not open yet")
        elif self.settings.persistence.mode == "in-memory":
            self._refuse_snapshot(
                wanted, Refusal.IN_MEMORY, "persistence.mode is in-memory: nothing is on a disk to make a snapshot of"
            )
        elif self._snapshot is not None:
            self._refuse_snapshot(wanted, Refusal.BUSY, "another snapshot is being made")
        else:
            self._snapshot = _Snapshot(wanted)
            self._flush(self._store)

    def _flush(self, store: Store) -> None:
        def flush() -> None:
            refusal: BasculeError | None = Unavailable("the flush failed")
            try:
                store.flush()
                refusal = None
            except (Unavailable, StorageDamaged) as error:
                refusal = error
            finally:
                self.send_from_thread(_Flushed(refusal))

        self.mailbox.in_thread("flush", flush)

    def _on_flushed(self, refusal: BasculeError | None) -> None:
        snapshot = self._snapshot
        if snapshot is None or self._store is None:
            return
        snapshot.flushes += 1
        if refusal is not None:
            self._refuse_snapshot(snapshot.wanted, Refusal.UNAVAILABLE, str(refusal))
        elif snapshot.flushes < FLUSHES:
            self._flush(self._store)
        else:
            snapshot.ready = True

    def _take_snapshot(self, wanted: SnapshotWanted, now_s: float) -> None:
        assert self._store is not None
        self._send_all(self._store.commit(now_s, self.mailbox.wall_ms(), at_once=True))  # what is answered with it need not wait
        began_s = self.mailbox.now_s()
        try:
            standing = self._store.checkpoint(wanted.path, now_s, self.mailbox.wall_ms())
        except (Unavailable, StorageDamaged) as error:  # where the files are damaged, who reads them next decides
            self._refuse_snapshot(wanted, Refusal.UNAVAILABLE if isinstance(error, Unavailable) else Refusal.DAMAGED, str(error))
            return
        pause_ms = round((self.mailbox.now_s() - began_s) * 1000, 1)
        self._snapshot = None

        def tell() -> None:
            self.send_from_thread(_Noted(wanted.request, {**standing.facts(), "pause_ms": pause_ms}))

        self.mailbox.in_thread("facts", tell)

    def _refuse_snapshot(self, wanted: SnapshotWanted, error: str, message: str) -> None:
        if self._snapshot is not None and self._snapshot.wanted is wanted:
            self._snapshot = None
        self.send(SUPERVISOR, SnapshotMade(request=wanted.request, error=error, message=message, facts={}))

    def _on_replaced(self, error: Replaced) -> None:
        """Another node leads: nothing is answered any more."""
        store, self._store = self._store, None
        if store is not None:
            store.close()
        if self._leading is not None:
            self._leading.on_replaced(str(error))

    def _open(self, now_s: float) -> None:
        engine: Engine | None = None
        try:
            engine = self._open_engine()
            self._store = Store(engine, self.settings_now, self.epoch)
        except Replaced as error:
            if engine is not None:
                engine.close()
            self._on_replaced(error)
            return
        except (Unavailable, StoreGone) as error:  # its disk may be mounted late
            if engine is not None:
                engine.close()
            if self._leading is not None:
                self._leading.on_not_opened()
            if self._refusal is None or type(self._refusal) is not type(error):
                state, why = refusal_of(error)
                log.error("store.unavailable", extra={"state": state.value, "error": why})
            self._refusal = error
            self.mailbox.set_timer(_OPEN, now_s + OPEN_RETRY_S)
            return
        log.info("store.opened", extra={"mode": self.settings.persistence.mode, "took_s": round(self.mailbox.now_s() - now_s, 3)})
        self.ready()

    def _open_engine(self) -> Engine:
        if self.settings.persistence.mode == "in-memory":
            return MemoryEngine()
        if self._leading is not None:
            return self._leading.open()
        engine = RocksEngine(Path(self.settings.node.data_dir) / "store", begins=False)
        if leave(engine):
            log.warning("replication.left", extra={"why": "persistence.mode is not replicated any more"})
        return engine

    def _send_all(self, effects: Effects) -> None:
        send = self.mailbox.send
        for peer, frame in effects:
            send(peer, frame)
