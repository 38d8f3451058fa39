"""The reports over snapshots, one module each, as Spark SQL over the tables of ``analysis/tables``."""
