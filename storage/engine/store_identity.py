"""Knowledge of a node's store outside of it: a note beside its folder, which an opening compares with what is inside.

    <store>.identity    two slots, written in turn: CRC-32 in hexadecimal digits, generation, one JSON object, a line feed, zeros

engine.own-store-only [P1, P3]: only the store that the note names is opened, no older one, and a new one only where the note says
    that none was ever in use.
engine.files-there [P1]: what was committed is promised only while all that the store has open is there under its name: a commit in
    files that were unlinked, moved away or covered is no commit. The process ends then, for RocksDB writes by names.
"""

from __future__ import annotations

import json
import logging
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from zlib import crc32

from storage import files
from wire.typed_values import build

log = logging.getLogger("bascule")

_UNLINKED = " (deleted)"
_LOOKS, _LOOK_S = 50, 0.002
SUFFIX = ".identity"
CURE = "Mount its disk or put it back, and the node goes on; to begin a new one: bascule run CONFIG --new-store"
IDENTITY_KEY = b"I"  # of the row inside, in the family ``meta``
_SLOT_BYTES = 1024
_SETTLED_NS = 50_000_000  # the clock of the file system goes in steps below this


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownStore:
    """store: its identity; empty while it has none. node: whose it is. since_ms: since when it is in use, UTC epoch.

    number: how far its commits had gone, synced; 0 while nothing was promised in it. waiting: durable messages that waited in it at
    ``noted_ms``. former: the store that was here before; lost: how many messages waited in that.
    """

    store: str = ""
    node: str = ""
    since_ms: int = 0
    number: int = 0
    waiting: int = 0
    noted_ms: int = 0
    former: str = ""
    lost: int = 0

    def __str__(self) -> str:
        """The store, for an operator."""
        day = time.strftime("%Y-%m-%d", time.gmtime(self.since_ms / 1000))
        noted = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.noted_ms / 1000))
        last = f", with {self.waiting} messages waiting at {noted} UTC," if self.noted_ms else ""
        return f"store {self.store[:8] or 'without a name'} of node {self.node or 'without a name'}, begun {day}{last}"


class StoreNote:
    """The note beside the store in the folder ``store``. known: what it says; None if there is none."""

    def __init__(self, store: Path) -> None:
        self.path = store.with_name(store.name + SUFFIX)
        self.known: KnownStore | None = None
        self._generation = 0
        self._file: int | None = None

    def read(self) -> KnownStore | None:
        """The note now.

        Raises:
            OSError: the disk refuses.
        """
        self.known, self._generation = None, 0
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        for slot in (content[:_SLOT_BYTES], content[_SLOT_BYTES:]):
            self._read(slot)
        if self.known is None:  # torn while it was made, or damaged: what is inside is all that is known
            log.warning("store.note_damaged", extra={"path": str(self.path)})
            self.known = KnownStore()
        return self.known

    def write(self, known: KnownStore, *, durable: bool) -> None:
        """Have the note say so. durable: it outlives the power when this returns.

        Raises:
            OSError: the disk refuses; the note may say what it said before.
        """
        if self._file is None:
            self._file = files.open_fixed(self.path, 2 * _SLOT_BYTES)
        body = f"{self._generation + 1} {json.dumps(asdict(known))}\n".encode()
        line = f"{crc32(body):08x} ".encode() + body
        files.write_at(self._file, line.ljust(_SLOT_BYTES, b"\0"), _SLOT_BYTES * (self._generation + 1 & 1))
        if durable:
            os.fsync(self._file)
        self.known, self._generation = known, self._generation + 1

    def close(self) -> None:
        """Release the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _read(self, slot: bytes) -> None:
        line = slot.rstrip(b"\0")
        check, _, body = line.partition(b" ")
        generation, _, known = body.partition(b" ")
        if check != b"%08x" % crc32(body) or int(generation) <= self._generation:
            return
        with suppress(ValueError):  # another build's, or made by hand: as one that is damaged
            self.known, self._generation = build(KnownStore, json.loads(known)), int(generation)


def begin_store(store: Path, node: str, now_ms: int) -> KnownStore:
    """Have the next opening of the folder ``store`` make a new store; what is there is kept aside. The note of that.

    Raises:
        OSError: the disk refuses; done again, it goes on.
    """
    note = StoreNote(store)
    former = note.read() or KnownStore()
    if store.exists():
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_ms / 1000))
        files.rename(store, store.with_name(f"{store.name}.before-{stamp}"))
    note.write(KnownStore(node=node, since_ms=now_ms, former=former.store, lost=former.waiting), durable=True)
    note.close()
    return former


class OpenFolder:
    """The folder ``path`` of a store that is open, held so that nothing else can be taken for it.

    A file that is unlinked or renamed changes the time of the folder's last change. So one look at that time tells, in 2 us, that
    all names are what they were; only where it has moved the descriptors of this process are looked through.
    """

    def __init__(self, path: Path) -> None:
        """Hold what is at ``path`` now.

        Raises:
            OSError: the disk refuses.
        """
        self._path = str(path)
        self._held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        held = os.fstat(self._held)
        self._is = held.st_dev, held.st_ino
        self._seen_ns = 0

    def fault(self) -> str:
        """The fault; empty where all that the process has open in it is there under its name."""
        try:
            there = os.stat(self._path)
        except OSError as error:
            return f"its folder is gone: {error.strerror}"
        if there.st_mtime_ns == self._seen_ns and (there.st_dev, there.st_ino) == self._is:
            return ""
        if (there.st_dev, there.st_ino) != self._is:
            return "another folder is in its place"
        return self._inspect(there.st_mtime_ns)

    def close(self) -> None:
        """Release it."""
        os.close(self._held)

    def _inspect(self, changed_ns: int) -> str:
        """As ``fault``, by the names of all descriptors. RocksDB may be about to close a file that it has removed: that passes."""
        for _ in range(_LOOKS):
            gone = self._unlinked()
            if not gone:
                self._seen_ns = changed_ns if abs(time.time_ns() - changed_ns) > _SETTLED_NS else 0
                return "" if os.path.exists(f"{self._path}/CURRENT") else "its file CURRENT was removed"
            time.sleep(_LOOK_S)
        return f"its file {gone} was removed"

    def _unlinked(self) -> str:
        folder = os.readlink(f"/proc/self/fd/{self._held}") + "/"
        for descriptor in os.listdir("/proc/self/fd"):
            try:
                name = os.readlink(f"/proc/self/fd/{descriptor}")
            except OSError:
                continue  # it was that of the list, or is closed meanwhile
            if name.startswith(folder) and name.endswith(_UNLINKED):
                return name[len(folder) : -len(_UNLINKED)]
        return ""
