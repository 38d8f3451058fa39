"""Snapshots as tables: schemas, the planner, the columnar decoder, one reader for each table."""
