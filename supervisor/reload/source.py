"""The source of a node's settings, and how they are read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wire.config_settings import NodeSettings


@dataclass(frozen=True, slots=True)
class Source:
    """The configuration file ``path``. read: reads it again, which takes a while; its errors are ConfigError and Unavailable."""

    path: Path
    read: Callable[[], NodeSettings]
