"""Tells the node's metrics to those who do not ask: a process that sends them to a collector."""
