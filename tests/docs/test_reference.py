"""The reference: generated pages are what the generator prints, and the written ones name all that there is."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import supervisor
from tests.docs.pages import ROOT
from tests.support import programs
from tests.support.cluster import Cluster
from tests.support.mosquitto import Mosquitto, mosquitto_pub
from tests.support.node import Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until
from wire.errors import BasculeError

REFERENCE = ROOT / "docs" / "reference"
OUTSIDE = {0, 74, 130, 141}  # of no error of ours: done, no output, interrupted, no reader

_HEADING = re.compile(r"^##+ `(.+)`$")
_NAMES = re.compile(r"`([^`]+)`")


def documented() -> dict[str, set[str]]:
    """Section of the page on status -> the fields in its table; the node's own is ``""``."""
    found: dict[str, set[str]] = {"": set()}
    section = ""
    for line in (REFERENCE / "status.md").read_text().splitlines():
        if heading := _HEADING.match(line):
            section = heading[1].removesuffix("[]")
            found[section] = set()
        elif line.startswith("| `"):
            found[section] |= {name.removesuffix("[]") for name in _NAMES.findall(line.split("|")[1])}
    return {name.replace("[]", ""): fields for name, fields in found.items()}


def told(value: Any, path: str, sections: dict[str, set[str]], within: str = "") -> Iterator[tuple[str, str]]:
    """(section, field) of what a status has; a field that the page names is not looked into."""
    for name, inner in value.items():
        field = f"{within}{name}"
        if field in sections[path] or not isinstance(inner, dict):
            yield path, field
        elif f"{path}.{name}".lstrip(".") not in sections:
            yield from told(inner, path, sections, f"{field}.")


@pytest.mark.parametrize("generator", ["reference.py", "limits.py"])
def test_generated_pages_are_what_the_generator_prints(generator: str) -> None:
    words = [sys.executable, str(ROOT / "scripts" / "documents" / generator), "--check"]

    done = programs.run(words, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, timeout_s=PATIENCE_S)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def status_of_a_node(folder: Path) -> dict[str, Any]:
    """The status of a node with a bridge both ways, once every actor has told its figures."""
    with Mosquitto(folder / "remote") as remote:
        bridge = bridge_config("cloud", remote.port, remote_subscriptions=[{"filters": ["cmd/#"]}])
        telemetry = {"otlp": {"endpoint": f"http://127.0.0.1:{free_port()}"}}
        with Node(node_config(bridge, http={"bind": "127.0.0.1:0"}, telemetry=telemetry), folder / "node") as node:
            mosquitto_pub(node.port, "a", ["1"], qos=1)
            node.wait_lane("cloud", delivered=1)
            node.wait_actors_ready()
            return node.status()


def test_status_tells_what_the_page_says_and_no_more(tmp_path: Path) -> None:
    sections = {name: fields for name, fields in documented().items() if not name.startswith("replication")}
    status = status_of_a_node(tmp_path)

    found: dict[str, set[str]] = {name: set() for name in sections}
    for name in sections:
        part: Any = status
        for word in name.split(".") if name else ():
            part = part[word]
            part = part[0] if isinstance(part, list) else part
        for section, field in told(part, name, sections):
            found[section].add(field)

    assert found == sections


def test_status_tells_of_a_cluster_what_the_page_says_and_no_more(tmp_path: Path) -> None:
    sections = documented()

    with Cluster(node_config(), tmp_path, servers=1) as cluster:
        leader = cluster.follow()
        standby = next(member for member in cluster.members if member is not leader)
        cluster.wait_level(standby)
        wait_until(lambda: len(leader.replication()["members"]) == 2, PATIENCE_S, "both to have spoken")
        told_by = [leader.node.status()["replication"], standby.node.status()["replication"]]

    assert {field for figures in told_by for field in figures} == sections["replication"]
    assert [set(row) for figures in told_by for row in figures["members"].values()] == [sections["replication.members"]] * 4


def test_every_exit_status_is_explained() -> None:
    for module in pkgutil.walk_packages(supervisor.__path__, "supervisor."):
        if module.name.startswith(("supervisor.cli.", "supervisor.control.", "supervisor.config.")):
            importlib.import_module(module.name)

    def below(kind: type[BasculeError]) -> Iterator[type[BasculeError]]:
        yield kind
        for each in kind.__subclasses__():
            yield from below(each)

    lines = (REFERENCE / "exit-statuses.md").read_text().splitlines()
    explained = {int(found[1]) for line in lines if (found := re.match(r"\| (\d+) \|", line))}

    assert explained == OUTSIDE | {kind.exit_status for kind in below(BasculeError)}


def test_pages_are_listed() -> None:
    for folder in (REFERENCE, ROOT / "docs" / "guides"):
        listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (folder / "index.md").read_text()))
        assert listed == {path.name for path in Path(folder).glob("*.md")} - {"index.md"}
