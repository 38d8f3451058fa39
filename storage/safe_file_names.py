"""Names of files that somebody else has written, in a manifest or an index: none may lead out of its folder."""

from __future__ import annotations

import os
from pathlib import Path

_NAME_MAX_BYTES = 255
_PATH_MAX_BYTES = 4095


def is_plain_name(name: str) -> bool:
    """Whether ``name`` is that of an entry of a folder, and of no other place."""
    return "/" not in name and is_plain_path(name)


def is_plain_path(path: str) -> bool:
    """Whether ``path``, with slashes, is that of something below a folder, written in the one way that there is."""
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        return False
    parts = encoded.split(b"/")
    fits = len(encoded) <= _PATH_MAX_BYTES and all(len(part) <= _NAME_MAX_BYTES for part in parts)
    return fits and b"\0" not in encoded and not any(part in (b"", b".", b"..") for part in parts)


def lies_below(path: Path, folder: Path) -> bool:
    """Whether ``path``, which is ``folder`` and names below it, is reached without a link in one of these names.

    Raises:
        OSError, RuntimeError: what is there cannot be looked at.
    """
    return path.resolve() == folder.resolve() / path.relative_to(folder)
