"""Faults of a node and of its machine, and their cures: one verdict a line."""
