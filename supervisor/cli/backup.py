"""``bascule backup`` and ``bascule restore``: a snapshot with the configuration, and a node made of it somewhere else."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from supervisor.cli.node_calls import JSON, GivenNode, LocalPath, NotConfirmed, about_node, confirm, node_of
from supervisor.snapshots.asked_snapshot import make_snapshot, newest_snapshot
from supervisor.terminal.message_text import printable
from supervisor.units import counted, write_time

if TYPE_CHECKING:
    from storage.store.restored_rows import Restored
    from supervisor.backup.manifest import ConfigurationFile
    from supervisor.backup.restore_backup import CheckedBackup


@click.command()
@about_node()
@click.option("--to", "folder", type=LocalPath(path_type=Path, file_okay=False), required=True, help="Make it in this folder.")
@click.option("--secrets", is_flag=True, help="Include private keys and password files.")
@click.option("--last", is_flag=True, help="Take the newest snapshot and make no new one. The node need not run.")
@JSON
def backup(node: GivenNode, folder: Path, secrets: bool, last: bool, as_json: bool) -> int:
    """Back up the running node, which goes on meanwhile.

    A snapshot and the configuration go into one folder, and are checked. bascule restore makes a node from it.
    """
    data_dir = Path(node.place.data_dir)
    if data_dir in (folder.resolve(), *folder.resolve().parents):
        raise click.BadParameter(f"{folder} is in the node's data folder, which is what is to be saved", param_hint="--to")
    snapshot = newest_snapshot(node.place) if last else make_snapshot(node.client)
    from supervisor.backup.make_backup import make_backup
    from supervisor.terminal.view import progress

    with progress("backed up", in_bytes=True) as show:
        made = make_backup(node.config, data_dir, Path(snapshot.path), folder.absolute(), secrets=secrets, on_progress=show)
    if as_json:
        left_out = [{"path": path, "why": why} for path, why in made.left_out]
        facts = {"path": str(made.path), "snapshot": made.backup.snapshot, "at_ms": made.backup.at_ms}
        print(json.dumps(facts | {"messages": snapshot.messages, "bytes": snapshot.bytes, "left_out": left_out}))
        return 0
    from supervisor.terminal.view import size

    stored = sum(file.stored is not None for file in made.backup.configuration)
    print(f"{made.path}: {counted(snapshot.messages, 'message')}, {size(snapshot.bytes)}, files of the configuration: {stored}")
    for path, why in made.left_out:
        print(f"  left out: {path} ({why})")
    return 0


@click.command()
@about_node(backup="BACKUP")
@click.option("--check", is_flag=True, help="Only read BACKUP, and print its contents.")
@click.option("--replace", is_flag=True, help="Move the contents of the data folder aside.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@JSON
def restore(node: GivenNode, backup: str, check: bool, replace: bool, yes: bool, as_json: bool) -> int:
    """Restore BACKUP into the data folder of CONFIG.

    A CONFIG that does not exist is written from the backup. All of BACKUP is read and compared first. A node that runs, or a data
    folder with something in it, is not overwritten. The node that was backed up must never run again.
    """
    from storage.files import local_path
    from supervisor.backup import restore_backup
    from supervisor.terminal.view import progress

    checked = restore_backup.check_backup(Path(local_path(backup)).absolute())
    facts = _facts(checked)
    if not as_json or not yes:
        contents = map(printable, _contents(checked, facts, node.config.absolute()))
        print("\n".join(contents), file=sys.stderr if as_json else sys.stdout)
    if check:
        if as_json:
            print(json.dumps(facts))
        return 0
    config = node.config.absolute()
    if config.exists():
        restore_backup.refuse_another(checked.backup, node_of(config).name)
        if (why := restore_backup.in_the_way(Path(node_of(config).data_dir))) and not replace:
            raise NotConfirmed(f"{why}; nothing was done: --replace moves that aside")
    if not yes:
        question = f"Restore it to the data folder of {config}? The node that was backed up must never run again."
        confirm(question, "nothing was done: add --yes to restore it")
    others = [] if config.exists() else restore_backup.write_configuration(checked, config)
    data_dir = Path(node_of(config).data_dir)
    with progress("restored", in_bytes=True) as show:
        restored, kept = restore_backup.restore(checked, data_dir, replace=replace, on_progress=show)
    if as_json:
        files = [file.path for file in others]
        done = {"data_dir": str(data_dir), "kept": kept and str(kept), "damaged": restored.damaged, "to_be_put_back": files}
        print(json.dumps(facts | done))
        return 0
    print("\n".join(map(printable, _done(checked, data_dir, restored, kept, others))))
    print("\n".join(_what_follows(facts)))
    return 0


def _done(
    checked: CheckedBackup, data_dir: Path, restored: Restored, kept: Path | None, others: list[ConfigurationFile]
) -> Iterator[str]:
    """The result, and the steps left to the operator."""
    yield f"restored to {data_dir}"
    if kept is not None:
        yield f"  what was there is now in {kept}"
    for file in others:
        where = f"it is {checked.folder / 'configuration' / file.stored}" if file.stored else "it is not in the backup"
        yield f"  to be put back by you: {file.path}; {where}"
    for name in restored.damaged:
        yield f"  {name} was damaged when the snapshot was made: it stands still"


def _facts(checked: CheckedBackup) -> dict[str, Any]:
    """Its contents, as numbers."""
    manifest = checked.manifest
    bridges: dict[str, dict[str, int]] = {}
    for queue in manifest.queues:
        if queue.bridge is not None:
            row = bridges.setdefault(queue.bridge, {"messages": 0, "dead_letters": 0, "in_memory_only": 0})
            row["messages"] += queue.depth
            row["in_memory_only"] += queue.volatile.messages
    for dead in manifest.dead_letters:
        bridges.setdefault(dead.bridge, {"messages": 0, "dead_letters": 0, "in_memory_only": 0})["dead_letters"] += dead.held
    own = [queue for queue in manifest.queues if queue.bridge is None]
    return {
        "node": checked.backup.node,
        "at_ms": checked.backup.at_ms,
        "version": checked.backup.version,
        "snapshot": checked.backup.snapshot,
        "bridges": bridges,
        "sessions": {"count": manifest.sessions, "messages": sum(queue.depth for queue in own)},
        "retained": manifest.retained,
        "paused": list(checked.backup.paused),
    }


def _contents(checked: CheckedBackup, facts: dict[str, Any], config: Path) -> list[str]:
    from supervisor.backup import restore_backup

    lines = [f"{checked.folder}: whole; node {facts['node']} at {write_time(facts['at_ms'])}, version {facts['version']}"]
    for name, row in facts["bridges"].items():
        paused = ", paused" if name in facts["paused"] else ""
        lines.append(
            f"  bridge {name}: {counted(row['messages'], 'message')}, {counted(row['dead_letters'], 'dead letter')}{paused}"
        )
        if row["in_memory_only"]:
            lines.append(f"    {row['in_memory_only']} of QoS 0 were in memory only, and are not in it")
    if not config.exists():
        lines += [f"  writes {target}" for _, target in restore_backup.places(checked.backup, config)]
    own = facts["sessions"]
    lines.append(
        f"  {counted(own['count'], 'session')} of clients with {counted(own['messages'], 'message')}, "
        f"{counted(facts['retained'], 'retained message')}"
    )
    return lines


def _what_follows(facts: dict[str, Any]) -> list[str]:
    """The facts that an operator needs before the node runs."""
    when = write_time(facts["at_ms"])
    return [
        "Before you run it:",
        "  The node that was backed up must never run again: both would send the same.",
        f"  Messages that it took in after {when} are not here.",
        "  Messages here may have been delivered since. They are sent again: each may",
        "  arrive a second time, at QoS 2 as well. None is taken for a repeat.",
        "  Clients that had not been answered yet publish again; that may come twice, too.",
    ]
