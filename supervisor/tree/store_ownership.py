"""At the start of a node: whether the store in its data folder is its own, and whether it may begin a new one.

The inside is compared by the process that opens it (``storage/engine/store_opening.py``), the note beside it here.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path

from storage.engine.store_folder import StoreFolder
from storage.engine.store_identity import CURE, KnownStore, StoreNote, begin_store
from wire.config_settings import NodeSettings
from wire.errors import StorageDamaged, StoreGone

log = logging.getLogger("bascule")

NEW_STORE, RENAMED = "--new-store", "--renamed"  # what an operator says for one start


def judge(settings: NodeSettings, consent: frozenset[str] = frozenset()) -> KnownStore | None:
    """The identity of the store in the data folder, which is this node's; None if it has none and may begin one.

    Raises:
        StoreGone: there was a store, and it is not there; or a new one may not begin.
        StorageDamaged: the store is another node's.
        OSError: it cannot be read.
    """
    where, store = settings.node.data_dir, Path(settings.node.data_dir) / "store"
    known, is_there = StoreNote(store).read(), StoreFolder(store).holds_a_store()
    if NEW_STORE in consent:
        return None
    if known is None and not is_there:
        if settings.node.new_store == "allow":
            return None
        what = f"there is no store in {where}, and node.new_store is refuse"
        raise StoreGone(f"{what}. Mount its disk, and start again; where this node is to begin, bascule run CONFIG --new-store")
    known = known or KnownStore()
    if known.number and not is_there and not store.with_name("store.part").exists():
        raise StoreGone(f"the {known} is not here: there is nothing of a store in {store}. {CURE}")
    if known.node not in ("", settings.node.name) and RENAMED not in consent:
        what = f"the {known} is in {where}, and this node is called {settings.node.name}"
        raise StorageDamaged(f"{what}. Put back its own store, or bascule run CONFIG --renamed if that is its former name")
    return known


def is_anothers(settings: NodeSettings) -> bool:
    """Whether the data folder is that of a node of another name."""
    known = StoreNote(Path(settings.node.data_dir) / "store").read()
    return known is not None and known.node not in ("", settings.node.name)


def claim(settings: NodeSettings, consent: frozenset[str]) -> None:
    """Have the note beside the store say that it is this node's, and let a node that has none begin one.

    Raises:
        StoreGone, StorageDamaged, OSError: as ``judge``; or the disk refuses.
    """
    store, now_ms = Path(settings.node.data_dir) / "store", time.time_ns() // 1_000_000
    known = judge(settings, consent)
    if known is None:
        former = begin_store(store, settings.node.name, now_ms)
        log.warning("store.begins_new", extra={"data_dir": settings.node.data_dir, "former": former.store, "lost": former.waiting})
    elif known.node != settings.node.name:
        note = StoreNote(store)
        note.read()
        note.write(replace(known, node=settings.node.name, since_ms=known.since_ms or now_ms), durable=True)
        note.close()
