"""Prints the licences of all libraries with their texts: ``python licences.py BILL FOLDER``.

BILL is a bill of materials (CycloneDX) that bill.py has completed; it names them. FOLDER is where they are installed; their texts
are there. A library inside another's wheel has its text there, if any.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

_TEXT = re.compile(r"(licen[cs]e|copying|notice|copyright)", re.IGNORECASE)
_LINE = "=" * 100


def licences(component: dict[str, Any]) -> str:
    """The licences of a component of the bill, by identifiers and expressions of SPDX; nothing where none is."""
    told = {entry.get("expression") or entry["license"].get("id", "") for entry in component.get("licenses", [])}
    return ", ".join(sorted(told - {""}))


def texts(library: Distribution) -> Iterator[str]:
    """What the files about licences in the library's own folder say."""
    for file in sorted(library.files or (), key=str):
        if ".dist-info" in file.parts[0] and _TEXT.search("/".join(file.parts[1:])) and file.suffix != ".py":
            yield Path(str(file.locate())).read_text(errors="replace").strip()


def page(components: list[dict[str, Any]], installed: dict[str, Distribution]) -> Iterator[str]:
    """The lines: all names, then all texts."""
    yield "Libraries that Bascule's packages and images contain, and their licences.\n"
    yield from (f"{each['name']} {each['version']}: {licences(each)}" for each in components)
    for each in components:
        library = installed.get(plain(each["name"]))
        for text in texts(library) if library else ():
            yield f"\n{_LINE}\n{each['name']} {each['version']}\n{_LINE}\n\n{text}"


def plain(name: str) -> str:
    """A library's name as both sides write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main(argv: list[str]) -> int:
    """Print the page; the exit status."""
    bill = json.loads(Path(argv[1]).read_text())
    components = sorted(bill["components"], key=lambda each: plain(each["name"]))
    installed = {plain(library.metadata["Name"]): library for library in distributions(path=[argv[2]])}
    print("\n".join(page(components, installed)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
