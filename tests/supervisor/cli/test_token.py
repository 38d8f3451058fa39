"""``bascule token``: tokens come and go, are told once, and stand in the file as hashes that nobody else can read."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from actors.access.token_file import read_tokens
from supervisor.cli.main import main
from wire.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


def test_a_token_is_made_listed_and_removed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "add", str(file), "grafana"]) == 0
    made = capsys.readouterr().out.strip()
    assert main(["token", "add", str(file), "ada", "--role", "admin", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert made not in file.read_text()
    table = read_tokens(file)
    assert [(each.name, each.role) for text in (made, told["token"]) if (each := table.find(text))] == [
        ("grafana", "view"),
        ("ada", "admin"),
    ]
    assert main(["token", "list", str(file)]) == 0
    assert capsys.readouterr().out == "grafana  view\nada      admin\n"
    assert main(["token", "list", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[1] == {"name": "ada", "role": "admin"}

    assert main(["token", "remove", str(file), "grafana"]) == 0
    assert read_tokens(file).find(made) is None
    assert list(file.parent.iterdir()) == [file], "nothing else is left behind"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to a group")
def test_the_service_of_a_package_can_read_the_tokens_that_root_adds(file: Path) -> None:
    os.chown(file.parent, 0, 1)
    file.parent.chmod(0o750)

    for name in ("grafana", "ada"):
        assert main(["token", "add", str(file), name]) == 0
        assert (file.stat().st_gid, stat.S_IMODE(file.stat().st_mode)) == (1, 0o640)


def test_what_cannot_be_done_changes_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "add", str(file), "ada"]) == 0
    before = file.read_bytes()

    assert main(["token", "add", str(file), "ada"]) == 1
    assert main(["token", "remove", str(file), "eve"]) == 1
    assert main(["token", "add", str(file), "a b"]) == 2
    assert main(["token", "add", str(file), "eve", "--role", "root"]) == 2
    assert file.read_bytes() == before

    file.write_text("what is this\n")
    assert main(["token", "add", str(file), "eve"]) == ConfigError.exit_status
    assert file.read_text() == "what is this\n"
    assert f"{file}:1: not a line of the form" in capsys.readouterr().err
