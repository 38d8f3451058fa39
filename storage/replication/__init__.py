"""Tier 1 on several nodes: each commit is a record of a log that a majority of servers keeps, and other nodes follow it."""
