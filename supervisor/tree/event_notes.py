"""Events of the node and its processes, for the store to keep: noted at any time, sent when the store can take them."""

from __future__ import annotations

from actors.process.mailbox import Mailbox
from supervisor.tree.event_queue import Detail, EventQueue
from supervisor.tree.running_children import Child, RunningChildren
from wire.frames.names import QUEUE_STORE, STORE
from wire.status.states import ChildState


class Notes:
    """The events that the supervisor tells."""

    def __init__(self, mailbox: Mailbox, children: RunningChildren) -> None:
        self._mailbox = mailbox
        self._children = children
        self._events = EventQueue()

    def note(
        self,
        kind: str,
        *,
        child: Child | None = None,
        bridge: str = "",
        actor: str = "",
        reason: str = "",
        count: int = 0,
        details: dict[str, Detail] | None = None,
    ) -> None:
        """Have the store keep what happened; the fields are those of ``storage/store/event_rows.py``, those of ``child`` are
        known.
        """
        lane = -1
        if child is not None:
            actor, bridge = child.name, child.spec.bridge or ""
            lane = -1 if child.spec.lane is None else child.spec.lane
        self._events.add(
            self._mailbox.wall_ms(), kind, bridge=bridge, lane=lane, actor=actor, reason=reason, count=count, details=details
        )

    def send(self) -> None:
        """Send what was noted, if the store is ready; else it waits."""
        if self._children[STORE].state is ChildState.READY and (frame := self._events.take(self._mailbox.wall_ms())) is not None:
            self._mailbox.send(QUEUE_STORE, frame)
