"""Notes wait for a store that takes them, with what is known of the child that they are about; the oldest give way."""

from __future__ import annotations

from supervisor.tree.event_notes import WAITING_MAX, Notes
from wire.frames.names import CLIENTS
from wire.status.event_kinds import EventKind


def test_notes_wait_and_are_taken_once_in_their_order() -> None:
    notes = Notes(lambda: 2000)
    notes.note(EventKind.PROCESS_ENDED, actor="bridge:cloud:0", reason="hung", details={"pid": 7})
    notes.note(EventKind.PROCESS_STARTED, actor=CLIENTS, count=3)
    notes.note(EventKind.BRIDGE_PAUSED, bridge="cloud", actor="operator")

    frame = notes.take()

    assert notes.take() is None
    assert frame is not None
    assert frame.events == (
        (2000, "process.ended", "cloud", 0, "bridge:cloud:0", "hung", 0, {"pid": 7}),
        (2000, "process.started", "", -1, CLIENTS, "", 3, {}),
        (2000, "bridge.paused", "cloud", -1, "operator", "", 0, {}),
    )


def test_so_many_wait_and_how_many_were_lost_is_told() -> None:
    notes = Notes(lambda: 1)
    for number in range(WAITING_MAX + 2):
        notes.note(EventKind.PROCESS_STARTED, count=number)

    frame = notes.take()

    assert frame is not None
    assert len(frame.events) == WAITING_MAX
    assert frame.events[0] == (1, "events.lost", "", -1, "supervisor", "", 3, {})
    assert frame.events[1][6] == 3
