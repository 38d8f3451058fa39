"""What leaves the head of the queues: messages are handed out as far as credit goes, expire there, or give way to newer ones.

What is damaged is taken out of its queue; a queue that cannot be read for now is tried again by itself.

store.hand-out-after-commit: nothing is handed out before its commit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from storage.queue.waiting_messages import TooOld
from storage.store.lane import Effects, Lane
from storage.store.lane_changes import LaneChanges
from storage.store.lanes import Lanes
from storage.store.next_commit import NextCommit
from wire.clock_steps import elapsed_ms
from wire.errors import ConfigError, StorageDamaged, Unavailable

ISOLATED_MAX = 1000  # damaged places of a queue in one turn


class HandOuts:
    """Takes from the ``queues`` that are ready: those in which something may have come to be handed out. ``ready`` adds one.

    durable: whether what is committed outlives the process.
    """

    def __init__(self, lanes: Lanes, lane_changes: LaneChanges, next_commit: NextCommit, *, durable: bool) -> None:
        self.queues: set[str] = set()
        self.ready: Callable[[str], None] = self.queues.add
        self._lanes = lanes
        self.lane_changes = lane_changes
        self._next = next_commit
        self.durable = durable

    def all_ready(self) -> None:
        """Every queue may have something."""
        self.queues.update(self._lanes.all)

    def hand_out(self, now_s: float, wall_ms: int) -> Effects:
        """Hand out what may be; ``at_once`` of the next commit tells whether more can be after it."""
        effects: Effects = []
        if self.lane_changes.waiting:
            self.queues.update(self.lane_changes.look())
        for name in tuple(self.queues):
            self.queues.discard(name)
            lane = self._lanes.all.get(name)
            if lane is None:
                continue  # the session has ended
            if not lane.open or lane.damaged or lane.discarding or not lane.queue.waiting():
                continue
            if lane.unreadable is not None and now_s < lane.retry_s:
                self.queues.add(name)
                continue
            self.read(lane, now_s, lambda: self._hand_out(name, lane, wall_ms, effects))  # noqa: B023
            self._next.at_once |= lane.queue.losses  # who takes from it may have to open the lane anew
        return effects

    def _hand_out(self, name: str, lane: Lane, wall_ms: int, effects: Effects) -> None:
        queue = lane.queue
        too_old = _older_than(lane.max_age_s, wall_ms) if lane.max_age_s is not None else None
        below = self.lane_changes.below(lane)
        more = True
        while more and not lane.discarding:
            if not lane.has_credit:
                return
            messages = lane.credit_messages - lane.given_messages
            size_bytes = lane.credit_bytes - lane.given_bytes
            on_disk_before = queue.depth_on_disk
            try:
                pieces = queue.hand_out(messages, size_bytes, too_old=too_old, below=below)
            finally:
                self._next.at_once |= self._hold_behind(name, lane, on_disk_before)
            if queue.wants_mark:
                self._next.at_once = True
                self._lanes.changed.add(name)
                self.queues.add(name)
            if pieces:
                lane.can_read()
                effects += lane.give(pieces)
            more = queue.cut_short  # nobody else would see to what could not be read

    def expire(self, now_s: float, wall_ms: int) -> None:
        """Take what has grown too old out of the queues that nobody takes from."""
        for name, lane in self._lanes.all.items():
            if lane.max_age_s is not None and not lane.damaged and now_s >= lane.retry_s and lane.queue.waiting():
                self.read(lane, now_s, partial(self._expire, name, lane, _older_than(lane.max_age_s, wall_ms)))

    def _expire(self, name: str, lane: Lane, too_old: TooOld) -> None:
        on_disk_before = lane.queue.depth_on_disk
        try:
            lane.queue.expire(too_old)
        finally:
            self._next.at_once |= self._hold_behind(name, lane, on_disk_before)

    def drop_oldest(self, name: str, messages: int, size_bytes: int, now_s: float) -> tuple[int, int]:
        """Drop the oldest of a queue to make room for so much; the messages and the bytes by which it is smaller now."""
        lane = self._lanes.all[name]
        if lane.damaged:
            return 0, 0
        queue = lane.queue
        messages_before, bytes_before, on_disk_before = queue.depth, queue.size_bytes, queue.depth_on_disk
        try:
            queue.drop_oldest(messages, size_bytes)
        except StorageDamaged as error:
            queue.isolate(error)
        except Unavailable as error:
            lane.cannot_read(error, now_s)
        self._hold_behind(name, lane, on_disk_before)
        return messages_before - queue.depth, bytes_before - queue.size_bytes

    def _hold_behind(self, name: str, lane: Lane, on_disk_before: int) -> bool:
        """Whether the queue has lost some that were on disk: then nothing behind them is handed out before the next commit, synced.

        A crash would bring them back, and they would leave behind newer ones of their topic (P4).
        """
        if lane.queue.depth_on_disk >= on_disk_before or not self.durable:
            return False
        self._next.needs_sync = True
        if not lane.discarding:
            lane.discarding = True
            self._next.write.on_commit(partial(self._has_discarded, name))
        return True

    def _has_discarded(self, name: str) -> None:
        lane = self._lanes.all.get(name)
        if lane is not None:
            lane.discarding = False
            self.queues.add(name)

    def read(self, lane: Lane, now_s: float, action: Callable[[], None]) -> None:
        """Do ``action`` on a queue; what is damaged is taken out of it. One that cannot be read for now is tried again, alone."""
        try:
            for _ in range(ISOLATED_MAX):
                try:
                    action()
                    return
                except StorageDamaged as error:
                    lane.queue.isolate(error)
            self.queues.add(lane.queue.name)
        except ConfigError as error:
            lane.stop(error)
        except Unavailable as error:
            self.queues.add(lane.queue.name)
            lane.cannot_read(error, now_s)


def _older_than(max_age_s: float, wall_ms: int) -> TooOld:
    return lambda accepted_ms: elapsed_ms(accepted_ms, wall_ms) > max_age_s * 1000
