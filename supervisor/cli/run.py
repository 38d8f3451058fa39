"""``bascule run`` and ``bascule stop``: a node's begin and its end."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

import click

from supervisor.cli.node_calls import CONFIG, JSON, GivenNode, about_node, told

_POLL_S = 0.05
_STARTING_S = 60.0  # for a node that is still starting to end


@click.command()
@CONFIG
@click.option("--new-store", is_flag=True, help="Begin a new, empty store; the files in its place are kept aside.")
@click.option("--renamed", is_flag=True, help="The store is this node's, which had another name.")
def run(config: Path, *, new_store: bool, renamed: bool) -> NoReturn:
    """Run the node of CONFIG in the foreground.

    SIGTERM stops it in good order.
    """
    from supervisor.launch import become

    become("supervisor.tree.run", str(config), *["--new-store"] * new_store, *["--renamed"] * renamed)


@click.command()
@about_node()
@JSON
def stop(node: GivenNode, as_json: bool) -> int:
    """Stop the node in good order, and wait until it has ended.

    A node that is still starting is stopped, too.
    """
    from supervisor.control.control_socket import NotRunning
    from supervisor.running_node import supervisors_of
    from supervisor.tree.child_table import START_ORDER

    try:
        name, stopping = node.client.ping().node, node.client.stop()
    except NotRunning:
        if node.is_elsewhere or not (starting := supervisors_of(node.config)):
            raise
        return _stop_starting(starting, node.place.name, as_json)
    deadline_s = time.monotonic() + (len(START_ORDER) + 1) * stopping.stop_timeout_s
    while _runs(node, stopping.pid):
        if time.monotonic() > deadline_s:
            print(f"bascule: the node (pid {stopping.pid}) has not ended yet", file=sys.stderr)
            return 1
        time.sleep(_POLL_S)
    return told({"node": name, "stopped": True}, as_json, f"{name}: stopped")


def _stop_starting(pids: list[int], name: str, as_json: bool) -> int:
    """Signal supervisors that have no control socket yet, and wait until they have ended."""
    for pid in pids:
        try:
            process = os.pidfd_open(pid)
            signal.pidfd_send_signal(process, signal.SIGTERM)
        except ProcessLookupError:
            continue
        if not select.select([process], [], [], _STARTING_S)[0]:
            print(f"bascule: the node (pid {pid}) has not ended yet", file=sys.stderr)
            return 1
    return told({"node": name, "stopped": True}, as_json, f"{name}: stopped while it was starting")


def _runs(node: GivenNode, pid: int) -> bool:
    """Whether the process ``pid`` of ``node`` is still there; of one elsewhere, whether it answers."""
    if not node.is_elsewhere:
        from supervisor.lock import running_pid

        return running_pid(Path(node.place.data_dir)) == pid
    from supervisor.control.control_socket import NotRunning

    try:
        return node.client.ping().pid == pid
    except NotRunning:
        return False
