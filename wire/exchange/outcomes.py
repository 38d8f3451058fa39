"""What becomes of the messages of one lane: outcomes, but for those of ``wire/exchange/refusal_policy.py``. Pure."""

from __future__ import annotations

DELIVERED = "delivered"
REDELIVERED = "redelivered"
EXPIRED = "expired"
