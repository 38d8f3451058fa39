"""One queue and who takes from it: its opening, its credit, and what stands in the way of a hand-out.

The queue is a bridge lane's, from which a Forwarder takes, or that of a local client's session. The moments of these, and the list
of queues, are the business of ``lanes``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from enum import Enum

from storage.queue.chunk import Chunk, Left
from storage.queue.queue import Queue
from storage.queue.waiting_messages import LostStretch
from storage.store.disk_trouble import RETRY_FIRST_S, RETRY_MAX_S
from wire.config_settings import LimitSettings
from wire.errors import ConfigError, Unavailable
from wire.frames.batch import pack_column
from wire.frames.frame import Effects, Ranges
from wire.frames.lanes import HandOut, LaneOpened, Settle, Settled
from wire.frames.names import LANE_EPOCH_SHIFT, connection_name, forwarder_name, lane_of_queue, peer_of
from wire.status.histogram import Histogram
from wire.status.outcomes import DELIVERED

log = logging.getLogger("bascule")

BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 14_400, 86_400)
SESSION_CACHE_BYTES = 1 << 20  # of a session's queue while its client is connected


class State(Enum):
    """How a queue stands with who takes from it."""

    CLOSED = "waiting"  # nobody takes from it
    OPENING = "opening"  # LaneOpened is owed
    OPEN = "open"
    FENCED = "fenced"  # until it is opened anew, its Forwarder speaks of messages that were purged
    STOPPED = "damaged"  # until it is opened anew: a newer build wrote what is next in it
    UNREADABLE = "unreadable"  # where it stands is not known: it takes nothing and gives nothing, and its row stays as it is


class Lane:
    """A queue under one opening after another: totals are since it was opened under ``epoch``. Nobody else writes its fields.

    room: what its limits count for: its bridge, or with a class ``BRIDGE:CLASS``; empty for a session. max_age_s: of a message that
    is handed out. synced: what is answered of it is to survive the loss of power. discarding: some were dropped or expired, which
    is not yet on record: nothing behind them is handed out. unread: why its chunks could not be read the last time; retry_s: when
    to try again. by: what a history calls its Forwarder and its Connection. linked_ms: when a link of it came up the last time, in
    this life. losses: places where messages could not be read, in this life. end_to_end: of a bridge, how long what was delivered
    in this life took. settles: not applied, since the first needs what cannot be read for now.
    """

    def __init__(
        self,
        queue: Queue,
        limits: LimitSettings,
        max_age_s: float | None = None,
        *,
        room: str = "",
        readable: bool = True,
        synced: bool = True,
    ) -> None:
        """readable: whether its row is."""
        place = lane_of_queue(queue.name)
        self.queue = queue
        self.limits, self.max_age_s, self.room = limits, max_age_s, room
        self.synced = synced
        self.peer = peer_of(queue.name)
        self.bridge, self.label = (place.bridge, place.label) if place is not None else ("", 0)
        self.state = State.CLOSED if readable else State.UNREADABLE
        self.epoch = 0
        self.credit_messages = self.credit_bytes = self.given_messages = self.given_bytes = 0
        self.discarding = False
        self.unread: Unavailable | None = None
        self.retry_s = 0.0
        self.by = ("", "")
        self.linked_ms: int | None = None
        self.losses = 0
        self.end_to_end = Histogram(BOUNDS_S) if place is not None else None
        self.settles: list[Settle] = []
        self._retry_delay_s = 0.0
        self._settled_number = self._answered = 0  # of Settle: the newest one that wants an answer, and that has it
        self._releasing = False  # something was released since the last commit

    @property
    def is_unreadable(self) -> bool:
        """Whether it is not known where it stands."""
        return self.state is State.UNREADABLE

    @property
    def is_stopped(self) -> bool:
        """Whether nothing leaves its head."""
        return self.state is State.STOPPED or self.state is State.UNREADABLE

    @property
    def is_open(self) -> bool:
        """Whether somebody takes from it, though it may be stopped."""
        return self.state is State.OPEN or self.state is State.STOPPED

    @property
    def is_linked(self) -> bool:
        """Whether its Forwarder's link stands, so that what comes may leave at once."""
        return self.state is State.OPEN and self.credit_messages > 0

    @property
    def has_credit(self) -> bool:
        """Whether something may be handed out: its Forwarder's link stands, and there is room behind it."""
        return self.credit_messages > self.given_messages and self.credit_bytes > self.given_bytes

    def limit(self, limits: LimitSettings, max_age_s: float | None, room: str) -> None:
        """These hold from now on."""
        self.limits, self.max_age_s, self.room = limits, max_age_s, room
        self.queue.qos0.limit(limits.volatile_max_bytes)

    def keeps_by(self, *, synced: bool) -> bool:
        """What is answered is to survive the loss of power from now on, or need not; whether that is new and more."""
        more, self.synced = synced and not self.synced, synced
        return more

    # --- who takes from it ---

    def begin(self, epoch: int) -> None:
        """The taker of the queue begins under ``epoch``, and is due an ``on_opened``. The epoch before counts no more."""
        if not self.bridge:
            self.queue.cache(SESSION_CACHE_BYTES)
        self.queue.reset(forwarder_lives=self.epoch >> LANE_EPOCH_SHIFT == epoch >> LANE_EPOCH_SHIFT)
        self.epoch = epoch
        if self.bridge:
            place = self.bridge, self.label
            self.by = f"{forwarder_name(*place)}@{epoch}", f"{connection_name(*place)}@{epoch}"
        self.state = State.OPENING
        self.credit_messages = self.credit_bytes = self.given_messages = self.given_bytes = 0
        self._settled_number = self._answered = 0
        self.settles.clear()  # never answered, so nobody relies on them

    def on_opened(self, *, receives: bool) -> LaneOpened:
        """It is open; what its Forwarder is told. receives: whether something came from the remote to this lane."""
        self.state = State.OPEN
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
        below = sent_below if self.is_open else -1
        self.leave()
        self.queue.reset(forwarder_lives=True)
        self.queue.close(below)
        self.queue.cache(0)

    def leave(self) -> None:
        """Its taker is gone, or is to open it anew: nothing is handed out before. Its settlements still count."""
        if self.state is State.OPEN or self.state is State.OPENING:
            self.state = State.CLOSED

    def purged(self, *, whole: bool) -> bool:
        """It was purged; whether its Forwarder is to open it anew, since the ``whole`` of it went, or it was stopped.

        An opening that is under way is that: nothing was handed out in it, and ``LaneOpened`` tells of the queue as it is now.
        """
        if whole:
            self.mark_readable()  # nothing is left to be read
        if self.state is State.OPENING or self.state is State.UNREADABLE or not (whole or self.state is State.STOPPED):
            return False
        self.state = State.FENCED if whole else State.CLOSED
        if whole:
            self.settles.clear()
        return True

    def hand_out(self, chunks: Iterable[Chunk]) -> Effects:
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

    # --- what is settled ---

    def settle(self, outcome: str, ranges: Ranges, *, by: str, times: Sequence[tuple[int, int]]) -> None:
        """Take the messages of ``ranges`` out of the queue. times: of those that were delivered, when that was, and of how many; an
        acceptance and a delivery by a clock that was set back in between count as no time.
        """
        if outcome != DELIVERED or self.end_to_end is None:
            self.queue.settle(outcome, ranges, by=by)
            return
        left: Left = []
        self.queue.settle(outcome, ranges, by=by, left=left)
        count_delivered(self.end_to_end, left, times)

    def wait(self, frame: Settle) -> bool:
        """``frame`` is to be applied, behind those that wait; whether it is the first. One of another opening is none."""
        if frame.epoch != self.epoch or self.state is State.FENCED:
            return False
        self.settles.append(frame)
        return len(self.settles) == 1

    def on_settled(self) -> None:
        """The first of those that wait is applied."""
        del self.settles[0]

    def owe(self, number: int) -> None:
        """The taker is to hear that all up to ``number`` is settled, after the next commit."""
        self._releasing = True
        self._settled_number = max(self._settled_number, number)

    def on_committed(self) -> None:
        """Releases are on record."""
        self._releasing = False

    def answer(self, *, receives: bool) -> Effects | None:
        """The answer that is due to its taker; None while that waits for a commit. receives: see ``on_opened``."""
        if self._releasing:
            return None
        effects: Effects = []
        if self.state is State.OPENING:
            effects.append((self.peer, self.on_opened(receives=receives)))
        if self._settled_number > self._answered:
            self._answered = self._settled_number
            effects.append((self.peer, Settled(queue=self.queue.name, epoch=self.epoch, number=self._answered)))
        return effects

    # --- what stands in the way ---

    def discard(self, *, on_record: bool) -> None:
        """Some were dropped or have expired; ``on_record`` when that is committed."""
        self.discarding = not on_record

    def take_losses(self) -> list[LostStretch]:
        """Losses that were found since the last call."""
        losses = self.queue.take_losses()
        self.losses += len(losses)
        return losses

    def stop(self, error: ConfigError) -> None:
        """Nothing more is handed out until it is opened again: a newer build wrote what is in it."""
        if self.state is State.OPEN or self.state is State.CLOSED:
            self.state = State.STOPPED
        log.error("queue.stopped", extra={"queue": self.queue.name, "error": str(error)})

    def mark_unreadable(self, error: Unavailable, now_s: float) -> None:
        """It cannot be read for now; each attempt in vain makes the wait for the next one longer."""
        if self.unread is None:
            self._retry_delay_s = RETRY_FIRST_S
            log.error("queue.unreadable", extra={"queue": self.queue.name, "error": str(error)})
        elif now_s >= self.retry_s:
            self._retry_delay_s = min(self._retry_delay_s * 2, RETRY_MAX_S)
        self.unread = error
        self.retry_s = now_s + self._retry_delay_s

    def mark_readable(self) -> None:
        """It was read."""
        if self.unread is not None:
            self.unread = None
            log.info("queue.readable", extra={"queue": self.queue.name})


def count_delivered(histogram: Histogram, left: Left, times: Sequence[tuple[int, int]]) -> None:
    """Count in ``histogram`` how long what has ``left`` took.

    In its order, each of ``times`` is that of so many messages, and the last that of the rest, too.
    """
    if not times:
        return
    place, (remaining, at_ms) = 0, times[0]
    for accepted_ms, messages in left:
        while remaining < messages and place + 1 < len(times):
            if remaining:
                histogram.add(max(0, at_ms - accepted_ms) / 1000, remaining)
                messages -= remaining
            place += 1
            remaining, at_ms = times[place]
        histogram.add(max(0, at_ms - accepted_ms) / 1000, messages)
        remaining -= messages
