"""What ``scripts/package`` makes of this tree, once for all trials (``scripts/package --try``)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.packaging.typed_pages import NEWER, architecture
from tests.support import programs

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS_OF = "debootstrap binutils lintian podman buildah systemd-container mosquitto"
_BUILD_S = 1200.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """Files of this tree; ``newer`` is the Debian package under a higher version."""

    wheel: Path
    deb: Path
    newer: Path
    bill: Path


@pytest.fixture(scope="session")
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """As root, on a machine that has what it takes."""
    if not request.config.getoption("--try-package"):
        pytest.skip("builds and installs packages for minutes: scripts/package --try")
    if os.geteuid() != 0:
        pytest.fail("a machine is made as root")
    for name in ("debootstrap", "dpkg-deb", "readelf", "lintian", "podman", "buildah", "systemd-nspawn"):
        if shutil.which(name) is None:
            pytest.fail(
                f"{name} is not installed; Debian: apt-get install debootstrap binutils lintian podman buildah systemd-container"
            )
    folder = tmp_path_factory.mktemp("built")
    there = request.config.getoption("--packages") or _build(folder)
    (wheel,), (deb,), (bill,) = (list(there.glob(name)) for name in ("*.whl", f"*_{architecture()}.deb", "*.sbom.cdx.json"))
    return Built(wheel=wheel, deb=deb, newer=_newer(deb, folder / "newer"), bill=bill)


def _build(folder: Path) -> Path:
    """What ``scripts/package`` makes of this tree, hardly compressed."""
    quick = {**os.environ, "DPKG_DEB_COMPRESSOR_LEVEL": "0"}
    done = programs.run([ROOT / "scripts" / "package", "--to", str(folder)], timeout_s=_BUILD_S, env=quick)
    assert done.returncode == 0, done.stderr
    return folder


def _newer(deb: Path, folder: Path) -> Path:
    """The package ``deb`` with another version number, in what dpkg knows and in what the program says."""
    folder.mkdir()
    tree = folder / "tree"
    subprocess.run(["dpkg-deb", "-R", deb, tree], check=True, timeout=_BUILD_S)
    for path, line in (
        (tree / "DEBIAN/control", r"^(Version: ).*$"),
        (tree / "usr/lib/bascule/lib/python3/site-packages/supervisor/version.py", r"^(VERSION = ).*$"),
    ):
        version = NEWER if path.name == "control" else f'"{NEWER}"'
        path.write_text(re.sub(line, rf"\g<1>{version}", path.read_text(), flags=re.MULTILINE))
    made = folder / f"bascule_{NEWER}_{architecture()}.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", "-Zgzip", "-z1", tree, made], check=True, timeout=_BUILD_S)
    shutil.rmtree(tree)
    return made


@pytest.fixture(scope="session")
def tools(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pipx, uv and the judges of manifests, in an environment of their own."""
    folder = tmp_path_factory.mktemp("tools") / "tools"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120.0)
    words: list[str | Path] = [
        folder / "bin/python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--require-hashes",
        "-r",
        ROOT / "requirements-trial.lock",
    ]
    assert programs.run(words, timeout_s=600.0).returncode == 0
    return folder
