"""Secrets are in no output: what a configuration takes from elsewhere, and what passwords, tokens and headers a node is given."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from actors.access.password_file import read_passwords
from actors.access.token_file import read_tokens
from supervisor.config.loading import json_schema, load
from supervisor.units import shown
from tests.support import programs
from tests.support.mqtt_client import MqttClient
from tests.support.node import Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until
from wire.errors import ConfigError

# Texts, numbers, YAML's traps, parts of an address, of a URL, of a path: each is refused by other keys and in other words.
PLANTED = ("Hecht lachs-73915", "7391573915", "0739157391", "tcp://lachs:73915@hecht:73915")
PIECES = ("73915", "hecht", "lachs")
LEAST: dict[str, Any] = {
    "node": {"name": "edge", "data_dir": "data"},
    "listeners": [{"bind": "127.0.0.1:0"}],
    "access": {"allow_anonymous": True},
}
BELOW = {
    "bridges": {"name": "cloud", "remote": {"addresses": ["127.0.0.1:9"], "client_id": "edge"}},
    "bridges.local_subscriptions": {"filters": ["a"]},
    "bridges.remote_subscriptions": {"filters": ["a"]},
    "listeners": {"bind": "127.0.0.1:0"},
    "control": {"bind": "tcp://127.0.0.1:0", "allowed_keys": "keys"},
    "http": {"bind": "127.0.0.1:0"},
    "telemetry": {"otlp": {"endpoint": "http://collector:4318"}},
}


def keys(at: dict[str, Any], schema: dict[str, Any], path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The path of every key below ``at`` that holds no further keys; a list has one item."""
    for option in [at, *at.get("anyOf", [])]:
        if "$ref" in option:
            yield from keys(schema["$defs"][option["$ref"].rpartition("/")[2]], schema, path)
        elif "properties" in option:
            for name, inner in option["properties"].items():
                yield from keys(inner, schema, (*path, name))
        elif "items" in option:
            yield from keys(option["items"], schema, (*path, 0))
        elif "anyOf" not in option:
            yield path


def every_key() -> list[tuple[str | int, ...]]:
    return list(dict.fromkeys(keys(json_schema(), json_schema())))


def with_value(path: tuple[str | int, ...], value: str) -> dict[str, Any]:
    """The least configuration that has ``value`` at ``path``."""
    config: Any = json.loads(json.dumps(LEAST))
    at, words = config, []
    for part, following in zip(path, (*path[1:], None), strict=True):
        if isinstance(part, str):
            words.append(part)
        if following is None:
            inner: Any = value
        elif following == 0:
            inner = []
        else:
            inner = json.loads(json.dumps(BELOW.get(".".join(words), {})))
        if isinstance(part, str):
            at = at.setdefault(part, inner) if following is not None else at.__setitem__(part, inner)
        elif following is None:
            at[:] = [inner]
        else:
            at = at[0] if at else (at.append(inner), inner)[1]
    return dict(config)


def test_no_refusal_tells_what_a_reference_stands_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "edge.yaml"
    refused = 0
    for key in every_key():
        document = yaml.safe_dump(with_value(key, "REFERENCE"))  # in blocks, where a number may be filled in without quotes
        for planted, reference in zip(PLANTED, ("${PLANTED}", "${file:planted}") * len(PLANTED), strict=False):
            monkeypatch.setenv("PLANTED", planted)
            (tmp_path / "planted").write_text(planted)
            path.write_text(document.replace("REFERENCE", reference))
            try:
                load(path)
            except ConfigError as error:
                told = "\n".join([str(error), *error.problems]).lower()
                refused += reference.lower() in told
                assert not any(piece in told for piece in PIECES), (key, told)
    assert refused > len(every_key()), "most keys refuse most of it"


@pytest.mark.parametrize("text", ["mqtts://u:73915@h:1:2", "u:/73915@h:1", "http://:73915@[h", "mqtt://u:a@73915@h"])
def test_the_password_of_a_url_is_not_shown(text: str) -> None:
    assert "73915" not in shown(text)
    assert "h" in shown(text)


@pytest.mark.parametrize("line", ["hecht", "hecht:73915", "name:hecht", "name:hecht:73915", "name:view:hecht"])
def test_what_stands_by_mistake_in_a_file_of_passwords_or_tokens_is_not_told(line: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(f"{line}\n")
    for read in (read_passwords, read_tokens):
        with pytest.raises(ConfigError) as refused:
            read(tmp_path / "file")
        assert not any(piece in str(refused.value) for piece in PIECES), str(refused.value)


@pytest.mark.process
def test_no_output_of_a_node_and_its_commands_has_a_secret(tmp_path: Path) -> None:
    """Of a link that does not stand, a login that is refused, headers that change, and a remote's password."""
    (tmp_path / "remote").write_text("hecht-73915\n")
    bridge = bridge_config("cloud", free_port(), remote={"username": "edge", "password_file": str(tmp_path / "remote")})
    headers = {"authorization": "Bearer ${HECHT}"}
    otlp = {"endpoint": f"http://127.0.0.1:{free_port()}", "headers": headers}
    config = node_config(bridge, access={"password_file": str(tmp_path / "users")}, telemetry={"otlp": otlp})
    said = [
        programs.run(
            ["sh", "-c", f"echo lachs-1 | {sys.executable} -m supervisor.cli user add --stdin {tmp_path}/users ada"], timeout_s=60
        )
    ]
    with Node(config, tmp_path / "node", environment={"HECHT": "hecht-73915"}) as node:
        for user, password in (("ada", "hecht"), ("pump", "lachs")):
            with MqttClient(node.port, "pump", username=user, password=password) as client:
                assert client.connack.reason_code == 4
        wait_until(lambda: node.events("bridge.attempt_failed") or "cloud" in node.output, PATIENCE_S, "an attempt")
        node.configure({**config, "telemetry": {"otlp": {**otlp, "headers": {"authorization": "Bearer lachs-73915"}}}})
        for words in ("check", "reload --plan", "doctor", "status --json", "status -o wide", "metrics", "events", "session list"):
            command, *options = words.split()
            said.append(programs.run_bascule(command, *options, str(node.config_path), timeout_s=60.0))
        for each in said:
            assert not any(piece in (each.stdout + each.stderr).lower() for piece in PIECES), each
        assert not any(piece in node.output.lower() for piece in PIECES), node.output
