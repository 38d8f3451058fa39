"""Leaves out what a library imports and its user here never uses, or seldom: each process of a node would hold it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def sparing(*, optional: str, unused: str, seldom: tuple[str, ...]) -> Iterator[None]:
    """Modules that are imported meanwhile have no ``optional``, as if that were not installed, an empty ``unused``, and ``seldom``
    modules that are loaded when something of them is asked for. Of what was imported before, it has what everybody has."""
    spared: dict[str, ModuleType | None] = {optional: None}  # None is the import system's word for "cannot be imported"
    spared.update((name, _LoadedWhenUsed(name)) for name in seldom if name not in sys.modules)
    if unused not in sys.modules:
        spared[unused] = ModuleType(unused)
    before = {name: sys.modules[name] for name in spared if name in sys.modules}
    sys.modules.update(spared)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in spared:
            del sys.modules[name]
        sys.modules.update(before)


class _LoadedWhenUsed(ModuleType):
    """In the place of a module: whatever is asked of it is asked of that."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)
