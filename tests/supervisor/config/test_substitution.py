"""``${NAME}`` and ``${file:PATH}`` in values: what is filled in, and what is told of what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.config.loading import load
from supervisor.config.substitution import FILE_BYTES_MAX, Substitution
from tests.supervisor.config.test_loading import HEAD, load_text, problems_of, remote


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("$SYS/${BOX}/x", "$SYS/box-7/x"),
        ("${BOX}-${BOX}", "box-7-box-7"),
        ("${NONE:-edge}", "edge"),
        ("${EMPTY:-edge}", "edge"),
        ("${BOX:-edge}", "box-7"),
        ("${NONE:-}", ""),
        ("$${BOX}", "${BOX}"),
        ("${node.name}/${bridge.name}/{#}", "${node.name}/${bridge.name}/{#}"),
        ("${file:name}", "käse"),
        ("${file:lines}", "one\ntwo"),
    ],
)
def test_references_are_filled_in(text: str, filled: str, tmp_path: Path) -> None:
    (tmp_path / "name").write_text("käse\n", encoding="utf-8")
    (tmp_path / "lines").write_text("one\ntwo\r\n")

    assert Substitution(tmp_path, {"BOX": "box-7", "EMPTY": ""}).fill_in(text) == filled


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("${NONE}", r"the environment has no NONE; set it, or write \$\{NONE:-otherwise\}"),
        ("${7}", r"\$\{NAME\}"),
        ("${BOX", r"\$\{NAME\}"),
        ("${file:}", r"\$\{NAME\}"),
        ("${file:nowhere}", "nowhere cannot be read: no such file"),
        ("${file:.}", "cannot be read"),
        ("${file:latin}", "latin is not UTF-8"),
        ("${file:large}", "large is larger than 65536 bytes"),
    ],
)
def test_a_reference_to_nothing_is_told_with_what_would_be_right(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"k\xe4se")
    (tmp_path / "large").write_bytes(b"x" * (FILE_BYTES_MAX + 1))

    with pytest.raises(ValueError, match=told):
        Substitution(tmp_path, {"BOX": "box-7"}).fill_in(text)


def test_what_is_filled_in_without_quotes_is_what_it_looks_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANES", "3")
    monkeypatch.setenv("HOST", "broker.example:1883")
    monkeypatch.setenv("STRICT", "true")
    text = f"""{HEAD}bridges:
  - name: cloud
    lanes: ${{LANES}}
    remote:
      addresses: ["${{HOST}}"]
      client_id: "${{LANES}}"
      clean_start: ${{STRICT}}
    local_subscriptions: [{{filters: ["plant/#"]}}]
"""

    (bridge,) = load_text(tmp_path, text).bridges

    assert (bridge.lanes, bridge.remote.client_id, bridge.remote.clean_start) == (3, "3", True)
    assert bridge.remote.addresses == (("broker.example", 1883),)


def test_the_place_of_a_reference_to_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_HOST", raising=False)

    problems = problems_of(tmp_path, remote('addresses: ["${NO_HOST}:1883"], client_id: e'))

    assert [problem.split(": ")[:2] for problem in problems] == [["node.yaml:6:26", "bridges[0].remote.addresses[0]"]]
    assert "the environment has no NO_HOST" in problems[0]


def test_a_reference_without_quotes_within_brackets_is_explained(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, remote("addresses: [${HOST}], client_id: e"))

    assert "wants quotes" in problem


def test_a_file_is_looked_for_beside_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "name").write_text("box-7\n")
    (tmp_path / "etc" / "node.yaml").write_text(HEAD.replace("edge-1", "'${file:name}'"))
    monkeypatch.chdir(tmp_path)

    assert load("etc/node.yaml").node.name == "box-7"
