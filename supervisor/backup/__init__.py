"""Backups of a node: a snapshot with the configuration, and what makes a node of one again."""
