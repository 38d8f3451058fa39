"""A store that a new member, or one that was away for too long, begins with: the leader's, as it was at some point of the log.

It is brought by the object store of the same servers, file by file, and counts once the last one, which names the others, is there.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from storage import files
from storage.engine.store_identity import StoreNote
from storage.safe_file_names import is_plain_name
from wire.errors import Unavailable
from wire.typed_values import build

log = logging.getLogger("bascule")

PART_NAME = "store.base"
WHOLE = "BASE"
_INDEX = "INDEX"  # what WHOLE says where it is offered; here it is there before the files are


class BaseObjects(Protocol):
    """A place for large things that others fetch. Each method blocks, and raises ``LogAway``."""

    def put(self, name: str, path: Path) -> None: ...

    def get(self, name: str, path: Path) -> None: ...

    def names(self) -> list[str]: ...

    def remove(self, name: str) -> None: ...


def offer(objects: BaseObjects, folder: Path, name: str) -> int:
    """Put the store in ``folder`` there under ``name``, in place of any other; how many bytes it has.

    Raises:
        Unavailable: it cannot be put there for now.
    """
    withdraw(objects)
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}
    for file in sizes:
        objects.put(f"{name}/{file}", folder / file)
    index = folder / WHOLE
    files.write(index, json.dumps(sizes).encode())
    objects.put(f"{name}/{WHOLE}", index)
    return sum(sizes.values())


def withdraw(objects: BaseObjects) -> None:
    """Offer none any more."""
    for name in objects.names():
        objects.remove(name)


def fetch(objects: BaseObjects, name: str, store: Path) -> int:
    """Bring what is offered under ``name`` beside ``store``, ready for ``install``; how many bytes it has.

    Raises:
        Unavailable: it is not there, or cannot be brought for now.
    """
    part = store.with_name(PART_NAME)
    files.discard(part)
    files.make_folder(part)
    index = part / _INDEX
    objects.get(f"{name}/{WHOLE}", index)
    try:
        sizes: dict[str, int] = build(dict[str, int], json.loads(index.read_bytes()))
    except (ValueError, RecursionError) as error:
        raise Unavailable("what is offered has no index that can be read", error=str(error)) from error
    if not all(map(is_plain_name, sizes)):
        raise Unavailable("what is offered has files that are not of a store")
    files.remove(index)
    for file, size in sizes.items():
        path = part / file
        files.touch(path)
        if size:
            objects.get(f"{name}/{file}", path)
        if path.stat().st_size != size:
            raise Unavailable("what was offered changed while it was brought", file=file)
        files.sync(path)
    files.sync(part)
    files.touch(part / WHOLE)
    return sum(sizes.values())


def install(store: Path) -> bool:
    """Give a store that was brought whole the place of ``store``, which is closed; whether there was one.

    A loss of power in between leaves one of them, and the next call goes on.

    Raises:
        OSError: the disk refuses; the next call goes on.
    """
    part, old = store.with_name(PART_NAME), store.with_name(store.name + ".replaced")
    if not (part / WHOLE).exists():
        if store.exists():
            files.remove(store / WHOLE)
            files.discard(old)
        return False
    note = StoreNote(store)
    known = note.read()
    if known is not None and known.number:
        note.write(replace(known, store="", number=0), durable=True)  # what was brought is another
        note.close()
    if store.exists():
        files.discard(old)
        files.rename(store, old)
    files.rename(part, store)
    files.remove(store / WHOLE)
    files.discard(old)
    return True
