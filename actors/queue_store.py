"""The QueueStore: sole writer of Tier 1. Feeds frames to ``storage/tier1.py``, commits at each turn's end, sends what comes out.

It opens the store when it starts; where the disk refuses it tries again in place, so that a full disk is no crash loop.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from actors.actor import MailboxActor
from actors.mailbox import Mailbox
from storage.engine import Engine, RocksEngine
from storage.memory import MemoryEngine
from storage.tier1 import TICK_S, Effects, Tier1, refusal_facts
from wire.errors import Unavailable
from wire.frames import Frame, QueueAnswer, QueueCommand
from wire.names import SUPERVISOR
from wire.settings import NodeSettings

log = logging.getLogger("bascule")

_WAKE = "wake"
_OPEN = "open"
OPEN_RETRY_S = 0.5


class QueueStore(MailboxActor):
    """A short loop around ``Tier1``: frames in, one commit a turn, effects out."""

    def __init__(self, mailbox: Mailbox, settings: NodeSettings, epoch: int) -> None:
        super().__init__(mailbox, settings, epoch)
        self._tier1: Tier1 | None = None
        self._refusal: Unavailable | None = None  # why it could not be opened
        self._ticked_s = 0.0

    def on_start(self) -> None:
        super().on_start()
        self._open(self.mailbox.now_s())

    def on_frame(self, frame: Frame) -> None:
        if self._tier1 is not None:  # before that nobody was told that we are up; they send again when they are
            self._tier1.receive(frame)
        elif isinstance(frame, QueueCommand):
            text = "the store is not open yet; nothing was done"
            self.send(SUPERVISOR, QueueAnswer(request=frame.request, error="unavailable", message=text, result={}))

    def on_turn_end(self, now_s: float) -> None:
        if self._tier1 is None:
            return
        self._send_all(self._tier1.admit(now_s, self.mailbox.wall_ms()))
        self._send_all(self._tier1.commit(now_s, self.mailbox.wall_ms()))
        # The tick keeps its time however many turns there are.
        self.mailbox.set_timer(_WAKE, min(self._tier1.wakes_at_s(now_s), self._ticked_s + TICK_S))

    def on_timer(self, name: str, now_s: float) -> None:
        if name == _OPEN:
            self._open(now_s)
        elif self._tier1 is not None and now_s - self._ticked_s >= TICK_S:
            self._ticked_s = now_s
            self._tier1.tick(now_s, self.mailbox.wall_ms())  # the turn that ends now commits what it changed

    def on_stopping(self) -> None:
        if self._tier1 is not None:
            now_s = self.mailbox.now_s()
            self._send_all(self._tier1.commit(now_s, self.mailbox.wall_ms(), at_once=True))
            self._tier1.close()
        self.finished()

    def status(self) -> dict[str, Any]:
        if self._tier1 is None:
            facts = {"state": "opening"} if self._refusal is None else refusal_facts(self._refusal)
            return {"queues": {}, "mode": self.settings.persistence.mode, **facts}
        return self._tier1.status(self.mailbox.wall_ms())

    def _open(self, now_s: float) -> None:
        engine: Engine | None = None
        try:
            engine = self._open_engine()
            self._tier1 = Tier1(engine, self.settings, self.epoch)
        except Unavailable as error:
            if engine is not None:
                engine.close()
            if self._refusal is None or type(self._refusal) is not type(error):
                log.error("store.unavailable", extra=refusal_facts(error))
            self._refusal = error
            self.mailbox.set_timer(_OPEN, now_s + OPEN_RETRY_S)
            return
        log.info("store.opened", extra={"mode": self.settings.persistence.mode, "took_s": round(self.mailbox.now_s() - now_s, 3)})
        self.ready()

    def _open_engine(self) -> Engine:
        if self.settings.persistence.mode == "in-memory":
            return MemoryEngine()
        return RocksEngine(Path(self.settings.data_dir) / "store")

    def _send_all(self, effects: Effects) -> None:
        for peer, frame in effects:
            self.send(peer, frame)
