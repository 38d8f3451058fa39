"""Durable storage: the queues of Tier 1, behind a small engine protocol."""
