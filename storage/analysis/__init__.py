"""Snapshots as tables: schemas, the reader of checkpoints, the columnar decoder, the export to Parquet, the generator."""
