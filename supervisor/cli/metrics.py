"""``bascule metrics``: a node's metrics, for what reads files."""

from __future__ import annotations

import sys

import click

from supervisor.cli.node_calls import GivenNode, about_node


@click.command()
@about_node()
def metrics(node: GivenNode) -> int:
    """Print the node's metrics, in Prometheus's text format.

    They are those of /metrics: for node_exporter's textfile collector, or another program that reads them.
    """
    sys.stdout.write(node.client.metrics().decode())
    return 0
