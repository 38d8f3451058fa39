"""Which version of Bascule this is, as its installation says."""

from __future__ import annotations

from functools import cache

NOT_INSTALLED = "(a checkout that is not installed)"


@cache
def version() -> str:
    """The version that is installed; a remark in brackets where none is."""
    from importlib.metadata import PackageNotFoundError, version  # only who asks pays for it

    try:
        return version("bascule")
    except PackageNotFoundError:
        return NOT_INSTALLED
