"""Snapshots in Spark: the data source ``bascule``, its options and stream, and a session that has it."""
