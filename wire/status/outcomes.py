"""Outcomes of messages that were in a queue, as frames, the ledger and the history carry them. Pure.

An outcome is a text: a kind, and behind a colon its reason where it has one. It is made and taken apart here; the
reasons of losses are in ``wire/status/loss_reasons.py``.
"""

from __future__ import annotations

DELIVERED = "delivered"
EXPIRED = "expired"
REDELIVERED = "redelivered"  # sent once more: it settles nothing
DROPPED, DEAD = "dropped", "dead"  # the kinds that have a reason


def outcome_of(kind: str, reason: str) -> str:
    """The outcome of a message that is dropped, or dead-lettered, for ``reason``."""
    return f"{kind}:{reason}"


def is_dead(outcome: str) -> bool:
    """Whether the message becomes a dead letter."""
    return outcome.startswith(f"{DEAD}:")


def kind_and_reason(outcome: str) -> tuple[str, str]:
    """The kind of ``outcome``, and its reason, or nothing."""
    kind, _, reason = outcome.partition(":")
    return kind, reason
