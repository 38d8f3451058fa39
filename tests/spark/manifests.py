"""Manifests to decide about, without a store."""

from __future__ import annotations

from collections.abc import Mapping

from storage.snapshots.manifest import LedgerFacts, Manifest, QueueFacts, VolatileFacts, snapshot_id


def manifest(
    node: str = "edge",
    at_ms: int = 1000,
    *,
    epoch: int = 1,
    numbers: Mapping[str, tuple[int, int]] | None = None,
    events: tuple[int, int] = (0, 0),
    damaged: tuple[str, ...] = (),
    store_id: str = "0123456789abcdef" * 2,
) -> Manifest:
    """A snapshot of ``node``. numbers: by queue, the settlements ``[first, next)`` that are kept; damaged: queues whose row is."""
    return Manifest(
        id=snapshot_id(node, at_ms, epoch),
        node=node,
        store_id=store_id,
        boot_id="boot",
        at_ms=at_ms,
        epoch=epoch,
        versions={},
        queues=tuple(
            QueueFacts(
                name=name,
                number=number,
                bridge=None,
                lane=None,
                configured=True,
                head=0,
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
