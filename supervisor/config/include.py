"""Joins a configuration with the files that it includes: ``include: [bridges.d/*.yaml]``.

Lists of bridges and listeners go one behind the other, in the order of the file names; every other key stands in one file only.
Each value keeps its place, so that a problem names the file that it is in. Relative paths in an included file count from the folder
of the file that includes it.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from supervisor.config.substitution import Substitution
from supervisor.config.yaml_file import Key, Problem, YamlDocument, read_document
from supervisor.units import shown

KEY = "include"
LISTS = ("bridges", "listeners")
_LEAST = "write bridges: or another key of the configuration, or remove the file"


@dataclass(frozen=True, slots=True)
class IncludeInstead:
    """Another content of the included file ``path``; None: it is not there."""

    path: Path
    content: str | None


def read_with_included(path: Path, substitution: Substitution, instead: IncludeInstead | None = None) -> YamlDocument:
    """The values of the file ``path`` and of those it includes. instead: what is taken for one of them.

    Raises:
        ConfigError: one of the files cannot be read, or is not one YAML mapping.
    """
    document = read_document(path, substitution=substitution)
    for key, pattern in _patterns(document):
        files = _files(path.parent, pattern, instead)
        if not files and not glob.has_magic(pattern):
            document.report(key, f"there is no file {path.parent / pattern}")
        for file in files:
            if os.path.realpath(file) == os.path.realpath(path):
                document.report(key, f"{shown(pattern)} includes this file itself")
                continue
            text = instead.content if instead is not None and file == instead.path else None
            _join(document, read_document(file, _LEAST, substitution=substitution, text=text))
    return document


def files_included(path: Path) -> list[Path]:
    """The files that the file ``path`` includes.

    Raises:
        ConfigError: it cannot be read, or is not one YAML mapping.
    """
    return [file for _, pattern in _patterns(read_document(path)) for file in _files(path.parent, pattern)]


def folders_included(path: Path) -> list[Path]:
    """The folders in which more files would be included by the file ``path``, as it is now; the errors are as above."""
    patterns = [pattern for _, pattern in _patterns(read_document(path)) if glob.has_magic(pattern)]
    folders = [Path(os.path.dirname(os.path.join(path.parent, os.path.expanduser(pattern)))) for pattern in patterns]
    return list(dict.fromkeys(folder for folder in folders if folder.is_dir()))


def patterns_included(path: Path) -> list[str]:
    """What the file ``path`` includes, as it is written; the errors are as above."""
    return [pattern for _, pattern in _patterns(read_document(path))]


def _patterns(document: YamlDocument) -> Iterator[tuple[Key, str]]:
    patterns = document.data.get(KEY, ())
    if isinstance(patterns, tuple):  # what else it may be, the model refuses
        yield from (((KEY, index), pattern) for index, pattern in enumerate(patterns) if isinstance(pattern, str) and pattern)


def _files(folder: Path, pattern: str, instead: IncludeInstead | None = None) -> list[Path]:
    """The files that ``pattern`` matches, in the order of their names; hidden ones only where it says so."""
    whole = os.path.join(glob.escape(str(folder)), os.path.expanduser(pattern))
    found = {name for name in glob.glob(whole, recursive=True) if not os.path.isdir(name)}
    if instead is not None and fnmatchcase(str(instead.path), whole):
        (found.discard if instead.content is None else found.add)(str(instead.path))
    return [Path(name) for name in sorted(found)]


def _join(document: YamlDocument, included: YamlDocument) -> None:
    problems = list(included.problems)
    for name, value in included.data.items():
        if name == KEY:
            problems.append(Problem(included.place((KEY,), of_key=True), (KEY,), "an included file cannot include others"))
        elif name not in document.data or (name in LISTS and isinstance(document.data[name], tuple) and isinstance(value, tuple)):
            document.take(included, name, value)
        else:
            first = document.place((name,), of_key=True)
            message = f"stands in {first.file or 'the file that includes this one'} already, line {first.line}; keep one"
            problems.append(Problem(included.place((name,), of_key=True), (name,), message))
    document.problems.extend(problems)
