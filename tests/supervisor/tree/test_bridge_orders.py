"""An operator's orders to a bridge: what is done, and what is refused before anything is."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.control.control_socket import ControlError, Request
from supervisor.tree import bridge_orders
from supervisor.tree.child_lives import Lives
from supervisor.tree.event_notes import Notes
from tests.supervisor.tree_double import Children
from wire.frames.supervision import Command, Stop
from wire.status.answers import BridgeOrdered

LANE, CONNECTION = "bridge:cloud:0", "connection:cloud:0"


class Orders(Children):
    """All children run."""

    def __init__(self) -> None:
        super().__init__()
        self.notes = Notes(self.mailbox.wall_ms)
        self.lives = Lives(self.mailbox, self.current, self.children, self.notes, lambda status: None)
        for child in self.children:
            self.lives.spawn(child)

    def obey(self, verb: str, bridge: str = "cloud") -> BridgeOrdered:
        request = Request(request_id=7, command=f"bridge.{verb}", arguments={"bridge": bridge})
        return bridge_orders.obey(request, self.children, self.lives, self.notes, Path(self.current.now.run_dir))


def test_a_pause_is_kept_told_to_the_connection_and_noted() -> None:
    orders = Orders()
    assert orders.obey("pause") == BridgeOrdered(bridge="cloud", processes=(LANE,))
    assert orders.pauses.since_ms("cloud") is not None
    assert orders.obey("resume").processes == (LANE,)
    assert orders.pauses.since_ms("cloud") is None

    assert orders.sent(Command) == [(CONNECTION, Command(verb="pause")), (CONNECTION, Command(verb="resume"))]
    told = orders.notes.take()
    assert told is not None
    assert [(event[1], event[2], event[4]) for event in told.events] == [
        ("bridge.paused", "cloud", "operator"),
        ("bridge.resumed", "cloud", "operator"),
    ]


def test_a_restart_has_the_lanes_processes_begin_anew() -> None:
    orders = Orders()
    orders.obey("restart")

    assert [peer for peer, _ in orders.sent(Stop)] == [LANE]
    assert orders.children[LANE].ordered
    assert orders.children[LANE].dials


@pytest.mark.parametrize("verb", ["pause", "resume", "restart"])
def test_a_bridge_that_is_not_there_and_a_node_that_stops_do_nothing(verb: str) -> None:
    orders = Orders()
    with pytest.raises(ControlError, match="known: cloud") as unknown:
        orders.obey(verb, "nowhere")
    orders.lives.stop_all()
    orders.fake.sent.clear()
    with pytest.raises(ControlError, match="the node is stopping") as stopping:
        orders.obey(verb)

    assert (unknown.value.kind, stopping.value.kind) == ("unknown_bridge", "stopping")
    assert (unknown.value.request_id, stopping.value.request_id) == (7, 7)
    assert [(peer, frame) for peer, frame in orders.fake.sent if isinstance(frame, Command | Stop)] == []


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_a_disk_that_does_not_keep_it_leaves_the_bridge_as_it_is(verb: str) -> None:
    orders = Orders()
    orders.pauses.refuses = True

    with pytest.raises(ControlError, match="No space left on device; nothing was done") as refused:
        orders.obey(verb)

    assert refused.value.kind == "unavailable"
    assert orders.sent(Command) == []
