"""Declarations of ``wire/config_settings.py`` about each setting, read from the annotations of its fields. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from supervisor.units import AUTO, UNLIMITED, write_duration, write_size
from wire.config_settings import NodeSettings
from wire.exchange.refusal_policy import DEFAULT_REASON, REASONS
from wire.setting_kinds import Choices, Duration, Effect, Inherits, Key, Number, SettingForm, Size, Without

Amount = Duration | Size | Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. field, key: its name in the settings, and in the file. says: a sentence for the operator.

    held: the type of its value, without None; optional: whether None is one. default: MISSING where it must be given. choices: the
    words that it may be, with their values. inherits: the section that has what is left out. without: what is not below it.
    """

    field: str
    key: str
    says: str
    held: Any
    optional: bool
    default: Any
    effect: Effect | None = None
    amount: Amount | None = None
    written: SettingForm | None = None
    choices: tuple[tuple[Any, Any], ...] = ()
    inherits: str = ""
    without: frozenset[str] = frozenset()

    @property
    def required(self) -> bool:
        """Whether the file must have it."""
        return self.default is MISSING

    @property
    def many(self) -> bool:
        """Whether it is a list in the file."""
        return get_origin(self.held) is tuple and self.written not in (SettingForm.PROPERTIES, SettingForm.HEADERS)

    @property
    def item(self) -> Any:
        """The type of one value: of an item, if it is a list."""
        return get_args(self.held)[0] if self.many else self.held

    @property
    def section(self) -> type | None:
        """The dataclass of the settings below it."""
        return self.item if is_dataclass(self.item) and self.written is None else None  # type: ignore[return-value]

    @property
    def word(self) -> str:
        """A word that stands for a value: ``auto`` or ``unlimited``."""
        return AUTO if isinstance(self.amount, Number) and self.amount.auto is not None else UNLIMITED

    @property
    def never(self) -> Any:
        """The value that is written as ``word``; MISSING where there is none."""
        if isinstance(self.amount, Duration) and self.amount.never is not None:
            return self.amount.never
        if self.word == AUTO:
            return self.amount.auto  # type: ignore[union-attr]
        return None if self.amount is not None and self.optional else MISSING

    def below(self) -> tuple[Setting, ...]:
        """The settings below it that the file has; where it has a default itself, theirs are in that."""
        if self.section is None:
            return ()
        below = settings_of(self.section, self.without)
        return (
            tuple(replace(one, default=getattr(self.default, one.field)) for one in below) if is_dataclass(self.default) else below
        )

    def as_written(self, value: Any) -> Any:
        """``value`` as the file has it."""
        if self.many and value is not None:
            return tuple(value)
        if value == self.never:
            return self.word
        if self.choices:
            return next(word for word, held in self.choices if held == value)
        match self.amount, self.written:
            case Duration(), _:
                return write_duration(value)
            case Size(), _:
                return write_size(value)
            case Number(), _:
                return int(value) if value == int(value) else value
            case _, SettingForm.FILE_MODE:
                return f"{value:04o}"
            case _, SettingForm.PROPERTIES | SettingForm.HEADERS:
                return dict(value)
            case _, SettingForm.REFUSALS:
                names = {code: name for name, code in REASONS.items()}
                return {DEFAULT_REASON: value.default} | {names[code]: action for code, action in value.codes}
            case _, SettingForm.ONLY:
                return {"one_per": write_duration(value.one_per_s)} if value.one_per_s else "changed" if value.changed else "all"
        return value


@cache
def settings_of(section: type, without: frozenset[str] = frozenset()) -> tuple[Setting, ...]:
    """The settings in ``section`` that the file has, in their order."""
    hints = get_type_hints(section, include_extras=True)
    declared = ((field.name, field.default, hints[field.name]) for field in fields(section) if field.name not in without)
    return tuple(_setting(name, default, get_args(hint)) for name, default, hint in declared if hasattr(hint, "__metadata__"))


def about(section: type) -> str:
    """A section, for the operator."""
    return " ".join((section.__doc__ or "").partition("\n\n")[0].split())


def each_setting(settings: Iterable[Setting] | None = None, path: str = "") -> Iterator[tuple[str, Setting]]:
    """Every setting of the file, with its key: ``bridges[].remote.tls.ca_file``."""
    for one in settings_of(NodeSettings) if settings is None else settings:
        key = f"{path}.{one.key}".lstrip(".")
        yield key, one
        yield from each_setting(one.below(), key + ("[]" if one.many else ""))


def _setting(field: str, default: Any, annotation: tuple[Any, ...]) -> Setting:
    held, *marks = annotation
    parts = get_args(held) if get_origin(held) in (Union, UnionType) else (held,)
    plain = [part for part in parts if part is not NoneType]
    found: dict[str, Any] = {}
    key = field
    for mark in marks:
        match mark:
            case Effect():
                found["effect"] = mark
            case str():
                found["says"] = mark
            case Duration():
                found["amount"] = mark
                key = field.removesuffix("_s")
            case Size() | Number():
                found["amount"] = mark
            case SettingForm():
                found["written"] = mark
            case Choices():
                found["choices"] = tuple(mark.values.items())
            case Without():
                found["without"] = mark.names
            case Inherits():
                found["inherits"] = mark.section
    key = next((mark.name for mark in marks if isinstance(mark, Key)), key)
    return Setting(field=field, key=key, held=plain[0], optional=len(plain) < len(parts), default=default, **found)
