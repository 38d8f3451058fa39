"""Writes a finished report: Parquet by date and node, ``report.json``, ``report.html``, and ``_SUCCESS`` when all of it is there.

A folder is one of this machine or, with Spark, anything that Spark can write to. Writing again replaces the days and nodes that are
written, and leaves the others.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from analysis.engines.engine import Engine
from analysis.page.page import render
from analysis.reports.build import Finished
from analysis.reports.sources import is_here
from storage.files import PRIVATE, PRIVATE_FOLDER, local_path

if TYPE_CHECKING:
    from analysis.engines.spark_engine import SparkEngine

Format = Literal["table", "json", "parquet", "html"]
SUCCESS = "_SUCCESS"


def write(engine: Engine, finished: Finished, folder: str, formats: Collection[Format]) -> list[str]:
    """Write ``formats`` below ``folder``; what was written."""
    written = []
    remove(engine, f"{folder}/{SUCCESS}")
    if "parquet" in formats:
        for name, frame in finished.frames.items():
            written.append(f"{folder}/{name.replace('-', '_')}")
            engine.write_parquet(frame, written[-1])
    if "json" in formats:
        written.append(write_text(engine, f"{folder}/report.json", finished.report.to_json()))
    if "html" in formats:
        written.append(write_text(engine, f"{folder}/report.html", render(finished.report)))
    write_text(engine, f"{folder}/{SUCCESS}", "")
    return written


def write_text(engine: Engine, where: str, text: str) -> str:
    """Write a text file, whole or not at all, to wherever ``engine`` can write; ``where``."""
    if is_here(where):
        near = Path(local_path(where))
        near.parent.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        part = near.with_name(f"{near.name}.part")
        part.touch(PRIVATE)
        part.write_text(text, encoding="utf-8")
        part.replace(near)
        return where
    files, path = _of_spark(engine).file_system(where)
    stream = files.create(path, True)  # object stores show it when it is closed
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()
    return where


def remove(engine: Engine, where: str) -> None:
    """Remove a file, if it is there."""
    if is_here(where):
        Path(local_path(where)).unlink(missing_ok=True)
        return
    files, path = _of_spark(engine).file_system(where)
    files.delete(path, False)


def _of_spark(engine: Any) -> SparkEngine:
    """``engine``, which alone reaches what is far away."""
    from analysis.engines.spark_engine import SparkEngine

    assert isinstance(engine, SparkEngine)
    return engine
