"""``bascule cluster``: who leads, how far the others are; have another member lead, remove one. The node must run."""

from __future__ import annotations

import json

import click

from supervisor.cli.completion import names
from supervisor.cli.node_calls import JSON, GivenNode, about_node, told
from supervisor.terminal.cluster_text import SILENT_S, lasting
from wire.errors import BasculeError
from wire.figure import to_map
from wire.status.node_status import Status
from wire.status.replication_figures import ReplicationFigures


class NoCluster(BasculeError):
    """The node is of no cluster."""

    exit_status = 1


@click.group()
def cluster() -> None:
    """Look at a replicated node's cluster, and say who leads."""


@cluster.command()
@about_node()
@JSON
def show(node: GivenNode, as_json: bool) -> int:
    """Show which member leads, and how far each one has come.

    The exit status is 0 if a member leads and the log can be used, and 1 if not. Each member is shown as of its last report; it may
    have caught up since.
    """
    status = node.client.status()
    figures = _figures(status)
    if as_json:
        print(json.dumps({"node": status.node, **to_map(figures)}))
    else:
        from supervisor.terminal.cluster_view import print_cluster

        print_cluster(status.node, figures)
    return 0 if figures.log == "ready" and figures.leader else 1


@cluster.command()
@about_node()
@JSON
def promote(node: GivenNode, as_json: bool) -> int:
    """Make this node the leader.

    The current leader steps down for it as soon as it reads the request. If the leader is gone, a member takes over by itself at
    the end of the lease.
    """
    answer = node.client.promote()
    if answer.leads:
        return told(answer, as_json, "it leads already")
    by = f"{answer.asked} is asked to step down for it" if answer.asked else "nobody is asked, and it leads as soon as it can"
    if answer.asked and answer.silent_s > SILENT_S:
        by += f", and has said nothing for {lasting(answer.silent_s)}"
    return told(answer, as_json, f"{by}; bascule cluster show CONFIG shows when it leads")


@cluster.command("step-down")
@about_node()
@click.option(
    "--to",
    shell_complete=names("member"),
    metavar="MEMBER",
    help="The member that is to lead next; without it, the first that can.",
)
@JSON
def step_down(node: GivenNode, to: str | None, as_json: bool) -> int:
    """Let another member lead instead of this node.

    Its clients are disconnected and its bridges end their connections. It stands by from then on.
    """
    answer = node.client.step_down(to)
    return told(answer, as_json, f"it steps down; {answer.to or 'another member'} leads in a moment")


@cluster.command()
@about_node(member="MEMBER")
@JSON
def remove(node: GivenNode, member: str, as_json: bool) -> int:
    """Remove MEMBER, which will not return, from the cluster.

    The log no longer keeps records for it. If it does return it is a member again, and starts with the leader's store if it has to.
    """
    answer = node.client.remove_member(member)
    return told(answer, as_json, f"{member}: removed; if it still runs it is a member again in a moment")


def _figures(status: Status) -> ReplicationFigures:
    """The node's own view of its cluster.

    Raises:
        NoCluster: it is of none, or has said nothing yet.
    """
    if status.replication is None:
        mode = "" if status.store is None else status.store.mode
        if mode in ("", "replicated"):
            raise NoCluster(f"{status.node} has said nothing of its cluster yet; ask again when it has started")
        raise NoCluster(f"persistence.mode of {status.node} is {mode}: it is of no cluster")
    return status.replication
