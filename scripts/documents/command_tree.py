"""All commands of ``bascule``, as documents list them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from supervisor.cli.main import TASKS, cli


def leaves(group: click.Group = cli, path: str = "bascule") -> Iterator[tuple[str, click.Command]]:
    """Every command below ``group`` that is no group itself, by its full name, in the order of names."""
    for name, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from leaves(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def tasks() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each task, and the names of its commands."""
    for task, places in TASKS.items():
        yield task, tuple(place.rpartition(":")[2] for place in places)
