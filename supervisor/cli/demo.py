"""``bascule demo``: two nodes, or a cluster, go through trouble before one's eyes."""

from __future__ import annotations

from pathlib import Path

import click

from supervisor.cli.node_calls import LocalPath


@click.command()
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
