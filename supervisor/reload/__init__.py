"""Consequences of a changed configuration for a running node."""
