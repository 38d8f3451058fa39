"""Events of the node and its processes on their way to the store: they wait until it is ready, and go in batches. Bounded. Pure."""

from __future__ import annotations

from collections.abc import Callable

from wire.frames.names import LaneLabel, bridge_of_child, lane_of_queue
from wire.frames.supervision import NodeEvents
from wire.status.event_kinds import EventKind

WAITING_MAX = 1000

Detail = str | int | float | bool
_Event = tuple[int, str, str, LaneLabel, str, str, int, dict[str, Detail]]


class Notes:
    """The events that the supervisor tells and has not sent yet; the oldest give way. wall_ms: the clock that they go by."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._waiting: list[_Event] = []
        self._lost = 0

    def note(
        self,
        kind: EventKind,
        *,
        actor: str = "",
        bridge: str = "",
        reason: str = "",
        count: int = 0,
        details: dict[str, Detail] | None = None,
    ) -> None:
        """Have the store keep what happened; the fields are those of ``storage/store/event_rows.py``. Of a lane's child as
        ``actor``, bridge and lane are known.
        """
        lane = lane_of_queue(actor) if bridge_of_child(actor) is not None else None
        bridge, label = (bridge, -1) if lane is None else lane
        self._waiting.append((self._wall_ms(), kind, bridge, label, actor, reason, count, details or {}))
        if len(self._waiting) > WAITING_MAX:
            del self._waiting[0]
            self._lost += 1

    def take(self) -> NodeEvents | None:
        """All that wait, to be sent to a store that is ready; None if there are none."""
        if self._lost:
            self._waiting[0] = (self._wall_ms(), EventKind.EVENTS_LOST, "", -1, "supervisor", "", self._lost + 1, {})
            self._lost = 0
        if not self._waiting:
            return None
        waiting, self._waiting = self._waiting, []
        return NodeEvents(events=tuple(waiting))
