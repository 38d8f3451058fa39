"""The names by which the actors of a node address each other, and how a lane's epoch is made. Lanes' actors add bridge and lane."""

from __future__ import annotations

SUPERVISOR = "supervisor"
LISTENER = "listener"
DISTRIBUTOR = "distributor"
QUEUE_STORE = "queue_store"

# A lane epoch is its Forwarder's process epoch, shifted by this, plus how often that process has opened the lane.
LANE_EPOCH_SHIFT = 20
