"""Files that a node writes and names, step by step, for ``test_files``: a program whose calls are recorded.

    python -m tests.storage.named_files FOLDER [PLACE]

After each step it says in FOLDER/said what is in the folder, so that somebody goes by it. PLACE: a sync that is left out.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from storage import files
from storage.engine.commit_mark import CommitMark
from storage.snapshots.manifest import STORE_NAME
from storage.snapshots.snapshot_folder import SnapshotFolder
from supervisor.tree.epochs import Epochs
from supervisor.tree.pauses import Pauses
from tests.snapshots.made import AT_MS, fields

SAID = "said"
MADE = "store"  # a store to make snapshots of; it is there before
# The function of ``files`` that syncs, and what: a content, or names.
PLACES = (
    "replacing content",
    "replacing names",
    "make_folder names",
    "rename names",
    "remove names",
    "touch names",
    "open_fixed names",
)


def contents(folder: Path) -> dict[str, str]:
    """The names in ``folder``, folders too; not those of half-made files. Zeros at the end of a file are not told."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        half_made = any(part.startswith(".part-") or part.endswith(".new") for part in path.parts)
        if name != SAID and not name.startswith(MADE) and not half_made:
            found[name] = "" if path.is_dir() else path.read_bytes().rstrip(b"\0").hex()
    return found


def steps(folder: Path) -> list[Callable[[], object]]:
    """Everything that a node names and goes by, but for the files of RocksDB."""
    box = SnapshotFolder(folder / "snapshots", folder / MADE)
    epochs: list[Epochs] = []
    mark: list[CommitMark] = []
    return [
        lambda: files.make_folder(folder / "data"),
        lambda: epochs.append(Epochs(folder / "data", 1.8e9)),
        lambda: [epochs[0].next() for _ in range(40)],
        lambda: Pauses(folder / "data").pause("north"),
        lambda: Pauses(folder / "data").pause("south"),
        lambda: Pauses(folder / "data").resume("north"),
        lambda: files.make_folder(folder / "data" / "deep" / "down"),
        lambda: files.write(folder / "data" / "deep" / "down" / "users", b"one"),
        lambda: files.write(folder / "data" / "deep" / "down" / "users", b"two"),
        lambda: files.make_folder(folder / "data" / "store"),
        lambda: mark.append(CommitMark(folder / "data" / "store")),
        lambda: snapshot(box, 1),
        lambda: snapshot(box, 2),
        lambda: box.note_shipped(set(box.names())),
        lambda: box.remove(box.names()[0]),
        lambda: files.rename(folder / "data" / "store", folder / "data" / "store.damaged-1"),
    ]


def snapshot(box: SnapshotFolder, number: int) -> None:
    """A snapshot of the store that was made."""
    at_ms = AT_MS + number
    part = box.begin("edge", at_ms, number)
    checkpoint = part / STORE_NAME
    checkpoint.mkdir()
    for path in (box.path.parent / MADE).iterdir():
        os.link(path, checkpoint / path.name)
    box.finish(part, {**fields("edge", at_ms), "epoch": number})


def leave_out(place: str) -> None:
    """The function of ``files`` that ``place`` names syncs that no more."""
    function, _, what = place.partition(" ")
    fsync, sync = os.fsync, files.sync

    def caller(depth: int) -> str:
        return sys._getframe(depth).f_code.co_name

    if what == "content":
        os.fsync = lambda descriptor: None if caller(2) == function else fsync(descriptor)  # type: ignore[assignment]
    else:
        files.sync = lambda path: None if caller(2) == function else sync(path)


def main(folder: Path, place: str) -> None:
    """Do it all."""
    out = os.open(folder / SAID, os.O_WRONLY | os.O_APPEND)
    todo = steps(folder)
    if place:
        leave_out(place)
    for step in todo:
        os.write(out, b'"begins"\n')
        step()
        os.write(out, json.dumps(contents(folder)).encode() + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
