"""``bascule bridge``: look at bridges, make, change and remove them, pause and resume them. The node must run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import click

from supervisor.cli.node_calls import JSON, Command, GivenNode, about_node, told
from supervisor.cli.reload import WANTS_YES, agreed, answer_status, show_plan
from supervisor.cli.status import of_bridge
from wire.figure import to_map
from wire.status.answers import ReloadPlan


@click.group()
def bridge() -> None:
    """Look at bridges, make and remove them, pause and resume them."""


@bridge.command("list")
@about_node()
@JSON
def list_bridges(node: GivenNode, as_json: bool) -> int:
    """List the bridges: state, remote, backlog, messages a second.

    Each line is a lane of a bridge. The rates are what it accepts and what it delivers.
    """
    rows = node.client.status().bridges
    if as_json:
        print(json.dumps([to_map(row) for row in rows]))
        return 0
    from supervisor.terminal.view import print_bridges

    print_bridges(rows)
    return 0


@bridge.command()
@about_node(bridge="BRIDGE")
@JSON
def show(node: GivenNode, bridge: str, as_json: bool) -> int:
    """Show all figures of BRIDGE, lane by lane.

    The reference of the status says what each of them is.
    """
    status = of_bridge(node.client.status(), bridge)
    if as_json:
        print(json.dumps([to_map(row) for row in status.bridges]))
        return 0
    from supervisor.terminal.view import print_status

    print_status(status, bridge=bridge)
    return 0


def _changing(command: Command) -> Command:
    for option in (
        click.option("--plan", "only_plan", is_flag=True, help="Print the changes, and write nothing."),
        click.option("--yes", is_flag=True, help="Agree to changes by which something that is kept goes."),
        JSON,
    ):
        command = option(command)
    return command


@bridge.command()
@about_node(bridge="BRIDGE", file="FILE")
@_changing
def add(node: GivenNode, bridge: str, file: str, only_plan: bool, yes: bool, as_json: bool) -> int:
    """Add or change BRIDGE, in a file of its own.

    The node takes FILE as bridges.d/BRIDGE.yaml, and applies that as bascule reload does. FILE has bridges: with the one bridge;
    - is standard input. The configuration must include bridges.d/*.yaml. Programs, references to the environment and files
    elsewhere cannot be named so. Exit statuses are those of bascule reload.
    """
    text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    return _change(lambda **how: node.client.put_bridge(bridge, text, **how), only_plan=only_plan, yes=yes, as_json=as_json)


@bridge.command()
@about_node(bridge="BRIDGE")
@_changing
def remove(node: GivenNode, bridge: str, only_plan: bool, yes: bool, as_json: bool) -> int:
    """Remove BRIDGE, with its own file.

    The node deletes bridges.d/BRIDGE.yaml. Messages that wait in its queue stay there. Exit statuses are those of bascule reload.
    """
    return _change(lambda **how: node.client.remove_bridge(bridge, **how), only_plan=only_plan, yes=yes, as_json=as_json)


def _change(change: Callable[..., ReloadPlan], *, only_plan: bool, yes: bool, as_json: bool) -> int:
    answer = change(plan=True) if only_plan else agreed(change, yes=yes, as_json=as_json)
    if answer is None:
        return WANTS_YES
    if as_json:
        print(json.dumps(to_map(answer)))
    else:
        show_plan(answer)
    return answer_status(answer)


@bridge.command()
@about_node(bridge="BRIDGE")
@JSON
def pause(node: GivenNode, bridge: str, as_json: bool) -> int:
    """Close the connection of BRIDGE until it is resumed.

    The pause holds over restarts of the node. Messages for BRIDGE are queued meanwhile.
    """
    return told(node.client.pause(bridge), as_json, f"{bridge}: paused until it is resumed; messages for it are queued")


@bridge.command()
@about_node(bridge="BRIDGE")
@JSON
def resume(node: GivenNode, bridge: str, as_json: bool) -> int:
    """Let BRIDGE connect again and send its queue."""
    return told(node.client.resume(bridge), as_json, f"{bridge}: resumed")


@bridge.command()
@about_node(bridge="BRIDGE")
@JSON
def restart(node: GivenNode, bridge: str, as_json: bool) -> int:
    """Close the connection of BRIDGE and open it again at once. Its queue stays.

    A bridge that dials when needed connects, too; outside of its hours none does.
    """
    restarted = node.client.restart(bridge)
    return told(restarted, as_json, f"{bridge}: restarting {', '.join(restarted.processes)}")
