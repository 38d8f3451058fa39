"""Values that may be missing, and are not."""

from __future__ import annotations

from typing import TypeVar

Kind = TypeVar("Kind")


def present(value: Kind | None) -> Kind:
    """``value``, which is there."""
    assert value is not None
    return value
