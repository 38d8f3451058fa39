"""Writes a finished report: Parquet by date and node, ``report.json``, ``report.html``, and ``_SUCCESS`` when all of it is there.

A folder may be anything that Spark can write to. Writing again replaces the days and nodes that are written, and leaves the others.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from analysis.reports.build import Finished
from storage.files import PRIVATE, PRIVATE_FOLDER, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Format = Literal["table", "json", "parquet", "html"]
SUCCESS = "_SUCCESS"


def write(spark: SparkSession, finished: Finished, folder: str, formats: Collection[Format]) -> list[str]:
    """Write ``formats`` below ``folder``; what was written."""
    written = []
    remove(spark, f"{folder}/{SUCCESS}")
    if "parquet" in formats:
        for name, frame in finished.frames.items():
            where = f"{folder}/{name.replace('-', '_')}"
            # One file for each day and node: the rows of a report are few.
            frame.repartition("date", "node").write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy(
                "date", "node"
            ).parquet(where)
            written.append(where)
    if "json" in formats:
        written.append(write_text(spark, f"{folder}/report.json", finished.report.to_json()))
    if "html" in formats:
        from analysis.page.page import render

        written.append(write_text(spark, f"{folder}/report.html", render(finished.report)))
    write_text(spark, f"{folder}/{SUCCESS}", "")
    return written


def write_text(spark: SparkSession, where: str, text: str) -> str:
    """Write a text file, whole or not at all, to wherever Spark can write; ``where``."""
    near = _local(where)
    if near is not None:
        near.parent.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        part = near.with_name(f"{near.name}.part")
        part.touch(PRIVATE)
        part.write_text(text, encoding="utf-8")
        part.replace(near)
        return where
    files, path = _file_system(spark, where)
    stream = files.create(path, True)  # object stores show it when it is closed
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()
    return where


def remove(spark: SparkSession, where: str) -> None:
    """Remove a file, if it is there."""
    near = _local(where)
    if near is not None:
        near.unlink(missing_ok=True)
        return
    files, path = _file_system(spark, where)
    files.delete(path, False)


def _local(where: str) -> Path | None:
    return None if "://" in where and not where.startswith("file:") else Path(local_path(where))


def _file_system(spark: SparkSession, where: str) -> tuple[Any, Any]:
    """Hadoop's file system of ``where``, which Spark itself writes with, and the path in it."""
    java = spark.sparkContext._jvm
    assert java is not None
    path = java.org.apache.hadoop.fs.Path(where)
    return path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), path
