"""``bascule reload``: have a running node take its changed configuration; ``bridge add`` and ``remove`` change one file of it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from supervisor.cli.node_calls import JSON, Command, GivenNode, about_node
from supervisor.terminal.failures import complain
from wire.errors import ConfigError
from wire.figure import to_map
from wire.status.answers import ReloadPlan
from wire.status.node_status import Status

if TYPE_CHECKING:
    from supervisor.control.client import ControlClient

WAIT_S = 60.0
QUIET_S = 2.0  # then it is told what is waited for
_POLL_S = 0.05
_REFUSED, _WANTS_YES = 1, 2


@click.command()
@about_node()
@click.option("--plan", "only_plan", is_flag=True, help="Print the changes, and apply none.")
@click.option("--yes", is_flag=True, help="Agree to changes by which something that is kept goes.")
@click.option("--wait", is_flag=True, help="Wait until all processes use it, and the node is ready.")
@JSON
def reload(node: GivenNode, only_plan: bool, yes: bool, wait: bool, as_json: bool) -> int:
    """Make the node read its files again and apply the changes.

    Bridges that have not changed keep their connections, and clients stay connected. Nothing is applied if the file is not valid
    (status 78), if something that is kept would go, or might arrive twice, and nobody agreed to that (2), or for another reason
    that is printed (1).
    """
    client = node.client
    if only_plan:
        answer = client.plan_reload()
    else:
        answer = client.reload(yes=yes)
        if _wants_yes(answer) and not as_json and sys.stdin.isatty():
            _show(replace(answer, refused=None, problems=()))
            if not click.confirm("Apply it, and give that up?"):
                print("nothing was changed")
                return _WANTS_YES
            answer = client.reload(yes=True)
    is_there = not (wait and answer.applied) or _wait(client, answer.number)
    if as_json:
        print(json.dumps(to_map(answer)))
    else:
        _show(answer)
    if not is_there and not as_json:
        complain(f"not all processes use it after {WAIT_S:g} s; bascule status CONFIG says which")
    return _status(answer) if is_there else _REFUSED


def _wants_yes(answer: ReloadPlan) -> bool:
    """Whether it is refused because nobody has agreed to what it gives up."""
    hows = {change.how for change in answer.changes}
    return answer.refused is not None and "destructive" in hows and "node-restart" not in hows


def _status(answer: ReloadPlan) -> int:
    """The exit status for it."""
    if answer.problems:
        return ConfigError.exit_status
    if answer.refused is None:
        return 0
    return _WANTS_YES if _wants_yes(answer) else _REFUSED


def _show(answer: ReloadPlan) -> None:
    """The answer first, what is wrong to standard error, the changes below."""
    from supervisor.terminal.view import print_changes

    for line in answer.problems or ([answer.refused] if answer.refused else []):
        complain(line)
    if answer.applied:
        print("applied" if answer.changes else "nothing has changed")
    elif not answer.changes and answer.refused is None:
        print("nothing would change")
    print_changes(answer.changes)


def _wait(client: ControlClient, number: int | None) -> bool:
    """Whether all go by settings ``number``, or newer ones, before ``WAIT_S`` are over."""
    from supervisor.control.control_socket import NotRunning

    begun_s = time.monotonic()
    told = ""
    while True:
        try:
            status = client.status()
        except NotRunning:  # a change of the placement has it begin anew
            if time.monotonic() - begun_s > WAIT_S:
                raise
            time.sleep(_POLL_S)
            continue
        configuration = status.configuration
        if configuration is not None and configuration.number >= (number or 0) and not configuration.pending and status.ready:
            return True
        waited_s, cause = time.monotonic() - begun_s, _cause(status)
        if waited_s >= QUIET_S and cause != told:
            told = cause
            complain(f"waits for {cause}")
        if waited_s > WAIT_S:
            return False
        time.sleep(_POLL_S)


def _cause(status: Status) -> str:
    """The processes that do not go by the settings yet, or else what keeps the node from being ready."""
    causes = {row.name: row.last_cause or row.state for row in status.processes}
    pending = () if status.configuration is None else status.configuration.pending
    awaited = pending or [row.name for row in status.processes if row.state != "ready" or row.last_cause]
    return ", ".join(f"{name} ({causes[name]})" if name in causes else name for name in awaited) or "the node to be ready"


def _changing(command: Command) -> Command:
    for option in (
        click.option("--plan", "only_plan", is_flag=True, help="Print the changes, and write nothing."),
        click.option("--yes", is_flag=True, help="Agree to changes by which something that is kept goes."),
        JSON,
    ):
        command = option(command)
    return command


@click.command()
@about_node(name="NAME", file="FILE")
@_changing
def add(node: GivenNode, name: str, file: str, only_plan: bool, yes: bool, as_json: bool) -> int:
    """Add or change the bridge NAME, in a file of its own.

    The node takes FILE as bridges.d/NAME.yaml, and applies that as bascule reload does. FILE has bridges: with the one bridge;
    - is standard input. The configuration must include bridges.d/*.yaml. Programs, references to the environment and files
    elsewhere cannot be named so. Exit statuses are those of bascule reload.
    """
    text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    return _change(lambda **how: node.client.put_bridge(name, text, **how), only_plan=only_plan, yes=yes, as_json=as_json)


@click.command()
@about_node(name="NAME")
@_changing
def remove(node: GivenNode, name: str, only_plan: bool, yes: bool, as_json: bool) -> int:
    """Remove the bridge NAME, with its own file.

    The node deletes bridges.d/NAME.yaml. Messages that wait in its queue stay there. Exit statuses are those of bascule reload.
    """
    return _change(lambda **how: node.client.remove_bridge(name, **how), only_plan=only_plan, yes=yes, as_json=as_json)


def _change(change: Callable[..., ReloadPlan], *, only_plan: bool, yes: bool, as_json: bool) -> int:
    answer = change(plan=only_plan, yes=yes)
    if not only_plan and _wants_yes(answer) and not as_json and sys.stdin.isatty():
        _show(replace(answer, refused=None, problems=()))
        if not click.confirm("Apply it, and give that up?"):
            print("nothing was changed")
            return _WANTS_YES
        answer = change(yes=True)
    if as_json:
        print(json.dumps(to_map(answer)))
    else:
        _show(answer)
    return _status(answer)
