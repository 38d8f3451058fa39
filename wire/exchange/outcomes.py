"""What becomes of the messages of one lane: outcomes, but for those of ``wire/exchange/refusal_policy.py``, and counters. Pure."""

from __future__ import annotations

from dataclasses import dataclass

DELIVERED = "delivered"
REDELIVERED = "redelivered"
EXPIRED = "expired"


@dataclass(slots=True)
class Counts:
    """Counters since the exchange was made.

    unexpected_acknowledgements: those that came early, once more, late, or of another kind. acknowledged_as_qos1: messages of QoS 2
    for which a PUBACK came. released_unanswered: those that count as delivered because the remote closes on their PUBREL.
    """

    published: int = 0
    acknowledged: int = 0
    redelivered: int = 0
    qos_lowered: int = 0
    retain_stripped: int = 0
    expired: int = 0
    too_large: int = 0
    refused: int = 0
    retried: int = 0
    closed_on: int = 0
    sessions_lost: int = 0
    assumed_delivered: int = 0
    republished: int = 0
    unexpected_acknowledgements: int = 0
    acknowledged_as_qos1: int = 0
    released_unanswered: int = 0
