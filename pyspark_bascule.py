"""The place where Spark finds the data source ``bascule`` by itself: as ``DefaultSource`` of an installed module
``pyspark_...``."""

from analysis.spark.source import BasculeSource as DefaultSource

__all__ = ["DefaultSource"]
