"""Openings of lanes: who takes from which queue, with how much credit, until the lane is closed. Answers to the takers are sent
after their commit.

store.answer-after-commit: ``LaneOpened`` and ``Settled`` are sent after the commit they tell of (P1).
store.old-epoch-changes-nothing: frames of an old epoch change nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from storage.queue.queue import Queue
from storage.store.lane import Effects, Lane
from storage.store.lanes import Lanes
from wire.frames.base import Frame
from wire.frames.lanes import Credit, LaneClose, LaneOpen, LaneReopen, Settled
from wire.frames.names import LANE_EPOCH_SHIFT, session_of_queue
from wire.frames.supervision import ResetMarkers


class LaneOpenings:
    """Opens and closes lanes. owing: the queues whose peer is owed ``LaneOpened`` or ``Settled``."""

    def __init__(
        self,
        lanes: Lanes,
        *,
        ready: Callable[[str], None],
        receives: Callable[[Queue], bool],
        send: Callable[[tuple[str, Frame]], None],
    ) -> None:
        """ready: is told which queue can be handed out. receives: whether anything came from the remote to the lane of a queue."""
        self._lanes = lanes
        self._ready = ready
        self._receives = receives
        self._send = send
        self.owing: set[str] = set()

    # --- frames ---

    def open(self, frame: LaneOpen) -> None:
        """A lane is opened, or opened anew; it is answered after the next commit."""
        lane = self._lanes.all.get(frame.queue)
        if lane is None:
            if session_of_queue(frame.queue) is not None:
                return  # the session has ended, and its client is told so
            lane = self._lanes.open(frame.queue)
        if frame.epoch > lane.epoch and not lane.row_damaged:
            self.owing.add(frame.queue)
            lane.begin(frame.epoch)

    def credit(self, frame: Credit, wall_ms: int) -> None:
        """More may be handed out."""
        lane = self._lanes.all.get(frame.queue)
        if lane is not None and lane.open and frame.epoch == lane.epoch:
            lane.grant(frame.messages, frame.size_bytes, wall_ms)
            if frame.messages:
                self._ready(frame.queue)

    def close(self, frame: LaneClose) -> None:
        """Nobody takes from the queue of a session for now."""
        lane = self._lanes.all.get(frame.queue)
        if lane is not None and frame.epoch == lane.epoch:
            lane.close(frame.sent_below)

    def reset(self, frame: ResetMarkers) -> None:
        """Stop handing out; the markers go when the next Forwarder opens the lane: what this one had settled still counts."""
        lane = self._lanes.all.get(frame.queue)
        if lane is not None and lane.epoch >> LANE_EPOCH_SHIFT <= frame.epoch:
            lane.open = lane.opening = False

    # --- what the store wants of who takes ---

    def reopen(self, lane: Lane) -> None:
        """Have who takes from the queue open the lane anew, and hand out nothing before."""
        lane.open = False
        self._send((lane.peer, LaneReopen(queue=lane.queue.name)))

    def purged(self, name: str, *, whole: bool) -> None:
        """Queue ``name`` was purged: hand out what comes now; where the ``whole`` queue went, once its lane is opened anew.

        An opening that is under way is that: nothing was handed out in it, and ``LaneOpened`` tells of the queue as it is now.
        """
        lane = self._lanes.all[name]
        lane.damaged = False
        self._ready(name)
        if whole:
            lane.can_read()  # nothing is left to be read
        if whole and not lane.opening:
            lane.fenced = True
            lane.settles.clear()
            self.reopen(lane)

    # --- answers ---

    def owe(self, lane: Lane, number: int) -> None:
        """The taker of ``lane`` is to hear that all up to ``number`` is settled, after the next commit."""
        lane.releasing = True
        lane.settled_number = max(lane.settled_number, number)
        self.owing.add(lane.queue.name)

    def committed(self) -> None:
        """Releases are on record."""
        for name in self.owing:
            lane = self._lanes.all.get(name)
            if lane is not None:
                lane.releasing = False

    def answer(self) -> Effects:
        """Answers that are due and need no commit any more."""
        effects: Effects = []
        for name in tuple(self.owing):
            lane = self._lanes.all.get(name)
            if lane is not None and lane.releasing:
                continue
            self.owing.discard(name)
            if lane is None:
                continue  # the session has ended
            if lane.opening:
                effects.append((lane.peer, lane.opened(receives=self._receives(lane.queue))))
            if lane.settled_number > lane.answered:
                lane.answered = lane.settled_number
                effects.append((lane.peer, Settled(queue=name, epoch=lane.epoch, number=lane.answered)))
        return effects
