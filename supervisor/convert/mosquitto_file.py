"""``mosquitto.conf`` with the files that it includes, by what a line belongs to: the node, its access, a listener, a connection."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from actors.system.plain_file import read_plain, why_unread
from supervisor.convert.draft import Line
from supervisor.convert.options import ACCESS_OPTIONS, BRIDGE_OPTIONS, LISTENER_OPTIONS, NODE_OPTIONS, Option
from supervisor.convert.values import flag, number
from wire.errors import ConfigError

FILE_BYTES_MAX = 4 << 20
OPTIONS = {
    option.name: option for options in (NODE_OPTIONS, ACCESS_OPTIONS, LISTENER_OPTIONS, BRIDGE_OPTIONS) for option in options
}
_ACCESS, _LISTENER, _BRIDGE = (
    {option.name for option in options} for options in (ACCESS_OPTIONS, LISTENER_OPTIONS, BRIDGE_OPTIONS)
)
_OF_DEFAULT_LISTENER = ("port", "bind_address")
# What is not taken one to one, and is a flag, or numbers.
_FLAGS = (
    *("allow_anonymous", "bridge_outgoing_retain", "bridge_tls_use_os_certs", "listener_allow_anonymous", "per_listener_settings"),
    *("require_certificate", "try_private", "use_identity_as_username", "use_subject_as_username"),
)
_NUMBERS = ("bridge_tcp_keepalive", "max_packet_size", "max_queued_bytes", "message_size_limit", "restart_timeout")
_EXPIRY = re.compile(r"[0-9]{1,9}[shdwmy]")
_NEW_LISTENER, _NEW_BRIDGE = "listener", "connection"


@dataclass(slots=True)
class Part:
    """A listener or a connection: the line that begins it, its lines, and those of its own access."""

    head: Line
    lines: list[Line] = field(default_factory=list)
    access: list[Line] = field(default_factory=list)

    def last(self, *names: str) -> Line | None:
        """The last of its lines that are called so; None if there is none."""
        return next((line for line in reversed(self.lines) if line.name in names), None)


@dataclass(slots=True)
class MosquittoFile:
    """What ``read`` has found. lost: lines without a place, and why."""

    node: Part
    listeners: list[Part] = field(default_factory=list)
    bridges: list[Part] = field(default_factory=list)
    lost: list[tuple[Line, str]] = field(default_factory=list)
    per_listener: bool = False

    @classmethod
    def read(cls, path: Path) -> MosquittoFile:
        """The file ``path``, and those of its ``include_dir``.

        Raises:
            ConfigError: it cannot be read.
        """
        found = cls(Part(Line(path.name, 1, "")))
        _Walk(found, path.parent).take(path, path.name)
        return found


def option_of(name: str) -> Option | None:
    """The option called ``name``; those of plug-ins begin with a word of their own."""
    whole = next((f"{begin}*" for begin in ("auth_opt_", "plugin_opt_") if name.startswith(begin)), name)
    return OPTIONS.get(whole)


def lines_of(path: Path, shown: str) -> list[Line]:
    """The lines of the file ``path`` that say something, by the word that each begins with.

    Raises:
        ConfigError: it cannot be read.
    """
    found = []
    for place, text in enumerate(read_text(path).split("\n"), start=1):
        name, _, value = text.strip().partition(" ")
        if name and not name.startswith("#"):
            found.append(Line(shown, place, name, value.strip()))
    return found


def read_text(path: Path) -> str:
    """The text of the file ``path``; what is not UTF-8 in it is replaced.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        data = read_plain(path, FILE_BYTES_MAX)
    except OSError as error:
        raise ConfigError("it cannot be converted", problems=[f"{path}:1: {why_unread(error)}"]) from error
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError("it cannot be converted", problems=[f"{path}:1: larger than {FILE_BYTES_MAX} bytes"])
    return data.decode("utf-8-sig", errors="replace").replace("\t", " ")


def _fault(line: Line) -> str:
    """Why Mosquitto would refuse ``line``; empty if it would not, or where its value is looked at when it is taken."""
    try:
        if option_of(line.name) is None:
            return "Mosquitto knows no such option"
        if line.name in _FLAGS:
            flag(line.value)
        elif line.name in _NUMBERS and not [number(word) for word in line.words[:3]]:
            return "no value"
        elif line.name == "persistent_client_expiration" and not _EXPIRY.fullmatch("".join(line.words)):
            return f"{line.value} is no duration such as 14d"
    except ValueError as error:
        return str(error)
    return ""


class _Walk:
    """Takes lines in the order in which Mosquitto does: an included file begins with no listener and no connection of its own."""

    def __init__(self, found: MosquittoFile, folder: Path) -> None:
        self._found = found
        self._folder = folder
        self._default: Part | None = None

    def take(self, path: Path, shown: str) -> None:
        listener: Part | None = None
        bridge: Part | None = None
        for line in lines_of(path, shown):
            if line.name == _NEW_LISTENER:
                listener = self._new(self._found.listeners, line)
            elif line.name == _NEW_BRIDGE:
                bridge = self._new(self._found.bridges, line)
            elif line.name == "include_dir":
                self._include(line, is_first=shown == self._found.node.head.file)
            elif line.name == "per_listener_settings":
                self._found.per_listener |= line.value in ("true", "1")
            elif why := _fault(line):
                self._found.lost.append((line, why))
            elif line.name in _BRIDGE:
                self._give(bridge, line, "no connection stands before it")
            elif line.name in _LISTENER:
                if line.name in _OF_DEFAULT_LISTENER or listener is None:
                    listener = self._default_listener(line)
                listener.lines.append(line)
            elif line.name.startswith("listener_"):
                self._give(listener, line, "no listener stands before it", access=True)
            elif line.name in _ACCESS or line.name.startswith(("auth_opt_", "plugin_opt_")):
                if self._found.per_listener and listener is None:
                    listener = self._default_listener(line)
                (listener if self._found.per_listener and listener is not None else self._found.node).access.append(line)
            else:
                self._found.node.lines.append(line)

    def _include(self, line: Line, *, is_first: bool) -> None:
        folder = self._folder / line.value
        if not is_first or not folder.is_dir():
            why = f"there is no folder {folder}" if is_first else "it is only valid in the main configuration file"
            self._found.lost.append((line, why))
            return
        for path in sorted(folder.glob("*.conf"), key=lambda path: os.fsencode(path.name)):
            self.take(path, os.path.join(line.value, path.name))

    def _new(self, parts: list[Part], head: Line) -> Part:
        part = Part(head)
        parts.append(part)
        return part

    def _default_listener(self, line: Line) -> Part:
        if self._default is None:
            self._default = self._new(self._found.listeners, line)
        return self._default

    def _give(self, part: Part | None, line: Line, otherwise: str, *, access: bool = False) -> None:
        if part is None:
            self._found.lost.append((line, otherwise))
        else:
            (part.access if access else part.lines).append(line)
