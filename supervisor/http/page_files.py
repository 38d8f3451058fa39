"""The files of the page: all that is in the folder ``page`` beside this module, read once, and nothing else of any disk."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "page"
INDEX = "index.html"

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file. tag: another one for another content."""

    data: bytes
    media_type: str
    tag: str


def read_page(folder: Path = FOLDER) -> dict[str, PageFile]:
    """The files by their paths below ``folder``, with slashes; what has no known kind of name is left out."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in _TYPES:
            data = path.read_bytes()
            tag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'
            files[path.relative_to(folder).as_posix()] = PageFile(data, _TYPES[path.suffix], tag)
    return files
