"""The example configurations and the schema: in a checkout's ``configs``, or where an installation has put them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

SCHEMA_NAME = "bascule.schema.json"
_INSTALLED = Path("share", "bascule", "configs")  # below the environment's folder
_DATA_DIR = re.compile(r"(?<=data_dir: )[^\s,}]+")


def examples() -> dict[str, str]:
    """The examples by name, each with the line that says what it is for."""
    return {name: _about(path.read_text(encoding="utf-8")) for name, path in _files().items()}


def example_text(name: str, data_dir: str) -> str:
    """The text of an example, with ``data_dir`` for its own and the schema found from anywhere.

    Raises:
        KeyError: there is no such example.
    """
    path = _files()[name]
    text = path.read_text(encoding="utf-8").replace(f"$schema={SCHEMA_NAME}", f"$schema={path.with_name(SCHEMA_NAME)}")
    return _DATA_DIR.sub(lambda _: data_dir, text, count=1)


def _files() -> dict[str, Path]:
    checkout = Path(__file__).resolve().parents[2] / "configs"
    folder = checkout if checkout.is_dir() else Path(sys.prefix) / _INSTALLED
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def _about(text: str) -> str:
    lines = [line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#")]
    return next((line for line in lines if line and not line.startswith("yaml-language-server")), "")
