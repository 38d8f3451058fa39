"""Settlements of messages that were handed out, as their Forwarder and Connection report them: they leave the queue with the next
commit.

store.old-epoch-changes-nothing: frames of an old epoch change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from storage.queue.queue import Queue
from storage.store.dead_letter_queues import DeadLetterQueues, Remains
from storage.store.lane import Lane
from storage.store.lanes import Lanes
from storage.store.next_commit import NextCommit
from storage.store.remote_sessions import RemoteSessions
from wire.errors import ConfigError, Unavailable
from wire.exchange.left_sessions import left_rows
from wire.frames.lanes import Settle


class Settlements:
    """Applies each lane's in order. One that needs chunks that cannot be read for now waits, and so do those behind it.

    waiting: the queues of which some wait until they can be read.
    """

    def __init__(
        self,
        lanes: Lanes,
        dead_letters: DeadLetterQueues,
        remote_sessions: RemoteSessions,
        next_commit: NextCommit,
    ) -> None:
        self._lanes = lanes
        self._dead_letters = dead_letters
        self._remote_sessions = remote_sessions
        self._next = next_commit
        self.waiting: set[str] = set()

    def receive(self, frame: Settle, now_s: float, wall_ms: int) -> None:
        """Take one frame."""
        lane = self._lanes.all.get(frame.queue)
        if lane is not None and lane.wait(frame):
            self._settle(frame.queue, lane, now_s, wall_ms)

    def try_again(self, now_s: float, wall_ms: int) -> None:
        """Try again, where it is time, what could not be settled because it could not be read."""
        for name in tuple(self.waiting):
            lane = self._lanes.all.get(name)
            if lane is None or not lane.settles:  # the session has ended, or the lane was opened anew
                self.waiting.discard(name)
            elif now_s >= lane.retry_s:
                self._next.time.hurry()  # its answer has waited long enough
                self._settle(name, lane, now_s, wall_ms)
                if not lane.settles:
                    self.waiting.discard(name)
                    self._lanes.ready.add(name)
                    lane.mark_readable()

    def _settle(self, name: str, lane: Lane, now_s: float, wall_ms: int) -> None:
        """Apply what waits of ``lane`` in order, until one needs what cannot be read for now; that one and the rest wait."""
        while lane.settles:
            frame = lane.settles[0]
            remains: list[Remains] | None = None
            try:
                remains = self._read_remains(frame, lane.queue)
                self._apply(frame, lane, remains)
            except ConfigError as error:
                self.waiting.discard(name)
                lane.stop(error)
                return
            except Unavailable as error:
                self.waiting.add(name)
                if remains is None:
                    lane.mark_unreadable(error, now_s)
                else:  # it was read, so this is more than that; what is applied of it waits with the open write
                    self._next.disk.refuses(error, now_s, wall_ms)
                return
            lane.on_settled()

    def _read_remains(self, frame: Settle, queue: Queue) -> list[Remains]:
        """Do the reading that ``frame`` needs before anything changes; what is to be kept of those that died, in their order."""
        remains = []
        for outcome, ranges in frame.settled:
            if outcome.startswith("dead:"):
                remains.append(self._dead_letters.read(queue, ranges))
            elif outcome != "redelivered":
                queue.preload_waiting(ranges)
        return remains

    def _apply(self, frame: Settle, lane: Lane, remains: Iterable[Remains]) -> None:
        queue, by, dead = lane.queue, lane.by[frame.number > 0], iter(remains)
        for outcome, ranges in frame.settled:
            if outcome.startswith("dead:"):
                self._dead_letters.keep(lane.bridge, queue, outcome, ranges, next(dead), by=by)
            elif outcome != "redelivered":
                lane.settle(outcome, ranges, by=by, times=frame.times)
        for outcome, ranges in frame.settled:
            if outcome == "redelivered":
                queue.count_redelivered(ranges, by=by)
        if frame.session is not None:  # the Forwarder, which settles QoS 0, knows neither session nor generation
            if queue.sent.new_session(frame.generation, frame.session, left_rows(frame.left)):
                self._remote_sessions.record(queue)
        elif not frame.released:
            return
        if frame.released:
            queue.release(frame.released)
        self._lanes.owe(lane, frame.number)
        self._next.promise()
