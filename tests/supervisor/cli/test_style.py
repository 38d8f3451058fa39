"""All commands are of one style: help that fits 80 columns, ``-h``, CONFIG that may be left out, completion."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from supervisor.cli import node_calls
from supervisor.cli.main import cli, main
from supervisor.cli.node_calls import CONFIG, GivenNode, about_node
from tests.support.node import bascule

LOCAL = {"check", "convert", "demo", "doctor", "export", "init", "user", "token", "report", "run"}  # they ask no node


def commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


ALL = [pytest.param(*each, id=" ".join(each[0])) for each in commands()]
LEAVES = [pytest.param(*each, id=" ".join(each[0])) for each in commands() if not isinstance(each[1], click.Group)]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("CONFIG", "NODE", "KEY", "SERVER_KEY"):
        monkeypatch.delenv(f"BASCULE_{name}", raising=False)
    monkeypatch.setattr(node_calls, "SYSTEM_CONFIG", tmp_path / "etc.yaml")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_the_help_of_all_fits_80_columns_and_is_not_cut(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    for path, _ in [((), cli), *commands()]:
        assert main([*path, option]) == 0
        said = capsys.readouterr().out
        assert said.startswith(f"Usage: {' '.join(('bascule', *path))} "), path
        assert [line for line in said.splitlines() if len(line) > 80 or line.endswith("...")] == [
            line for line in said.splitlines() if line.startswith("Usage: ") and line.endswith("...")
        ], path


@pytest.mark.parametrize(("path", "command"), ALL)
def test_a_command_says_in_one_sentence_what_it_does(path: tuple[str, ...], command: click.Command) -> None:
    first = (command.help or "").partition("\n\n")[0]
    assert first.endswith(".")
    assert "``" not in (command.help or ""), "a terminal shows it as it is"


@pytest.mark.parametrize(("path", "command"), LEAVES)
def test_each_option_says_what_it_does(path: tuple[str, ...], command: click.Command) -> None:
    options = [option for option in command.get_params(click.Context(command)) if isinstance(option, click.Option)]
    assert [option.name for option in options if not (option.help or "").endswith((".", "]"))] == []
    of_files = path[0] in LOCAL - {"check", "doctor", "run"} or path in (("key", "make"), ("snapshot", "verify"))
    assert "config" in [option.name for option in options] or of_files


# --- which node ---


def given(words: list[str], **arguments: str) -> dict[str, Any]:
    """The values that a command which takes ``arguments`` gets for ``words``."""
    got: dict[str, Any] = {}

    @click.command()
    @about_node(**arguments)
    def command(**parameters: Any) -> None:
        got.update(parameters)

    command.main(words, standalone_mode=False)
    node = got.pop("node")
    assert isinstance(node, GivenNode)
    return {"config": node.config, **got}


def test_config_is_the_first_argument_or_an_option(tmp_path: Path) -> None:
    file = tmp_path / "node.conf"
    file.touch()
    assert given(["a.yaml", "b"], bridge="BRIDGE") == {"config": Path("a.yaml"), "bridge": "b"}
    assert given(["-c", "a.yaml", "b"], bridge="BRIDGE") == {"config": Path("a.yaml"), "bridge": "b"}
    assert given(["b", "-c", "a.yaml"], bridge="[BRIDGE]") == {"config": Path("a.yaml"), "bridge": "b"}
    assert given([str(file)], bridge="[BRIDGE]") == {"config": file, "bridge": None}
    assert given(["a.yaml"], bridge="[BRIDGE]") == {"config": Path("a.yaml"), "bridge": None}
    assert given(["any", "b"], bridge="[BRIDGE]") == {"config": Path("any"), "bridge": "b"}
    with pytest.raises(click.UsageError, match="there is no file any"):
        given(["any"])


def test_config_is_the_environments_or_the_systems_or_this_folders_when_it_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(click.UsageError, match="BASCULE_CONFIG is not set, and there is no"):
        given([])
    (tmp_path / "bascule.yaml").touch()
    assert given([]) == {"config": Path("bascule.yaml")}
    with monkeypatch.context() as another:
        another.setattr(os, "geteuid", lambda: os.getuid() + 1)  # who would run the commands that the file names
        with pytest.raises(click.UsageError, match=r"no bascule\.yaml of yours here"):
            given([])
    (tmp_path / "etc.yaml").touch()
    assert given(["x.yaml"], client_id="CLIENT_ID") == {"config": tmp_path / "etc.yaml", "client_id": "x.yaml"}
    monkeypatch.setenv("BASCULE_CONFIG", "mine.yaml")
    assert given([]) == {"config": Path("mine.yaml")}
    assert given(["b"], bridge="[BRIDGE]") == {"config": Path("mine.yaml"), "bridge": "b"}
    assert given(["a.yaml"]) == {"config": Path("a.yaml")}


@pytest.mark.parametrize(
    ("words", "arguments", "why"),
    [
        ([], {"bridge": "BRIDGE"}, "Missing argument 'BRIDGE'"),
        (["a", "b", "c"], {"bridge": "[BRIDGE]"}, "unexpected extra argument \\(c\\)"),
        (["-c", "a", "b", "c"], {"bridge": "[BRIDGE]"}, "unexpected extra argument \\(c\\)"),
        (["-c", "a", "\udcff"], {"bridge": "BRIDGE"}, "not UTF-8"),
    ],
)
def test_what_does_not_fit_is_wrong_usage(words: list[str], arguments: dict[str, str], why: str) -> None:
    with pytest.raises(click.UsageError, match=why):
        given(words, **arguments)


def test_a_command_that_reads_the_nodes_files_says_so_of_a_node_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--node", "tcp://edge:7000", "--key", "me", "check"]) == 2
    assert "bascule check reads files of the node's machine: give it there, with CONFIG" in capsys.readouterr().err
    assert main(["--node", "tcp://edge:7000", "--key", "me", "status", "a.yaml"]) == 2
    assert "give one of them" in capsys.readouterr().err
    monkeypatch.setenv("BASCULE_NODE", "tcp://edge:7000")
    assert main(["status"]) == 2
    assert "--node wants --key FILE" in capsys.readouterr().err
    assert main(["check", "nowhere.yaml"]) == 78, "what is typed goes before the environment"


def test_a_file_alone_is_taken_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[Path] = []
    monkeypatch.chdir(tmp_path)
    for name in ("a.yaml", "b.yaml"):
        Path(name).touch()

    @click.command()
    @CONFIG
    def command(config: Path) -> None:
        got.append(config)

    command.main(["a.yaml"], standalone_mode=False)
    command.main(["-c", "b.yaml"], standalone_mode=False)
    assert got == [Path("a.yaml"), Path("b.yaml")]


@pytest.mark.process
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_options_and_files(shell: str) -> None:
    environment = {**os.environ, "_BASCULE_COMPLETE": f"{shell}_source"}
    script = subprocess.run(bascule(), env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "_BASCULE_COMPLETE" in script


def test_completion_knows_commands_and_options_and_offers_files() -> None:
    from click.shell_completion import ShellComplete

    complete = ShellComplete(cli, {}, "bascule", "_BASCULE_COMPLETE").get_completions
    assert "status" in [item.value for item in complete([], "st")]
    assert "peek" in [item.value for item in complete(["queue"], "p")]
    assert "--watch" in [item.value for item in complete(["status"], "--")]
    assert [item.type for item in complete(["bridge", "pause"], "conf")] == ["file"]
