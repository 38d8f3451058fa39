"""The command line: what a user types. Each command is a few lines over the package that does the work.

``bascule run`` starts within the blink that its users wait for, so everything heavier than click is imported by the command that
needs it. Exit statuses: 0 done, 1 refused by the node, or not ready, 2 wrong usage, 3 converted in part, 65 damaged data, 69 the
node does not run, 70 a bug or too many crashes, 74 a file, or what it printed to, failed, 75 busy (another node runs there), 78
wrong configuration, 130 interrupted, 141 its reader has gone.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

import click

from supervisor.cli.backup import backup, restore
from supervisor.cli.check import check
from supervisor.cli.cluster import cluster
from supervisor.cli.convert import convert
from supervisor.cli.doctor import doctor
from supervisor.cli.events import events
from supervisor.cli.export import export
from supervisor.cli.init import init
from supervisor.cli.keys import keys
from supervisor.cli.node_calls import CONFIG, JSON, GivenNode, LocalPath, about_node, config_option, remote_options, told
from supervisor.cli.notify import notify
from supervisor.cli.passwd import passwd
from supervisor.cli.queue import queue
from supervisor.cli.reload import add, reload, remove
from supervisor.cli.report import report
from supervisor.cli.session import session
from supervisor.cli.snapshot import snapshot
from supervisor.cli.status import metrics, status
from supervisor.cli.token import token
from supervisor.cli.trace import topics, trace
from supervisor.terminal.failures import complain, printing, refused
from supervisor.tree import signals
from supervisor.version import VERSION
from wire.errors import BasculeError

_POLL_S = 0.05
_STARTING_S = 60.0  # for a node that is still starting to end


def main(argv: list[str] | None = None) -> int:
    """Run the command line; the exit status."""
    return printing(lambda: _main(argv))


def _main(argv: list[str] | None) -> int:
    try:
        status = cli.main(args=argv, prog_name="bascule", standalone_mode=False)
    except BasculeError as error:
        return refused(error)
    except click.ClickException as error:
        message = io.StringIO()
        error.show(message)
        complain(message.getvalue().rstrip("\n"))
        return error.exit_code
    except click.Abort:
        return 130
    return status if isinstance(status, int) else 0


def _version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    print(f"bascule {VERSION}")
    context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@config_option
@remote_options
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Print the version.")
@click.pass_context
def cli(context: click.Context) -> None:
    """A durable store-and-forward bridge between MQTT brokers.

    CONFIG is the configuration file of a node on this machine. Without it, it is what the environment has in BASCULE_CONFIG, or
    /etc/bascule/bascule.yaml. Commands that only ask a node may ask one elsewhere, by --node and --key.
    """
    if context.invoked_subcommand != run.name:  # a node takes what came when it can
        signals.unblock()


@cli.command()
@CONFIG
@click.option("--new-store", is_flag=True, help="Begin a new, empty store; the files in its place are kept aside.")
@click.option("--renamed", is_flag=True, help="The store is this node's, which had another name.")
def run(config: Path, *, new_store: bool, renamed: bool) -> NoReturn:
    """Run the node of CONFIG in the foreground.

    SIGTERM stops it in good order.
    """
    from supervisor.launch import become

    become("supervisor.tree.run", str(config), *["--new-store"] * new_store, *["--renamed"] * renamed)


@cli.command()
@about_node()
@JSON
def stop(node: GivenNode, as_json: bool) -> int:
    """Stop the node in good order, and wait until it has ended. A node that is still starting is stopped, too."""
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


@cli.group()
def bridge() -> None:
    """Pause, resume or restart one bridge; add and remove bridges."""


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
    """Close the connection of BRIDGE and open it again at once. Its queue stays."""
    restarted = node.client.restart(bridge)
    return told(restarted, as_json, f"{bridge}: restarting {', '.join(restarted.processes)}")


bridge.add_command(add)
bridge.add_command(remove)
cli.add_command(check)
cli.add_command(queue)
cli.add_command(session)
cli.add_command(cluster)
cli.add_command(events)
cli.add_command(status)
cli.add_command(reload)
cli.add_command(backup)
cli.add_command(restore)
cli.add_command(doctor)
cli.add_command(init)
cli.add_command(convert)
cli.add_command(keys)
cli.add_command(metrics)
cli.add_command(notify)
cli.add_command(passwd)
cli.add_command(token)
cli.add_command(report)
cli.add_command(snapshot)
cli.add_command(export)
cli.add_command(trace)
cli.add_command(topics)


@cli.command()
@click.option(
    "--messages", default=3000, show_default=True, type=click.IntRange(30, 100_000), metavar="N", help="How many to publish."
)
@click.option(
    "--keep", metavar="DIR", type=LocalPath(path_type=Path, file_okay=False), help="Keep snapshots of the edge here, to report on."
)
@click.option("--replicated", is_flag=True, help="Show a cluster instead: a whole node is lost, and another goes on.")
def demo(messages: int, keep: Path | None, *, replicated: bool) -> int:
    """Show two nodes, a cut link, killed processes, and nothing lost."""
    if replicated:
        if keep is not None:
            raise click.UsageError("--keep is for the demo without --replicated")
        from supervisor.demo.replicated_demo import run_replicated_demo

        return run_replicated_demo(messages)
    from supervisor.demo.demo import run_demo

    return run_demo(messages, keep)
