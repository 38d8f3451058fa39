"""The source of a node's settings, and how they are read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wire.config_settings import NodeSettings


@dataclass(frozen=True, slots=True)
class Source:
    """The configuration file ``path``. read: reads it again, which takes a while; its errors are ConfigError and Unavailable.

    read_with: the same with another content of the file of a bridge, None being that it goes; and where
    that file is. Without it none is changed.
    """

    path: Path
    read: Callable[[], NodeSettings]
    read_with: Callable[[str, str | None], tuple[Path, NodeSettings]] | None = None
