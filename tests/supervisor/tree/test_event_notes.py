"""A note reaches the store once it is ready, with what is known of the child that it is about."""

from __future__ import annotations

from supervisor.tree.event_notes import Notes
from tests.supervisor.tree_double import Children
from wire.frames.names import CLIENTS, QUEUE_STORE, STORE
from wire.frames.supervision import NodeEvents
from wire.status.states import ChildState


def test_notes_wait_for_the_store_and_go_once_in_their_order() -> None:
    children = Children()
    notes = Notes(children.mailbox, children.children)
    children.fake.time_s = 2.0
    notes.note("process.ended", child=children.children["bridge:cloud:0"], reason="hung", details={"pid": 7})
    notes.note("process.started", child=children.children[CLIENTS], count=3)
    notes.note("bridge.paused", bridge="cloud", actor="operator")
    notes.send()
    assert children.sent(NodeEvents) == [], "nobody would take them"

    children.children[STORE].state = ChildState.READY
    notes.send()
    notes.send()

    [(peer, frame)] = children.sent(NodeEvents)
    assert peer == QUEUE_STORE
    assert frame.events == (
        (2000, "process.ended", "cloud", 0, "bridge:cloud:0", "hung", 0, {"pid": 7}),
        (2000, "process.started", "", -1, CLIENTS, "", 3, {}),
        (2000, "bridge.paused", "cloud", -1, "operator", "", 0, {}),
    )
