"""The files of the page, read once, and nothing else of any disk.

They are those of the folder ``page`` beside this module, and those of the package ``page``, which the report has too.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "page"
SHARED = Path(__file__).resolve().parents[2] / "page"
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
_STANDS_FOR = re.compile(rb"<!-- (\w+\.\w+) -->")


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file. tag: another one for another content."""

    data: bytes
    media_type: str
    tag: str


def read_page(folder: Path = FOLDER, shared: Path = SHARED) -> dict[str, PageFile]:
    """The files by their paths below ``folder`` and ``shared``, with slashes; what has no known kind of name is left out.

    ``<!-- NAME -->`` in HTML stands for the file ``NAME`` of ``shared``.
    """
    files = {}
    for home in (shared, folder):
        for path in sorted(home.rglob("*")):
            if path.is_file() and path.suffix in _TYPES:
                data = path.read_bytes()
                if path.suffix == ".html":
                    data = _STANDS_FOR.sub(lambda found: (shared / found[1].decode()).read_bytes(), data)
                tag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'
                files[path.relative_to(home).as_posix()] = PageFile(data, _TYPES[path.suffix], tag)
    return files
