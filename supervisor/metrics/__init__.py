"""Metrics of the node: one table over the status, written as Prometheus reads it."""
