"""What an answer tells of the files that a node goes by: users and rules, and a bridge's own file; never a secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.config.loading import load
from supervisor.reload.file_answers import access_of, bridge_of
from wire.access.token_table import Token, digest_of, with_token
from wire.errors import ConfigError
from wire.figure import of_map, to_map
from wire.status.answers import Access

HASH = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
RULE = {"topics": ["plant/%u/#"], "permission": "deny", "action": "publish", "users": ["ada"], "clients": ["p-*"]}


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def configured(folder: Path, **keys: Any) -> Path:
    whole = {"node": {"name": "edge", "data_dir": "data"}, "listeners": [{"bind": "127.0.0.1:1883"}], **keys}
    return written(folder / "bascule.yaml", json.dumps(whole))


def test_users_rules_and_holders_of_tokens_are_told_without_a_hash(tmp_path: Path) -> None:
    written(tmp_path / "users", f"ada:{HASH}\nbob:{HASH}\n")
    written(tmp_path / "tokens", with_token("", Token("grafana", "view", digest_of("bascule_x"))))
    config = configured(
        tmp_path,
        access={"password_file": "users", "acl": [RULE]},
        listeners=[
            {"bind": "127.0.0.1:1883"},
            {"bind": "127.0.0.1:1884"},
            {"bind": "127.0.0.1:1885", "access": {"allow_anonymous": True}},
        ],
        http={"bind": "127.0.0.1:8080", "tokens_file": "tokens"},
    )

    told = access_of(load(config))

    first, open_one = told.listeners
    assert (first.listeners, open_one.listeners) == (("127.0.0.1:1883", "127.0.0.1:1884"), ("127.0.0.1:1885",))
    assert (first.users, first.users_count, first.allow_anonymous) == (("ada", "bob"), 2, False)
    assert first.users_file == str(tmp_path / "users")
    assert first.rules is not None
    (rule,) = first.rules
    assert (rule.permission, rule.action, rule.topics) == ("deny", "publish", ("plant/%u/#",))
    assert (rule.users, rule.clients, rule.anonymous) == (("ada",), ("p-*",), False)
    assert (open_one.users, open_one.rules_count, open_one.allow_anonymous) == (("ada", "bob"), 1, True)
    assert told.tokens is not None
    assert [(one.name, one.role) for one in told.tokens] == [("grafana", "view")]
    text = json.dumps(to_map(told))
    assert not [secret for secret in ("argon2", HASH[-20:], digest_of("bascule_x")) if secret in text]


def test_rules_of_a_file_are_those_that_stand_there_now_and_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    written(tmp_path / "acl", json.dumps({"acl": [RULE]}))
    written(tmp_path / "users", f"ada:{HASH}\n")
    settings = load(configured(tmp_path, access={"password_file": "users", "acl_file": "acl"}))
    written(tmp_path / "acl", json.dumps({"acl": [RULE, RULE]}))
    written(tmp_path / "users", f"ada:{HASH[:30]}\n")

    (told,) = access_of(settings).listeners

    assert (told.rules_count, told.rules_file) == (2, str(tmp_path / "acl"))
    assert (told.users, told.problems) == ((), (f"{tmp_path / 'users'}:1: {told.problems[0].partition(':1: ')[2]}",))
    assert HASH[:30] not in told.problems[0]
    assert access_of(settings).tokens is None
    everything = access_of(load(configured(tmp_path, access={"allow_anonymous": True})))
    assert of_map(Access, to_map(everything)) == everything
    assert (everything.listeners[0].rules, everything.listeners[0].users) == (None, ())


def test_a_bridges_own_file_is_told_and_any_other_is_named(tmp_path: Path) -> None:
    remote = {"addresses": ["a.example"], "client_id": "edge"}
    (tmp_path / "bridges.d").mkdir()
    text = "# north\nbridges:\n  - name: north\n    remote: {addresses: [a.example], client_id: edge}\n"
    file = written(tmp_path / "bridges.d" / "north.yaml", text)
    config = configured(tmp_path, include=["bridges.d/*.yaml"], bridges=[{"name": "cloud", "remote": remote}])

    told = bridge_of(config, "north")
    assert (told.file, told.text, told.reasons) == (str(file), text, ())
    assert told.bridge == {"name": "north", "remote": {"addresses": ("a.example",), "client_id": "edge"}}

    other = bridge_of(config, "cloud")
    assert (other.file, other.text, other.bridge) == (str(config), "", {})
    assert "the bridge cloud stands here" in other.reasons[0]
    with pytest.raises(ConfigError):
        bridge_of(config, "south")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('websocket_headers: {authorization: "Bearer s3cr3t"}', "no answer tells it"),
        ("username: ${s3cr3t}", "references are for"),
        ("password_command: [s3cr3t]", "no command can make it"),
        ("password_file: /etc/s3cr3t", "is not below"),
    ],
)
def test_of_a_file_that_no_request_may_write_nothing_is_told_but_why(tmp_path: Path, line: str, why: str) -> None:
    (tmp_path / "bridges.d").mkdir()
    text = f"bridges:\n  - name: north\n    remote:\n      addresses: [a.example]\n      {line}\n"
    file = written(tmp_path / "bridges.d" / "north.yaml", text)

    told = bridge_of(configured(tmp_path, include=["bridges.d/*.yaml"]), "north")

    assert (told.text, told.bridge) == ("", {})
    assert told.reasons
    assert told.reasons[0].startswith(f"{file}:5:")
    assert why in told.reasons[0]
    assert "s3cr3t" not in json.dumps(to_map(told)).replace("/etc/s3cr3t", "")
