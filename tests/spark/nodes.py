"""Snapshots of small nodes, made by the real store; a whole folder of them costs about a second."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from itertools import islice
from pathlib import Path

from storage.snapshots.manifest import MANIFEST_NAME, FileFacts, Manifest, read_manifest, snapshot_id
from tests.storage.building import node
from tests.support import settings
from tests.support.made_snapshots.node_model import LaneModel, NodeModel, retained_rows
from wire.frames.batch import RETAIN, Batch, from_rows
from wire.ranges import ranges_of

START_MS = 1_780_000_000_000
CLOUD, PLANT = "bridge:cloud:0", "bridge:plant:0"


def batch(first: int, count: int, at_ms: int, *, payload_bytes: int = 40) -> Batch:
    """``count`` messages of all three QoS, numbered from ``first``, some of them retained."""
    return from_rows(
        [
            (
                b"plant/%d/temperature" % (number % 7),
                (0, 1, 1, 2)[number % 4] | (RETAIN if number % 50 == 1 else 0),
                (b"%d " % number * payload_bytes)[:payload_bytes],
            )
            for number in range(first, first + count)
        ],
        accepted_ms=at_ms,
    )


class Edge:
    """A node with the bridges ``cloud``, whose remote takes what it is given, and ``plant``, whose remote is away."""

    def __init__(self, folder: Path, name: str = "edge", *, retention_s: float = 3600.0) -> None:
        bridges = (replace(settings.bridge("cloud", 1), retention_s=retention_s), settings.bridge("plant", 1))
        self.model = NodeModel(folder, settings.itself(node(*bridges), name=name), start_ms=START_MS)
        self.cloud: LaneModel = self.model.open_lane(CLOUD)
        self._published = 0

    def publish(self, count: int, *, plant: int = 0) -> None:
        """``count`` messages for the cloud, ``plant`` for the plant, over a second."""
        at_ms = self.model.wall_ms
        parts = {CLOUD: batch(self._published, count, at_ms)}
        if plant:
            parts[PLANT] = batch(self._published, plant, at_ms)
        self._published += count + plant
        self.model.publish(parts, retained=retained_rows(parts[CLOUD]))
        self.model.advance(1000)

    def deliver(self, count: int) -> None:
        """The cloud acknowledges the oldest ``count`` messages that it was sent, but refuses the very first; QoS 0 is passed on."""
        if self.cloud.qos0:
            self.model.settle(self.cloud, [("delivered", tuple(self.cloud.qos0.ranges()))])
        oldest = islice((seq for start, stop in self.cloud.in_hand.ranges() for seq in range(start, stop)), count)
        (refused, _), *taken = ((seq, seq + 1) for seq in oldest)
        outcomes = [("dead:not-authorized", ((refused, refused + 1),)), ("delivered", ranges_of(start for start, _ in taken))]
        self.model.settle(self.cloud, outcomes, session="edge@cloud")
        self.model.advance(1000)

    def snapshot(self, target: Path) -> Path:
        self.model.advance(1000)
        return self.model.snapshot(target)


def copy_of(snapshot: Path, target: Path, node: str, at_ms: int, store_id: str = "") -> Path:
    """The same snapshot as if ``node`` had made it at ``at_ms``: the files are links, the manifest is another one."""
    manifest = read_manifest(snapshot)
    store_id = store_id or (manifest.store_id if node == manifest.node else uuid.uuid5(uuid.NAMESPACE_OID, node).hex)
    renamed = replace(manifest, id=snapshot_id(node, at_ms, manifest.epoch), node=node, store_id=store_id, at_ms=at_ms)
    folder = target / renamed.id
    for entry in manifest.files:
        (folder / entry.name).parent.mkdir(parents=True, exist_ok=True)
        (folder / entry.name).hardlink_to(snapshot / entry.name)
    (folder / MANIFEST_NAME).write_bytes(renamed.to_json())
    return folder


def make_newer(snapshot: Path) -> None:
    """As if a newer version had written it."""
    fields = json.loads((snapshot / MANIFEST_NAME).read_bytes())
    (snapshot / MANIFEST_NAME).write_text(json.dumps({**fields, "format": fields["format"] + 1}))


def damage_messages(snapshot: Path) -> None:
    """Flip bytes in the largest file of the store, where messages are; it is no link to another file afterwards."""
    manifest: Manifest = read_manifest(snapshot)
    largest: FileFacts = max(manifest.files, key=lambda each: each.size_bytes)
    path = snapshot / largest.name
    content = bytearray(path.read_bytes())
    middle = len(content) // 3
    content[middle : middle + 16] = bytes(each ^ 0xFF for each in content[middle : middle + 16])
    path.unlink()
    path.write_bytes(content)
