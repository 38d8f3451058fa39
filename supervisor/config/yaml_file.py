"""Reads a YAML file into plain values and remembers where each stands, so that every complaint can name line and column.

The only user of yaml. It knows YAML and its traps (``no`` that is false, ``1:30`` that is ninety, ``0600`` that is 384, keys given
twice); what the values mean is the business of ``wire/config_settings.py``. ``write_value`` writes a value for such a file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from actors.system.plain_file import read_plain
from supervisor.config.substitution import Substitution
from wire.errors import ConfigError

Key = tuple[str | int, ...]

FILE_BYTES_MAX = 4 * 1024 * 1024
NODES_MAX = 200_000  # what aliases of aliases can make of a small file is without limit

_TAG = "tag:yaml.org,2002:"
_COLLECTIONS = (f"{_TAG}map", f"{_TAG}seq")
_DIGITS_MAX = 100
_COMMENT = re.compile(r"^[^#\n]*[\[,]\s*(#)\s*[\],]", re.MULTILINE)  # such as filters: [#]
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column in the file, both from 1. file: the one it is in, where that is not the file that was asked for.

    written: what stands there, where something else was filled in for it.
    """

    line: int
    column: int
    file: Path | None = None
    written: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, under which key, and what would be right."""

    place: Place
    key: Key
    message: str

    def line(self, path: Path) -> str:
        """The problem as the operator reads it, ``path:line:column: key: message``.

        The message about a value that was filled in would tell it, whole or in part, and it may be a secret: so that is not told.
        """
        message = self.message
        if written := self.place.written:
            message = f"what {written} stands for does not fit here; it is not shown: write it out in its place to be told why"
        return f"{self.place.file or path}:{self.place.line}:{self.place.column}: {write_key(self.key)}{message}"


@dataclass(slots=True)
class YamlDocument:
    """A file's values, the places of its keys and values, and what is wrong with it as YAML."""

    data: dict[str, object] = field(default_factory=dict)
    keys: dict[Key, Place] = field(default_factory=dict)
    values: dict[Key, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def place(self, key: Key, *, of_key: bool = False) -> Place:
        """The place of the value at ``key`` (with ``of_key``: of its key), or of the nearest that encloses it."""
        while key not in self.values:
            key, of_key = key[:-1], False
        return self.keys.get(key, self.values[key]) if of_key else self.values[key]

    def report(self, key: Key, message: str) -> None:
        """Something is wrong with the value at ``key``."""
        self.problems.append(Problem(self.place(key), key, message))

    def take(self, included: YamlDocument, name: str, value: object) -> None:
        """Have ``value``, which stands in ``included`` at ``name``, behind what of the list is there already."""
        there = self.data.get(name, ())
        before = len(there) if isinstance(there, tuple) and name in self.data else 0
        self.data[name] = there + value if before and isinstance(there, tuple) and isinstance(value, tuple) else value
        for places, theirs in ((self.keys, included.keys), (self.values, included.values)):
            for key, place in theirs.items():
                if key[:1] != (name,) or (len(key) == 1 and before):
                    continue
                index = key[1] if len(key) > 1 else None
                places[(name, index + before, *key[2:]) if isinstance(index, int) else key] = place


def write_key(key: Key) -> str:
    """``bridges[0].remote.client_id: `` for a message; nothing for the whole file."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key)
    return f"{text.removeprefix('.')}: " if text else ""


LEAST = 'the least it needs is "node" and "listeners", see configs/minimal.yaml'


def read_document(
    path: Path, least: str = LEAST, *, substitution: Substitution | None = None, text: str | None = None
) -> YamlDocument:
    """The values in the file ``path`` and where they stand. ``least`` is what an empty file is told.

    ``substitution`` fills in the references in its values; without, ``${`` is just text. text: what is taken for its content.

    Raises:
        ConfigError: the file cannot be read, or is not one YAML mapping; nothing can be said of its keys then.
    """
    text = _read_text(path) if text is None else text
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if error.context_mark and mark and mark.index >= len(text.rstrip()):
            mark = error.context_mark  # what was begun there never ends
        place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
        if (comment := _COMMENT.search(text)) is not None:
            raise _refused(path, _place_at(text, comment.start(1)), 'not YAML: a bare # begins a comment; write "#"') from error
        raise _refused(path, place, f"not YAML: {_explain(error, text, place)}") from error
    except yaml.reader.ReaderError as error:
        raise _refused(path, _place_at(text, error.position), f"the character {error.character!r} is not allowed") from error
    except RecursionError as error:
        raise _refused(path, Place(1, 1), "nested too deeply") from error
    if root is None:
        raise _refused(path, Place(1, 1), f"the file is empty; {least}")
    if not isinstance(root, yaml.MappingNode):
        raise _refused(path, _place(root), f"the file must be a mapping, key: value; {least}")
    document = YamlDocument()
    data = _Walk(document, path, substitution).value(root, ())
    assert isinstance(data, dict)
    document.data = data
    return document


def _read_text(path: Path) -> str:
    try:
        data = read_plain(path, FILE_BYTES_MAX)
    except OSError as error:
        raise ConfigError(
            "the configuration cannot be read", problems=[f"{path}:1:1: {(error.strerror or 'not readable').lower()}"]
        ) from error
    if len(data) > FILE_BYTES_MAX:
        raise _refused(path, Place(1, 1), f"larger than {FILE_BYTES_MAX} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", errors="replace")
        raise _refused(
            path, _place_at(before, len(before)), f"not UTF-8 (byte 0x{data[error.start]:02x}); save it as UTF-8"
        ) from error


def _refused(path: Path, place: Place, message: str) -> ConfigError:
    return ConfigError("the configuration is refused", problems=[Problem(place, (), message).line(path)])


def _place(node: yaml.Node) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)


def _place_at(text: str, position: int) -> Place:
    before = text[:position]
    return Place(before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)


def _explain(error: yaml.MarkedYAMLError, text: str, place: Place) -> str:
    lines = text.splitlines()
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    if "\t" in line[: place.column]:
        return "a tab cannot indent; use spaces"
    said = ", ".join(part for part in (error.context, error.problem) if part)
    if "mapping values are not allowed" in said:
        return f"{said}; quote a value that has a colon and a space in it, and check the indentation"
    if "${" in line:
        return f"{said}; within [ ] and {{ }} a value with ${{...}} wants quotes"
    if "expected a single document" in said:
        return "a second document starts here (---); one file holds one configuration"
    return said


class _Walk:
    """Turns yaml nodes into plain values, noting places and traps in ``document``."""

    def __init__(self, document: YamlDocument, path: Path, substitution: Substitution | None) -> None:
        self._document = document
        self._path = path
        self._substitution = substitution
        self._resolver = yaml.resolver.Resolver()
        self._enclosing: set[int] = set()
        self._nodes = 0

    def value(self, node: yaml.Node, key: Key) -> object:
        """The plain value of ``node``: mappings are dicts, sequences tuples."""
        self._document.values[key] = self._place(node)
        self._nodes += 1
        if id(node) in self._enclosing:
            return self._problem(node, key, f'the alias refers to what it is part of; write "{key[-1]}" out')
        if self._nodes > NODES_MAX:
            return self._problem(node, key, "too many values in this file") if self._nodes == NODES_MAX + 1 else ""
        known = str(node.tag).startswith(_TAG) if isinstance(node, yaml.ScalarNode) else node.tag in _COLLECTIONS
        if not known:
            return self._problem(node, key, f"the tag {node.tag} is not known here; remove it")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, key)
        self._enclosing.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, key)
            return tuple(self.value(item, (*key, index)) for index, item in enumerate(node.value))
        finally:
            self._enclosing.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, key: Key) -> dict[str, object]:
        own: dict[str, object] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                merged += value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(key_node, key, "a key must be a word, not a list or a mapping")
                continue
            name = key_node.value
            if not _is_unicode(name):
                self._problem(key_node, key, "a key has half of a surrogate pair in it, which is not a character")
                continue
            inner = (*key, name)
            if name in own:
                first = self._document.keys[inner].line
                self._document.problems.append(
                    Problem(self._place(key_node), inner, f"given twice, first in line {first}; keep one")
                )
                continue
            self._document.keys[inner] = self._place(key_node)
            own[name] = self.value(value_node, inner)
        for source in merged:
            self._merge(source, key, own)
        return own

    def _merge(self, source: yaml.Node, key: Key, own: dict[str, object]) -> None:
        if not isinstance(source, yaml.MappingNode):
            self._problem(source, key, "<< merges a mapping, such as <<: *anchor")
            return
        places = self._document.keys, self._document.values
        kept = [{at: place for at, place in known.items() if at[: len(key)] == key} for known in places]
        merged = self.value(source, key)
        for known, before in zip(places, kept, strict=True):
            known.update(before)  # what stands in the mapping itself wins, with its place
        if isinstance(merged, dict):
            own.update({name: value for name, value in merged.items() if name not in own})

    def _place(self, node: yaml.Node) -> Place:
        return replace(_place(node), file=self._path)

    def _scalar(self, node: yaml.ScalarNode, key: Key) -> object:
        text: str = node.value
        if not _is_unicode(text):
            return self._problem(node, key, "half of a surrogate pair is not a character; write it whole, such as \\U0001F600")
        tag = str(node.tag)
        if self._substitution is not None and "${" in text:
            try:
                text = self._substitution.fill_in(text)
            except ValueError as error:
                return self._problem(node, key, str(error))
            if text != node.value:
                self._document.values[key] = replace(self._place(node), written=node.value)
            if node.style is None and tag == f"{_TAG}str":  # what is filled in without quotes is a number where it looks like one
                tag = str(self._resolver.resolve(yaml.ScalarNode, text, (True, False)))  # type: ignore[no-untyped-call]
        kind = tag.removeprefix(_TAG)
        if node.style is not None or kind == "str":
            return text
        if kind == "null":
            return self._problem(node, key, 'no value; give one (nothing at all is "", [] or {}), or remove the line')
        if kind == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if kind == "int" and _DECIMAL.fullmatch(text) and len(text) <= _DIGITS_MAX:
            return int(text.replace("_", ""))
        if kind == "float" and ":" not in text and text.lower().strip("+-.") not in ("inf", "nan"):
            return float(text.replace("_", ""))
        self._document.problems.append(Problem(self._document.values[key], key, _trap(kind, text)))
        return text

    def _problem(self, node: yaml.Node, key: Key, message: str) -> str:
        """Note what is wrong at ``node``; returns what stands in for its value."""
        self._document.problems.append(Problem(self._place(node), key, message))
        return ""


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _trap(kind: str, text: str) -> str:
    """Why the bare scalar ``text`` is refused, and how to write what was meant."""
    quoted = f'put it in quotes, "{text}", if text is meant'
    if kind == "bool":
        meant = "true" if text.lower() in ("yes", "on", "y") else "false"
        return f"YAML takes the bare word {text} for {meant}; write {meant}, or {quoted}"
    if kind in ("int", "float") and ":" in text:
        return f"YAML takes the bare {text} for a number to the base of 60; {quoted}, or write a duration such as 90s"
    if kind == "int" and text.lstrip("+-").startswith("0"):
        return f"YAML takes the bare {text} for an octal, binary or hexadecimal number; {quoted}, or write it in decimal"
    if kind == "int":
        return f"{text[:20]}... has too many digits"
    if kind == "timestamp":
        return f"YAML takes the bare {text} for a date; {quoted}"
    return f"YAML takes the bare {text} for something special; {quoted}"


# --- writing ---


class _Writer(yaml.SafeDumper):
    """Texts that are more than a word stand in double quotes, as in the examples."""


_Writer.add_representer(
    str, lambda writer, text: writer.represent_scalar(f"{_TAG}str", text, style=None if _WORD.fullmatch(text) else '"')
)


def write_value(value: object) -> str:
    """``value`` on one line: a text, a number, a flag, or a list or mapping of such."""
    text: str = yaml.dump(value, Dumper=_Writer, default_flow_style=True, sort_keys=False, width=2**31, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")
