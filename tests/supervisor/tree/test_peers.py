"""Receivers of the supervisor's words on whose lives, and what it says of a life that has not spoken yet."""

from __future__ import annotations

from supervisor.tree.process_rows import actor_states
from tests.supervisor.tree_double import Tree
from wire.frames.names import CLIENTS, STORE
from wire.frames.supervision import PeerUp

LANE = "bridge:cloud:0"


def told(tree: Tree) -> list[tuple[str, str, int]]:
    return [(peer, frame.name, frame.epoch) for peer, frame in tree.sent(PeerUp)]


def states(tree: Tree) -> dict[str, str]:
    return actor_states(tree.children)


def test_each_process_is_told_once_of_each_actor_that_is_ready_and_the_new_one_of_all() -> None:
    tree = Tree()
    tree.ends(CLIENTS)
    tree.begins(CLIENTS)
    tree.sent(PeerUp)

    tree.beat(CLIENTS, "starting")
    known = [(child.name, child.life.epoch) for child in tree.children if child.life is not None]
    epochs = dict(known)
    lane = [(CLIENTS, f"{kind}:cloud:0", epochs[LANE]) for kind in ("connection", "forwarder")]
    assert told(tree) == [(CLIENTS, "queue_store", epochs[STORE]), *lane]

    tree.beat(CLIENTS, "starting", distributor="ready")
    of_distributor = [(peer, "distributor", epochs[CLIENTS]) for peer in (STORE, LANE)]
    assert [row for row in told(tree) if row[0] != CLIENTS] == of_distributor

    tree.beat(CLIENTS, "ready")
    assert told(tree) == [(peer, "listener", epochs[CLIENTS]) for peer in (STORE, LANE)]
    tree.beat(CLIENTS, "ready")
    assert told(tree) == []


def test_a_process_that_starts_is_told_only_of_actors_that_are_ready() -> None:
    tree = Tree()
    for name in (CLIENTS, STORE):
        tree.ends(name)
        tree.begins(name)
    tree.beat(CLIENTS, "starting", distributor="ready")
    tree.sent(PeerUp)

    tree.beat(STORE, "starting")

    assert [name for peer, name, _ in told(tree) if peer == STORE] == ["connection:cloud:0", "forwarder:cloud:0", "distributor"]


def test_what_a_former_life_said_of_its_actors_is_not_said_of_the_next() -> None:
    tree = Tree()
    assert states(tree)["listener"] == "ready"
    tree.ends(CLIENTS)
    assert states(tree)["listener"] == "restarting"

    tree.begins(CLIENTS)
    assert (states(tree)["listener"], states(tree)["distributor"]) == ("starting", "starting")

    tree.beat(CLIENTS, "starting", distributor="ready")
    assert (states(tree)["listener"], states(tree)["distributor"]) == ("starting", "ready")
