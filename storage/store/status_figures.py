"""Figures of the queues of bridges for ``bascule status``. It changes none but for damage that it meets."""

from __future__ import annotations

from collections.abc import Sequence

from storage.queue.queued_routes import former_rules
from storage.store.lane import Lane
from storage.store.lanes import Lanes
from wire.clock_steps import elapsed_ms
from wire.settings import RuleSettings, SettingsNow
from wire.status.bridges import QueueFigures, RetainedHistory


class LaneFigures:
    """The figures of each of ``lanes``."""

    def __init__(self, lanes: Lanes, settings: SettingsNow) -> None:
        self._lanes = lanes
        self._settings = settings

    def figures(self, now_s: float, wall_ms: int, *, refused: bool) -> dict[str, QueueFigures]:
        """By queue. refused: the disk refuses for now."""
        rules = {bridge.name: bridge.local_subscriptions for bridge in self._settings.now.bridges}
        lanes = self._lanes.of_bridges.items()
        return {
            name: self._of_queue(lane, None if refused else self._oldest_ms(lane, now_s), rules.get(lane.bridge, ()), wall_ms)
            for name, lane in lanes
        }

    def _of_queue(self, lane: Lane, oldest_ms: int | None, rules: Sequence[RuleSettings], wall_ms: int) -> QueueFigures:
        queue, ledger, history = lane.queue, lane.queue.ledger, lane.queue.trimming
        return QueueFigures(
            depth=queue.depth,
            bytes=queue.size_bytes,
            oldest_age_s=elapsed_ms(oldest_ms, wall_ms) / 1000 if oldest_ms is not None else None,
            accepted=ledger.accepted,
            delivered=ledger.delivered,
            expired=ledger.expired,
            dropped=dict(ledger.dropped),
            dead_lettered=sum(ledger.dead.values()),
            redelivered=ledger.redelivered,
            refused=ledger.refused,
            ledger_closes=ledger.closes(queue.depth),
            end_to_end_seconds=lane.end_to_end.figures() if lane.end_to_end is not None else None,
            waits_for_lanes=tuple(self._lanes.changes.waits_for(lane)),
            former_rules=former_rules(queue, rules),
            retained=RetainedHistory(messages=history.retained(queue.head), bytes=history.size_bytes),
        )

    def _oldest_ms(self, lane: Lane, now_s: float) -> int | None:
        oldest: list[int | None] = [None]
        if not lane.is_stopped and lane.unread is None:
            self._lanes.read(lane, now_s, lambda: oldest.__setitem__(0, lane.queue.oldest_ms()))
        return oldest[0]
