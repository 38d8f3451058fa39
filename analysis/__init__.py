"""Snapshots read: export to Parquet, reports as a program, the generator."""
