"""The wheel, and what the Debian package adds to it, without a machine to install them on; that is ``test_debian_package.py``'s."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import click
import pytest

from supervisor.cli.main import cli
from supervisor.config.loading import load
from tests.support import programs

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
DEBIAN = ROOT / "packaging" / "debian"
VERSION = "0.9.0"


def build(folder: Path) -> Path:
    """The wheel of this tree under a version of its own."""
    done = programs.run(
        [ROOT / "scripts" / "package", "--wheel", "--version", VERSION, "--to", str(folder)],
        timeout_s=300.0,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_has_the_tree_the_examples_the_schema_and_the_unit(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    data = f"bascule-{VERSION}.data/data/share/bascule"
    wanted = {
        *(
            str(path.relative_to(ROOT))
            for package in ("page", "wire", "storage", "analysis", "actors", "supervisor")
            for path in tracked(package)
        ),
        *(f"{data}/{path.relative_to(ROOT)}" for path in tracked("configs")),
        f"{data}/bascule.service",
        "pyspark_bascule.py",
    }
    assert wanted <= names
    assert {name for name in names - wanted if ".dist-info/" not in name} == set()


def tracked(folder: str) -> list[Path]:
    """The files below ``folder`` that belong to the tree."""
    return [path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc"]


def test_the_same_tree_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    assert build(tmp_path).read_bytes() == wheel.read_bytes()


def test_an_installed_wheel_finds_its_examples_and_says_its_version(wheel: Path, tmp_path: Path) -> None:
    """In an environment that has the libraries of this one and not this tree."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=60.0)
    python = environment / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    assert programs.run(install, timeout_s=120.0).returncode == 0
    (environment / "lib" / f"python3.{sys.version_info.minor}" / "site-packages" / "libraries.pth").write_text(
        "\n".join(path for path in sys.path if path.endswith("site-packages")) + "\n"
    )
    bascule = environment / "bin" / "bascule"
    assert programs.run([bascule, "--version"], timeout_s=60.0).stdout == f"bascule {VERSION}\n"
    made = programs.run([bascule, "init", "edge.yaml", "--example", "default"], timeout_s=60.0, cwd=tmp_path)
    assert made.returncode == 0, made.stdout + made.stderr
    assert f"$schema={environment}/share/bascule/configs/bascule.schema.json" in (tmp_path / "edge.yaml").read_text()


def test_the_configuration_that_the_package_brings_holds_as_it_is_and_with_its_bridge(tmp_path: Path) -> None:
    text = (DEBIAN / "bascule.yaml").read_text()
    (tmp_path / "bascule.yaml").write_text(text)
    assert load(tmp_path / "bascule.yaml").bridges == ()
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "cloud.password").write_text("secret\n")
    whole = text.partition("bridges:")[0] + "bridges:" + re.sub(r"^#(?= )", "", text.partition("bridges: []")[2], flags=re.M)
    (tmp_path / "bascule.yaml").write_text(whole)
    assert [bridge.name for bridge in load(tmp_path / "bascule.yaml").bridges] == ["cloud"]


def test_the_manual_page_has_every_command() -> None:
    page = programs.run([sys.executable, str(ROOT / "scripts/documents/man_page.py"), VERSION], timeout_s=60.0, cwd=ROOT).stdout
    assert page.startswith(f'.TH BASCULE 1 "" "bascule {VERSION}"')
    for name, command in cli.commands.items():
        for below in command.commands if isinstance(command, click.Group) else [""]:
            assert f".B bascule {name} {below}".rstrip().replace("-", r"\-") in page


def test_no_link_of_the_documents_in_the_package_is_dead(tmp_path: Path) -> None:
    """All that begins in the package leads to a file in it."""
    lay = '. "$root/packaging/debian/build.sh"; documents'
    environment = {**os.environ, "root": str(ROOT), "tree": str(tmp_path), "version": VERSION, "SOURCE_DATE_EPOCH": "1700000000"}
    laid = programs.run(["sh", "-euc", lay], env=environment, timeout_s=60.0)
    assert laid.returncode == 0, laid.stderr
    folder = tmp_path / "usr/share/doc/bascule"
    links = [
        (page.relative_to(folder), target)
        for page in folder.rglob("*.md")
        for target in re.findall(r"\]\(([^)#\s]+)", re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL))
        if "://" not in target and not target.startswith("mailto:")
    ]
    assert len(links) > 100
    assert [(page, target) for page, target in links if not (folder / page.parent / target).exists()] == []


@pytest.mark.parametrize("script", ["postinst", "prerm", "postrm", "build.sh"])
def test_the_packages_scripts_are_posix(script: str) -> None:
    checked = programs.run(["dash", "-n", str(DEBIAN / script)], timeout_s=60.0)
    assert checked.returncode == 0, checked.stderr
