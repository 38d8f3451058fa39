"""Frames in general: a class under a number that is never given twice, with named fields.

Names used in fields: ``epoch`` fences one life of a process (for lanes: one opening of the lane); ``number`` counts a sender's
frames from 1 within its epoch; ``queue`` is ``bridge:<name>:<lane>``; ranges are ``((start, stop), ...)`` with ``stop`` exclusive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, dataclass_transform

from wire.frozen_records import named_record

Ranges = tuple[tuple[int, int], ...]


@named_record
class Frame:
    """Base of all frames."""

    KIND: ClassVar[int]
    VERSION: ClassVar[int] = 1


FrameType = TypeVar("FrameType", bound="Frame")
Effects = list[tuple[str, Frame]]  # to send: to whom, and what
KINDS: dict[int, type[Frame]] = {}
HEADS: dict[type[Frame], tuple[bool, Callable[[Any], tuple[object, ...]]]] = {}
NAMES: dict[type[Frame], tuple[str, ...]] = {}


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def frame_kind(kind: int) -> Callable[[type[FrameType]], type[FrameType]]:
    """Make a record of a frame class and register it under ``kind``; a number is never given twice."""

    def register(declared: type[FrameType]) -> type[FrameType]:
        assert kind not in KINDS, f"frame kind {kind} is given twice"
        cls = named_record(declared)
        names = tuple(field.name for field in fields(cls))
        has_bodies = "bodies" in names
        heads = tuple(name for name in names if name != "bodies")
        cls.KIND = kind
        KINDS[kind] = cls
        NAMES[cls] = heads
        getter = attrgetter(*heads) if len(heads) > 1 else (lambda frame: tuple(getattr(frame, name) for name in heads))
        HEADS[cls] = (has_bodies, getter)
        return cls

    return register
