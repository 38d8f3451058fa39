"""Marks of a setting, in the annotation of its field in ``wire/config_settings.py``, beside a sentence for the operator.

``supervisor/config/setting_annotations.py`` reads them; a process that only has settings never looks.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Any


class Effect(StrEnum):
    """How a running node takes a change of a setting, or of all settings below one that do not say otherwise."""

    LIVE = "live"  # nobody notices
    RECONNECT = "reconnect"  # the processes of a bridge start again; its queue stays
    RESTART = "restart"  # a process starts again
    DESTRUCTIVE = "destructive"  # something that is kept goes, or may arrive twice; the plan finds that out by the values
    NODE_RESTART = "node-restart"  # not while the node runs


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds, written ``250ms``, ``60s``, ``7d``; whole ones where the field is an ``int``, as MQTT carries them.

    A field that may be None, or has a value that is ``never``, may be written ``unlimited``. A name that ends in ``_s`` is
    written without that.
    """

    min_s: float = 0.0
    max_s: float = 10 * 365 * 86400.0
    never: int | None = None


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes, written ``64KiB``, ``1kB``; ``unlimited`` where the field may be None.

    bound: it bounds something that others bring, so that it stands in the table of limits.
    """

    min_bytes: int = 1
    max_bytes: int = 1 << 60
    bound: bool = True


@dataclass(frozen=True, slots=True)
class Number:
    """A number from ``least`` to ``most``, a whole one where the field is an ``int``; ``unlimited`` where it may be None.

    bound: as of a ``Size``. auto: the value that is written ``auto``, for which the node finds a number itself.
    """

    least: float
    most: float
    bound: bool = True
    auto: int | None = None


class SettingForm(Enum):
    """A value, or an item of a list, whose form in the file its type does not tell: ``supervisor/config/value_kinds.py``."""

    NAME = auto()  # of a node, a bridge, a rule: it stands in names of files and processes
    CLASS = auto()  # of messages: it stands in client identifiers and in names of files and processes
    FILLED = auto()  # a text that is not empty
    FILE = auto()  # that is there and can be read
    FOLDER = auto()  # that is there, or can be made
    USER = auto()
    TOPIC_FILTER = auto()
    TOPIC_PATTERN = auto()  # of an access control list
    TOPIC_PREFIX = auto()
    URL_PATH = auto()
    BIND = auto()  # an address of this machine or a Unix socket
    TCP_BIND = auto()
    CONTROL_BIND = auto()
    ADDRESS = auto()  # of this machine, without a port
    NETWORK = auto()
    REMOTE = auto()  # the address of a remote broker
    PROXY = auto()
    COLLECTOR = auto()
    SECRET_URL = auto()  # of a web service; whoever knows it may send there
    MAIL_SERVER = auto()
    LOG_SERVER = auto()
    STREAM_NAME = auto()
    FILE_MODE = auto()
    PROPERTIES = auto()  # a mapping; the field has pairs
    HEADERS = auto()  # the same, of HTTP
    REFUSALS = auto()  # a mapping of reasons to actions
    HOURS = auto()  # of a week, on the wall
    TIME_ZONE = auto()
    ONLY = auto()  # a word, or a mapping with a duration


@dataclass(frozen=True, slots=True)
class Key:
    """The key is not called as the field."""

    name: str


class Choices:
    """One of a few words; of those with a value behind them, the field has that."""

    def __init__(self, *words: Hashable, **values: Hashable) -> None:
        self.values: dict[Any, Any] = {word: word for word in words} | values


class Without:
    """The file has not these fields here; they keep their defaults, or those of the section that they inherit."""

    def __init__(self, *names: str) -> None:
        self.names = frozenset(names)


@dataclass(frozen=True, slots=True)
class Inherits:
    """Keys that are left out here are as in the node's ``section``."""

    section: str
