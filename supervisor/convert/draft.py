"""A configuration that is being put together: values by key, each with the line that it came from, and what could not be taken.

``lines`` writes it as YAML with a comment on each line. ``leave_out`` takes out again what turned out not to hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from supervisor.config.yaml_file import Key, write_value
from supervisor.convert.options import Fate, Option

_SECRET = ("password", "psk", "auth_opt_", "plugin_opt_")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the other configuration: the file, where it stands in it, the name of an option, and what follows that."""

    file: str
    number: int
    name: str
    value: str = ""

    @property
    def words(self) -> list[str]:
        """What follows, in words, up to a comment; for options that take the rest of the line as it is, ``value`` says more."""
        words = self.value.split()
        return words[: next((place for place, word in enumerate(words) if word.startswith("#")), len(words))]

    @property
    def place(self) -> str:
        """Where it stands: ``mosquitto.conf:12 keepalive_interval``."""
        return f"{self.file}:{self.number} {self.name}"

    @property
    def shown(self) -> str:
        """Where it stands and what it says, but for a secret."""
        return self.place if any(word in self.name for word in _SECRET) else f"{self.place} {self.value}".rstrip()


class _Put(NamedTuple):
    """A value, which is written on one line, and what the comment behind it says."""

    value: Any
    comment: str


@dataclass(slots=True)
class Draft:
    """The configuration so far. files: what is to be written beside it, by relative path.

    untaken: lines that lose what they ask for, with the reason. needless: lines that ask for what is so anyway.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    untaken: list[tuple[str, str]] = field(default_factory=list)
    needless: list[tuple[str, str]] = field(default_factory=list)
    _tree: dict[str, Any] = field(default_factory=dict)

    def put(self, key: Key, value: object, source: Line | str, note: str = "") -> None:
        """Give ``key`` its ``value``; a number in it is a place in a list, which grows as it is filled."""
        comment = source if isinstance(source, str) else source.place
        at: Any = self._tree
        for part, following in zip(key, (*key[1:], None), strict=True):
            held: Any = _Put(value, f"{comment}, {note}" if note else comment)
            if following is not None:
                held = [] if isinstance(following, int) else {}
            if isinstance(part, int) and part == len(at):
                at.append(held)
            elif following is None:
                at[part] = held
            elif not isinstance(part, int):
                at.setdefault(part, held)
            at = at[part]

    def add_file(self, name: str, content: str) -> None:
        """Have the file ``name`` written beside the configuration, with ``content``."""
        self.files[name] = content.encode()

    def count(self, *key: str | int) -> int:
        """How many items the list at ``key`` has."""
        return len(self._at(key) or ())

    def get(self, *key: str | int) -> Any:
        """The value at ``key``; None if it has none."""
        held = self._at(key)
        return held.value if isinstance(held, _Put) else held

    def origin(self, *key: str | int) -> str:
        """Where the value at ``key`` came from."""
        held = self._at(key)
        assert isinstance(held, _Put)
        return held.comment

    def values(self) -> Iterator[tuple[Key, Any]]:
        """Every value with its key."""
        return ((key, held.value) for key, held in _values(self._tree, ()))

    def leave(self, line: Line, option: Option) -> None:
        """Note what becomes of ``line``, whose option has no key."""
        if option.fate is Fate.NEEDLESS:
            self.needless.append((line.shown, option.says))
        elif line.words == [option.default]:
            self.needless.append((line.shown, "that is so anyway"))
        else:
            self.refuse(line, f"{option.fate}: {option.says}")

    def refuse(self, source: Line | str, reason: str) -> None:
        """Note that ``source`` is not taken."""
        self.untaken.append((source if isinstance(source, str) else source.shown, reason))

    def leave_out(self, key: Key, reason: str) -> None:
        """Take out what is at ``key``, which does not hold, and note where it came from; what is empty then goes with it."""
        comments = [held.comment for _, held in _values(self._at(key), key)]
        self.refuse(comments[0], f"{reason}" + (" (so all of it is left out)" if len(comments) > 1 else ""))
        holder: Any = None
        while key and not holder:
            *above, last = key
            key, holder = tuple(above), self._at(tuple(above))
            del holder[last]

    def lines(self, head: str) -> Iterator[tuple[str, Key]]:
        """The lines of the file, below those of ``head``, each with the key that it is about."""
        yield from ((_comment(line), ()) for line in head.splitlines())
        for name, held in self._tree.items():
            yield "", ()
            yield from _below(name, held, (name,), "")
        for title, notes in (("Not taken", self.untaken), ("Nothing to write for", self.needless)):
            if notes:
                yield "", ()
                yield _comment(f"{title} ({len(notes)}):"), ()
                yield from ((_comment(f"  {place}: {reason}"), ()) for place, reason in notes)

    def _at(self, key: tuple[str | int, ...]) -> Any:
        at: Any = self._tree
        for part in key:
            if isinstance(at, list):
                at = at[int(part)] if int(part) < len(at) else None
            else:
                at = at.get(part) if isinstance(at, dict) else None
        return at


def _values(held: Any, key: Key) -> Iterator[tuple[Key, _Put]]:
    if isinstance(held, _Put):
        yield key, held
    else:
        for part, below in held.items() if isinstance(held, dict) else enumerate(held):
            yield from _values(below, (*key, part))


def _below(name: str, held: Any, key: Key, indent: str) -> Iterator[tuple[str, Key]]:
    """The lines of ``held``, which is called ``name``."""
    if isinstance(held, _Put):
        yield f"{indent}{name}: {_written(held)}", key
        return
    yield f"{indent}{name}:", key
    if isinstance(held, dict):
        for below, one in held.items():
            yield from _below(below, one, (*key, below), f"{indent}  ")
        return
    for place, item in enumerate(held):
        if isinstance(item, _Put):
            yield f"{indent}  - {_written(item)}", (*key, place)
            continue
        begins = f"{indent}  - "
        for below, one in item.items():
            for line, at in _below(below, one, (*key, place, below), f"{indent}    "):
                yield begins + line[len(begins) :], at
                begins = f"{indent}    "


def _written(held: _Put) -> str:
    return f"{write_value(held.value)}  {_comment(held.comment)}"


def _comment(text: str) -> str:
    return "# " + "".join(sign if sign.isprintable() else "?" for sign in text) if text else "#"


def literally(text: str) -> str:
    """``text`` as a value that stands for itself, also where it looks like a reference."""
    return text.replace("${", "$${")
