"""``bascule key``: pairs are made, and a node's list is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisor.cli.main import main
from supervisor.control.key_files import read_key


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "edge.yaml"
    node = {
        "node": {"name": "edge", "data_dir": "data"},
        "listeners": [{"bind": "127.0.0.1:0"}],
        "access": {"allow_anonymous": True},
    }
    path.write_text(json.dumps({**node, "control": {"bind": "tcp://127.0.0.1:0", "allowed_keys": "keys"}}))
    return path


def said(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    """The output of a command."""
    assert main(["key", *words]) == status
    captured = capsys.readouterr()
    return captured.out if status == 0 else captured.err


def test_a_pair_is_made_let_in_listed_and_taken_off(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = said(capsys, "show", str(config)).strip()
    (tmp_path / "edge.pub").write_text(server)
    me = tmp_path / "me"
    told = said(capsys, "make", str(me), "--node", "tcp://edge:7000", "--server-key", str(tmp_path / "edge.pub"))
    pair = read_key(me)
    assert (pair.node, pair.server) == ("tcp://edge:7000", server)
    assert f"{me}.pub: the public key, {pair.public}" in told
    assert pair.secret not in told
    assert "never replaced" in said(capsys, "make", str(me), status=2)

    assert "no keys" in said(capsys, "list", str(config))
    assert said(capsys, "add", str(config), "laptop", f"{me}.pub", "--role", "operate") == "laptop: authorized as operate\n"
    assert said(capsys, "list", str(config)).split() == ["laptop", "operate", pair.public]
    said(capsys, "add", str(config), "laptop", pair.public)
    listed = json.loads(said(capsys, "list", str(config), "--json"))
    assert listed == {"keys": [{"name": "laptop", "role": "view", "public_key": pair.public}], "problems": []}
    assert "there is no key desk; there are: laptop" in said(capsys, "remove", str(config), "desk", status=78)
    assert said(capsys, "remove", str(config), "laptop") == "laptop: no longer authorized\n"
    assert said(capsys, "show", str(config)).strip() == server


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (("add", "CONFIG", "../x", "k"), 2, "a name has 1 to 64"),
        (("add", "CONFIG", "x", "nowhere.pub"), 75, "cannot be read"),
        (("make", "FILE", "--node", "edge:7000"), 2, "tcp://edge-1:7000"),
    ],
)
def test_what_is_no_key_is_refused(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], status: int, why: str
) -> None:
    places = {"CONFIG": str(config), "FILE": str(tmp_path / "me")}
    assert why in said(capsys, *(places.get(word, word) for word in words), status=status)


def test_a_node_that_does_not_listen_on_the_network_says_how_it_would(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = json.loads(config.read_text())
    del whole["control"]
    config.write_text(json.dumps(whole))
    assert "write control: {bind: tcp://0.0.0.0:7000" in said(capsys, "list", str(config), status=78)


def test_the_key_that_is_shown_must_be_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    me = tmp_path / "me"
    said(capsys, "make", str(me))
    ask = ["--node", "tcp://127.0.0.1:1", "--key", str(me), "status"]
    assert main(ask) == 2
    assert "--server-key is missing" in capsys.readouterr().err
    me.chmod(0o644)
    assert main(ask) == 2
    assert "chmod 600" in capsys.readouterr().err
    assert main(["--node", "tcp://127.0.0.1:1", "--key", f"{me}.pub", "status"]) == 2
    assert "has no secret key" in capsys.readouterr().err
