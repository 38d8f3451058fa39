"""How strongly a batch of clients' messages is to be kept: the strictest of the listeners by which its clients came.

Where one waits for its flush period, and something comes that need not, the store is asked to commit at once. Nothing is looked at
where all listeners and bridges are as the store. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from wire.config_settings import SettingsNow
from wire.durability import Durabilities, Durability
from wire.frames.names import lane_of_queue
from wire.routing.bridge_rules import BridgeRules


class BatchDurability:
    """Of the batch that is being built, and of those on their way. differ: some listeners or bridges are not as the store."""

    def __init__(self, settings: SettingsNow, want_commit: Callable[[], None]) -> None:
        """want_commit: has what was sent committed at once."""
        self._settings = settings
        self._want_commit = want_commit
        self._hurried = 0  # the number of the last batch for which a commit was asked
        self.on_settings_changed()

    def on_settings_changed(self) -> None:
        """Others hold from the next batch on."""
        settings = self._settings.now
        self._durabilities = Durabilities(settings)
        self.differ = self._durabilities.differ
        self._router = BridgeRules(settings.bridges if self.differ else ())

    def of(self, listeners: Iterable[str]) -> Durability | None:
        """The strictest of listeners, by where they listen; None: the store's, where there are none. Where none ``differ``, that is
        not asked.
        """
        durabilities, strictest = self._durabilities, None
        for listener in listeners:
            one = durabilities.of_listeners.get(listener, durabilities.own)
            strictest = one if strictest is None else strictest.with_that(one)
        return strictest

    def hurry(self, last: int, sent: Durability | None, waiting: Durability | None, topics: Iterable[bytes]) -> None:
        """Have what was ``sent`` committed at once, the newest being ``last``, if what waits behind it is not to wait so long.

        waiting, topics: of that.
        """
        durabilities = self._durabilities
        period_s = (sent or durabilities.own).flush_period_s
        if last == self._hurried or not period_s:
            return
        if (waiting or durabilities.own).flush_period_s < period_s or any(self._hurries(topic, period_s) for topic in topics):
            self._hurried = last
            self._want_commit()

    def _hurries(self, topic: bytes, period_s: float) -> bool:
        """Whether a bridge that gets ``topic`` has it committed sooner."""
        of_bridge = self._durabilities.of_bridge
        lanes = (lane_of_queue(route.queue) for route in self._router.route(topic))
        return any(of_bridge(lane.bridge).flush_period_s < period_s for lane in lanes if lane is not None)
