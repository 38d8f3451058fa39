"""Orders that a node of a cluster, or of none, refuses because they are for another one."""

from __future__ import annotations

from typing import Any, cast

import pytest

from supervisor.control.control_socket import COMMANDS, ControlError, Request
from supervisor.tree.running_children import RunningChildren
from supervisor.tree.supervisor import refuse
from tests.support.settings import node
from wire.config_settings import ReplicationSettings
from wire.figure import of_map
from wire.frames.names import CLIENTS, STORE
from wire.status.store import StoreReport

ALONE = node()
MEMBER = node(replication=ReplicationSettings(servers=("nats://h:1",), stream="site", member="a"))
CLUSTER = {command for command in COMMANDS if command.startswith("cluster.")}


class Rows(dict[str, None]):
    """As much of the children as is asked for: which there are, and what the store says of the cluster."""

    store_report: StoreReport | None = None

    @property
    def stands_by(self) -> bool:
        return CLIENTS not in self


def children(*names: str, **replication: Any) -> RunningChildren:
    rows = Rows(dict.fromkeys((*names, STORE)))
    if replication:
        rows.store_report = of_map(StoreReport, {"replication": replication})
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


def test_whoever_leads_refuses_nothing() -> None:
    assert [command for command in COMMANDS if refused(command, children(CLIENTS))] == []


def test_whoever_stands_by_says_who_leads() -> None:
    own = {command for command in COMMANDS if not refused(command, children())}
    assert own == {"ping", "status", "history", "stop", "reload", "reload.plan", "cluster.promote", "cluster.remove"}

    said = "this node stands by: queue.list is for the one that leads; {}; nothing was done"
    assert refused("queue.list", children()) == said.format("nobody leads, as far as is known here")
    assert refused("queue.list", children(leader="b", leader_address="")) == said.format("the leader is b")
    assert refused("queue.list", children(leader="b", leader_address="h:1")) == said.format("the leader is b at h:1")
