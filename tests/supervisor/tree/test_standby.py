"""What a node of a cluster, or of none, refuses because it is for another one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from supervisor.control.control_socket import COMMANDS, ControlError, Request
from supervisor.tree.running_children import RunningChildren
from supervisor.tree.standby import refuse, stands_by
from tests.support.settings import node
from wire.frames.names import CLIENTS, QUEUE_STORE, STORE
from wire.settings import ReplicationSettings

ALONE = node()
MEMBER = node(replication=ReplicationSettings(servers=("nats://h:1",), stream="site", member="a"))
CLUSTER = {command for command in COMMANDS if command.startswith("cluster.")}


@dataclass
class Row:
    """As much of a child as is asked for."""

    figures: dict[str, dict[str, Any]] = field(default_factory=dict)


def children(*names: str, **replication: Any) -> RunningChildren:
    """Rows of ``names``; what the store says of the cluster."""
    rows = {name: Row() for name in names}
    rows[STORE] = Row({QUEUE_STORE: {"replication": replication}} if replication else {})
    return cast(RunningChildren, rows)


def refused(command: str, rows: RunningChildren) -> str | None:
    try:
        refuse(Request(request_id=1, command=command, arguments={}), MEMBER, rows)
    except ControlError as error:
        return error.message if (error.kind, error.request_id) == ("standby", 1) else f"{error.kind}: {error.message}"
    return None


def test_a_node_of_no_cluster_refuses_what_is_about_one() -> None:
    for command in COMMANDS:
        if command in CLUSTER:
            with pytest.raises(ControlError, match="the node is of no cluster") as error:
                refuse(Request(request_id=1, command=command, arguments={}), ALONE, children(CLIENTS))
            assert error.value.kind == "not_replicated"
        else:
            refuse(Request(request_id=1, command=command, arguments={}), ALONE, children(CLIENTS))
    assert not stands_by(ALONE, children())


def test_whoever_leads_refuses_nothing() -> None:
    assert [command for command in COMMANDS if refused(command, children(CLIENTS))] == []


def test_whoever_stands_by_says_who_leads() -> None:
    own = {command for command in COMMANDS if not refused(command, children())}
    assert own == {"ping", "status", "stop", "reload", "reload.plan", "cluster.promote", "cluster.forget"}

    said = "this node stands by: queue.ls is for the one that leads; {}; nothing was done"
    assert refused("queue.ls", children()) == said.format("nobody leads, as far as is known here")
    assert refused("queue.ls", children(leader="b", leader_address="")) == said.format("the leader is b")
    assert refused("queue.ls", children(leader="b", leader_address="h:1")) == said.format("the leader is b at h:1")
