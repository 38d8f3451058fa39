"""One queue and who takes from it: its opening, its credit, and what stands in the way of a hand-out.

The queue is a bridge lane's, from which a Forwarder takes, or that of a local client's session. What comes when, and which queues
there are, is the business of ``lane_openings`` and ``lanes``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from storage.queue.chunk import Chunk
from storage.queue.queue import Queue
from storage.store.disk_trouble import RETRY_FIRST_S, RETRY_MAX_S
from wire.errors import ConfigError, Unavailable
from wire.frames.base import Frame
from wire.frames.batch import pack_column
from wire.frames.lanes import HandOut, LaneOpened, Settle
from wire.frames.names import LANE_EPOCH_SHIFT, connection_name, forwarder_name
from wire.settings import LimitSettings
from wire.status.histogram import Histogram

log = logging.getLogger("bascule")

SESSION_CACHE_BYTES = 1 << 20  # of a session's queue while its client is connected

Effects = list[tuple[str, Frame]]  # what to send to whom


@dataclass(slots=True)
class Lane:
    """A queue under one opening after another: totals are since it was opened under ``epoch``."""

    queue: Queue
    limits: LimitSettings
    peer: str
    bridge: str  # empty for the queue of a session
    number: int
    max_age_s: float | None = None  # of a message that is handed out
    epoch: int = 0
    open: bool = False
    credit_messages: int = 0
    credit_bytes: int = 0
    given_messages: int = 0
    given_bytes: int = 0
    settled_number: int = 0  # the newest Settle that wants an answer
    answered: int = 0
    opening: bool = False  # LaneOpened is owed
    releasing: bool = False  # something was released since the last commit
    discarding: bool = False  # some were dropped or expired, which is not yet on record: nothing behind them is handed out
    damaged: bool = False  # it is stopped until it is opened again
    unreadable: Unavailable | None = None  # why its chunks could not be read the last time
    retry_s: float = 0.0  # when to try to read them again
    retry_delay_s: float = 0.0
    by: tuple[str, str] = ("", "")  # what a history calls its Forwarder and its Connection
    fenced: bool = False  # until it is opened anew, its Forwarder speaks of messages that were purged
    row_damaged: bool = False  # where it stands is not known: it takes nothing and gives nothing, and its row stays as it is
    linked_ms: int | None = None  # when a link of it came up the last time, in this life
    losses: int = 0  # places where messages could not be read, in this life
    end_to_end: Histogram | None = None  # of a bridge: how long what was delivered in this life took
    settles: list[Settle] = field(default_factory=list)  # not applied: the first needs what cannot be read for now

    @property
    def has_credit(self) -> bool:
        """Whether something may be handed out: its Forwarder's link stands, and there is room behind it."""
        return self.credit_messages > self.given_messages and self.credit_bytes > self.given_bytes

    # --- who takes from it ---

    def begin(self, epoch: int) -> None:
        """Whoever takes from the queue begins under ``epoch``, and is owed ``opened``. What the epoch before had counts no more."""
        if not self.bridge:
            self.queue.cache(SESSION_CACHE_BYTES)
        self.queue.reset(forwarder_lives=self.epoch >> LANE_EPOCH_SHIFT == epoch >> LANE_EPOCH_SHIFT)
        self.epoch = epoch
        if self.bridge:
            place = self.bridge, self.number
            self.by = f"{forwarder_name(*place)}@{epoch}", f"{connection_name(*place)}@{epoch}"
        self.opening, self.open, self.damaged, self.fenced = True, False, False, False
        self.credit_messages = self.credit_bytes = self.given_messages = self.given_bytes = 0
        self.settled_number = self.answered = 0
        self.settles.clear()  # never answered, so nobody relies on them

    def opened(self, *, receives: bool) -> LaneOpened:
        """It is open; what its Forwarder is told. receives: whether something came from the remote to this lane."""
        self.opening, self.open = False, True
        queue = self.queue
        return LaneOpened(
            queue=queue.name,
            epoch=self.epoch,
            head=queue.head,
            tail=queue.tail,
            dup_below=queue.sent.below,
            settled=queue.settled.ranges(),
            released=queue.sent.released.ranges(),
            generation=queue.sent.generation,
            session=queue.sent.session,
            receives=receives,
            left=queue.sent.left,
        )

    def grant(self, messages: int, size_bytes: int, wall_ms: int) -> None:
        """So much may be handed out in all; nothing: the link is down."""
        if not self.credit_messages:
            self.linked_ms = wall_ms
        self.credit_messages, self.credit_bytes = messages, size_bytes
        if not messages:
            self.queue.close(-1)

    def close(self, sent_below: int) -> None:
        """Nobody takes from the queue for now, so nothing of it stays in memory. Below ``sent_below`` it may have been sent."""
        below = sent_below if self.open else -1
        self.open = self.opening = False
        self.queue.reset(forwarder_lives=True)
        self.queue.close(below)
        self.queue.cache(0)

    def give(self, chunks: Iterable[Chunk]) -> Effects:
        """Hand ``chunks`` out."""
        effects: Effects = []
        for chunk in chunks:
            self.given_messages += chunk.count
            self.given_bytes += chunk.size_bytes
            frame = HandOut(
                queue=self.queue.name,
                epoch=self.epoch,
                first_seq=chunk.first_seq,
                count=chunk.count,
                size_bytes=chunk.size_bytes,
                offsets=b"" if chunk.offsets is None else pack_column(chunk.offsets),
                bodies=(chunk.body,),
            )
            effects.append((self.peer, frame))
        return effects

    # --- what stands in the way ---

    def stop(self, error: ConfigError) -> None:
        """Nothing more is handed out until it is opened again: a newer build wrote what is in it."""
        self.damaged = True
        log.error("queue.stopped", extra={"queue": self.queue.name, "error": str(error)})

    def cannot_read(self, error: Unavailable, now_s: float) -> None:
        """It cannot be read for now; each attempt in vain makes the wait for the next one longer."""
        if self.unreadable is None:
            self.retry_delay_s = RETRY_FIRST_S
            log.error("queue.unreadable", extra={"queue": self.queue.name, "error": str(error)})
        elif now_s >= self.retry_s:
            self.retry_delay_s = min(self.retry_delay_s * 2, RETRY_MAX_S)
        self.unreadable = error
        self.retry_s = now_s + self.retry_delay_s

    def can_read(self) -> None:
        """It was read."""
        if self.unreadable is not None:
            self.unreadable = None
            log.info("queue.readable", extra={"queue": self.queue.name})
