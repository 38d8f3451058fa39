"""The command line: what a user types. Each command is a few lines over the package that does the work.

``bascule run`` starts within the blink that its users wait for, so everything heavier than click is imported by the command that
needs it. Exit statuses: 0 done, 1 refused by the node, or not ready, 2 wrong usage, 65 damaged data, 69 the node does not run,
70 a bug or too many crashes, 74 a file, or what it printed to, failed, 75 busy (another node runs there), 78 wrong configuration,
130 interrupted, 141 its reader has gone.
"""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from supervisor.cli.doctor import doctor
from supervisor.cli.events import events
from supervisor.cli.export import export
from supervisor.cli.init import init
from supervisor.cli.node_calls import CONFIG
from supervisor.cli.node_calls import call_node as _call
from supervisor.cli.node_calls import load as _load
from supervisor.cli.node_calls import node_of as _node_of
from supervisor.cli.passwd import passwd
from supervisor.cli.queue import queue
from supervisor.cli.report import report
from supervisor.cli.session import session
from supervisor.cli.snapshot import snapshot
from supervisor.terminal.failures import complain, printing, refused
from supervisor.version import version
from wire.errors import BasculeError, ConfigError

if TYPE_CHECKING:
    from wire.settings import NodeSettings

_POLL_S = 0.05
_WATCH_PERIOD_S = 1.0


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
    print(f"bascule {version()}")
    context.exit()


@click.group()
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Print the version.")
def cli() -> None:
    """A durable store-and-forward bridge between MQTT brokers."""


@cli.command()
@CONFIG
def run(config: Path) -> NoReturn:
    """Run the node of CONFIG in the foreground; SIGTERM stops it in good order."""
    from supervisor.launch import become

    become("supervisor.tree.run", str(config))


@cli.command()
@CONFIG
def check(config: Path) -> int:
    """Validate CONFIG, with its password and ACL files, and say what it makes."""
    settings = _load(config)
    lanes = sum(bridge.lanes for bridge in settings.bridges)
    bridges = ", ".join(bridge.name for bridge in settings.bridges) or "none"
    listeners = ", ".join(f"{listener.bind} ({listener.protocol})" for listener in settings.listeners)
    faults = _certificate_faults(settings) + _credentials_faults(settings)
    if faults:
        print("\n".join(f"{config}: {fault}" for fault in faults), file=sys.stderr)
        return ConfigError.exit_status
    print(f"{config}: ok")
    print(f"  node {settings.name}, data in {settings.data_dir}, {settings.persistence.mode}, sync {settings.persistence.sync}")
    print(f"  listeners: {listeners}")
    print(f"  bridges: {bridges}" + (f" (lanes: {lanes})" if lanes else ""))
    return 0


def _certificate_faults(settings: NodeSettings) -> list[str]:
    """The listeners' certificates that are not valid now. A node runs with them all the same: its clock may be wrong at first."""
    from actors.system.tls import certificate_dates

    faults = []
    now = time.strftime("%Y%m%d%H%M%SZ", time.gmtime())
    for index, listener in enumerate(settings.listeners):
        if listener.tls is not None:
            before, after = certificate_dates(listener.tls.cert_file)
            if not before <= now <= after:
                what = f"is valid from {before} to {after}, and it is {now}"
                faults.append(f"listeners[{index}].tls.cert_file: {listener.tls.cert_file} {what}")
    return faults


def _credentials_faults(settings: NodeSettings) -> list[str]:
    """What bridges could not log in with now. A node runs with them all the same, and reads the files anew at each attempt."""
    from actors.bridge.remote_socket import credentials_fault

    found = [(index, credentials_fault(bridge.remote)) for index, bridge in enumerate(settings.bridges)]
    return [f"bridges[{index}].remote: {fault}" for index, fault in found if fault is not None]


@cli.command()
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--watch", is_flag=True, help="Print it again each second, until interrupted.")
@click.option("-o", "--output", type=click.Choice(["wide"]), help="wide: every count, on a terminal of more than 80 columns.")
@click.option("--bridge", "name", metavar="BRIDGE", help="Say all that is known of one bridge.")
def status(config: Path, as_json: bool, watch: bool, output: str | None, name: str | None) -> int:
    """Say how the node of CONFIG is; the exit status is 0 if it is ready, and 1 if not."""
    node, wide = _node_of(config), output == "wide"

    def told() -> Any:
        figures = _call(node, "status")
        return figures if name is None else _of_bridge(figures, name)

    if watch and not as_json and sys.stdout.isatty():
        from supervisor.terminal.view import watch_status

        watch_status(told, _WATCH_PERIOD_S, wide=wide)
        return 0
    while True:
        figures = told()
        if as_json:
            print(json.dumps(figures), flush=True)
        else:
            from supervisor.terminal.view import print_status

            print_status(figures, wide=wide)
            sys.stdout.flush()
        if not watch:
            return 0 if figures["ready"] else 1
        time.sleep(_WATCH_PERIOD_S)


def _of_bridge(figures: dict[str, Any], name: str) -> dict[str, Any]:
    """``figures`` with no bridge but that of ``name``; ``bridge`` says that it was asked for."""
    rows = [row for row in figures["bridges"] if row["name"] == name]
    if not rows:
        known = ", ".join(sorted({row["name"] for row in figures["bridges"]})) or "none"
        raise click.UsageError(f"there is no bridge {name}; there are: {known}")
    return figures | {"bridges": rows, "bridge": name}


@cli.command()
@CONFIG
def stop(config: Path) -> int:
    """Stop the node of CONFIG in good order, and wait until it has ended."""
    node = _node_of(config)
    from supervisor.lock import running_pid
    from supervisor.tree.child_table import START_ORDER

    stopping = _call(node, "stop")
    pid, deadline_s = stopping["pid"], time.monotonic() + (len(START_ORDER) + 1) * stopping["stop_timeout_s"]
    while running_pid(Path(node.data_dir)) == pid:
        if time.monotonic() > deadline_s:
            print(f"bascule: the node (pid {pid}) has not ended yet", file=sys.stderr)
            return 1
        time.sleep(_POLL_S)
    print(f"{node.name}: stopped")
    return 0


@cli.group()
def bridge() -> None:
    """Pause, resume or restart one bridge."""


@bridge.command()
@CONFIG
@click.argument("name", metavar="BRIDGE")
def pause(config: Path, name: str) -> int:
    """Let BRIDGE end its connection until it is resumed, restarts of the node included; messages for it are queued."""
    _call(_node_of(config), "bridge.pause", {"bridge": name})
    print(f"{name}: paused until it is resumed; messages for it are queued")
    return 0


@bridge.command()
@CONFIG
@click.argument("name", metavar="BRIDGE")
def resume(config: Path, name: str) -> int:
    """Let BRIDGE connect again and send what was queued."""
    _call(_node_of(config), "bridge.resume", {"bridge": name})
    print(f"{name}: resumed")
    return 0


@bridge.command()
@CONFIG
@click.argument("name", metavar="BRIDGE")
def restart(config: Path, name: str) -> int:
    """Replace the processes that hold the connections of BRIDGE."""
    restarted = _call(_node_of(config), "bridge.restart", {"bridge": name})["processes"]
    print(f"{name}: restarting {', '.join(restarted)}")
    return 0


cli.add_command(queue)
cli.add_command(session)
cli.add_command(events)
cli.add_command(doctor)
cli.add_command(init)
cli.add_command(passwd)
cli.add_command(report)
cli.add_command(snapshot)
cli.add_command(export)


@cli.command()
@click.option("--messages", default=3000, show_default=True, type=click.IntRange(30, 100_000), help="How many to publish.")
@click.option(
    "--keep", metavar="DIR", type=click.Path(path_type=Path, file_okay=False), help="Keep snapshots of the edge here, to report on."
)
def demo(messages: int, keep: Path | None) -> int:
    """Two nodes, a cut link, killed actors, and the proof that nothing was lost."""
    from supervisor.demo.demo import run_demo

    return run_demo(messages, keep)
