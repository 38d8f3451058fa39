"""The reports over snapshots, one module each, as SQL that DuckDB and Spark run over the tables of ``analysis/tables``."""
