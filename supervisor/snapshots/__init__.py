"""Snapshots of a running node: when one is made, and where it is brought."""
