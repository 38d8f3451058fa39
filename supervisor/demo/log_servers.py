"""NATS servers that keep a replicated log on one machine, for the demonstration, for measurements and for tests."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def found_program(name: str) -> str | None:
    """The path of the program ``name``: beside this Python, in PATH, or where systems keep servers; None if it is nowhere."""
    beside = str(Path(sys.executable).parent)
    return shutil.which(name, path=os.pathsep.join((beside, os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin")))


def server_config(name: str, port: int, folder: Path, *, route: int, routes: Sequence[int]) -> str:
    """The configuration of the server ``name``, for its file; it syncs before it acknowledges.

    folder: where it keeps streams. route: its port for the other servers, which are at ``routes``; where there is no other, it is
    alone.
    """
    config: dict[str, Any] = {
        "server_name": name,
        "listen": f"127.0.0.1:{port}",
        "jetstream": {"store_dir": str(folder), "sync_interval": "always"},
    }
    others = [f"nats://127.0.0.1:{other}" for other in routes if other != route]
    if others:
        config["cluster"] = {"name": "local", "listen": f"127.0.0.1:{route}", "routes": others}
    return json.dumps(config, indent=2)  # JSON will do
