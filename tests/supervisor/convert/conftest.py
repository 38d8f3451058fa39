"""Configurations of Mosquitto modelled on what stands in public repositories, in a folder with the files that they name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.authority import Authority

CONFIGS = Path(__file__).parent / "configs"


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ca.pem, and pairs of a server and a client."""
    authority = Authority(tmp_path_factory.mktemp("certs"))
    authority.issue("server")
    authority.issue("client")
    authority.revoke()
    return authority.folder


@pytest.fixture
def configs(tmp_path: Path, certificates: Path) -> Path:
    """The folder of the configurations."""
    folder = tmp_path / "mosquitto"
    shutil.copytree(CONFIGS, folder)
    shutil.copytree(certificates, folder / "certs")
    return folder
