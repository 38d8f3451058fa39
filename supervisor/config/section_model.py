"""The model of the configuration file, made of what ``wire/config_settings.py`` declares: pydantic checks it and adds defaults.

It makes the settings themselves of a section, after ``supervisor/config/consistency.py`` has looked at the section as a whole.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidatorFunctionWrapHandler, WrapValidator, create_model

from supervisor.config.consistency import CHECKS
from supervisor.config.setting_annotations import Setting, about, settings_of
from supervisor.config.value_kinds import type_of


class Section(BaseModel):
    """Base of all models: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def section_type(section: type) -> Any:
    """The type by which pydantic makes a ``section`` of what the file has."""
    return _type_of_section(section, section.__name__.removesuffix("Settings"), settings_of(section), own=False)


@cache
def _type_of_section(section: type, name: str, settings: tuple[Setting, ...], *, own: bool) -> Any:
    """own: of one that inherits what it leaves out, it makes a mapping of what the file has."""
    keys: dict[str, Any] = {one.field: (_type(one), _field(one, own=own)) for one in settings}
    model: Any = create_model(name, __base__=Section, __doc__=about(section), **keys)

    def make(written: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        found = handler(written)
        if own:
            return {name: getattr(found, name) for name in found.model_fields_set}
        made = section(**{one.field: getattr(found, one.field) for one in settings})
        return CHECKS[section](made, written) if section in CHECKS else made

    return Annotated[model, WrapValidator(make)]


def several(kind: Any) -> Any:
    """The type of a list of that type."""
    return tuple.__class_getitem__((kind, ...))  # a type that mypy cannot know


def _type(one: Setting) -> Any:
    kind: Any = type_of(one) if one.section is None else _type_below(one, one.section)
    if one.many:
        kind = several(kind)
        kind = Annotated[kind, Field(min_length=1)] if one.required else kind
    return kind | None if one.inherits or (one.optional and one.amount is None) else kind


def _type_below(one: Setting, section: type) -> Any:
    """The type of the settings below ``one``; a model that differs from that of ``section`` is called by its key, too."""
    below, plain = one.below(), settings_of(section)
    kind = section.__name__.removesuffix("Settings")
    name = kind if below == plain and not one.inherits else one.key.title().replace("_", "") + kind
    return _type_of_section(section, name, below, own=bool(one.inherits))


def _field(one: Setting, *, own: bool) -> Any:
    """own: nothing has a default, and nothing must be given."""
    about: dict[str, Any] = {"alias": one.key, "description": one.says}
    if own or one.inherits:
        return Field(default=None, json_schema_extra=_no_default, **about)
    if one.required:
        return Field(**about)
    if one.section is not None and is_dataclass(one.default):
        return Field(default=one.default, json_schema_extra=_no_default, **about)
    return Field(default=one.default, json_schema_extra={"default": one.as_written(one.default)}, **about)


def _no_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)
