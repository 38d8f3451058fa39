"""Message expiry: what of a batch is too old to be sent, and how much of their time the others have left. Pure.

For whoever sends what waited: a bridge (``wire/routing/form_for_remote.py``) and the delivery to local sessions. A row expires by
its Message Expiry Interval, counted in whole seconds from the batch's ``accepted_ms``. A queue's own age limit is the store's
business, and whether a message that may have been sent before is still seen through is the caller's.
"""

from __future__ import annotations

from collections.abc import Collection

from wire.clock_steps import elapsed_ms
from wire.frames.batch import Batch
from wire.mqtt.publish_properties import message_expiry_s, with_message_expiry


def waited_s(accepted_ms: int, now_ms: int) -> int:
    """How long messages that were accepted at ``accepted_ms`` have waited, in whole seconds."""
    return elapsed_ms(accepted_ms, now_ms) // 1000


def expired_rows(batch: Batch, now_ms: int) -> list[int]:
    """The rows that may not be sent any more, ascending [MQTT-3.3.2-5]."""
    if not batch.properties:
        return []
    waited = waited_s(batch.accepted_ms, now_ms)
    return sorted(
        row for row, raw in batch.properties.items() if (expiry_s := message_expiry_s(raw)) is not None and expiry_s <= waited
    )


def expiry_only(batch: Batch) -> dict[int, bytes]:
    """The properties column of ``batch`` with nothing in it but message expiry intervals."""
    if not batch.properties:
        return {}
    intervals = ((row, message_expiry_s(raw)) for row, raw in batch.properties.items())
    return {row: with_message_expiry(b"", interval_s) for row, interval_s in intervals if interval_s is not None}


def without_rows(batch: Batch, rows: Collection[int]) -> Batch:
    """``batch`` without ``rows``; itself if there are none."""
    if not rows:
        return batch
    gone = frozenset(rows)
    return batch.select([row for row in range(len(batch)) if row not in gone])


def aged(raw: bytes, waited: int) -> bytes:
    """Valid properties with their Message Expiry Interval, if any, lowered by ``waited`` seconds [MQTT-3.3.2-6].

    A message that is sent again though its time is up says 1: there are receivers, such as Mosquitto, for which 0 is no expiry at
    all.
    """
    expiry_s = message_expiry_s(raw)
    return raw if not expiry_s or not waited else with_message_expiry(raw, max(1, expiry_s - waited))


def aged_properties(batch: Batch, now_ms: int) -> dict[int, bytes]:
    """The properties column of ``batch`` as it is to be sent now; the same object if nothing changes."""
    waited = waited_s(batch.accepted_ms, now_ms)
    if not waited or not batch.properties:
        return batch.properties
    return {row: aged(raw, waited) for row, raw in batch.properties.items()}
