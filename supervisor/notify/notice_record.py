"""The record of notices in the data folder: what stands, what waits for receivers, what topics tell, which events were seen."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from storage import files
from supervisor.notify.events_seen import EventsSeen
from supervisor.notify.notices import Notice, Standing
from wire.trouble_kinds import TroubleKind
from wire.typed_values import build

NAME = "notices.json"
_BYTES_MAX = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """standing: troubles. waiting: notices, each with its receiver. topics: the states that are told, by topic.

    role: the node's in its cluster, when it was looked at last.
    """

    standing: tuple[Standing, ...] = ()
    waiting: tuple[tuple[str, Notice], ...] = ()
    topics: dict[str, str] = field(default_factory=dict)
    seen: EventsSeen = field(default_factory=EventsSeen)
    role: str = ""


def read(data_dir: Path) -> Record:
    """The record in ``data_dir``; an empty one, where none is there.

    Raises:
        OSError: the disk refuses. ValueError: it is no such record, and the words say why.
    """
    path = data_dir / NAME
    try:
        with path.open("rb") as file:
            text = file.read(_BYTES_MAX)
    except FileNotFoundError:
        return Record()
    try:
        record: Record = build(Record, json.loads(text))
        for each in record.standing:
            TroubleKind(each.kind)
        return record
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def write(data_dir: Path, record: Record) -> None:
    """Have ``record`` on disk; that of before stays if it fails.

    Raises:
        OSError: the disk refuses.
    """
    files.write(data_dir / NAME, json.dumps(asdict(record)).encode())
