"""The manifest of a snapshot: what a snapshot folder holds, and whether it holds all of it. Pure standard library.

A snapshot is a folder ``<id>`` with ``store/``, the checkpoint, and ``manifest.json``, which is written last: a folder without a
manifest is half made, and so is one whose name begins with ``.part-`` or ends with ``.part``. How a snapshot comes to be is
``storage/store/checkpoint.py``'s, where it goes ``snapshot_folder.py``'s. Readers on other machines import this module alone.

Format 1, one JSON object; unknown keys are kept out of it and change nothing:

``format, id, node, store_id (the store's identity, 32 hexadecimal digits), boot_id, at_ms (UTC epoch), epoch (the store's life)``;
``versions``: of bascule and of what is in the store;
``queues``: where each queue stood (``QueueFacts``): accepted = delivered + expired + dropped + dead + depth + volatile messages;
``dead_letters``; ``sessions`` and ``retained``, how many; ``limits`` of the node, null is unlimited; ``disk_free_bytes``, null
where it is not known; ``events``: the numbers [first, next) of the node's events that are kept; ``files`` with sizes and SHA-256;
``check``, the SHA-256 of the object without it, written with sorted keys and without spaces.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from storage.files import local_path
from storage.safe_file_names import is_plain_name, is_plain_path, lies_below
from wire.errors import BasculeError, ConfigError, StorageDamaged, Unavailable
from wire.frames.names import LaneLabel
from wire.typed_values import build

FORMAT = 1
MANIFEST_NAME = "manifest.json"
STORE_NAME = "store"
PART_PREFIX = ".part-"
PART_SUFFIX = ".part"
READ_BYTES = 1 << 20
_LOST_AND_FOUND = "lost+found"  # a disk's own, and root's only
FOLDERS_DEEP_MAX = 2  # a folder of snapshots, or of such folders

Ranges = tuple[tuple[int, int], ...]

_ID = re.compile(r"(?P<node>.+)-(?P<day>\d{8}T\d{6})(?P<ms>\d{3})Z-(?P<epoch>\d+)")
_INDEX = (f"{STORE_NAME}/CURRENT", f"{STORE_NAME}/MANIFEST-")
_HEX = re.compile(r"[0-9a-f]{64}")
_IDENTITY = re.compile(r"[0-9a-f]{32}")


class NoManifest(Unavailable):
    """The folder is no snapshot, or a half-made one."""


class ManifestDamaged(StorageDamaged):
    """The manifest is not what was written."""


class ManifestNewer(ConfigError):
    """A newer version of Bascule wrote the manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFacts:
    """The messages that came into a queue, by what became of them; ``redelivered`` counts sendings, ``refused`` those that never
    came in, ``raised`` those of ``accepted`` whose QoS a rule has raised, ``from_retained`` those that were retained before."""

    accepted: int = 0
    delivered: int = 0
    expired: int = 0
    redelivered: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    dead: Mapping[str, int] = field(default_factory=dict)
    refused: int = 0
    raised: int = 0
    from_retained: int = 0

    def ended(self) -> int:
        """How many messages have left the queue."""
        return self.delivered + self.expired + sum(self.dropped.values()) + sum(self.dead.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class VolatileFacts:
    """The messages of a queue that are only in the memory of the node, so not in the snapshot: QoS 0. ``ranges`` has them all."""

    messages: int = 0
    size_bytes: int = 0
    ranges: Ranges = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """The positions of a queue.

    bridge, lane: None for the queue of a session. depth: durable messages, in the snapshot; volatile ones come on top. size_bytes:
    of all in the queue, to within a chunk. in_flight: handed out and not settled. settlements: the numbers [first, next) of its
    settlement rows. history_from: what was settled from this sequence on is kept, -1: nothing is. damaged: its row could not be
    read, and all figures are 0. max_messages, max_bytes: its bridge's limits, None is unlimited.
    """

    name: str
    number: int
    bridge: str | None
    lane: LaneLabel | None
    configured: bool
    head: int
    tail: int
    cursor: int
    depth: int
    size_bytes: int
    volatile: VolatileFacts
    in_flight: Ranges
    ledger: LedgerFacts
    max_messages: int | None
    max_bytes: int | None
    retention_s: float
    damaged: bool = False
    settlements: tuple[int, int] = (0, 0)
    history_from: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadFacts:
    """A dead-letter queue: how many messages and bytes it held."""

    bridge: str
    number: int
    held: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """A file of the snapshot; ``name`` counts from its folder, with slashes."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All that is said of a snapshot."""

    id: str
    node: str
    store_id: str
    boot_id: str
    at_ms: int
    epoch: int
    versions: Mapping[str, int | str]
    queues: tuple[QueueFacts, ...]
    dead_letters: tuple[DeadFacts, ...]
    sessions: int
    retained: int
    limits: Mapping[str, int | None]
    disk_free_bytes: int | None
    files: tuple[FileFacts, ...]
    events: tuple[int, int] = (0, 0)

    @property
    def size_bytes(self) -> int:
        """Of all its files."""
        return sum(entry.size_bytes for entry in self.files)

    def to_json(self) -> bytes:
        """The manifest as it is written."""
        fields = {
            "format": FORMAT,
            "id": self.id,
            "node": self.node,
            "store_id": self.store_id,
            "boot_id": self.boot_id,
            "at_ms": self.at_ms,
            "epoch": self.epoch,
            "versions": dict(self.versions),
            "queues": [queue_fields(queue) for queue in self.queues],
            "dead_letters": [
                {"bridge": dead.bridge, "number": dead.number, "held": dead.held, "bytes": dead.size_bytes}
                for dead in self.dead_letters
            ],
            "sessions": self.sessions,
            "retained": self.retained,
            "limits": dict(self.limits),
            "disk_free_bytes": self.disk_free_bytes,
            "events": self.events,
            "files": [{"name": entry.name, "bytes": entry.size_bytes, "sha256": entry.sha256} for entry in self.files],
        }
        return json.dumps({**fields, "check": _check(fields)}, sort_keys=True, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def from_json(cls, text: bytes, *, where: str = "") -> Manifest:
        """The manifest that ``to_json`` wrote. where: said in errors.

        Raises:
            ManifestNewer: a newer version wrote it.
            ManifestDamaged: it is not what was written.
        """
        try:
            fields = json.loads(text)
            if not isinstance(fields, dict) or not isinstance(fields.get("format"), int):
                raise ValueError("no format is given")
        except (ValueError, RecursionError) as error:
            raise ManifestDamaged("the snapshot's manifest is not one", path=where, error=str(error)) from error
        if fields["format"] > FORMAT:
            raise ManifestNewer("the snapshot is of a newer version of Bascule", path=where, format=fields["format"], known=FORMAT)
        check = fields.pop("check", None)
        if check != _check(fields):
            raise ManifestDamaged("the snapshot's manifest does not have the check sum that it states", path=where)
        try:
            manifest: Manifest = build(cls, asdict(cls.of_fields(fields)))  # each value is of its type
            time.gmtime(manifest.at_ms // 1000)
            return manifest
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError) as error:
            raise ManifestDamaged("the snapshot's manifest lacks something", path=where, error=repr(error)) from error

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Manifest:
        """The manifest with these fields, named as in its JSON.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: something is missing or is not what it should be.
        """
        return cls(
            id=_snapshot_id(fields["id"]),
            node=fields["node"],
            store_id=_identity(fields["store_id"]),
            boot_id=fields["boot_id"],
            at_ms=fields["at_ms"],
            epoch=fields["epoch"],
            versions=fields["versions"],
            queues=tuple(queue_of(queue) for queue in fields["queues"]),
            dead_letters=tuple(dead_of(dead) for dead in fields["dead_letters"]),
            sessions=fields["sessions"],
            retained=fields["retained"],
            limits=fields["limits"],
            disk_free_bytes=fields["disk_free_bytes"],
            events=_numbers(fields, "events"),
            files=tuple(_file_from(entry) for entry in fields["files"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A folder that is a snapshot, or looks like one. ``problem`` is why it cannot be used, and empty where there is a manifest."""

    path: Path
    manifest: Manifest | None
    problem: str = ""
    newer: bool = False  # a newer version wrote it
    half_made: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """The fault of a file of a snapshot."""

    name: str
    problem: str

    def __str__(self) -> str:
        return f"{self.name} {self.problem}"


def snapshot_id(node: str, at_ms: int, epoch: int) -> str:
    """The name of a snapshot: by node, time and life of the store; the names of one node sort by time."""
    return f"{node}-{_stamp(at_ms)}Z-{epoch}"


def age_key(snapshot: str, now_ms: int) -> tuple[bool, int, str]:
    """Sorts the names of snapshots by when they were made, the oldest first, though a clock was set back in between.

    A snapshot with a time after ``now_ms`` was made before that. The lives of a store are numbered upwards whatever the clock says.
    """
    match = _ID.fullmatch(snapshot)
    if match is None:
        return False, 0, snapshot
    stamp = match["day"] + match["ms"]
    return stamp <= _stamp(now_ms), int(match["epoch"]), stamp


def node_of(snapshot: str) -> str | None:
    """The node of the snapshot that is called so; None if no snapshot is."""
    match = _ID.fullmatch(snapshot)
    return match["node"] if match else None


def is_half_made(name: str) -> bool:
    """Whether a folder that is called so is being made, or was left behind."""
    return name.startswith(PART_PREFIX) or name.endswith(PART_SUFFIX)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the snapshot ``folder``; the files are not looked at.

    Raises:
        NoManifest: there is none: this is no snapshot, or a half-made one.
        ManifestDamaged, ManifestNewer: it cannot be used.
        OSError: it cannot be read for now.
    """
    path = folder / MANIFEST_NAME
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NoManifest("the folder is no snapshot, or a half-made one: it has no manifest", path=str(folder)) from error
    return Manifest.from_json(text, where=str(path))


def verify(folder: Path, *, files: bool = True, on_file: Callable[[str], None] | None = None) -> list[Fault]:
    """The faults of the files of the snapshot ``folder``; none if it is as it was made.

    files: read every file and compare its SHA-256; otherwise only names and sizes are looked at. on_file: told of each before that.

    Raises:
        NoManifest, ManifestDamaged, ManifestNewer, OSError: as ``read_manifest``.
    """
    manifest = read_manifest(folder)
    faults = not_whole(folder, manifest, content=files, on_file=on_file)
    stated = {entry.name for entry in manifest.files}
    present = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    faults += [Fault(name, "is not of the snapshot") for name in sorted(present - stated - {MANIFEST_NAME})]
    if not is_half_made(folder.name) and node_of(folder.name) is not None and folder.name != manifest.id:
        faults.append(Fault(MANIFEST_NAME, f"is of the snapshot {manifest.id}"))
    return faults


def not_whole(folder: Path, manifest: Manifest, *, content: bool, on_file: Callable[[str], None] | None = None) -> list[Fault]:
    """The files that ``manifest`` names and ``folder`` lacks; none if all are there. Otherwise as ``verify``."""
    faults = []
    for entry in manifest.files:
        if on_file is not None:
            on_file(entry.name)
        problem = file_problem(folder / entry.name, entry, content=content)
        if problem:
            faults.append(Fault(entry.name, problem))
    return faults


def index_faults(folder: Path, manifest: Manifest) -> list[Fault]:
    """The faults of the files that say which others are the store's; all of each is read, and they are small.

    RocksDB takes the first record of them that is cut short for their end, and opens the store as it was once.
    """
    index = (entry for entry in manifest.files if entry.name.startswith(_INDEX))
    return [Fault(entry.name, problem) for entry in index if (problem := file_problem(folder / entry.name, entry, content=True))]


def file_problem(path: Path, entry: FileFacts, *, content: bool) -> str:
    """The fault of the file ``path`` if it should be ``entry``; empty if it has none. content: it is read, too."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or not lies_below(path, path.parents[entry.name.count("/")]):
            return "is no file, or reached by a link"
        size_bytes = found.st_size
        if size_bytes != entry.size_bytes:
            return f"has {size_bytes} bytes instead of {entry.size_bytes}"
        if content and sha256_of(path) != entry.sha256:
            return "is damaged: its SHA-256 is another one"
    except FileNotFoundError:
        return "is missing"
    except (OSError, RuntimeError) as error:
        return f"cannot be read: {error}"
    return ""


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal. Other threads go on meanwhile.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while part := file.read(READ_BYTES):
            digest.update(part)
    return digest.hexdigest()


def find_snapshots(where: str | Path) -> list[Found]:
    """The snapshots at ``where``: a snapshot, a folder of snapshots (or of such folders), or a glob over them. Sorted by name.

    Half-made, damaged and newer ones are among them, with their problem: who reads decides. Every path is found once.

    Raises:
        NoManifest: nothing there looks like a snapshot.
        ConfigError: it is a URL of something that is no file system.
    """
    text = local_path(os.fspath(where))
    paths = [Path(text)] if os.path.lexists(text) else [Path(path) for path in glob.glob(text, recursive=True)]
    found: dict[Path, Found] = {}
    for path in paths:
        for candidate in _candidates(path, FOLDERS_DEEP_MAX):
            found.setdefault(candidate.resolve(), _look_at(candidate))
    if not found:
        raise NoManifest(f"there is no snapshot at {text}")
    return sorted(found.values(), key=lambda each: (each.path.name.removeprefix(PART_PREFIX), str(each.path)))


def _candidates(path: Path, deep: int) -> Iterator[Path]:
    try:
        if not path.is_dir() or path.name == _LOST_AND_FOUND:
            return
        is_one = (path / MANIFEST_NAME).exists() or _looks_half_made(path)
        within = sorted(path.iterdir()) if not is_one and deep > 0 else []
    except FileNotFoundError:
        return  # it has gone meanwhile
    except OSError:
        is_one, within = True, []  # a look at it says why
    if is_one:
        yield path
    for below in within:
        yield from _candidates(below, deep - 1)


def _looks_half_made(path: Path) -> bool:
    bare = path.name.removeprefix(PART_PREFIX).removesuffix(PART_SUFFIX)
    return node_of(bare) is not None and (bare != path.name or (path / STORE_NAME).is_dir())


def _look_at(path: Path) -> Found:
    if is_half_made(path.name):
        return Found(path=path, manifest=None, problem="is half made", half_made=True)
    try:
        return Found(path=path, manifest=read_manifest(path))
    except NoManifest:
        return Found(path=path, manifest=None, problem="is half made: it has no manifest", half_made=True)
    except (BasculeError, OSError) as error:
        return Found(path=path, manifest=None, problem=str(error), newer=isinstance(error, ManifestNewer))


def _stamp(at_ms: int) -> str:
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(at_ms // 1000)) + f"{at_ms % 1000:03d}"


def _check(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def queue_fields(queue: QueueFacts) -> dict[str, Any]:
    """``queue`` as it stands in the manifest."""
    ledger, volatile = queue.ledger, queue.volatile
    return {
        "name": queue.name,
        "number": queue.number,
        "bridge": queue.bridge,
        "lane": queue.lane,
        "configured": queue.configured,
        "head": queue.head,
        "tail": queue.tail,
        "cursor": queue.cursor,
        "depth": queue.depth,
        "bytes": queue.size_bytes,
        "volatile": {"messages": volatile.messages, "bytes": volatile.size_bytes, "ranges": volatile.ranges},
        "in_flight": queue.in_flight,
        "ledger": {
            "accepted": ledger.accepted,
            "delivered": ledger.delivered,
            "expired": ledger.expired,
            "redelivered": ledger.redelivered,
            "dropped": dict(ledger.dropped),
            "dead": dict(ledger.dead),
            "refused": ledger.refused,
            "raised": ledger.raised,
            "from_retained": ledger.from_retained,
        },
        "max_messages": queue.max_messages,
        "max_bytes": queue.max_bytes,
        "retention_s": queue.retention_s,
        "damaged": queue.damaged,
        "settlements": queue.settlements,
        "history_from": queue.history_from,
    }


def dead_of(fields: Mapping[str, Any]) -> DeadFacts:
    """The dead-letter queue that a manifest describes so."""
    return DeadFacts(bridge=fields["bridge"], number=fields["number"], held=fields["held"], size_bytes=fields["bytes"])


def queue_of(fields: Mapping[str, Any]) -> QueueFacts:
    """The queue that ``queue_fields`` described."""
    ledger, volatile = fields["ledger"], fields["volatile"]
    return QueueFacts(
        name=fields["name"],
        number=fields["number"],
        bridge=fields["bridge"],
        lane=fields["lane"],
        configured=fields["configured"],
        head=fields["head"],
        tail=fields["tail"],
        cursor=fields["cursor"],
        depth=fields["depth"],
        size_bytes=fields["bytes"],
        volatile=VolatileFacts(
            messages=volatile["messages"], size_bytes=volatile["bytes"], ranges=_ranges_from(volatile["ranges"])
        ),
        in_flight=_ranges_from(fields["in_flight"]),
        ledger=LedgerFacts(
            accepted=ledger["accepted"],
            delivered=ledger["delivered"],
            expired=ledger["expired"],
            redelivered=ledger["redelivered"],
            dropped=dict(ledger["dropped"]),
            dead=dict(ledger["dead"]),
            refused=ledger["refused"],
            raised=ledger["raised"],
            from_retained=ledger["from_retained"],
        ),
        max_messages=fields["max_messages"],
        max_bytes=fields["max_bytes"],
        retention_s=fields["retention_s"],
        damaged=fields.get("damaged", False),
        settlements=_numbers(fields, "settlements"),
        history_from=fields["history_from"],
    )


def _file_from(fields: Mapping[str, Any]) -> FileFacts:
    entry = FileFacts(name=fields["name"], size_bytes=fields["bytes"], sha256=fields["sha256"])
    if not is_plain_path(entry.name) or not _HEX.fullmatch(entry.sha256) or entry.size_bytes < 0:
        raise ValueError(f"not a file of a snapshot: {entry.name!r}")
    return entry


def _snapshot_id(text: str) -> str:
    if not _ID.fullmatch(text) or not is_plain_name(f"{PART_PREFIX}{text}{PART_SUFFIX}"):
        raise ValueError(f"not the name of a snapshot: {text!r:.60}")
    return text


def _identity(text: str) -> str:
    if not _IDENTITY.fullmatch(text):
        raise ValueError(f"not the identity of a store: {text!r}")
    return text


def _numbers(fields: Mapping[str, Any], name: str) -> tuple[int, int]:
    first, following = fields.get(name, (0, 0))
    return int(first), int(following)


def _ranges_from(ranges: Any) -> Ranges:
    return tuple((int(start), int(stop)) for start, stop in ranges)
