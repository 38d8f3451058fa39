"""Overtaking of QoS 0: local clients get such messages before their batch is committed, however long the disk takes.

They stay in the batch that is being built, because bridges want them too and some are retained. A full batch that the store still
does not take loses those that were passed on: no queue gets them, nobody waits for them, and they are counted. Live routing, and
the memory of who has had what, are the Distributor's and ``actors/broker/local_routing.py``'s.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from actors.broker.client_batches import ClientBatches
from actors.broker.listener_interface import ListenerInterface
from actors.process.local_messages import PublishedAhead
from wire.frames.names import DISTRIBUTOR
from wire.frames.sending_link import OVERLAPPING_ROWS_MIN
from wire.status.client_figures import OvertakingFigures

log = logging.getLogger("bascule")

PASS_AFTER_S = 0.005
PASS_MANY_AFTER_S = 0.1  # under full load many messages wait for each commit, and to pass them all on would cost as much again
OVERTAKING_TIMER = "pass"
SHED_ROWS_MIN = 256  # fewer leave a full batch only where there is no room for another one of QoS 0: looking for them costs


class Qos0Overtaking:
    """Passes messages of QoS 0 on when a commit takes long. dropped: those of them that no queue got."""

    def __init__(self, host: ListenerInterface, batches: ClientBatches) -> None:
        self._host = host
        self._link = batches.link
        self._builder = batches.builder
        self._timed = False
        self._passed = 0
        self._sheddable = 0
        self._crowded = False
        self.dropped = 0
        self._told = -1  # the number of the batch behind which messages were dropped that the log tells of

    def figures(self) -> OvertakingFigures:
        """Figures for ``status``: messages that were passed on, and those of them that no queue got because there was no room."""
        return OvertakingFigures(passed=self._passed, dropped=self.dropped)

    def turn_end(self, now_s: float) -> bool:
        """Pass on what has waited long enough; the batch could not be sent in this turn. Whether anything was passed on."""
        if not self._link.outstanding or self._builder.passed_rows == len(self._builder):
            return False
        if self._host.settings.now.rings.window_s:
            return False  # whether it is a copy is judged with its batch
        many = len(self._builder) >= OVERLAPPING_ROWS_MIN
        due_s = self._link.waiting_since_s + (PASS_MANY_AFTER_S if many else PASS_AFTER_S)
        if now_s >= due_s:
            return self._pass_on()
        if not self._timed:
            self._timed = True
            self._host.mailbox.set_timer(OVERTAKING_TIMER, due_s)
        return False

    def on_crowded(self) -> None:
        """There is no room for more messages of QoS 0, and some wait."""
        self._crowded = True

    def on_batch_sent(self) -> None:
        """The batch is on its way, and a new one is begun."""
        self._sheddable = 0
        self._crowded = False

    def on_timer(self) -> None:
        """The timer is due."""
        self._timed = False

    def make_room(self, wanted: Iterable[int]) -> dict[int, int] | None:
        """Drop from the full batch what was passed on, but for the rows ``wanted``.

        Returns: the rows that are left, and where they are now; None if nothing could be dropped.
        """
        rows = len(self._builder)
        if self._builder.passed_rows < rows:
            return None  # it waits for its moment
        if self._sheddable < SHED_ROWS_MIN and not self._crowded:
            return None
        self._crowded = False
        self._sheddable = 0
        places = self._builder.shed(frozenset(wanted))
        dropped = rows - len(places)
        if not dropped:
            return None
        self.dropped += dropped
        if self._told != self._link.committed:
            self._told = self._link.committed
            log.warning("listener.qos_0_dropped", extra={"messages": dropped, "why": "the store has taken nothing for long"})
        return places

    def _pass_on(self) -> bool:
        if not any(client.filters or client.waits_behind for client in self._host.clients()):
            return False  # nobody would get them, nor go on behind them: bridges do, when the batch is committed
        passed = self._builder.pass_on(self._host.mailbox.wall_ms())
        if passed is None:
            return False
        batch, sources = passed
        self._passed += len(batch)
        self._sheddable += len(batch)
        self._host.send(DISTRIBUTOR, PublishedAhead(batch=batch, sources=sources))
        return True
