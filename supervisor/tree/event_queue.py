"""Events of the node on their way to the store: they wait until it is ready, and go in batches. Bounded. Pure."""

from __future__ import annotations

from wire.frames.supervision import NodeEvents

WAITING_MAX = 1000

Detail = str | int | float | bool
_Event = tuple[int, str, str, int, str, str, int, dict[str, Detail]]


class EventQueue:
    """Events that were not sent yet; the oldest give way."""

    def __init__(self) -> None:
        self._waiting: list[_Event] = []
        self._lost = 0

    def add(
        self,
        at_ms: int,
        kind: str,
        *,
        bridge: str = "",
        lane: int = -1,
        actor: str = "",
        reason: str = "",
        count: int = 0,
        details: dict[str, Detail] | None = None,
    ) -> None:
        """Take one; the fields are those of ``storage/store/event_rows.py``."""
        self._waiting.append((at_ms, kind, bridge, lane, actor, reason, count, details or {}))
        if len(self._waiting) > WAITING_MAX:
            del self._waiting[0]
            self._lost += 1

    def take(self, at_ms: int) -> NodeEvents | None:
        """All that wait, to be sent; None if there are none."""
        if self._lost:
            self._waiting[0] = (at_ms, "events.lost", "", -1, "supervisor", "", self._lost + 1, {})
            self._lost = 0
        if not self._waiting:
            return None
        waiting, self._waiting = self._waiting, []
        return NodeEvents(events=tuple(waiting))
