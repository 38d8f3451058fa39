"""Sources of the tables of a report, whichever engine reads them: snapshots, or Parquet that ``bascule export`` wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from analysis.engines.engine import Engine, Frame, Judgement
from analysis.reports.report_model import Problem
from storage.files import local_path
from storage.snapshots.manifest import Found, Manifest, NoManifest, find_snapshots
from wire.errors import ConfigError, StorageDamaged

SNAPSHOTS = "snapshots"
DAMAGE_ROWS = 1000


class MixedInputs(ConfigError):
    """Snapshots and exports were given together; they overlap in ways that nobody checks."""


class SnapshotSource:
    """Snapshots that lie in folders. A snapshot and its copies are read once."""

    def __init__(self, found: Sequence[Found], *, damaged: Judgement = "fail", newer: Judgement = "fail") -> None:
        """Sort out what can be read; ``problems`` are what cannot. Half-made snapshots never can, and never fail.

        Raises:
            StorageDamaged, ConfigError: one is damaged, or of a newer version, and that is to fail.
        """
        self._damaged = damaged
        self._paths: dict[str, str] = {}
        self._manifests: dict[str, Manifest] = {}
        self.problems: list[Problem] = []
        for one in sorted(found, key=lambda each: str(each.path)):
            if one.manifest is not None:
                known = self._manifests.setdefault(one.manifest.id, one.manifest)
                if known.store_id == one.manifest.store_id:
                    self._paths.setdefault(one.manifest.id, str(one.path))
                else:
                    self.problems.append(Problem(path=str(one.path), queue="", why="another store has a snapshot of that name"))
                continue
            if one.newer and newer == "fail":
                raise ConfigError("a snapshot is of a newer version of Bascule", path=str(one.path), why=one.problem)
            if not one.newer and not one.half_made and damaged == "fail":
                raise StorageDamaged("a snapshot is damaged", path=str(one.path), why=one.problem)
            self.problems.append(Problem(path=str(one.path), queue="", why=one.problem))
        if not self._paths:
            raise NoManifest("no snapshot can be used", problems=len(self.problems))

    @property
    def are_here(self) -> bool:
        """Whether they lie in file systems of this machine: snapshots do."""
        return True

    @property
    def nodes(self) -> set[str]:
        """The names of the nodes that made them."""
        return {manifest.node for manifest in self._manifests.values()}

    @property
    def size_bytes(self) -> int:
        """How large they are together."""
        return sum(manifest.size_bytes for manifest in self._manifests.values())

    def __len__(self) -> int:
        return len(self._paths)

    def table(
        self,
        engine: Engine,
        name: str,
        columns: Sequence[str],
        *,
        snapshots: Sequence[str] | None = None,
        states: Sequence[str] | None = None,
    ) -> Frame:
        """``Source.table``. Only ``columns`` are decoded."""
        paths = list(self._paths.values()) if snapshots is None else [self._paths[one] for one in snapshots]
        return engine.snapshots(paths, name, columns, states, self._damaged)

    def damage(self, engine: Engine) -> list[Problem]:
        """The parts of these snapshots that cannot be read, and were left out: a scan of all of them."""
        columns = ("path", "queue", "first_seq", "last_seq", "why")
        read = engine.snapshots(list(self._paths.values()), "damage", columns, None, "skip")
        found = []
        for row in engine.collect(f"SELECT * FROM {read.name} LIMIT {DAMAGE_ROWS}"):
            seqs = f" (sequences {row['first_seq']} to {row['last_seq']})" if row["first_seq"] is not None else ""
            found.append(Problem(path=row["path"], queue=row["queue"] or "", why=row["why"] + seqs))
        return found


class ExportSource:
    """Files of ``bascule export``, here or far away: a folder of ``<table>/date=<day>/node=<node>/<snapshot>.parquet``."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = tuple(folders)
        self.problems: list[Problem] = []

    @property
    def nodes(self) -> set[str]:
        """The names of the nodes whose snapshots were exported; none is known of folders that are far away."""
        places = (Path(local_path(folder)) for folder in self._folders if is_here(folder))
        return {unquote(path.name.partition("=")[2]) for place in places for path in place.glob(f"{SNAPSHOTS}/date=*/node=*")}

    @property
    def are_here(self) -> bool:
        """Whether all of them lie in file systems of this machine."""
        return all(is_here(folder) for folder in self._folders)

    def table(
        self,
        engine: Engine,
        name: str,
        columns: Sequence[str],
        *,
        snapshots: Sequence[str] | None = None,
        states: Sequence[str] | None = None,
    ) -> Frame:
        """``Source.table``. Files of other snapshots are skipped by their statistics; columns that an export lacks are null."""
        wanted = {"snapshot_id": snapshots, "state": states}
        where = {column: values for column, values in wanted.items() if values is not None}
        return engine.exports(self._folders, name, columns, where)

    def damage(self, engine: Engine) -> list[Problem]:  # noqa: ARG002
        """Nothing: an export is made of what could be read, and said so then."""
        return []


def open_source(inputs: Sequence[str], *, damaged: Judgement = "fail", newer: Judgement = "fail") -> SnapshotSource | ExportSource:
    """The source of ``inputs``: paths of snapshots, folders of them and globs, or else folders of exports.

    Raises:
        MixedInputs: both kinds were given.
        NoManifest: there is no snapshot at one of them.
        StorageDamaged, ConfigError: as ``SnapshotSource``.
    """
    exports = [one for one in inputs if is_export(one)]
    if exports and len(exports) < len(inputs):
        raise MixedInputs("give snapshots or exports, not both", exports=exports)
    if exports:
        return ExportSource(exports)
    found: Mapping[Path, Found] = {each.path.resolve(): each for one in inputs for each in find_snapshots(one)}
    return SnapshotSource(list(found.values()), damaged=damaged, newer=newer)


def is_export(where: str) -> bool:
    """Whether ``where`` is, or is taken for, what ``bascule export`` wrote: snapshots lie in file systems only."""
    return not is_here(where) or any(Path(local_path(where)).glob(f"{SNAPSHOTS}/date=*"))


def is_here(where: str) -> bool:
    """Whether ``where`` is a path of this machine, or a URL of one."""
    return "://" not in where or where.startswith("file:")
