"""Snapshots: of real nodes under load, of the folder that keeps them, and of their copies."""
