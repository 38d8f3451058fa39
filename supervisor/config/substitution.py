"""References in values: ``${NAME}``, ``${NAME:-otherwise}``, ``${file:PATH}``.

So a file can be the same on many boxes, and what differs, or is secret, comes from the environment or from a file beside it.
``$${`` is ``${`` itself. In a destination, ``${node.name}`` and ``${bridge.name}`` stay.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from actors.system.plain_file import read_secret, why_unread

FILE_BYTES_MAX = 64 * 1024
_REFERENCE = re.compile(
    r"\$\$\{"
    r"|(?P<later>\$\{(?:node|bridge)\.[a-z]+\})"  # a name in a destination, which is filled in there
    r"|\$\{file:(?P<file>[^}]+)\}"
    r"|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<otherwise>[^}]*))?\}"
    r"|\$\{"
)


class Substitution:
    """Fills in references from ``environment``, and from files whose relative paths count from ``folder``."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment

    def fill_in(self, text: str) -> str:
        """``text`` with each reference replaced.

        Raises:
            ValueError: a reference is to nothing, or is none; the sentence says what would be right, and nothing secret.
        """
        return _REFERENCE.sub(self._value, text) if "${" in text else text

    def _value(self, found: re.Match[str]) -> str:
        if found[0] == "$${":
            return "${"
        if found["later"]:
            return found[0]
        if found["file"]:
            return self._content(found["file"])
        name, otherwise = found["name"], found["otherwise"]
        if name is None:
            raise ValueError("${ begins a reference, ${NAME}, ${NAME:-otherwise} or ${file:PATH}; $${ is ${ itself")
        value = self._environment.get(name)
        if otherwise is not None:
            return value or otherwise
        if value is None:
            raise ValueError(f"the environment has no {name}; set it, or write ${{{name}:-otherwise}}")
        return value

    def _content(self, written: str) -> str:
        path = Path(os.path.normpath(self._folder / os.path.expanduser(written)))
        try:
            data = read_secret(path, FILE_BYTES_MAX)
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {why_unread(error)}") from error
        if len(data) > FILE_BYTES_MAX:
            raise ValueError(f"{path} is larger than {FILE_BYTES_MAX} bytes")
        try:
            return data.decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not UTF-8") from None
