"""The options of Spark's data source ``bascule``, understood: where, what is wanted, what to do about trouble."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, cast

try:
    from analysis.tables.reader import TARGET_ROWS, SplitFilters
except ModuleNotFoundError as error:  # the first import in each Python of Spark's: of the planning, and of every executor
    raise ImportError(
        f'the data source "bascule" needs {error.name}, and there is none in {sys.executable}: it needs rocksdict, pyarrow, numpy'
        " and msgpack in the Python of the driver and of each executor"
    ) from None
from analysis.tables.schemas import TABLES
from storage.files import local_path
from storage.snapshots.manifest import Found, find_snapshots
from wire.errors import ConfigError

_OF_TABLE = "option."
Judgement = Literal["fail", "skip"]


class WrongOption(ConfigError):
    """An option of the data source is not one, or has no meaning."""


@dataclass(frozen=True)
class Options:
    """The options of ``spark.read.format("bascule")``, understood; their names are matched without regard to case.

    path (or load's argument): a snapshot, a folder of snapshots, or a glob over them; several as a list. table: one of
    ``tables.TABLES``. damaged, newer: ``fail`` (default), or ``skip`` what cannot be read, or was written by a newer version.
    payload: whether the default schema has the column. nodes, queues, bridges, states: names with commas, or as a JSON list.
    seq_from, seq_to, since, until: half-open; times are ISO 8601, UTC unless they say otherwise, of accepted_at, settled_at, at or
    else snapshot_at. rows_per_partition: about how many a task reads. maxSnapshotsPerTrigger: of a stream, 0 is no limit.
    failOnDataLoss: of a stream, whether what can't be read any more ends it (default); else it is told, and the table ``gaps`` has
    it.
    """

    table: str
    paths: tuple[str, ...]
    damaged: Judgement
    newer: Judgement
    payload: bool
    filters: SplitFilters
    rows_per_partition: int
    snapshots_per_trigger: int
    fail_on_data_loss: bool

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Options:
        """The options that Spark was ``given``.

        Raises:
            WrongOption: one is unknown, or its value is.
        """
        options = options_of_table(given) or {name.lower(): value for name, value in given.items()}
        unknown = sorted(options.keys() - _OPTIONS)
        if unknown:
            raise WrongOption(f"{unknown[0]!r} is no option of the data source; there are {', '.join(sorted(_OPTIONS))}")
        table = options.get("table", "")
        if table not in TABLES:
            raise WrongOption(f"the option table is {table!r}; there are {', '.join(TABLES)}")
        return cls(
            table=table,
            paths=tuple(local_path(path) for path in _list(options, "paths", options.get("path", "[]"), commas=False)),
            damaged=_judgement(options, "damaged"),
            newer=_judgement(options, "newer"),
            payload=_flag(options, "payload", default=False),
            filters=SplitFilters(
                nodes=_names(options, "nodes"),
                queues=_names(options, "queues"),
                bridges=_names(options, "bridges"),
                states=_names(options, "states"),
                seq_from=_number(options, "seq_from"),
                seq_to=_number(options, "seq_to"),
                since_us=_time_us(options, "since"),
                until_us=_time_us(options, "until"),
            ),
            rows_per_partition=_number(options, "rows_per_partition", least=1) or TARGET_ROWS,
            snapshots_per_trigger=_number(options, "maxsnapshotspertrigger", least=0) or 0,
            fail_on_data_loss=_flag(options, "failondataloss", default=True),
        )

    def find(self) -> list[Found]:
        """The snapshots at the paths, each folder once.

        Raises:
            WrongOption: no path was given.
            NoManifest: there is no snapshot at one of them.
        """
        if not self.paths:
            raise WrongOption("no path was given: load(path) takes a snapshot, a folder of snapshots, or a glob over them")
        found = {each.path.resolve(): each for path in self.paths for each in find_snapshots(path)}
        return list(found.values())


_OPTIONS = {
    *("path", "paths", "table", "damaged", "newer", "payload", "rows_per_partition"),
    *("maxsnapshotspertrigger", "failondataloss"),
    *("nodes", "queues", "bridges", "states", "seq_from", "seq_to", "since", "until"),
}


def options_of_table(given: Mapping[str, str]) -> dict[str, str]:
    """The options that CREATE TABLE was given, where that is what is done: Spark brings them under names of its own."""
    options = {name.lower(): value for name, value in given.items()}
    place = {"path": options["location"]} if "location" in options else {}
    return place | {name.removeprefix(_OF_TABLE): value for name, value in options.items() if name.startswith(_OF_TABLE)}


def _list(options: Mapping[str, str], name: str, default: str, *, commas: bool) -> tuple[str, ...]:
    text = options.get(name, default)
    if text.startswith("["):
        try:
            values = json.loads(text)
        except ValueError as error:
            raise WrongOption(f"the option {name} is no JSON list", value=text) from error
        return tuple(str(value) for value in values)
    return tuple(part for part in (text.split(",") if commas else [text]) if part)


def _names(options: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    return _list(options, name, "", commas=True) if name in options else None


def _judgement(options: Mapping[str, str], name: str) -> Judgement:
    value = options.get(name, "fail")
    if value not in ("fail", "skip"):
        raise WrongOption(f"the option {name} is {value!r}; it may be fail or skip")
    return cast("Judgement", value)


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = options.get(name, str(default)).lower()
    if value not in ("true", "false"):
        raise WrongOption(f"the option {name} is {value!r}; it may be true or false")
    return value == "true"


def _number(options: Mapping[str, str], name: str, least: int = 0) -> int | None:
    if name not in options:
        return None
    try:
        value = int(options[name])
    except ValueError:
        value = least - 1
    if value < least:
        raise WrongOption(f"the option {name} is {options[name]!r}; it is a whole number of {least} or more")
    return value


def _time_us(options: Mapping[str, str], name: str) -> int | None:
    if name not in options:
        return None
    try:
        moment = datetime.fromisoformat(options[name])
    except ValueError as error:
        raise WrongOption(f"the option {name} is {options[name]!r}; it is a time like 2026-01-31T12:00:00Z") from error
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime.fromtimestamp(0, UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
