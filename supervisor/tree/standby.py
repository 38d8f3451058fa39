"""Orders that only the leader of a cluster carries out, given to a node that stands by, or to one that is of no cluster.

A member that stands by has the store's process and no other that speaks to clients or remotes; it says how it is, reads its
configuration again, and wants to lead if it is told to.
"""

from __future__ import annotations

from supervisor.control.control_socket import ControlError, Request
from supervisor.tree.running_children import RunningChildren
from wire.frames.names import CLIENTS
from wire.settings import NodeSettings

_OWN = frozenset({"ping", "status", "stop", "reload", "reload.plan", "cluster.promote", "cluster.forget"})


def stands_by(settings: NodeSettings, children: RunningChildren) -> bool:
    """Whether the node of ``settings``, with these ``children``, follows another one."""
    return settings.replication is not None and CLIENTS not in children


def refuse(request: Request, settings: NodeSettings, children: RunningChildren) -> None:
    """See whether ``request`` is for a node such as this.

    Raises:
        ControlError: it is not; nothing was done.
    """
    if settings.replication is None:
        if request.command.startswith("cluster."):
            text = f"persistence.mode is {settings.persistence.mode}: the node is of no cluster; nothing was done"
            raise ControlError("not_replicated", text, request.request_id)
    elif request.command not in _OWN and stands_by(settings, children):
        text = f"this node stands by: {request.command} is for the one that leads; {_leader(children)}; nothing was done"
        raise ControlError("standby", text, request.request_id)


def _leader(children: RunningChildren) -> str:
    figures = None if children.store_report is None else children.store_report.replication
    if figures is None or not figures.leader:
        return "nobody leads, as far as is known here"
    return f"the leader is {figures.leader}" + (f" at {figures.leader_address}" if figures.leader_address else "")
