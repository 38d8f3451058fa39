"""``bascule export``: snapshots become Parquet files. It needs the extra ``report``, which a small box may lack."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from storage.installation import find_extras, how_to_install
from supervisor.cli.node_calls import JSON, LocalPath
from wire.errors import ConfigError

if TYPE_CHECKING:
    from analysis.tables.reader import Problem


@click.command()
@click.argument("places", metavar="SNAPSHOT...", nargs=-1, required=True)
@click.option("--to", "target", type=LocalPath(path_type=Path, file_okay=False), required=True, help="The folder for the files.")
@click.option("--tables", metavar="TABLE,...", help="Only these, such as messages,queues; without it, all.")
@click.option("--no-payload", is_flag=True, help="Leave the payloads out.")
@click.option(
    "--damaged", type=click.Choice(["fail", "skip"]), default="fail", show_default=True, help="Messages that cannot be read."
)
@click.option(
    "--newer", type=click.Choice(["fail", "skip"]), default="fail", show_default=True, help="Snapshots of a newer version."
)
@JSON
def export(
    places: tuple[str, ...], target: Path, tables: str | None, no_payload: bool, damaged: str, newer: str, as_json: bool
) -> int:
    """Write the tables of snapshots as Parquet files.

    SNAPSHOT is the folder of a snapshot, a folder of snapshots, or a glob. Snapshots that were exported before are not written
    again.
    """
    find_extras()
    missing = [name for name in ("numpy", "pyarrow") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"bascule export needs {' and '.join(missing)}: {how_to_install('report')}")
    from analysis.export import EXPORTED
    from analysis.export import export as export_tables
    from storage.snapshots.manifest import find_snapshots
    from supervisor.terminal.view import progress

    names = EXPORTED if tables is None else tuple(tables.split(","))
    unknown = [name for name in names if name not in EXPORTED]
    if unknown:
        raise click.BadParameter(f"there is no table {unknown[0]!r}; there are {', '.join(EXPORTED)}", param_hint="--tables")
    problems: list[Problem] = []

    def tell(problem: Problem) -> None:
        problems.append(problem)
        print(f"left out: {problem}", file=sys.stderr, flush=True)

    found = [each for place in places for each in find_snapshots(place)]
    with progress("rows exported") as show:
        done = export_tables(
            list({each.path.resolve(): each for each in found}.values()),
            target,
            tables=names,
            payload=not no_payload,
            damaged="skip" if damaged == "skip" else "fail",
            newer="skip" if newer == "skip" else "fail",
            on_problem=tell,
            on_file=lambda path, rows: None if as_json else print(f"{path}: {rows} rows", flush=True),
            on_rows=lambda rows: show(rows, None),
        )
    if as_json:
        facts = {
            "files": done.files,
            "rows": done.rows,
            "bytes": done.size_bytes,
            "there_already": done.there_already,
            "problems": [str(problem) for problem in problems],
        }
        print(json.dumps(facts))
    elif done.there_already:
        print(f"{done.there_already} files were there already")
    return 0
