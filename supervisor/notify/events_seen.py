"""The node's stored events: which were looked at already, and which are new."""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.control.client import ControlClient
from supervisor.control.control_socket import ControlError, NotRunning
from wire.status.answers import Event
from wire.status.node_status import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsSeen:
    """next: the number of the next that is looked at; None before the first look. store: in which it has that number."""

    next: int | None = None
    store: str = ""


def new_events(node: ControlClient, status: Status, seen: EventsSeen) -> tuple[list[Event], EventsSeen]:
    """Those that came since, as ``status`` says of which store; a node that stands by, or keeps none, has none.

    Another store than before numbers its events anew: of that, those of this run of the node are new. So it is with the store
    that a node comes to lead with: others have told of what happened to them.
    """
    if status.replication is not None and status.replication.role == "standby":
        return [], EventsSeen(next=0)
    store = status.store
    if store is None or store.since_ms is None:
        return [], seen
    name = f"{store.store_id}/{store.since_ms}"
    try:
        if seen.next is None:
            return [], EventsSeen(next=node.events(0, 1).until, store=name)
        first = node.events(seen.next)
        if name != seen.store or first.until < seen.next:
            began_ms = status.supervisor.started_at_ms or 0
            events = node.all_events()
            return [each for each in events if each.at_ms >= began_ms], EventsSeen(next=_behind(events, 0), store=name)
        events = [*first.events, *(node.all_events(first.next) if first.next < first.until else ())]
        return events, EventsSeen(next=_behind(events, seen.next), store=name)
    except (ControlError, NotRunning):
        return [], seen


def _behind(events: list[Event], number: int) -> int:
    return events[-1].number + 1 if events else number
