"""Records: immutable dataclasses that are made as quickly as mutable ones.

``dataclass(frozen=True)`` sets each field by a call, in each object that is made; frames and chunks are made for each message. That
nobody changes a record is for mypy to hold, which takes it for frozen; at run time nothing is paid for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

Record = TypeVar("Record")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[Record]) -> type[Record]:
    """A record with slots, made with its fields by place or by name."""
    return dataclass(slots=True, unsafe_hash=True)(cls)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def named_record(cls: type[Record]) -> type[Record]:
    """A record with slots, made with its fields by name."""
    return dataclass(slots=True, unsafe_hash=True, kw_only=True)(cls)
