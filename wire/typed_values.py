"""Frozen dataclasses from plain values (msgpack, JSON), each value checked against its type. Standard library only."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

_INTEGERS = range(-(1 << 63), 1 << 63)


def build(kind: Any, value: Any, where: str = "") -> Any:
    """``value`` as ``kind``, a dataclass or a type of one of its fields. where: said in errors.

    A dataclass takes a mapping that has each of its fields and nothing else; a tuple takes any sequence. Integers have 64 bits.

    Raises:
        ValueError: something is missing, unknown or of another type; it says where.
    """
    if isinstance(kind, type) and is_dataclass(kind):
        hints = field_types(kind)
        if not isinstance(value, dict) or value.keys() != {name for name, _ in hints}:
            raise ValueError(f"{where or 'it'} has not the fields of {kind.__name__}")
        return kind(**{name: build(hint, value[name], f"{where}.{name}" if where else name) for name, hint in hints})
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        *simple, last = [option for option in arguments if option is not NoneType]
        return value if any(_is(option, value) for option in simple) else build(last, value, where)
    if origin is tuple and isinstance(value, list | tuple):
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(build(arguments[0], item, f"{where}[{number}]") for number, item in enumerate(value))
        if len(value) == len(arguments):
            pairs = enumerate(zip(arguments, value, strict=True))
            return tuple(build(option, item, f"{where}[{number}]") for number, (option, item) in pairs)
    elif origin is not None and isinstance(value, dict) and len(arguments) == 2:
        return {build(arguments[0], key, where): build(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    elif kind is Any or _is(kind, value):
        return value
    raise ValueError(f"{where} is {value!r:.60}, which it cannot be")


def _is(kind: Any, value: Any) -> bool:
    if kind is float:
        return type(value) in (int, float) and abs(value) < float("inf")  # not NaN either
    return type(value) is kind and (kind is not int or value in _INTEGERS)


@cache
def field_types(kind: Any) -> tuple[tuple[str, Any], ...]:
    """The fields of ``kind`` and what they hold; to find that out costs more than all else here."""
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in fields(kind))
