"""The record of notices in the data folder: what stands, what waits for its receivers, and which events were looked at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from storage import files
from supervisor.notify.notices import Notice, Standing, standing_of
from wire.typed_values import build

NAME = "notices.json"
_BYTES_MAX = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """standing: troubles. waiting: notices, each with its receiver. event: the number of the next; None before the first look."""

    standing: tuple[Standing, ...] = ()
    waiting: tuple[tuple[str, Notice], ...] = ()
    event: int | None = None


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
        told = json.loads(text)
        return Record(
            standing=tuple(standing_of(each) for each in told["standing"]),
            waiting=tuple((str(receiver), build(Notice, notice)) for receiver, notice in told["waiting"]),
            event=build(int | None, told["event"], "event"),
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def write(data_dir: Path, standing: Sequence[Standing], waiting: Sequence[tuple[str, Notice]], event: int | None) -> None:
    """Have them on record; that of before stays if it fails.

    Raises:
        OSError: the disk refuses.
    """
    told = {
        "standing": [asdict(each) for each in standing],
        "waiting": [(receiver, asdict(notice)) for receiver, notice in waiting],
        "event": event,
    }
    files.write(data_dir / NAME, json.dumps(told).encode())
