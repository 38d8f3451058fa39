"""Manifests to decide about, without a store."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from storage.snapshots.manifest import LedgerFacts, Manifest, QueueFacts, VolatileFacts, snapshot_id


def manifest(
    node: str = "edge",
    at_ms: int = 1000,
    *,
    epoch: int = 1,
    store: str = "",
    numbers: Mapping[str, tuple[int, int]] | None = None,
    events: tuple[int, int] = (0, 0),
    damaged: tuple[str, ...] = (),
) -> Manifest:
    """A snapshot of ``node``. numbers: by queue, the settlements ``[first, next)`` that are kept, each of one message;
    damaged: queues whose row is; store: its identity, made of the node's name if it is empty.
    """
    return Manifest(
        id=snapshot_id(node, at_ms, epoch),
        node=node,
        store_id=store or hashlib.md5(node.encode()).hexdigest(),
        boot_id="boot",
        at_ms=at_ms,
        epoch=epoch,
        versions={},
        queues=tuple(
            QueueFacts(
                name=name,
                number=number,
                bridge="b",
                lane=None,
                configured=True,
                head=of[1],
                tail=0,
                cursor=0,
                depth=0,
                size_bytes=0,
                volatile=VolatileFacts(),
                in_flight=(),
                ledger=LedgerFacts(),
                max_messages=None,
                max_bytes=None,
                retention_s=0.0,
                settlements=(0, 0) if name in damaged else of,
                history_from=of[0],
                damaged=name in damaged,
            )
            for number, (name, of) in enumerate((numbers or {}).items())
        ),
        dead_letters=(),
        sessions=0,
        retained=0,
        limits={},
        disk_free_bytes=None,
        events=events,
        files=(),
    )
