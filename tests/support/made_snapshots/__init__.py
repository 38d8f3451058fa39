"""Snapshots of nodes that never were, made by the real Tier 1: for tests, benchmarks and demonstrations."""
