"""``bascule status``: how a node is, once or again and again."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import click

from supervisor.cli.node_calls import JSON, GivenNode, about_node

_WATCH_PERIOD_S = 1.0


@click.command()
@about_node()
@JSON
@click.option("--watch", is_flag=True, help="Print it again each second, until interrupted.")
@click.option("-o", "--output", type=click.Choice(["wide"]), help="wide: every count, on a terminal of more than 80 columns.")
@click.option("--bridge", "name", metavar="BRIDGE", help="Say all that is known of one bridge.")
def status(node: GivenNode, as_json: bool, watch: bool, output: str | None, name: str | None) -> int:
    """Say how the node is, and where messages wait.

    The exit status is 0 if the node is ready, and 1 if not. With --watch and --json each line is one answer.
    """
    client, wide = node.client, output == "wide"

    def told() -> dict[str, Any]:
        figures = client.status()
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
