"""Snapshots in Spark: the data source ``bascule``, its filters, options and stream, and a session that has it."""
