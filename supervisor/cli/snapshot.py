"""``bascule snapshot``: have a running node make one, copy it somewhere, list those there are, say whether they are whole.

The node makes the snapshot and keeps it below its data folder; the copy is this process's, so a target that is slow or hangs is no
trouble of the node's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from supervisor.cli.node_calls import JSON, GivenNode, LocalPath, about_node
from supervisor.snapshots.asked_snapshot import folder_of, make_snapshot, newest_snapshot
from supervisor.units import counted, write_time
from wire.errors import ConfigError, StorageDamaged, Unavailable
from wire.figure import to_map

if TYPE_CHECKING:
    from storage.snapshots.manifest import Found, Manifest
    from supervisor.running_node import NodePlace
    from wire.status.node_status import SnapshotFigures

TO = click.option(
    "--to", "target", type=LocalPath(path_type=Path, file_okay=False), metavar="DIR", help="Copy it to this folder, too."
)


@click.group()
def snapshot() -> None:
    """Make snapshots of the running node, copy, list and verify them."""


@snapshot.command()
@about_node()
@TO
@JSON
def make(node: GivenNode, target: Path | None, as_json: bool) -> int:
    """Make a snapshot of the running node, which goes on meanwhile."""
    if target is not None:
        _refuse_own(node, target)
    made = make_snapshot(node.client)
    facts = {name: value for name, value in to_map(made).items() if value is not None}
    if not as_json:
        how = f", made in {made.took_s:.1f} s" if made.took_s is not None else ""
        print(f"{made.path}: {counted(made.messages, 'message')}, {_size(made.bytes)}{how}", flush=True)
    if target is not None:
        facts |= _copy(Path(made.path), target, as_json)
    if as_json:
        print(json.dumps(facts))
    return 0


@snapshot.command()
@about_node(snapshot="[SNAPSHOT]")
@click.option(
    "--to",
    "target",
    type=LocalPath(path_type=Path, file_okay=False),
    metavar="DIR",
    required=True,
    help="The folder to copy it to.",
)
@JSON
def copy(node: GivenNode, snapshot: str | None, target: Path, as_json: bool) -> int:
    """Copy the newest snapshot, or SNAPSHOT, to another folder.

    The node need not run. A copy that was cut short goes on where it was when the command is given again.
    """
    _refuse_own(node, target)
    found = newest_snapshot(node.place) if snapshot is None else _named(node.place, snapshot)
    facts = {name: value for name, value in to_map(found).items() if value is not None}
    facts |= _copy(Path(found.path), target, as_json)
    if as_json:
        print(json.dumps(facts))
    return 0


@snapshot.command("list")
@about_node()
@JSON
def list_snapshots(node: GivenNode, as_json: bool) -> int:
    """List the snapshots of the node, which need not run."""
    return _list(node.place, as_json)


@snapshot.command()
@click.argument("places", metavar="DIR...", nargs=-1, required=True, type=click.Path())
@JSON
def verify(places: tuple[str, ...], as_json: bool) -> int:
    """Say whether the snapshots at DIR, or a glob, are whole.

    The exit status is 65 if one is damaged.
    """
    return _verify(places, as_json)


def _refuse_own(node: GivenNode, target: Path) -> None:
    if Path(node.place.data_dir) in (target.resolve(), *target.resolve().parents):
        raise click.BadParameter(f"{target} is in the node's data folder, which holds the snapshots themselves", param_hint="--to")


def _named(node: NodePlace, name: str) -> SnapshotFigures:
    from storage.snapshots.snapshot_folder import figures_of

    found = dict(folder_of(node).manifests())
    for path, manifest in found.items():
        if name in (path.name, str(path)):
            return figures_of(manifest, path)
    raise ConfigError(f"there is no snapshot {name}; there are: {', '.join(path.name for path in found) or 'none'}")


def _copy(source: Path, target: Path, quiet: bool) -> dict[str, Any]:
    from storage.snapshots.snapshot_copy import copy_snapshot
    from supervisor.terminal.view import progress

    with progress("copied", in_bytes=True) as show:
        copied = copy_snapshot(source, target.absolute(), on_progress=show)
    if not quiet:
        what = "was there already" if copied.already_there else f"copied {_size(copied.copied_bytes)}"
        kept = f", {_size(copied.kept_bytes)} were there" if copied.kept_bytes else ""
        print(f"{copied.path}: {what}{kept}")
    return {"copy": str(copied.path), "copied_bytes": copied.copied_bytes, "kept_bytes": copied.kept_bytes}


def _list(node: NodePlace, as_json: bool) -> int:
    from storage.snapshots.manifest import NoManifest, find_snapshots
    from supervisor.terminal.view import folded

    folder = folder_of(node)
    try:
        found = find_snapshots(folder.path)
    except NoManifest:
        found = []
    rows = [_row(each) for each in found]
    if as_json:
        usage = folder.usage()
        print(json.dumps({"snapshots": rows, "bytes": usage.size_bytes, "own_bytes": usage.own_bytes}))
    elif not rows:
        print("no snapshots")
    else:
        for row in rows:
            facts = row["problem"] or f"{write_time(row['at_ms'])}, {counted(row['messages'], 'message')}, {_size(row['bytes'])}"
            print(folded(f"{row['path']}: {facts}"))
        usage = folder.usage()
        print(f"together {_size(usage.size_bytes)}, of which {_size(usage.own_bytes)} are not in the store")
    return 0


def _verify(places: tuple[str, ...], as_json: bool) -> int:
    """Print what is wrong with each; the exit status tells of the worst. A half-made snapshot is named, and is no fault."""
    statuses = [0]
    rows = []
    for found in _found(places):
        row = {**_row(found), "faults": []}
        if found.manifest is not None:
            row["faults"] = _faults(found.path)
        if row["faults"] or (found.problem and not found.half_made and not found.newer):
            statuses.append(StorageDamaged.exit_status)
        elif found.newer:
            statuses.append(ConfigError.exit_status)
        rows.append(row)
        if not as_json:
            print(f"{found.path}: " + (found.problem or ("DAMAGED" if row["faults"] else "whole")), flush=True)
            for fault in row["faults"]:
                print(f"  {fault['name']} {fault['problem']}")
    if as_json:
        print(json.dumps({"snapshots": rows}))
    if all(row["problem"] for row in rows) and len(statuses) == 1:
        return Unavailable.exit_status  # half made, all of them
    return StorageDamaged.exit_status if StorageDamaged.exit_status in statuses else max(statuses)


def _found(places: tuple[str, ...]) -> Iterator[Found]:
    from storage.snapshots.manifest import find_snapshots

    for place in places:
        yield from find_snapshots(place)


def _faults(path: Path) -> list[dict[str, str]]:
    from storage.snapshots.manifest import verify

    try:
        return [{"name": fault.name, "problem": fault.problem} for fault in verify(path)]
    except OSError as error:
        return [{"name": str(error.filename or path), "problem": f"cannot be read: {error.strerror}"}]


def _row(found: Found) -> dict[str, Any]:
    known = {} if found.manifest is None else _facts(found.manifest)
    return {"path": str(found.path), **known, "problem": found.problem, "half_made": found.half_made, "newer": found.newer}


def _facts(manifest: Manifest) -> dict[str, Any]:
    return {
        "id": manifest.id,
        "at_ms": manifest.at_ms,
        "bytes": manifest.size_bytes,
        "messages": sum(queue.depth for queue in manifest.queues),
    }


def _size(size_bytes: int) -> str:
    from supervisor.terminal.view import size

    return size(size_bytes)
