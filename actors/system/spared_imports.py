"""Leaves out what a library imports and its user here never uses: each process of a node would hold it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def sparing(*, optional: str, unused: str) -> Iterator[None]:
    """Meanwhile ``optional`` is as if it were not installed, and ``unused`` is empty if it was not imported before."""
    spared: dict[str, ModuleType | None] = {optional: None}
    if unused not in sys.modules:
        spared[unused] = ModuleType(unused)
    before = {name: sys.modules[name] for name in spared if name in sys.modules}
    sys.modules.update(spared)  # type: ignore[arg-type]  # None is the import system's word for "cannot be imported"
    try:
        yield
    finally:
        for name in spared:
            del sys.modules[name]
        sys.modules.update(before)
