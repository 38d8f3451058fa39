"""Outcomes of the messages of one lane, but for those of ``wire/exchange/refusal_policy.py``. Pure."""

from __future__ import annotations

DELIVERED = "delivered"
REDELIVERED = "redelivered"
EXPIRED = "expired"
