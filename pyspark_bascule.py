"""Where Spark finds the data source ``bascule`` by itself: it looks for ``DefaultSource`` in installed modules named ``pyspark_*``."""

from storage.spark_source import BasculeSource as DefaultSource

__all__ = ["DefaultSource"]
