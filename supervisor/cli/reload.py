"""``bascule reload``: have a running node take its changed configuration."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from supervisor.cli.node_calls import JSON, GivenNode, about_node
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
_REFUSED, WANTS_YES = 1, 2


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
    answer = client.plan_reload() if only_plan else agreed(client.reload, yes=yes, as_json=as_json)
    if answer is None:
        return WANTS_YES
    is_there = not (wait and answer.applied) or _wait(client, answer.number)
    if as_json:
        print(json.dumps(to_map(answer)))
    else:
        show_plan(answer)
    if not is_there and not as_json:
        complain(f"not all processes use it after {WAIT_S:g} s; bascule status CONFIG says which")
    return answer_status(answer) if is_there else _REFUSED


def agreed(change: Callable[..., ReloadPlan], *, yes: bool, as_json: bool) -> ReloadPlan | None:
    """The answer to ``change``; a terminal is asked whether what it gives up may go. None: it may not, and nothing was changed."""
    answer = change(yes=yes)
    if not _wants_yes(answer) or as_json or not sys.stdin.isatty():
        return answer
    show_plan(replace(answer, refused=None, problems=()))
    if click.confirm("Apply it, and give that up?"):
        return change(yes=True)
    print("nothing was changed")
    return None


def _wants_yes(answer: ReloadPlan) -> bool:
    """Whether it is refused because nobody has agreed to what it gives up."""
    hows = {change.how for change in answer.changes}
    return answer.refused is not None and "destructive" in hows and "node-restart" not in hows


def answer_status(answer: ReloadPlan) -> int:
    """The exit status for it."""
    if answer.problems:
        return ConfigError.exit_status
    if answer.refused is None:
        return 0
    return WANTS_YES if _wants_yes(answer) else _REFUSED


def show_plan(answer: ReloadPlan) -> None:
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
