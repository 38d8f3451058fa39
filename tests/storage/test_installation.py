"""A missing extra is added where the program runs: each way of installing has a command of its own."""

from __future__ import annotations

import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from storage import installation
from storage.installation import find_extras, how_to_install

# As the metadata of a wheel has them.
REQUIRES = [
    "click>=8.1",
    'duckdb>=1.5; extra == "report"',
    'numpy>=2.0; extra == "report"',
    'pyspark<5,>=4.2; extra == "analysis"',
]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As the Debian package is installed; the folder beside it."""
    (tmp_path / "bascule.list").write_text("/.\n/usr/lib/bascule\n/usr/lib/bascule/pyvenv.cfg\n")
    monkeypatch.setattr(installation, "PACKAGE_LIST", tmp_path / "bascule.list")
    monkeypatch.setattr(installation, "BESIDE_PACKAGE", str(tmp_path / "beside"))
    monkeypatch.setattr(installation, "requires", lambda _: REQUIRES)
    monkeypatch.setattr(sys, "prefix", "/usr/lib/bascule")
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path / "beside"


def test_beside_the_debian_package_the_libraries_go_to_a_folder_of_the_administrators(package: Path) -> None:
    said = how_to_install("report")

    assert said.startswith(f"apt-get install --no-install-recommends python3-pip && python3 -m pip install --target {package} ")
    assert shlex.split(said)[-2:] == ["duckdb>=1.5", "numpy>=2.0"]
    assert how_to_install("analysis").endswith(f" {package} 'pyspark<5,>=4.2'")


def test_what_is_there_is_found_by_the_commands_that_ask_and_by_no_other(package: Path) -> None:
    package.mkdir()
    (package / "beside_the_package.py").touch()
    assert find_spec("beside_the_package") is None

    find_extras()
    find_extras()

    assert find_spec("beside_the_package") is not None
    assert sys.path.count(str(package)) == 1
    assert sys.path[-1] == str(package), "what the package has comes first"


def test_a_wheel_is_no_package_and_looks_nowhere_else(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/opt/bascule")
    monkeypatch.setattr(installation, "_ROOT", tmp_path)

    find_extras()

    assert how_to_install("report") == f"{sys.executable} -m pip install 'bascule[report]'"
    assert str(package) not in sys.path


def test_a_checkout_is_installed_again_from_where_it_is() -> None:
    root = Path(__file__).resolve().parents[2]

    assert how_to_install("report") == f"{sys.executable} -m pip install --editable '{root}[report]'"


def test_pipx_is_asked_for_the_environment_that_it_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_ROOT", tmp_path)
    monkeypatch.setattr(sys, "prefix", "/home/user/.local/share/pipx/venvs/bascule")

    assert how_to_install("report") == "pipx runpip bascule install 'bascule[report]'"


def test_uv_adds_to_an_environment_that_it_made_for_that_has_no_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.13.9\n")
    monkeypatch.setattr(installation, "_ROOT", tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    assert how_to_install("report") == f"uv pip install --python {sys.executable} 'bascule[report]'"


@pytest.mark.process
def test_each_command_is_one_for_a_shell(tmp_path: Path) -> None:
    """The brackets of an extra are a pattern to a shell unless they are quoted."""
    (tmp_path / "basculer").touch()
    words = how_to_install("report").partition(" -m ")[2]

    said = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {words}"], cwd=tmp_path, capture_output=True, text=True, timeout=10.0, check=True
    )

    assert said.stdout.splitlines()[-1].endswith("[report]")
