"""The node's history on disk: what it was in each minute, in files that are only added to and of which the oldest goes.

``<data_dir>/history/00000001.minutes`` and those behind it, each an eighth of what is kept at most. A file begins with ``MAGIC``;
a record follows the other: the lanes, wherever they are others than before, and minutes. A record that a crash has cut short is
the last one, and is left out. A file with anything else wrong in it is set aside as ``damaged``, one at a time, and another is
begun. Nothing is synced: a loss of power takes the last half a minute or so with it.

Which file is old is told by how much time was recorded since, and never by the wall clock, so that a clock that was set wrong for
a while removes nothing.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

from storage import files
from wire.frames.names import LaneName

FOLDER_NAME = "history"
DAMAGED_NAME = "damaged"
MAGIC = b"BASCMIN1"
PARTS = 8  # files at most, but for one that has just begun
_SUFFIX = ".minutes"
_HEAD = struct.Struct("<IIB")  # bytes of the body; CRC-32 of kind and body; kind
_LANES, _MINUTE = 1, 2
_TIME = struct.Struct("<qf")  # at_ms, seconds
_NODE = struct.Struct("<qqqfqq")
_LANE = struct.Struct("<qqqqqffff")


class NodeMinute(NamedTuple):
    """The node in a minute; None: nobody knows. Counts are of this minute, levels at its end.

    published: PUBLISHes of local clients. sessions_depth: messages that wait for local sessions. cpu_s: of all its processes.
    memory_bytes: PSS of all.
    """

    published: int | None
    clients: int | None
    sessions_depth: int | None
    cpu_s: float | None
    memory_bytes: int | None
    disk_free_bytes: int | None


class LaneMinute(NamedTuple):
    """A lane in a minute; None: nobody knows, or of an age or a latency: there is none.

    lost: messages that expired, were dropped, refused for good, or became dead letters. age_s: of the oldest that waits.
    p50_s, p99_s: latencies of what was delivered. down_s: how long the link did not stand; a pause does not count.
    """

    depth: int | None
    bytes: int | None
    accepted: int | None
    delivered: int | None
    lost: int | None
    age_s: float | None
    p50_s: float | None
    p99_s: float | None
    down_s: float | None


class Minute:
    """One record. at_ms: its end, as Unix time. seconds: how long it was."""

    __slots__ = ("_packed", "at_ms", "lanes", "seconds")

    def __init__(self, at_ms: int, seconds: float, lanes: tuple[LaneName, ...], packed: bytes) -> None:
        self.at_ms = at_ms
        self.seconds = seconds
        self.lanes = lanes
        self._packed = packed

    def rows(self, wanted: Sequence[int] | None = None) -> tuple[NodeMinute, list[LaneMinute]]:
        """The node, and the lanes at the places ``wanted`` of ``lanes``; all without that."""
        content = _unpacked(self._packed, _NODE.size + len(self.lanes) * _LANE.size)
        places = range(len(self.lanes)) if wanted is None else wanted
        rows = [LaneMinute(*map(_known, _LANE.unpack_from(content, _NODE.size + at * _LANE.size))) for at in places]
        return NodeMinute(*map(_known, _NODE.unpack_from(content))), rows


class _Damaged(Exception):
    """A file has something in it that nobody wrote."""


@dataclass(slots=True)
class _File:
    """size: bytes of whole records. lanes: those of its last record of them; None where it has none."""

    path: Path
    size: int = 0
    seconds: float = 0.0
    since_ms: int | None = None
    lanes: tuple[LaneName, ...] | None = None


class HistoryFolder:
    """The history in ``data_dir``; it alone writes it. Whatever raises OSError has lost no minute but the one at hand."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / FOLDER_NAME
        self._files: list[_File] | None = None
        self.damage = ""  # which file was set aside last, and why

    @property
    def bytes(self) -> int:
        """The size of all files together, as far as was looked."""
        return sum(file.size for file in self._files or ())

    @property
    def since_ms(self) -> int | None:
        """The end of the first minute on record, as Unix time."""
        return next((file.since_ms for file in self._files or () if file.since_ms is not None), None)

    def add(
        self,
        at_ms: int,
        seconds: float,
        node: NodeMinute,
        lanes: dict[LaneName, LaneMinute],
        *,
        keep_s: float,
        max_bytes: int,
    ) -> None:
        """Put a minute on record, and remove what is more than ``keep_s`` of recorded time, or than ``max_bytes``.

        Raises:
            OSError: the disk refuses.
        """
        try:
            known = self._known()
            names = tuple(lanes)
            packed = _TIME.pack(at_ms, seconds) + zlib.compress(_NODE.pack(*map(_told, _NODE_KINDS, node)) + _rows(lanes), 1)
            minute, labels = _record(_MINUTE, packed), _record(_LANES, msgpack.packb([list(lane) for lane in names]))
            full = bool(known) and (
                known[-1].seconds >= keep_s / PARTS or known[-1].size + len(minute + labels) > max_bytes // PARTS
            )
            if not known or full:
                known.append(self._begin())
            file = known[-1]
            content = minute if file.lanes == names else labels + minute
            with file.path.open("r+b") as target:
                target.truncate(file.size)  # what a crash or a full disk has cut short
                target.seek(file.size)
                target.write(content)
            file.size, file.seconds, file.lanes = file.size + len(content), file.seconds + seconds, names
            file.since_ms = at_ms if file.since_ms is None else file.since_ms
            self._trim(known, keep_s, max_bytes)
        except OSError:
            self._files = None
            raise

    def look(self) -> None:
        """See what earlier lives have left, for ``bytes`` and ``since_ms``. Raises OSError: the disk refuses."""
        self._known()

    def minutes(self, since_ms: int, until_ms: int) -> Iterator[Minute]:
        """The minutes that ended after ``since_ms`` and until ``until_ms``, in the order in which they were recorded.

        Raises:
            OSError: the disk refuses.
        """
        for file in list(self._known()):
            try:
                content = file.path.read_bytes()
                _judge(content)
            except FileNotFoundError:
                continue
            except _Damaged as error:
                self._set_aside(file.path, str(error))
                self._files = None
                continue
            yield from _minutes(content, since_ms, until_ms)

    def clear(self) -> None:
        """Remove all of it. Raises OSError: the disk refuses."""
        self._files = None
        if self._folder.is_dir():
            for path in [*_paths(self._folder), self._folder / DAMAGED_NAME]:
                files.remove(path)

    # --- inside ---

    def _known(self) -> list[_File]:
        """The files, looked at once."""
        if self._files is None:
            found = []
            for path in _paths(self._folder):
                file = _File(path)
                try:
                    _judge(path.read_bytes(), file)
                    found.append(file)
                except _Damaged as error:
                    self._set_aside(path, str(error))
            self._files = found
        return self._files

    def _begin(self) -> _File:
        files.make_folder(self._folder)
        number = max((int(path.stem) for path in _paths(self._folder)), default=0) + 1
        path = self._folder / f"{number:08d}{_SUFFIX}"
        files.write(path, MAGIC)
        return _File(path, len(MAGIC))

    def _trim(self, known: list[_File], keep_s: float, max_bytes: int) -> None:
        while len(known) > 1 and (self.bytes > max_bytes or sum(file.seconds for file in known[1:]) >= keep_s):
            files.remove(known.pop(0).path)

    def _set_aside(self, path: Path, why: str) -> None:
        files.rename(path, self._folder / DAMAGED_NAME)
        self.damage = f"{path}: {why}; it is {DAMAGED_NAME} beside the others now"


def read_minutes(data_dir: Path, since_ms: int, until_ms: int) -> Iterator[Minute]:
    """The minutes of the node in ``data_dir``, which may run, as ``HistoryFolder.minutes``; nothing is changed there.

    A damaged file ends where the damage begins.

    Raises:
        OSError: the disk refuses.
    """
    for path in _paths(data_dir / FOLDER_NAME):
        try:
            content = path.read_bytes()
        except FileNotFoundError:  # its time was up meanwhile
            continue
        try:
            yield from _minutes(content, since_ms, until_ms)
        except _Damaged:
            continue


def _paths(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob(f"*{_SUFFIX}") if path.stem.isdecimal())


def _record(kind: int, body: bytes) -> bytes:
    return _HEAD.pack(len(body), zlib.crc32(body, kind), kind) + body


def _records(content: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Kind, body and end of each record. Raises _Damaged."""
    if not content.startswith(MAGIC):
        if MAGIC.startswith(content):
            return  # its beginning was cut short
        raise _Damaged("it does not begin as such a file does")
    at = len(MAGIC)
    while at + _HEAD.size <= len(content):
        size, crc, kind = _HEAD.unpack_from(content, at)
        end = at + _HEAD.size + size
        body = content[at + _HEAD.size : end]
        if kind not in (_LANES, _MINUTE) or len(body) < size or zlib.crc32(body, kind) != crc:
            if end >= len(content) or not content[at:].strip(b"\0"):
                return  # the last one, which was cut short
            raise _Damaged(f"the record at byte {at} is none")
        yield kind, body, end
        at = end


def _judge(content: bytes, file: _File | None = None) -> None:
    """See whether it is a whole file, and tell ``file`` what is in it. Raises _Damaged: it is not."""
    file = _File(Path()) if file is None else file
    file.size = min(len(content), len(MAGIC))
    for kind, body, end in _records(content):
        if kind == _LANES:
            file.lanes = _lanes(body)
        else:
            at_ms, seconds = _time(body)
            file.seconds += seconds
            file.since_ms = at_ms if file.since_ms is None else file.since_ms
        file.size = end


def _minutes(content: bytes, since_ms: int, until_ms: int) -> Iterator[Minute]:
    lanes: tuple[LaneName, ...] = ()
    for kind, body, _ in _records(content):
        if kind == _LANES:
            lanes = _lanes(body)
            continue
        at_ms, seconds = _time(body)
        if since_ms < at_ms <= until_ms:
            yield Minute(at_ms, seconds, lanes, body[_TIME.size :])


def _lanes(body: bytes) -> tuple[LaneName, ...]:
    try:
        return tuple(
            LaneName(str(bridge), label if isinstance(label, int) else str(label)) for bridge, label in msgpack.unpackb(body)
        )
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise _Damaged("its names of lanes are none") from error


def _time(body: bytes) -> tuple[int, float]:
    if len(body) < _TIME.size:
        raise _Damaged("a minute in it is none")
    at_ms, seconds = _TIME.unpack_from(body)
    return at_ms, seconds


def _unpacked(packed: bytes, size: int) -> bytes:
    """Exactly ``size`` bytes, whatever was packed; what is not there is unknown."""
    try:
        content = zlib.decompressobj().decompress(packed, size)
    except zlib.error:
        content = b""
    return content if len(content) == size else b"\xff" * size


_NODE_KINDS = (int, int, int, float, int, int)
_LANE_KINDS = (int, int, int, int, int, float, float, float, float)


def _rows(lanes: dict[LaneName, LaneMinute]) -> bytes:
    return b"".join(_LANE.pack(*map(_told, _LANE_KINDS, row)) for row in lanes.values())


def _told(kind: type, value: Any) -> Any:
    return (-1 if kind is int else nan) if value is None else value


def _known(value: Any) -> Any:
    if isinstance(value, int):
        return None if value < 0 else value
    return None if isnan(value) else value
