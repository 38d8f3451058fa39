"""A disk that may lose power at any instant: what ``tests/faults/recorder.c`` recorded, and what of it is there afterwards.

Bytes that a call wrote are on the disk once the file is synced. A name (creat, mkdir, link, rename, unlink) is on the disk once

- ``folder``: its folder is synced, and by nothing else; names that are not may survive all the same, each by itself;
- ``named``: that, or the file or folder that it names is synced;
- ``ordered``: anything is synced after it; of the names that are not on the disk, those that were first survive.

Of what is not on the disk chance decides: nothing of it survives, all, what came first with its last write torn, or any of it.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

from tests.support.shim import compile_shim
from tests.support.waiting import PATIENCE_S

Discipline = Literal["folder", "named", "ordered"]
DISCIPLINES: tuple[Discipline, ...] = ("folder", "named", "ordered")

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests" / "faults" / "recorder.c"
_HEAD = struct.Struct("=B3xIIIQQ")


@dataclass(frozen=True, slots=True)
class Event:
    """One call. what: ``c``reate, mk``d``ir, ``l``ink, ``r``ename, ``u``nlink, ``w``rite, size (``t``), ``s``ync."""

    what: str
    inode: int
    at: int
    path: str
    to: str
    data: bytes


def compile_recorder(folder: Path) -> Path:
    """The preloadable library in ``folder``; skips the test where there is no C compiler."""
    return compile_shim(folder, SOURCE)


def environment(library: Path, log: Path, folder: Path) -> dict[str, str]:
    """The environment of a process whose work below ``folder`` is recorded in ``log``."""
    return {"LD_PRELOAD": str(library), "RECORD_LOG": str(log), "RECORD_FOLDER": str(folder)}


def recorded(words: Sequence[str], library: Path, log: Path, folder: Path) -> list[Event]:
    """Run this Python with ``words`` in the root of the tree; what it did below ``folder``."""
    log.unlink(missing_ok=True)
    ran = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, **environment(library, log, folder)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return read_events(log)


def read_events(log: Path) -> list[Event]:
    """The records; the last one may be incomplete."""
    content = log.read_bytes() if log.exists() else b""
    events, at = [], 0
    while at + _HEAD.size <= len(content):
        what, from_bytes, to_bytes, data_bytes, inode, where = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        if at + from_bytes + to_bytes + data_bytes > len(content):
            break
        path, to = content[at : at + from_bytes].decode(), content[at + from_bytes : at + from_bytes + to_bytes].decode()
        at += from_bytes + to_bytes
        events.append(Event(chr(what), inode, where, path, to, content[at : at + data_bytes]))
        at += data_bytes
    return events


@dataclass(slots=True)
class _Node:
    """A file (``synced`` and what was written since) or a folder (``names``: as they are on the disk for sure)."""

    is_folder: bool
    synced: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)  # a write, or at which size the file ends
    names: dict[str, _Node] = field(default_factory=dict)
    synced_at: int = -1  # the event of the last sync


@dataclass(frozen=True, slots=True)
class _Naming:
    """A change of a name: ``node`` gets ``name`` in ``folder`` and loses ``old`` of ``old_folder``, each if there is one."""

    at: int
    node: _Node
    folder: _Node | None
    name: str
    old_folder: _Node | None
    old: str


class ModelDisk:
    """The folder ``root`` as it was before the first event, all of it on the disk, and what ``play`` does to it.

    forgets: syncs that are not done, by the path of what is synced: a sync that somebody has left out.
    """

    def __init__(self, root: Path, forgets: Callable[[str], bool] = lambda path: False) -> None:
        self._prefix = str(root)
        self._forgets = forgets
        self._inodes: dict[int, _Node] = {}
        self._root = self._load(root)
        self._now: dict[tuple[int, str], _Node] = {}  # names as the processes see them, by folder
        self._know(self._root)
        self._namings: list[_Naming] = []
        self._last_sync = -1
        self._count = 0

    def play(self, event: Event) -> None:
        """Do what ``event`` says."""
        self._count += 1
        node = self._inodes.get(event.inode)
        match event.what:
            case "w" if node is not None:
                node.pending.append((event.at, event.data))
            case "t" if node is not None:
                node.pending.append((event.at, None))
            case "s" if node is not None and not self._forgets(event.path[len(self._prefix) + 1 :]):
                self._last_sync = node.synced_at = self._count
                for at, data in node.pending:
                    _put(node.synced, at, data)
                node.pending.clear()
            case "c" | "d":
                node = self._inodes[event.inode] = _Node(event.what == "d")
                self._name(node, event.path, "")
            case "l" if node is not None:
                self._name(node, event.to, "")
            case "r" if node is not None:
                self._name(node, event.to, event.path)
            case "u":
                gone = self._find(event.path)
                if gone is not None:
                    self._name(gone, "", event.path)

    def image(self, target: Path, discipline: Discipline, chance: Random) -> None:
        """Make ``target`` the folder as it is when the power is back."""
        shutil.rmtree(target, ignore_errors=True)
        names: dict[tuple[int, str], _Node] = {}
        for folder in self._folders():
            names.update({(id(folder), name): node for name, node in folder.names.items()})
        for naming in self._survivors(discipline, chance):
            if naming.old_folder is not None and names.get((id(naming.old_folder), naming.old)) is naming.node:
                del names[id(naming.old_folder), naming.old]
            if naming.folder is not None:
                names[id(naming.folder), naming.name] = naming.node
        entries: dict[int, list[tuple[str, _Node]]] = {}
        for (folder_id, name), node in names.items():
            entries.setdefault(folder_id, []).append((name, node))
        _lay_out(self._root, target, entries, chance, {})

    def _survivors(self, discipline: Discipline, chance: Random) -> Iterator[_Naming]:
        lost = [naming for naming in self._namings if not self._is_on_disk(naming, discipline)]
        ways = ("none", "all", "first") if discipline == "ordered" else ("none", "all", "first", "any")
        match chance.choice(ways):
            case "none":
                kept = set()
            case "all":
                kept = {naming.at for naming in lost}
            case "first":
                kept = {naming.at for naming in lost[: chance.randint(0, len(lost))]}
            case _:
                kept = {naming.at for naming in lost if chance.random() < 0.5}
        gone = {naming.at for naming in lost} - kept
        return (naming for naming in self._namings if naming.at not in gone)

    def _is_on_disk(self, naming: _Naming, discipline: Discipline) -> bool:
        if discipline == "ordered":
            return self._last_sync > naming.at
        folders = [folder for folder in (naming.folder, naming.old_folder) if folder is not None]
        return all(folder.synced_at > naming.at for folder in folders) or (
            discipline == "named" and naming.folder is not None and naming.node.synced_at > naming.at
        )

    def _name(self, node: _Node, new: str, old: str) -> None:
        folder, name = self._place(new)
        old_folder, old_name = self._place(old)
        if old_folder is not None:
            self._now.pop((id(old_folder), old_name), None)
        if folder is not None:
            self._now[id(folder), name] = node
        self._namings.append(_Naming(self._count, node, folder, name, old_folder, old_name))

    def _place(self, path: str) -> tuple[_Node | None, str]:
        """The folder of ``path`` and the name in it."""
        above, _, name = path.rpartition("/")
        return (self._find(above), name) if len(above) >= len(self._prefix) else (None, "")

    def _find(self, path: str) -> _Node | None:
        node: _Node | None = self._root
        for name in filter(None, path[len(self._prefix) :].split("/")):
            node = None if node is None else self._now.get((id(node), name))
        return node

    def _load(self, path: Path) -> _Node:
        status = path.lstat()
        if status.st_ino in self._inodes:
            return self._inodes[status.st_ino]
        node = self._inodes[status.st_ino] = _Node(path.is_dir())
        if node.is_folder:
            node.names = {entry.name: self._load(entry) for entry in path.iterdir() if entry.is_dir() or entry.is_file()}
        else:
            node.synced = bytearray(path.read_bytes())
        return node

    def _know(self, folder: _Node) -> None:
        for name, node in folder.names.items():
            self._now[id(folder), name] = node
            self._know(node)

    def _folders(self) -> Iterator[_Node]:
        seen, todo = set(), [self._root]
        while todo:
            folder = todo.pop()
            if id(folder) not in seen:
                seen.add(id(folder))
                yield folder
                todo += [node for node in folder.names.values() if node.is_folder]


def _put(content: bytearray, at: int, data: bytes | None) -> None:
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    if data is None:
        del content[at:]
    else:
        content[at : at + len(data)] = data


def _left(node: _Node, chance: Random) -> bytes:
    """The content of a file after the loss of power."""
    content, pending = bytearray(node.synced), node.pending
    match chance.choice(("none", "all", "first", "any", "zeros")):
        case "all":
            kept: Sequence[tuple[int, bytes | None]] = pending
        case "first" if pending:
            kept = pending[: chance.randrange(len(pending))]
            at, data = pending[len(kept)]
            if data:
                kept = [*kept, (at, data[: chance.randrange(len(data) + 1)])]
        case "any":
            kept = [each for each in pending if chance.random() < 0.5]
        case "zeros":  # of what came last only the size is there
            bound = chance.randint(0, len(pending))
            kept = pending[:bound] + [(at, None if data is None else bytes(len(data))) for at, data in pending[bound:]]
        case _:
            kept = ()
    for at, data in kept:
        _put(content, at, data)
    return bytes(content)


def _lay_out(folder: _Node, path: Path, entries: dict[int, list[tuple[str, _Node]]], chance: Random, made: dict[int, Path]) -> None:
    path.mkdir()
    for name, node in sorted(entries.get(id(folder), []), key=lambda entry: entry[0]):
        if id(node) in made:
            if not node.is_folder:  # a folder has one name
                os.link(made[id(node)], path / name)
            continue
        made[id(node)] = path / name
        if node.is_folder:
            _lay_out(node, path / name, entries, chance, made)
        else:
            (path / name).write_bytes(_left(node, chance))
