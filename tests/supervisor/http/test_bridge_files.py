"""Bridges made, changed and removed by the REST API and by commands: the same plan and consent as a reload, one file for each."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.supervisor.http.served import Served, serve
from tests.support.mqtt_client import publish_once
from tests.support.node import bridge_config
from tests.support.ports import free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

FOLDER = "bridges.d"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("bridges")
    with serve(folder, bridge_config("cloud", free_port()), include=(f"{FOLDER}/*.yaml",)) as served:
        yield served


def file_of(served: Served, name: str) -> Path:
    return served.node.folder / FOLDER / f"{name}.yaml"


def a_bridge(**keys: Any) -> Any:
    config = bridge_config("any", free_port(), **keys)
    config.pop("name")
    return config


def put(served: Served, name: str, body: Any, query: str = "", role: str = "admin") -> Any:
    return served.change(f"/bridges/{name}{query}", body, role, method="PUT")


def names(served: Served) -> list[str]:
    return sorted(row["name"] for row in served.node.status()["bridges"])


def test_a_bridge_is_planned_made_changed_and_removed(served: Served) -> None:
    bridge = a_bridge()

    planned = put(served, "north", {"bridge": bridge}, "?plan=true")
    assert planned.status == 200
    assert [change["what"] for change in planned.json["changes"]] == ["bridge north: added"]
    assert not file_of(served, "north").exists()
    assert names(served) == ["cloud"]

    made = put(served, "north", {"bridge": bridge})
    assert (made.status, made.json["applied"]) == (200, True)
    assert names(served) == ["cloud", "north"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file_of(served, "north"), served.node.folder / FOLDER)] == [0o600, 0o700]
    assert not served.node.status()["configuration"]["changed_files"]

    shown = served.get("/bridges/north", "admin").json
    assert (shown["bridge"], shown["reasons"]) == ({"name": "north", **bridge}, [])
    assert shown["text"] == file_of(served, "north").read_text()
    assert "stands here" in served.get("/bridges/cloud", "admin").json["reasons"][0]
    assert served.get("/bridges/nowhere", "admin").kind == "unknown_bridge"

    os.chmod(file_of(served, "north"), 0o640)
    text = json.dumps({"bridges": [{"name": "north", **bridge, "lanes": 2}]})
    assert put(served, "north", {"text": text}).json["applied"]
    assert file_of(served, "north").read_text() == text
    assert file_of(served, "north").stat().st_mode & 0o777 == 0o640

    publish_once(served.node.port, "t", "waits")
    wait_until(lambda: any(row["depth"] for row in served.node.status()["bridges"] if row["name"] == "north"), 20.0, "it waits")
    refused = served.change("/bridges/north", method="DELETE")
    assert refused.status == 200
    assert not refused.json["applied"]
    assert "destructive" in [change["how"] for change in refused.json["changes"]]
    assert file_of(served, "north").read_text() == text

    assert served.change("/bridges/north?yes=true", method="DELETE").json["applied"]
    assert not file_of(served, "north").exists()
    assert names(served) == ["cloud"]


@pytest.mark.parametrize(
    ("name", "body", "why"),
    [
        ("south", {"text": "bridges:\n  - name: south\n    remote: {adresses: [x]}\n"}, "south.yaml:3:"),
        ("south", {"text": "bridges: [{name: other}]"}, "the one bridge south"),
        ("south", {"text": "bridges: [}"}, "not YAML"),
        ("cloud", {"bridge": a_bridge()}, "the bridge cloud stands here"),
        ("a b", {"bridge": a_bridge()}, "cannot be a bridge's name"),
        ("a%00b", {"bridge": a_bridge()}, "cannot be a bridge's name"),
        ("south", {"bridge": {**a_bridge(), "remote": {"addresses": ["h"], "password_command": ["id"]}}}, "no command can make it"),
        ("south", {"bridge": {**a_bridge(), "remote": {"addresses": ["h"], "username": "${HOME}"}}}, "no command can make them"),
        ("south", {"bridge": {**a_bridge(), "remote": {"addresses": ["h"], "password_file": "/etc/hostname"}}}, "is not below"),
    ],
)
def test_what_does_not_hold_or_reaches_beyond_the_node_is_422_and_leaves_nothing(
    served: Served, name: str, body: Any, why: str
) -> None:
    answer = put(served, name.replace(" ", "%20"), body)

    assert answer.status == 422, answer.json
    assert why in answer.json["error"]["message"]
    assert names(served) == ["cloud"]
    assert list((served.node.folder / FOLDER).iterdir()) == []


def test_only_an_admin_may_and_nothing_is_removed_that_is_not_there(served: Served) -> None:
    assert put(served, "east", {"bridge": a_bridge()}, role="operate").status == 403
    assert served.get("/bridges/cloud", "operate").status == 403
    assert served.get("/bridges/%00", "admin").kind == "unknown_bridge"
    assert served.change("/bridges/east", method="DELETE").status == 422
    assert served.change("/bridges/cloud", method="DELETE").status == 422


def test_commands_do_the_same(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "west.yaml"
    file.write_text(json.dumps({"bridges": [{"name": "west", **a_bridge()}]}))
    config = str(served.node.config_path)

    assert served.node.cli("bridge", "add", config, "west", str(file)).stdout.startswith("applied")
    assert names(served) == ["cloud", "west"]
    assert served.node.cli("bridge", "remove", config, "west", "--plan").returncode == 0
    assert served.node.cli("bridge", "remove", config, "west").stdout.startswith("applied")
    assert names(served) == ["cloud"]
