"""Files of keys: what is written is read again, by ZeroMQ's own tools too, and what is wrong is said and lets nobody in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from zmq.auth import load_certificate

from actors.process.request_sockets import new_key_pair, public_of
from supervisor.control.allowed_keys import CHECK_PERIOD_S, AllowedKeys
from supervisor.control.key_files import KeyFile, public_key, read_allowed, read_key, server_key, write_key
from wire.errors import ConfigError, Unavailable

PUBLIC, SECRET = new_key_pair()


def test_what_is_written_is_read_again_and_by_zeromqs_tools_too(tmp_path: Path) -> None:
    whole = KeyFile(public=PUBLIC, secret=SECRET, role="operate", node="tcp://edge-1:7000", server=new_key_pair()[0])
    write_key(tmp_path / "me", whole, "Mine.")
    assert read_key(tmp_path / "me") == whole
    assert (tmp_path / "me").stat().st_mode & 0o777 == 0o600
    assert load_certificate(tmp_path / "me") == (PUBLIC.encode(), SECRET.encode())

    write_key(tmp_path / "me.pub", KeyFile(public=PUBLIC), "For others.")
    assert (tmp_path / "me.pub").stat().st_mode & 0o777 == 0o644
    assert public_key(str(tmp_path / "me.pub")) == public_key(PUBLIC) == PUBLIC == public_of(SECRET)
    (tmp_path / "bare").write_text(f"{PUBLIC}\n")
    assert public_key(str(tmp_path / "bare")) == PUBLIC


@pytest.mark.parametrize(
    "text",
    ["", "public-key = 'short'", "secret-key = 'nonsense'", f"public-key = '{PUBLIC}'\nserver-key = 'x'"],
    ids=["nothing", "public", "secret", "server"],
)
def test_what_is_no_key_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad").write_text(text)
    with pytest.raises(ConfigError, match=str(tmp_path / "bad")):
        read_key(tmp_path / "bad")


def test_the_nodes_own_pair_is_made_once_and_must_be_its_own(tmp_path: Path) -> None:
    made = server_key(tmp_path / "data")
    assert server_key(tmp_path / "data") == made
    file = tmp_path / "data" / "control.key_secret"
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    with pytest.raises(Unavailable, match="others can read"):
        server_key(tmp_path / "data")
    file.chmod(0o600)
    write_key(file, KeyFile(public=made.public), "Half.")
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="secret-key is missing"):
        server_key(tmp_path / "data")


def test_files_that_are_no_keys_let_nobody_in_and_are_named(tmp_path: Path) -> None:
    write_key(tmp_path / "a.key", KeyFile(public=PUBLIC), "Without a role.")
    write_key(tmp_path / "b.key", KeyFile(public=new_key_pair()[0], role="king"), "Of another's making.")
    (tmp_path / "c.key").write_bytes(b"\xff")
    (tmp_path / "notes.txt").write_text("nothing")
    allowed, problems = read_allowed(tmp_path)
    assert [(key.name, key.role, key.public) for key in allowed] == [("a", "view", PUBLIC)]
    assert ["'king' is not one of view, operate, admin" in problems[0], "c.key" in problems[1]] == [True, True]
    assert len(problems) == 2
    assert read_allowed(tmp_path / "nowhere") == ([], [])


def test_a_change_of_the_folder_is_noticed_within_a_moment(tmp_path: Path) -> None:
    keys = AllowedKeys(tmp_path)
    assert keys.find(PUBLIC, 0.0) is None
    write_key(tmp_path / "me.key", KeyFile(public=PUBLIC, role="operate"), "Mine.")
    assert keys.find(PUBLIC, CHECK_PERIOD_S / 2) is None
    found = keys.find(PUBLIC, CHECK_PERIOD_S)
    assert found is not None
    assert found.role == "operate"
    write_key(tmp_path / "me.key", KeyFile(public=PUBLIC, role="admin"), "Mine.")
    os.utime(tmp_path / "me.key")
    found = keys.find(PUBLIC, 2 * CHECK_PERIOD_S)
    assert found is not None
    assert found.role == "admin"
    (tmp_path / "me.key").unlink()
    assert keys.find(PUBLIC, 3 * CHECK_PERIOD_S) is None
