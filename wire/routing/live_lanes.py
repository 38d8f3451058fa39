"""The lane beside a backlog, of bridges whose ``backlog`` is ``live-first``: what is accepted anew leaves by it. Pure.

Such a bridge has one lane over which topics are spread, and ``LIVE`` beside that. A backlog begins when the oldest message of the
first lane has waited for longer than ``BACKLOG_MS``, and where messages wait as the store opens or is told of the setting. It ends
when both lanes are empty. Nothing of this is on record: a message is in the queue in which it was accepted.

routing.live-beside-backlog [P4, alive]: what is accepted for the first lane during a backlog goes into the lane beside it, as
    long as that has a link. So a remote that takes one connection only has all in order, as ever. While the link stands, nothing
    goes back into the first lane as long as something waits beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from wire.clock_steps import elapsed_ms
from wire.config_settings import BACKLOG_MS, LIVE, LIVE_FIRST, SettingsNow
from wire.frames.intake import Append
from wire.frames.names import queue_name


class _Queue(Protocol):
    @property
    def depth(self) -> int: ...


class _Lane(Protocol):
    """What this asks of a lane of the store."""

    @property
    def queue(self) -> _Queue: ...

    @property
    def is_linked(self) -> bool: ...


class LiveLanes:
    """Which first lanes have a backlog. backlogs: by queue; without any, ``divert`` need not be called."""

    def __init__(self, settings: SettingsNow, lanes: Mapping[str, _Lane]) -> None:
        """lanes: every queue of a bridge that there is, by name."""
        self._settings = settings
        self._lanes = lanes
        self._beside: dict[str, str] = {}  # queue of a first lane -> of the one beside it
        self.backlogs: set[str] = set()
        self.settings_changed()

    def settings_changed(self) -> None:
        """Bridges may want such a lane from now on, or no more. What waits where one is new is a backlog."""
        before = self._beside
        wanting = [bridge.name for bridge in self._settings.now.bridges if bridge.backlog == LIVE_FIRST]
        self._beside = {queue_name(bridge, 0): queue_name(bridge, LIVE) for bridge in wanting}
        self.backlogs &= self._beside.keys()
        for queue in self._beside.keys() - before.keys():
            if self._waits(queue):
                self.backlogs.add(queue)

    def look(self, oldest_ms: Callable[[str], int | None], wall_ms: int) -> None:
        """Find backlogs that begin or end; call it about once a second. oldest_ms: when the oldest of a queue was accepted."""
        self.backlogs = set(filter(self._waits, self.backlogs))
        for queue in [queue for queue in self._beside if queue not in self.backlogs]:
            since_ms = oldest_ms(queue) if self._lanes[queue].queue.depth else None
            if since_ms is not None and elapsed_ms(since_ms, wall_ms) > BACKLOG_MS:
                self.backlogs.add(queue)

    def divert(self, frame: Append) -> Append:
        """``frame`` with what is for a lane that has a backlog in the queue beside it."""
        others = {}
        for queue, *_ in frame.parts:
            if queue in self.backlogs:
                if not self._waits(queue):
                    self.backlogs.discard(queue)
                elif self._lanes[self._beside[queue]].is_linked:
                    others[queue] = self._beside[queue]
        if not others:
            return frame
        return replace(
            frame,
            parts=tuple((others.get(part[0], part[0]), *part[1:]) for part in frame.parts),
            raised={others.get(queue, queue): rows for queue, rows in frame.raised.items()},
        )

    def gives_way(self, queue: str) -> str:
        """The queue whose oldest messages make room for what comes into ``queue``: the backlog's, where it is beside one."""
        return next((first for first in self.backlogs if self._beside[first] == queue and self._lanes[first].queue.depth), queue)

    def _waits(self, queue: str) -> bool:
        """Whether something is in the first lane or beside it."""
        return bool(self._lanes[queue].queue.depth or self._lanes[self._beside[queue]].queue.depth)
