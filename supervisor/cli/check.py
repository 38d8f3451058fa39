"""``bascule check``: whether a file makes a node, and what such a node would do with a message."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from supervisor.cli.node_calls import CONFIG, JSON, load
from wire.config_settings import NodeSettings
from wire.errors import ConfigError


@click.command()
@CONFIG
@click.option("--explain", metavar="TOPIC", help="Say what becomes of a message of TOPIC.")
@click.option("--qos", type=click.IntRange(0, 2), metavar="N", help="With --explain: the QoS that it comes with, 0 if not said.")
@click.option("--retain", is_flag=True, help="With --explain: it comes with RETAIN.")
@click.option("--user", metavar="NAME", help="With --explain: whether this user may publish it.")
@click.option("--client-id", metavar="ID", help="With --explain: the same of this client; without --user, an anonymous one.")
@JSON
def check(
    config: Path,
    *,
    explain: str | None,
    qos: int | None,
    retain: bool,
    user: str | None,
    client_id: str | None,
    as_json: bool,
) -> int:
    """Check CONFIG, and print its faults or the node that it makes.

    Its password and ACL files, certificates and credentials are read, too. Addresses, the data folder and routing loops are
    checked.

    With --explain, the file is read, and the machine is not looked at: each bridge and rule says whether it takes the message, and
    why not.
    """
    if explain is None and (retain or any(option is not None for option in (qos, user, client_id))):
        raise click.UsageError("--qos, --retain, --user and --client-id are for --explain TOPIC")
    fault = None if explain is None else _topic_fault(explain)
    if fault is not None:
        raise click.BadParameter(fault, param_hint="--explain")
    try:
        settings = load(config)
    except ConfigError as error:
        if not as_json:
            raise
        print(json.dumps({"ok": False, "problems": error.problems or (str(error),)}))
        return error.exit_status
    if explain is None:
        return _check(config, settings, as_json)
    from supervisor.terminal.explained_topic import explain as explained
    from supervisor.terminal.explanation_text import explanation_lines
    from supervisor.terminal.view import folded
    from wire.figure import to_map

    client = None if user is None and client_id is None else (user, client_id or "")
    told = explained(settings, explain, qos=qos or 0, retain=retain, client=client)
    print(json.dumps(to_map(told)) if as_json else "\n".join(folded(line, indent=8) for line in explanation_lines(told)))
    return 0


def _topic_fault(topic: str) -> str | None:
    from wire.mqtt.topics import topic_fault

    try:
        topic.encode()
    except UnicodeEncodeError:
        return "this is not UTF-8"
    fault = topic_fault(topic)
    if fault is not None and any(sign in topic for sign in "+#"):
        return f"{fault}; ask about one topic that a client publishes to, such as plant/1/temperature"
    return fault


def _check(config: Path, settings: NodeSettings, as_json: bool) -> int:
    lanes = sum(len(bridge.lane_labels) for bridge in settings.bridges)
    bridges = ", ".join(bridge.name for bridge in settings.bridges) or "none"
    listeners = ", ".join(f"{listener.bind} ({listener.protocol})" for listener in settings.listeners)
    from supervisor.config.loading import as_lines
    from supervisor.doctor.circles import faults_and_warnings
    from supervisor.doctor.machine_checks import unmet

    without_end, once_more = faults_and_warnings(settings)
    faults = as_lines(config, (*unmet(settings), *without_end))
    warnings = as_lines(config, (*_weaker(settings), *once_more))
    if as_json:
        print(json.dumps({"ok": not faults, "problems": faults, "warnings": warnings}))
        return ConfigError.exit_status if faults else 0
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return ConfigError.exit_status
    print(f"{config}: ok")
    node, persistence = settings.node, settings.persistence
    print(f"  node {node.name}, data in {node.data_dir}, {persistence.mode}, sync {persistence.sync}")
    print(f"  listeners: {listeners}")
    print(f"  bridges: {bridges}" + (f" (lanes: {lanes})" if lanes else ""))
    for line in warnings:
        print(f"  warning: {line}")
    return 0


def _weaker(settings: NodeSettings) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Listeners and bridges by which an acknowledgement is worth less than the store's own."""
    from wire.durability import Durabilities

    found = Durabilities(settings)
    listeners = ("listeners", [found.of_listeners[listener.bind] for listener in settings.listeners])
    bridges = ("bridges", [found.of_bridges[bridge.name] for bridge in settings.bridges])
    for key, each in (listeners, bridges) if settings.persistence.mode == "file-native" else ():
        for place, one in enumerate(each):
            if one.gives_less_than(found.own):
                yield (key, place, "durability"), f"gives less than the store ({one}; there {found.own})"
