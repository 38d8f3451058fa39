"""What a report asks of the engine that reckons it: tables with names, and SQL over them.

The reports are SQL that Spark and DuckDB both run, each written once. Where the two have other words for one thing, the SQL has
Spark's, and ``analysis/engines/spark_functions.py`` says them to DuckDB. What both leave open is not left open: where two rows are
equally good, the SQL says which is taken, and a division is one of doubles (``1e3``, not ``1000.0``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Row = dict[str, Any]
Type = Literal["string", "long"]
Judgement = Literal["fail", "skip"]


@dataclass(frozen=True, slots=True)
class Frame:
    """A table that an engine has, by its name in SQL. It stays until the engine releases what it keeps."""

    name: str


class Engine(Protocol):
    """Spark, or DuckDB in this process."""

    name: str

    def frame(self, query: str) -> Frame:
        """The result of ``query``, computed each time that it is asked for."""
        ...

    def keep(self, query: str) -> Frame:
        """The result of ``query``, computed once."""
        ...

    def found(self, query: str) -> Frame:
        """The result of ``query``, of few rows, computed now."""
        ...

    def rows(self, rows: Iterable[tuple[Any, ...]], columns: Mapping[str, Type]) -> Frame:
        """A small table made here."""
        ...

    def collect(self, query: str) -> list[Row]:
        """The rows of a result that is known to be small, timestamps as milliseconds UTC."""
        ...

    def snapshots(
        self, paths: Sequence[str], table: str, columns: Sequence[str], states: Sequence[str] | None, damaged: Judgement
    ) -> Frame:
        """``columns`` of a table of the snapshots in the folders ``paths``, read once; of messages, those in ``states``."""
        ...

    def exports(self, folders: Sequence[str], table: str, columns: Sequence[str], where: Mapping[str, Sequence[str]]) -> Frame:
        """``columns`` of a table in the ``folders`` that ``bascule export`` wrote, read once; what an export lacks is null.

        where: names of columns, and the values of which a row must have one.
        """
        ...

    def write_parquet(self, frame: Frame, folder: str) -> None:
        """Write all rows of ``frame`` below ``folder``, by date and node; other dates and nodes there stay."""
        ...

    def expect(self, messages: int) -> None:
        """Be told about how many messages there are in all, before they are read."""
        ...

    def release(self) -> None:
        """Drop all frames, and leave the session as it was."""
        ...
