"""Files that others can change are not gone by, at a start and while a node runs; ``doctor`` names them."""

from __future__ import annotations

import json
import os
import pwd
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.access.password_file import PasswordFile
from actors.access.token_file import TokenFile
from actors.process.request_sockets import new_key_pair
from actors.remote.remote_socket import credentials_fault
from supervisor.cli.main import main
from supervisor.config.loading import load
from supervisor.control.allowed_keys import CHECK_PERIOD_S, AllowedKeys
from supervisor.control.key_files import KeyFile, server_key, write_key
from tests.support import settings
from tests.support.authority import Authority
from tests.support.node import Node, node_config
from wire.access.password_table import with_password
from wire.access.token_table import Token, digest_of, with_token
from wire.errors import ConfigError, Unavailable

LEAST: dict[str, Any] = {
    "node": {"name": "edge", "data_dir": "data"},
    "listeners": [{"bind": "127.0.0.1:0"}],
    "access": {"allow_anonymous": True},
}
REMOTE = {"addresses": ["mqtts://u@127.0.0.1:9"], "client_id": "edge"}
NATS = {"servers": ["nats://127.0.0.1:9"], "stream": "edge", "member": "a"}
PUBLIC = new_key_pair()[0]


def bridge(**remote: Any) -> dict[str, Any]:
    rule = {"filters": ["#"]}
    return {"bridges": [{"name": "cloud", "remote": {**REMOTE, **remote}, "local_subscriptions": [rule]}]}


CASES: dict[str, dict[str, Any]] = {
    "users": {"access": {"password_file": "secrets/file"}},
    "listener": {"listeners": [{"bind": "127.0.0.1:0", "access": {"password_file": "secrets/file"}}]},
    "remote": bridge(password_file="secrets/file"),
    "authorities": bridge(tls={"ca_file": "secrets/file"}),
    "own-key": bridge(tls={"cert_file": "cert", "key_file": "secrets/file"}),
    "listeners-key": {
        "listeners": [{"bind": "127.0.0.1:0", "protocol": "tls", "tls": {"cert_file": "cert", "key_file": "secrets/file"}}]
    },
    "tokens": {"http": {"bind": "127.0.0.1:0", "tokens_file": "secrets/file"}},
    "keys": {"control": {"bind": "tcp://127.0.0.1:0", "allowed_keys": "secrets"}},
    "collector": {
        "telemetry": {"otlp": {"endpoint": "https://collector:4318", "tls": {"cert_file": "cert", "key_file": "secrets/file"}}}
    },
    "log": {"persistence": {"mode": "replicated"}, "replication": {**NATS, "token_file": "secrets/file"}},
    "by-reference": {"bridges": bridge(client_id="${file:secrets/file}")["bridges"]},
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "secrets").mkdir(0o700)
    (tmp_path / "secrets" / "file").write_text("# hush\n")
    (tmp_path / "secrets" / "file").chmod(0o600)
    return tmp_path


@pytest.mark.process
@pytest.mark.parametrize("case", CASES)
def test_no_configuration_goes_by_a_secret_that_others_can_replace(case: str, place: Path) -> None:
    path = place / "edge.yaml"
    path.write_text(json.dumps({**LEAST, **CASES[case]}))
    if "cert_file" in path.read_text():
        pair = Authority(place).issue("edge")
        (place / "cert").write_bytes(pair.cert_file.read_bytes())
        (place / "secrets" / "file").write_bytes(pair.key_file.read_bytes())
    load(path)
    for wrong in (place / "secrets", *([place / "secrets" / "file"] if case != "keys" else [])):
        mode = wrong.stat().st_mode
        wrong.chmod(0o777)
        with pytest.raises(ConfigError, match=rf"others can write {wrong}: chmod go-w it"):
            load(path)
        wrong.chmod(mode)
    if os.geteuid() == 0 and case not in ("keys", "by-reference"):
        os.chown(place / "secrets" / "file", pwd.getpwnam("nobody").pw_uid, -1)
        with pytest.raises(ConfigError, match="belongs to the user"):
            load(path)
        (place / "data").mkdir(mode=0o700)
        os.chown(place / "data", pwd.getpwnam("nobody").pw_uid, -1)
        load(path)  # root looks at a node of that user


def test_doctor_names_them_and_what_else_others_can_change(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = place / "edge.yaml"
    (place / "acl.yaml").write_text('acl: [{topics: ["a"]}]\n')
    path.write_text(json.dumps({**LEAST, "access": {"password_file": "secrets/file", "acl_file": "acl.yaml"}}))
    (place / "data").mkdir()
    for wrong in ("edge.yaml", "acl.yaml", "data", "secrets", "secrets/file"):
        mode = (place / wrong).stat().st_mode
        (place / wrong).chmod(0o777)
        assert main(["doctor", str(path), "--offline", "--json"]) == 1
        said = capsys.readouterr().out
        assert f"others can write {place / wrong}" in said
        assert "chmod go-w" in said
        (place / wrong).chmod(mode)
    main(["doctor", str(path), "--offline", "--json"])
    assert "others can write" not in capsys.readouterr().out


def test_a_file_that_is_replaced_by_others_while_the_node_runs_changes_nothing(place: Path) -> None:
    """Users and tokens that were read stay; a key is let in no more; a link keeps its distance."""
    users, tokens, keys = place / "secrets" / "users", place / "secrets" / "tokens", place / "keys"
    users.write_text(with_password("", "ada", "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA"))
    tokens.write_text(with_token("", Token("ada", "view", digest_of("a"))))
    keys.mkdir(0o700)
    write_key(keys / "ada.key", KeyFile(public=PUBLIC, role="admin"), "Ada's.")
    passwords, token_file, allowed = PasswordFile(str(users)), TokenFile(str(tokens)), AllowedKeys(keys)
    assert (len(passwords.table), len(token_file.table), allowed.find(PUBLIC, 0.0) is not None) == (1, 1, True)

    users.write_text("")
    tokens.write_text("")
    for path in (users, tokens, keys):
        path.chmod(0o777)
    passwords.reload()
    token_file.reload()
    assert "others can write" in str(credentials_fault(replace(settings.bridge().remote, password_file=str(users))))

    assert (len(passwords.table), len(token_file.table)) == (1, 1)
    assert allowed.find(PUBLIC, CHECK_PERIOD_S) is None
    assert "others can write" in allowed.problems[0]
    keys.chmod(0o700)
    assert allowed.find(PUBLIC, 2 * CHECK_PERIOD_S) is not None
    for path in (users, tokens):
        path.chmod(0o600)
    passwords.reload()
    token_file.reload()
    assert (len(passwords.table), len(token_file.table)) == (0, 0)


def test_the_nodes_own_key_is_not_shown_once_others_can_replace_it(tmp_path: Path) -> None:
    server_key(tmp_path / "data")
    (tmp_path / "data").chmod(0o777)
    with pytest.raises(Unavailable, match="others can replace"):
        server_key(tmp_path / "data")


@pytest.mark.process
def test_a_start_takes_the_data_folder_from_others(tmp_path: Path) -> None:
    """Sockets, lock and store are in there: whoever names files in it is in the middle. Those who may read it may do so on."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o775 | 0o002)
    with Node(node_config(), tmp_path) as node:
        assert node.data_dir.stat().st_mode & 0o777 == 0o755
        assert (node.data_dir / "run").stat().st_mode & 0o777 == 0o700
