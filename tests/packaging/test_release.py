"""``scripts/release``: what it refuses, and that two runs of one commit make the same files."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from supervisor.version import VERSION
from tests.support import programs

pytestmark = [pytest.mark.process, pytest.mark.timeout(3600)]

ROOT = Path(__file__).resolve().parents[2]
BEGIN = "begin"  # a tag
_RELEASE_S = 1500.0


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "clone"
    _git(folder.parent, "clone", "--quiet", "--shared", str(ROOT), str(folder))
    _git(folder, "tag", "--no-sign", BEGIN)
    return folder


@pytest.fixture
def clone(copied: Path) -> Path:
    """The commit of this tree elsewhere, without a change, and without the tag of its version."""
    _git(copied, "reset", "--quiet", "--hard", BEGIN)
    _git(copied, "clean", "--quiet", "--force", "-d")
    subprocess.run(["git", "tag", "--delete", f"v{VERSION}"], cwd=copied, check=False, timeout=120.0, capture_output=True)
    return copied


def _git(folder: Path, *words: str) -> None:
    author = ["-c", "user.name=Nobody", "-c", "user.email=nobody@example.invalid"]
    subprocess.run(["git", *author, *words], cwd=folder, check=True, timeout=120.0, capture_output=True)


def refusal(clone: Path, folder: Path) -> str:
    """What a release says that is refused; it makes nothing."""
    done = programs.run([clone / "scripts/release", "--to", str(folder)], timeout_s=60.0)
    assert (done.returncode, done.stdout, folder.exists()) == (1, "", False)
    return done.stderr


def test_what_is_not_committed_is_not_released(clone: Path, tmp_path: Path) -> None:
    (clone / "README.md").write_text("other\n")
    (clone / "new.py").touch()
    said = refusal(clone, tmp_path / "release")
    assert " M README.md\n?? new.py\n" in said
    assert "no release: these changes are not committed" in said


def test_a_version_that_the_changelog_does_not_name_is_not_released(clone: Path, tmp_path: Path) -> None:
    path = clone / "supervisor/version.py"
    path.write_text(path.read_text().replace(f'"{VERSION}"', '"7.0.0"'))
    _git(clone, "commit", "--quiet", "--all", "--message", "Another version")
    assert "no release: CHANGELOG.md does not name 7.0.0" in refusal(clone, tmp_path / "release")


def test_a_version_that_is_tagged_elsewhere_is_not_released(clone: Path, tmp_path: Path) -> None:
    _git(clone, "tag", f"v{VERSION}")
    _git(clone, "commit", "--quiet", "--allow-empty", "--message", "Later")
    assert f"no release: the tag v{VERSION} is at another commit" in refusal(clone, tmp_path / "release")


@pytest.mark.soak
def test_two_runs_of_one_commit_make_the_same_files(clone: Path, tmp_path: Path) -> None:
    """In two folders, the second under another umask, with files that are the owner's alone, and in another time zone."""
    first, second = tmp_path / "first", tmp_path / "second"
    other = tmp_path / "other"
    _git(tmp_path, "clone", "--quiet", "--shared", str(ROOT), str(other))
    subprocess.run(["chmod", "-R", "go=", other], check=True, timeout=120.0)
    for tree, to, umask, zone in ((clone, first, "022", "UTC"), (other, second, "077", "Asia/Tokyo")):
        words = [
            "sh",
            "-c",
            f'umask {umask}; exec "$0" --arch amd64 --arch arm64 --to "$1"',
            str(tree / "scripts/release"),
            str(to),
        ]
        done = programs.run(words, env={**os.environ, "TZ": zone}, timeout_s=_RELEASE_S)
        assert done.returncode == 0, done.stderr
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(first.iterdir())}
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(second.iterdir())} == files
    assert set(files) == {
        f"bascule-{VERSION}.tar.gz",
        f"bascule-{VERSION}-py3-none-any.whl",
        f"bascule_{VERSION}_amd64.deb",
        f"bascule_{VERSION}_arm64.deb",
        f"bascule-{VERSION}-container.tar.gz",
        f"bascule-{VERSION}.sbom.cdx.json",
        f"bascule-{VERSION}.third-party-licences.txt",
        "SHA256SUMS",
    }
    sums = [line.split() for line in (first / "SHA256SUMS").read_text().splitlines()]
    assert {name: summed for summed, name in sums} == {name: summed for name, summed in files.items() if name != "SHA256SUMS"}
    with tarfile.open(first / f"bascule-{VERSION}-container.tar.gz") as recipe:
        assert {f"bascule-{VERSION}-container/{name}" for name in ("Containerfile", "compose.yaml", "kubernetes.yaml")} <= set(
            recipe.getnames()
        )
