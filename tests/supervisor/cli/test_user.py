"""``bascule user``: users come, change and go; the file is never half written and never readable by others."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.access.password_file import read_passwords
from actors.access.password_hashes import verify_password
from supervisor.cli.main import cli, main
from tests.supervisor.conftest import ROOT
from tests.support.mosquitto import program
from tests.support.waiting import PATIENCE_S


class Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "passwords"


def give(monkeypatch: pytest.MonkeyPatch, file: Path, user: str, password: bytes) -> int:
    monkeypatch.setattr("sys.stdin", Stdin(password + b"\n"))
    return main(["user", "add", "--stdin", str(file), user])


def verifies(file: Path, user: str, password: bytes) -> bool:
    stored = read_passwords(file).hash_of(user)
    assert stored is not None
    return bool(verify_password(stored, password))


def test_a_file_is_made_changed_and_thinned_out(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    assert give(monkeypatch, file, "ada", b"one") == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert give(monkeypatch, file, "bob", "zwö:lf ".encode()) == 0
    assert give(monkeypatch, file, "ada", b"two") == 0
    assert [verifies(file, "ada", password) for password in (b"one", b"two")] == [False, True]
    assert verifies(file, "bob", "zwö:lf ".encode())
    assert b"one" not in file.read_bytes()
    assert main(["user", "remove", str(file), "ada"]) == 0
    assert read_passwords(file).hash_of("ada") is None
    assert verifies(file, "bob", "zwö:lf ".encode())
    assert list(file.parent.iterdir()) == [file], "nothing else is left behind"


# As Mosquitto 2.1 makes them: longer salts and digests, other parameters.
ARGON2ID_OF_MOSQUITTO = (
    "$argon2id$v=19$m=47104,t=1,p=1$NAJ05Sp3J6sN8wajBAa1zb+tBbv3VI/9PY9GYhCuqt/cOiYusWgHCLXZ2G2YnNjDNSoA+pnsIMU/A2XFJAf1qQ"
    "$M0qSy2dMThwuQw2znXEvcXH6COjDRAxOSuiwhpJfK+HbK8eJhfN2XQy4OJI3oM+HBg954RI7wrinBzBXcMRpUw"
)


@pytest.mark.process
def test_lines_that_mosquitto_made_let_their_users_in(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    file.touch(0o600)
    for user, password in (("ada", "lovelace"), ("bob", "zwö:lf ")):
        subprocess.run([program("mosquitto_passwd"), "-b", str(file), user, password], check=True)
    assert file.read_text().count(":$7$") == 2
    file.write_text(f"{file.read_text()}cyd:{ARGON2ID_OF_MOSQUITTO}\n")
    assert give(monkeypatch, file, "eve", b"ours") == 0

    assert [verifies(file, "ada", password) for password in (b"lovelace", b"lovelac", b"")] == [True, False, False]
    assert verifies(file, "bob", "zwö:lf ".encode())
    assert [verifies(file, "cyd", password) for password in (b"pw", b"p")] == [True, False]
    assert verifies(file, "eve", b"ours")


def test_a_user_who_is_not_there_cannot_be_removed(
    monkeypatch: pytest.MonkeyPatch, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    give(monkeypatch, file, "ada", b"one")
    assert main(["user", "remove", str(file), "bob"]) == 1
    assert "no user bob" in capsys.readouterr().err
    assert main(["user", "remove", str(file.parent / "none"), "bob"]) == 1
    assert not (file.parent / "none").exists()


@pytest.mark.parametrize("user", ["a:b", "", "#a", "a\nb"])
def test_a_name_that_cannot_be_one_is_refused(monkeypatch: pytest.MonkeyPatch, file: Path, user: str) -> None:
    assert give(monkeypatch, file, user, b"pw") == 2
    assert not file.exists()


@pytest.mark.parametrize("password", [b"", b"x" * 65_536])
def test_a_password_that_cannot_be_one_is_refused(monkeypatch: pytest.MonkeyPatch, file: Path, password: bytes) -> None:
    assert give(monkeypatch, file, "ada", password) == 2
    assert not file.exists()


def test_a_broken_file_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("ada:plain\n")
    assert give(monkeypatch, file, "bob", b"pw") == 78
    assert f"{file}:1: " in capsys.readouterr().err
    assert file.read_text() == "ada:plain\n"


def test_a_folder_that_is_not_there_is_said_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert give(monkeypatch, tmp_path / "none" / "passwords", "ada", b"pw") == 75


def test_a_link_stays_a_link(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    link = file.with_name("link")
    link.symlink_to(file.name)
    assert give(monkeypatch, link, "ada", b"pw") == 0
    assert link.is_symlink()
    assert verifies(file, "ada", b"pw")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_of_the_file_stays(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    give(monkeypatch, file, "ada", b"pw")
    os.chown(file, 1234, 1235)
    assert give(monkeypatch, file, "ada", b"pw") == 0
    assert (file.stat().st_uid, file.stat().st_gid, stat.S_IMODE(file.stat().st_mode)) == (1234, 1235, 0o600)


def test_the_prompt_asks_twice(file: Path) -> None:
    asked = CliRunner().invoke(cli, ["user", "add", str(file), "ada"], input="one\nother\none\none\n")
    assert asked.exit_code == 0, asked.output
    assert asked.output.count("Password for ada") == 2, "they differed, so it asked again"
    assert "one" not in asked.output.replace("done", "")
    assert verifies(file, "ada", b"one")


@pytest.mark.process
def test_without_a_terminal_it_says_how_to_give_a_password(file: Path) -> None:
    command = [sys.executable, "-m", "supervisor.cli", "user", "add", str(file), "ada"]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, start_new_session=True, timeout=PATIENCE_S
    )
    assert done.returncode == 2
    assert b"give it with --stdin" in done.stderr
    assert not file.exists()
