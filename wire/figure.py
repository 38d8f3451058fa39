"""How a figure of the status is declared, and how figures are written and read.

A figure is a field: its name, its type, one sentence, and the metrics that it becomes. A name that ends with ``_s`` is of seconds,
one with ``_ms`` of milliseconds, one with ``bytes`` of bytes. Between processes figures travel by their place, in JSON by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, dataclass_transform, get_args, get_origin

from wire.frozen_records import record
from wire.typed_values import field_types

Kind = Literal["gauge", "counter", "given", "count", "equals", "histogram", "states", "info"]
Figures = TypeVar("Figures")


@record
class FigureMetric:
    """A metric, ``bascule_NAME``, by what is declared beside a figure.

    kind: counter: it only grows, but for restarts; given: 1 if there is something, else 0; count: how many there are; equals: 1 if
    it is the one that is ``known``; states: 1 for the one of ``known`` that holds; info: always 1, with ``words`` as labels, each
    with the figure that it tells. text: what it is, where that is not what the figure is. by: the label of the keys of a mapping,
    or of states. known: keys that are 0 before there is anything, as soon as the figure ``beside`` is there.
    """

    kind: Kind
    name: str
    text: str = ""
    by: str = ""
    known: tuple[str, ...] = ()
    beside: str = ""
    words: tuple[tuple[str, str], ...] = ()


def gauge(name: str, text: str = "", **keys: Any) -> FigureMetric:
    """A value that goes up and down."""
    return FigureMetric("gauge", name, text, **keys)


def counter(name: str, text: str = "", **keys: Any) -> FigureMetric:
    """A value that only grows; ``_total`` is put behind the name."""
    return FigureMetric("counter", f"{name}_total", text, **keys)


def given(name: str, text: str = "") -> FigureMetric:
    """Whether there is something."""
    return FigureMetric("given", name, text)


def count(name: str, text: str = "") -> FigureMetric:
    """How many there are."""
    return FigureMetric("count", name, text)


def equals(name: str, text: str, known: str) -> FigureMetric:
    """Whether it is ``known``."""
    return FigureMetric("equals", name, text, known=(known,))


def histogram(name: str) -> FigureMetric:
    """Counts by size."""
    return FigureMetric("histogram", name)


def states(name: str, known: tuple[str, ...], *, by: str = "state") -> FigureMetric:
    """Which of the states ``known`` holds."""
    return FigureMetric("states", name, f"1 for the {by} that holds, 0 for the others.", by, known)


def info(name: str, text: str, **words: str) -> FigureMetric:
    """Texts, as labels; ``_info`` is put behind the name."""
    return FigureMetric("info", f"{name}_info", text, words=tuple(words.items()))


def figure(
    text: str,
    *metrics: FigureMetric,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    by: str = "",
    per: tuple[str, ...] = (),
) -> Any:
    """Declare a figure. by: the label of the keys of a mapping. per: the labels of rows that stay, where several say the same."""
    metadata = {"text": text, "metrics": metrics, "by": by, "per": per, "part": False}
    return field(default=default, default_factory=default_factory, metadata=metadata)


def part(text: str, *metrics: FigureMetric, default: Any = MISSING, per: tuple[str, ...] = ()) -> Any:
    """Declare further figures, which may be missing: JSON has an empty object then."""
    return field(default=default, metadata={"text": text, "metrics": metrics, "by": "", "per": per, "part": True})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(figure, part))
def figures(cls: type[Figures]) -> type[Figures]:
    """Figures that belong together. Nobody changes them: mypy holds that, and at run time nothing is paid for it.

    They have no slots, so that one row can have the figures of several others. All share what compares and shows them: written anew
    for each class, as dataclasses do, that would be most of what it takes to import them.
    """
    made = dataclass(kw_only=True, eq=False, repr=False)(cls)
    made.__eq__, made.__repr__ = _equals, _shown  # type: ignore[method-assign]
    return made


def _equals(one: object, other: object) -> bool:
    return type(one) is type(other) and values_of(one) == values_of(other)


def _shown(one: object) -> str:
    return f"{type(one).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(one).items())})"


@dataclass_transform(kw_only_default=True, field_specifiers=(figure, part))
def counters(cls: type[Figures]) -> type[Figures]:
    """Figures that are counted where they stand; whoever reports them copies them."""
    return dataclass(slots=True, kw_only=True)(cls)


def joined(kind: type[Figures], *parts: Any, **more: Any) -> Figures:
    """Figures of ``kind`` with those of ``parts``, as far as it has them, and ``more``, which come before theirs."""
    names = {each.name for each in fields(cast(Any, kind))}
    return kind(**{each.name: getattr(part, each.name) for part in parts for each in fields(part) if each.name in names} | more)


# --- between processes ---


@cache
def _getter(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    if not is_dataclass(kind):
        raise TypeError(f"no figures: {kind.__name__}")
    names = [each.name for each in fields(kind)]
    return attrgetter(*names) if len(names) > 1 else lambda value: tuple(getattr(value, name) for name in names)


def values_of(figures: Any) -> tuple[Any, ...]:
    """The values of figures by their place; what msgpack asks of what it does not know.

    Raises:
        TypeError: they are none.
    """
    kind: Any = type(figures)
    return _getter(kind)(figures)


def of_values(kind: type[Figures], values: tuple[Any, ...]) -> Figures:
    """The figures that ``values_of`` has taken apart; without a call of ``__init__``, which takes most of the time with so many."""
    names, nested, has_slots = _places(cast(Any, kind))
    told = dict(zip(names, values, strict=True))
    for name, read in nested:
        told[name] = read(told[name])
    if has_slots:
        return kind(**told)
    made = kind.__new__(kind)
    made.__dict__ = told
    return made


@cache
def _places(kind: Any) -> tuple[tuple[str, ...], tuple[tuple[str, Callable[[Any], Any]], ...], bool]:
    hints = field_types(kind)
    readers = ((name, _reader(hint, of_values)) for name, hint in hints)
    nested = tuple((name, read) for name, read in readers if read is not None and read is not tuple)
    return tuple(name for name, _ in hints), nested, "__slots__" in vars(kind)


# --- in JSON ---


def to_map(value: Any) -> Any:
    """Figures by their names, as msgpack and JSON know them."""
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if (parts := _parts(kind)) is not None:
        return {
            name: {} if told is None and is_part else to_map(told) for name, is_part in parts for told in (getattr(value, name),)
        }
    if isinstance(value, Mapping):
        return {key: to_map(one) for key, one in value.items()}
    return [to_map(one) for one in value] if isinstance(value, list | tuple) else value


_PLAIN = frozenset({int, float, str, bool, type(None)})


@cache
def _parts(kind: Any) -> tuple[tuple[str, bool], ...] | None:
    """The names of the figures of a ``kind``, and which may be absent as a whole; None: it has none."""
    if not is_dataclass(kind):
        return None
    return tuple((each.name, bool(each.metadata.get("part"))) for each in fields(kind))


def of_map(kind: type[Figures], told: Mapping[str, Any]) -> Figures:
    """The figures that ``to_map`` has written, maybe in another version: what is unknown is left out, what is missing empty."""
    return kind(**{name: read(told.get(name)) for name, read in _names(cast(Any, kind))})


@cache
def _names(kind: Any) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    parts = {each.name for each in fields(kind) if each.metadata.get("part")}
    return tuple((name, _lenient(hint, name in parts)) for name, hint in field_types(kind))


def _lenient(hint: Any, is_part: bool) -> Callable[[Any], Any]:
    read, option, nullable = _reader(hint, of_map), _option(hint), _option(hint) is not hint

    def of(value: Any) -> Any:
        if value is None or (is_part and not value):
            return None if nullable else _empty(option)
        return value if read is None else read(value)

    return of


def _empty(kind: Any) -> Any:
    if get_origin(kind) is Literal:
        return ""
    return of_map(cast(Any, kind), {}) if is_dataclass(kind) else (get_origin(kind) or kind)()


# --- both ---


def _option(hint: Any) -> Any:
    """``hint`` without None."""
    if get_origin(hint) in (Union, UnionType):
        return next(option for option in get_args(hint) if option is not NoneType)
    return hint


def held(hint: Any) -> tuple[type | None, Any]:
    """The figures that a field of type ``hint`` holds, if any, and in what: tuple, dict, or None for themselves."""
    option = _option(hint)
    origin, arguments = get_origin(option), get_args(option)
    inner = arguments[0] if origin is tuple else arguments[1] if origin is dict else option
    return (inner if is_dataclass(inner) and isinstance(inner, type) else None), origin


def _reader(hint: Any, of: Callable[[Any, Any], Any]) -> Callable[[Any], Any] | None:
    """The function that makes the value of a field of what was sent; None where it is as it was sent."""
    kind, within = held(hint)
    if kind is None:
        return tuple if within is tuple else None
    if within is tuple:
        return lambda rows: None if rows is None else tuple(of(kind, row) for row in rows)
    if within is dict:
        return lambda rows: None if rows is None else {key: of(kind, row) for key, row in rows.items()}
    return lambda told: None if told is None else of(kind, told)
