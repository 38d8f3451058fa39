"""The files in configs/: each loads, the default shows every key with its default, the schema is that of the model."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import MISSING
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from actors.access.password_hashes import DECOY
from supervisor.config.loading import load, schema_text
from supervisor.config.setting_annotations import Setting, each_setting
from tests.support.authority import Authority

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
FILES = sorted(CONFIGS.glob("*.yaml"))
SECRETS = ("cloud.password", "ca.pem", "edge-1.pem", "edge-1.key")

INHERITED = {("listeners", "access")}  # what is left out there is as elsewhere

# Keys whose value in configs/default.yaml is an example, because they have no default.
EXAMPLES = {
    "bridges.classes.name",
    "bridges.isolated",
    "bridges.remote.birth.content_type",
    "bridges.remote.birth.user_properties",
    "bridges.remote.hours",
    "bridges.remote.time_zone",
    "bridges.remote.will.content_type",
    "bridges.remote.will.user_properties",
    "control.bind",
    "control.allowed_keys",
    "http.tls.cert_file",
    "http.tls.key_file",
    "http.tokens_file",
    "replication.servers",
    "replication.stream",
    "replication.member",
    "replication.address",
    "replication.user",
    "replication.password_file",
    "replication.token_file",
    "replication.credentials_file",
    "replication.nkey_file",
    "replication.tls.ca_file",
    "replication.tls.cert_file",
    "replication.tls.key_file",
    "snapshots.to",
    "notify.name",
    "notify.when",
    "notify.email.ca_file",
    "notify.email.from",
    "notify.email.password_file",
    "notify.email.server",
    "notify.email.to",
    "notify.email.user",
    "notify.topic",
    "notify.webhook.routing_key_file",
    "notify.webhook.tls.ca_file",
    "notify.webhook.tls.cert_file",
    "notify.webhook.tls.key_file",
    "notify.webhook.url",
    "notify.webhook.url_file",
    "telemetry.otlp.endpoint",
    "telemetry.otlp.tls.ca_file",
    "telemetry.otlp.tls.cert_file",
    "telemetry.otlp.tls.key_file",
    "node.name",
    "node.data_dir",
    "listeners.bind",
    "listeners.tls.cert_file",
    "listeners.tls.key_file",
    "listeners.tls.ca_file",
    "listeners.tls.crl_file",
    "listeners.tls.ciphers",
    "listeners.proxy_protocol.from",
    "listeners.access.allow_anonymous",
    "listeners.access.password_file",
    "listeners.access.acl.topics",
    "listeners.access.acl_file",
    "access.password_file",
    "access.acl.topics",
    "access.acl_file",
    "clients.response_information",
    "bridges.name",
    "bridges.remote.addresses",
    "bridges.remote.client_id",
    "bridges.remote.username",
    "bridges.remote.password_file",
    "bridges.remote.password_env",
    "bridges.remote.password_command",
    "bridges.remote.proxy.url",
    "bridges.remote.proxy.username",
    "bridges.remote.proxy.password_file",
    "bridges.remote.proxy.no_proxy",
    "bridges.remote.authentication.method",
    "bridges.remote.authentication.data_file",
    "bridges.remote.authentication.data_env",
    "bridges.remote.authentication.data_command",
    "bridges.remote.bind_address",
    "bridges.remote.bind_interface",
    "bridges.remote.tls.ca_file",
    "bridges.remote.tls.ca_path",
    "bridges.remote.tls.ciphers",
    "bridges.remote.will.topic",
    "bridges.remote.will.payload",
    "bridges.remote.birth.topic",
    "bridges.remote.birth.payload",
    "bridges.remote.tls.crl_file",
    "bridges.remote.tls.key_passphrase_file",
    "bridges.remote.tls.key_passphrase_env",
    "bridges.remote.tls.key_passphrase_command",
    "bridges.remote.tls.psk_identity",
    "bridges.remote.tls.psk_file",
    "bridges.remote.tls.psk_env",
    "bridges.remote.tls.psk_command",
    "bridges.remote.tls.cert_file",
    "bridges.remote.tls.key_file",
    "bridges.remote.tls.server_name",
    "bridges.local_subscriptions.name",
    "bridges.local_subscriptions.filters",
}


def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((CONFIGS / "bascule.schema.json").read_text())
    return loaded


@cache
def default_with_all_keys() -> Any:
    """configs/default.yaml with its commented keys switched on: a "#" with a key right after it."""
    text = (CONFIGS / "default.yaml").read_text()
    return yaml.safe_load(re.sub(r"^(\s*(?:- )?)#(?=(?:- )?[a-z_0-9]+:)", r"\1", text, flags=re.MULTILINE))


def keys() -> Iterator[tuple[tuple[str, ...], Setting]]:
    """Every key that takes a plain value; rules are shown once."""
    for key, one in each_setting():
        if (one.section is None and not key.startswith("bridges[].remote_subscriptions[]")) or one.key == "remote_subscriptions":
            yield tuple(key.replace("[]", "").split(".")), one


def shown_at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value[0] if isinstance(value, list) else value
        value = value[name]
    return value


@pytest.mark.process
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_loads_and_fits_the_schema(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "configs" / path.name
    copy.parent.mkdir()
    shutil.copy(path, copy)
    if path.name == "access.yaml":
        shutil.copytree(CONFIGS / "access", copy.parent / "access")
        (copy.parent / "secrets").mkdir()
        (copy.parent / "secrets" / "passwords").write_text(f"operator:{DECOY}\n")
    if path.name == "tls.yaml":
        (copy.parent / "secrets").mkdir()
        for name in SECRETS:
            (copy.parent / "secrets" / name).write_text("for the test\n")

    if path.name in ("http.yaml", "secure.yaml"):
        authority = Authority(copy.parent / "secrets", "ca")
        authority.issue("server", "/CN=edge-1")
        (copy.parent / "secrets" / "tokens").write_text(f"ada:admin:{'0' * 64}\n")

    assert load(copy).bridges
    jsonschema.validate(yaml.safe_load(path.read_text()), schema())


def test_there_is_a_file_for_each_mode() -> None:
    assert {path.stem for path in FILES} >= {"default", "minimal", "in-memory", "durable", "fast", "replicated", "tls", "access"}
    modes = {name: load(CONFIGS / f"{name}.yaml").persistence.mode for name in ("in-memory", "durable", "replicated")}
    assert modes == {"in-memory": "in-memory", "durable": "file-native", "replicated": "replicated"}
    fast = load(CONFIGS / "fast.yaml").persistence
    assert (fast.acknowledge, fast.flush_period_s, fast.sync) == ("fast", 0.5, "os")


@pytest.mark.parametrize(("path", "one"), list(keys()), ids=lambda value: ".".join(value) if isinstance(value, tuple) else "")
def test_the_default_file_shows_every_key_with_its_default(path: tuple[str, ...], one: Setting) -> None:
    shown = shown_at(default_with_all_keys(), path)

    if ".".join(path) in EXAMPLES:
        assert path[:2] in INHERITED or one.default in (MISSING, None, "", ()), "it has a default, so show that"
    else:
        assert (tuple(shown) if isinstance(shown, list) else shown) == one.as_written(one.default)


def test_the_default_file_shows_no_other_keys() -> None:
    known = {".".join(path) for path, _ in keys()}

    def leaves(value: object, path: tuple[str, ...]) -> Iterator[str]:
        if isinstance(value, dict) and value and ".".join(path) not in known:
            for name, inner in value.items():
                yield from leaves(inner, (*path, name))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for item in value:
                yield from leaves(item, path)
        else:
            yield ".".join(path)

    assert set(leaves(default_with_all_keys(), ())) == known


def test_every_key_says_what_it_is_for() -> None:
    assert [key for key, one in each_setting() if not one.says] == []


def test_the_schema_in_the_tree_is_that_of_the_model() -> None:
    assert (CONFIGS / "bascule.schema.json").read_text() == schema_text(), (
        "out of date; run: python -m supervisor.config.loading --schema configs/bascule.schema.json"
    )
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize(
    "change",
    [
        {"limit": {}},
        {"limits": {"max_bytes": 5}},
        {"limits": {"max_bytes": "5 potatoes"}},
        {"persistence": {"mode": "file"}},
        {"listeners": []},
        {"bridges": [{"name": "a b"}]},
    ],
)
def test_an_editor_sees_what_is_wrong(change: dict[str, object]) -> None:
    right = yaml.safe_load((CONFIGS / "minimal.yaml").read_text())

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**right, **change}, schema())


def test_files_name_the_schema_for_editors() -> None:
    for path in FILES:
        assert path.read_text().startswith("# yaml-language-server: $schema=bascule.schema.json\n"), path.name
