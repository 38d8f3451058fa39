"""Included files: what they add, in which order, and that a problem names the file it is in."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.config.loading import load
from tests.supervisor.config.test_loading import HEAD, problems_of
from wire.errors import ConfigError

INCLUDE = "include: [bridges.d/*.yaml]\n"


def bridge(name: str, more: str = "") -> str:
    return f"""bridges:
  - name: {name}
    remote: {{addresses: ["{name}.example"], client_id: e}}
    local_subscriptions: [{{filters: ["plant/#"]}}]
{more}"""


def write(tmp_path: Path, files: dict[str, str]) -> Path:
    (tmp_path / "bridges.d").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path / "node.yaml"


def problems(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load(path)
    return [problem.replace(f"{path.parent}/", "") for problem in refused.value.problems]


def test_bridges_and_listeners_are_added_in_the_order_of_the_names(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {
            "node.yaml": INCLUDE + HEAD + bridge("first"),
            "bridges.d/20-cloud.yaml": bridge("cloud"),
            "bridges.d/10-plant.yaml": bridge("plant") + 'listeners: [{bind: "127.0.0.1:1884"}]\nlog: {level: debug}\n',
            "bridges.d/.hidden.yaml": "nonsense",
            "bridges.d/readme.txt": "nonsense",
        },
    )

    settings = load(path)

    assert [each.name for each in settings.bridges] == ["first", "plant", "cloud"]
    assert [each.port for each in settings.listeners] == [1883, 1884]
    assert settings.log.level == "debug"


def test_paths_in_an_included_file_count_from_the_folder_of_the_file_that_includes_it(tmp_path: Path) -> None:
    key = bridge("cloud").replace("client_id: e", "client_id: e, username: u, password_file: secret")
    path = write(tmp_path, {"node.yaml": INCLUDE + HEAD, "bridges.d/a.yaml": key, "secret": "x"})

    assert load(path).bridges[0].remote.password_file == str(tmp_path / "secret")


def test_a_folder_without_files_adds_nothing_and_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    path = write(tmp_path, {"node.yaml": INCLUDE + HEAD})

    assert load(path).bridges == ()
    path.write_text("include: [cloud.yaml]\n" + HEAD)
    assert problems(path) == ["node.yaml:1:11: include[0]: there is no file cloud.yaml"]


def test_a_problem_names_the_file_that_it_is_in(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {
            "node.yaml": INCLUDE + HEAD + bridge("first") + "log: {level: loud}\n",
            "bridges.d/a.yaml": bridge("second", "    lanes: 0\n"),
            "bridges.d/b.yaml": bridge("first", "    lane: 2\n"),
        },
    )

    found = [problem.split(": ")[:2] for problem in problems(path)]

    assert found == [
        ["node.yaml:9:14", "log.level"],
        ["bridges.d/a.yaml:5:12", "bridges[1].lanes"],
        ["bridges.d/b.yaml:2:11", "bridges[2].name"],
        ["bridges.d/b.yaml:5:5", "bridges[2].lane"],
    ]


def test_a_key_stands_in_one_file_and_no_included_file_includes_others(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {
            "node.yaml": INCLUDE + HEAD,
            "bridges.d/a.yaml": "log: {level: info}\n",
            "bridges.d/b.yaml": "log: {level: debug}\n",
            "bridges.d/c.yaml": "include: [more.yaml]\n",
        },
    )

    assert problems(path) == [
        f"bridges.d/b.yaml:1:1: log: stands in {tmp_path}/bridges.d/a.yaml already, line 1; keep one".replace(f"{tmp_path}/", ""),
        "bridges.d/c.yaml:1:1: include: an included file cannot include others",
    ]


@pytest.mark.parametrize(("text", "told"), [("", "the file is empty"), ("- a\n", "must be a mapping"), ("a: [\n", "not YAML")])
def test_an_included_file_that_is_no_mapping_is_named(text: str, told: str, tmp_path: Path) -> None:
    path = write(tmp_path, {"node.yaml": INCLUDE + HEAD, "bridges.d/a.yaml": text})

    (problem,) = problems(path)

    assert problem.startswith("bridges.d/a.yaml:")
    assert told in problem


def test_a_file_cannot_include_itself(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, "include: ['*.yaml']\n" + HEAD)

    assert "includes this file itself" in problem


def test_what_include_takes_is_a_list_of_text(tmp_path: Path) -> None:
    assert problems_of(tmp_path, "include: bridges.d/*.yaml\n" + HEAD)[0].startswith("node.yaml:1:10: include: ")
    assert problems_of(tmp_path, "include: [7]\n" + HEAD)[0].startswith("node.yaml:1:11: include[0]: ")
