"""Settings for tests that run processes: a node in a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.settings import itself, node
from wire.config_settings import BridgeSettings, NodeSettings


def node_settings(folder: Path, *bridges: BridgeSettings, **supervision: Any) -> NodeSettings:
    """A node in ``folder``; ``supervision`` is what differs in how it is watched."""
    plain = itself(node(*bridges, run_dir=str(folder / "data" / "run")), data_dir=str(folder / "data"))
    return replace(plain, supervision=replace(plain.supervision, **supervision))
