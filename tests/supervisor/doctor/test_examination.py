"""``bascule doctor`` as an operator types it: a line a verdict, cures below, and an exit status."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.cli.main import main
from supervisor.doctor.examination import examine_owner
from supervisor.doctor.findings import FAIL, OK
from supervisor.tree.store_ownership import claim
from tests.supervisor.settings import node_settings
from tests.support.settings import itself

NODE = """\
node: {name: edge-1, data_dir: data}
listeners: [{bind: "127.0.0.1:0"}]
access: {allow_anonymous: true}
limits: {min_free_disk: 1MiB}
"""
BRIDGE = """\
bridges:
  - name: cloud
    remote: {addresses: ["127.0.0.1:1"], client_id: edge-1}
    local_subscriptions: [{filters: ["#"]}]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "edge.yaml"
    path.write_text(NODE + BRIDGE)
    return path


def test_what_is_to_be_mended_has_its_cure_below_and_status_1(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(config)]) == 1

    lines = capsys.readouterr().out.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("fail  bridge cloud to 127.0.0.1:1: tcp: Connection refused"))
    assert lines[at + 1].startswith("      -> check the port in remote.addresses")
    assert lines[-1].endswith("looked at: 1 to mend, 0 to look at") or " 1 to mend" in lines[-1]
    assert not (config.parent / "data").exists(), "it changes nothing"


def test_offline_no_remote_is_asked_and_json_has_a_line_for_each(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", str(config), "--offline", "--json"])

    findings = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"verdict", "about", "found", "cure"} == findings[0].keys()
    abouts = [finding["about"] for finding in findings]
    assert {"configuration", "node", "disk room", "listener 127.0.0.1:0"} <= set(abouts)
    assert not any(about.startswith("bridge") for about in abouts)


def test_a_data_folder_of_another_node_is_told(config: Path, tmp_path: Path) -> None:
    mine = node_settings(tmp_path)
    mine = replace(mine, persistence=replace(mine.persistence, mode="file-native"))
    (finding,) = examine_owner(mine)
    assert (finding.verdict, finding.found) == (OK, "none yet: the next start begins one"), "nobody has used it yet"
    (finding,) = examine_owner(itself(mine, new_store="refuse"))
    assert (finding.verdict, "--new-store" in finding.cure) == (FAIL, True)
    (tmp_path / "data").mkdir()
    claim(itself(mine, name="edge-2"), frozenset())

    (finding,) = examine_owner(mine)
    assert (finding.verdict, "edge-2" in finding.found, "--renamed" in finding.cure) == (FAIL, True, True)
    assert [finding.verdict for finding in examine_owner(itself(mine, name="edge-2"))] == [OK]
    claim(mine, frozenset(("--renamed",)))
    assert [finding.verdict for finding in examine_owner(mine)] == [OK]


def test_a_configuration_that_is_wrong_is_all_there_is_to_say(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text("colour: red\n" + NODE)

    assert main(["doctor", str(config)]) == 1
    assert capsys.readouterr().out.startswith(f"fail  configuration: {config}:1:1: colour: unknown key")
