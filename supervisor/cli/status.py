"""``bascule status`` and ``bascule metrics``: how a node is, for people, for monitors, and for what reads files."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

import click

from supervisor.cli.node_calls import JSON, Command, GivenNode, NoSuchBridge, about_node, moments
from supervisor.terminal.monitor_line import Limits, MonitorLevel, judged, line
from supervisor.terminal.typed_commands import typed
from supervisor.units import no_such_bridge, parse_duration
from wire.errors import BasculeError, Unavailable
from wire.figure import to_map
from wire.status.node_status import Status

_WATCH_PERIOD_S = 1.0


class _Limits(click.ParamType[Limits]):
    """From which value on it is WARNING, and CRITICAL: two of them, or one that is critical; off is never."""

    name = "WARN,CRIT"

    def __init__(self, parse: Callable[[str], float]) -> None:
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Limits:
        try:
            *warning, critical = [None if word == "off" else self._parse(word) for word in value.split(",")]
        except ValueError as error:
            self.fail(str(error), param, ctx)
        given = [limit for limit in (*warning, critical) if limit is not None]
        if len(warning) > 1 or not all(0 <= limit < inf for limit in given) or given != sorted(given):
            self.fail(f"{value}: write WARN,CRIT, the lower one first, or one value", param, ctx)
        return (warning[0] if warning else None), critical


def _limit(kind: str, default: str, parse: Callable[[str], float], what: str) -> Callable[[Command], Command]:
    text = f"With --check: {what}."
    return click.option(f"--{kind}", kind, type=_Limits(parse), default=default, show_default=True, help=text)


class _Status(click.Command):
    """A monitor takes whatever keeps ``--check`` from asking as UNKNOWN."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        unknown = MonitorLevel.UNKNOWN if "--check" in args else None
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            if unknown is not None:
                vars(error)["exit_code"] = unknown
            raise


@click.command(cls=_Status)
@about_node(bridge="[BRIDGE]")
@JSON
@click.option("--watch", is_flag=True, help="Print it again each second, until interrupted.")
@click.option("-o", "--output", type=click.Choice(["wide"]), help="wide: all counters, on a terminal of more than 80 columns.")
@moments("Print the past instead, from then on", "With --since: only until then")
@click.option("--check", is_flag=True, help="Print one line for a monitor, such as Nagios: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.")
@_limit("down", "1m,10m", parse_duration, "for how long a link may be down")
@_limit("age", "10m,2h", parse_duration, "how long a message may wait")
@_limit("dead", "1,1000", float, "how many dead letters a bridge may have")
@_limit("full", "80%,95%", lambda word: float(word.removesuffix("%")), "how full a queue may be")
def status(
    node: GivenNode,
    bridge: str | None,
    as_json: bool,
    watch: bool,
    output: str | None,
    since: int | None,
    until: int | None,
    check: bool,
    **limits: Limits,
) -> int:
    """Show the state of the node, its links and its queues.

    With BRIDGE, it shows everything about that bridge. The exit status is 0 if the node is ready, whatever its links are, and 1 if
    not; with --check it is what monitors expect. WARN,CRIT are the values from which it warns, and is critical; one value alone is
    the critical one, and off turns that check off. With --watch and --json each line is one answer. With --since it shows what
    the node has kept of the past, with BRIDGE period by period.
    """
    if since is not None:
        if check or watch or output is not None:
            raise click.UsageError("--since stands alone, or with --json")
        return _past(node, bridge, since, until, as_json=as_json)
    if until is not None:
        raise click.UsageError("--until goes with --since")
    if check:
        return _check(node, bridge, limits)
    client, wide = node.client, output == "wide"

    def told() -> Status:
        return of_bridge(client.status(), bridge)

    if watch and not as_json and sys.stdout.isatty():
        from supervisor.terminal.view import watch_status

        watch_status(told, _WATCH_PERIOD_S, bridge=bridge, wide=wide)
        return 0
    while True:
        figures = told()
        if as_json:
            print(json.dumps(to_map(figures) | ({} if bridge is None else {"bridge": bridge})), flush=True)
        else:
            from supervisor.terminal.view import print_status

            print_status(figures, bridge=bridge, wide=wide)
            sys.stdout.flush()
        if not watch:
            return 0 if figures.ready else 1
        time.sleep(_WATCH_PERIOD_S)


def _past(node: GivenNode, bridge: str | None, since_ms: int, until_ms: int | None, *, as_json: bool) -> int:
    """What the node has kept, in as many periods as a terminal has room for, or JSON as many as one answer has."""
    until = None if until_ms is None else str(until_ms)
    if as_json:
        print(json.dumps(to_map(node.client.history(since=str(since_ms), until=until, bridge=bridge))))
        return 0
    from supervisor.terminal.history_view import print_history, step_for

    end_ms = time.time_ns() // 1_000_000 if until_ms is None else until_ms
    kept = node.client.status().history
    if kept is not None and kept.kept_since_ms is not None and since_ms < kept.kept_since_ms < end_ms:
        since_ms = kept.kept_since_ms - 1  # no blocks for a time of which nothing is on record
    step = step_for(since_ms, end_ms)
    print_history(node.client.history(since=str(since_ms), until=until, bridge=bridge, step=step), bridge=bridge)
    return 0


def _check(node: GivenNode, name: str | None, limits: dict[str, Limits]) -> int:
    """One line for a monitor, whatever happens; the exit status."""
    try:
        level, said = judged(of_bridge(node.client.status(), name), limits)
    except (BasculeError, click.UsageError) as error:
        level = MonitorLevel.CRITICAL if isinstance(error, Unavailable) else MonitorLevel.UNKNOWN
        said = line(level, error.message)
    print(typed(said))
    return level


def of_bridge(status: Status, name: str | None) -> Status:
    """``status`` with no bridge but that of ``name``, if one is asked for."""
    rows = tuple(row for row in status.bridges if name in (None, row.name))
    if name is not None and not rows:
        raise NoSuchBridge(no_such_bridge(name, {row.name for row in status.bridges}))
    return replace(status, bridges=rows)


@click.command()
@about_node()
def metrics(node: GivenNode) -> int:
    """Print the node's metrics, in Prometheus's text format.

    They are those of /metrics: for node_exporter's textfile collector, or another program that reads them.
    """
    sys.stdout.write(node.client.metrics().decode())
    return 0
