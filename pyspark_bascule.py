"""Where Spark finds the data source ``bascule`` by itself: as ``DefaultSource`` of an installed module ``pyspark_...``."""

from storage.spark_source import BasculeSource as DefaultSource

__all__ = ["DefaultSource"]
