"""The snapshot that a command asks of a node on this machine: made now if the node runs, or the newest that there is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from wire.errors import BasculeError, Unavailable
from wire.figure import joined
from wire.status.node_status import SnapshotFigures

if TYPE_CHECKING:
    from storage.snapshots.snapshot_folder import SnapshotFolder
    from supervisor.control.client import ControlClient
    from supervisor.running_node import NodePlace

_POLL_S = 0.1


class SnapshotNotMade(BasculeError):
    """The node could not make the snapshot."""

    exit_status = 1


def make_snapshot(client: ControlClient) -> SnapshotFigures:
    """Have the node make one, and wait for it; what it is."""
    number = client.snapshot()
    while True:
        result = client.snapshot_result(number)
        if result.state == "made":
            return joined(SnapshotFigures, result)
        if result.state == "failed":
            raise SnapshotNotMade(f"no snapshot was made: {result.message}")
        time.sleep(_POLL_S)


def newest_snapshot(node: NodePlace) -> SnapshotFigures:
    """The newest that there is; the node need not run."""
    manifests = list(folder_of(node).manifests())
    if not manifests:
        none = f"node {node.name} has no snapshot in {node.data_dir} yet"
        raise Unavailable(f"{none}; bascule snapshot make CONFIG makes one while it runs")
    from storage.snapshots.snapshot_folder import figures_of

    path, manifest = manifests[-1]
    return figures_of(manifest, path)


def folder_of(node: NodePlace) -> SnapshotFolder:
    """The folder with the snapshots that ``node`` keeps."""
    from storage.snapshots.snapshot_folder import SnapshotFolder

    return SnapshotFolder.of_data_dir(node.data_dir)
