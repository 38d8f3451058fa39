"""Every command that a message, a cure, an alert or the page names can be typed as it stands, with its words in capitals filled in.

Nothing of the reader's environment helps: without ``CONFIG`` a command that wants one is no command that works.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from supervisor.cli import node_calls
from supervisor.cli.main import cli
from supervisor.cli.node_calls import GivenNode
from tests.docs.pages import ROOT

PRODUCT = ("wire", "storage", "analysis", "actors", "supervisor")
TEXTS = [ROOT / "configs/prometheus/alerts.yml", *sorted((ROOT / "supervisor/http/page").glob("*.*s"))]
FILLED = "filled-in"  # stands where a message has a name of its own
EXAMPLES = {"CONFIG": "edge.yaml", "FILE": "edge.yaml", "SNAPSHOT": "s", "N": "1"}

# Sentences about a command, which do not tell anybody to type it: (file, what it says).
ABOUT = {
    ("wire/routing/sys_topics.py", "bascule version"): "the value of a topic",
    ("storage/installation.py", "bascule install"): "pipx's command, to which it names the package",
    ("analysis/job.py", "bascule report"): "the program's own name in its help",
    ("analysis/job.py", "bascule export"): "what wrote the folder that is to be given",
    ("supervisor/cli/report.py", "bascule report"): "the program's own name, and what it needs",
    ("supervisor/cli/export.py", "bascule export"): "what the command itself needs",
    ("supervisor/cli/key.py", "bascule key"): "what wrote the file, in the file",
    ("supervisor/cli/key.py", "bascule key add"): "the help names the other command",
    ("wire/config_settings.py", "bascule user"): "the description of a key names what makes its file",
    ("wire/config_settings.py", "bascule token"): "the description of a key names what makes its file",
    ("supervisor/config/consistency.py", "bascule user"): "the error names what makes the file",
    ("wire/config_settings.py", "bascule key"): "the description of a key names what makes its folder",
}

_COMMAND = re.compile(r"\bbascule (?=[a-z])(.*)", re.DOTALL)
_ARGUMENT = re.compile(r"[A-Z_]{1,20}|\S*[/.\x00]\S*|\x00.*|" + FILLED)


def texts(path: Path) -> Iterator[str]:
    """Words that ``path`` may say to somebody: the strings of a program but for its docstrings, with ``FILLED`` for what they fill
    in."""
    if path.suffix != ".py":
        yield re.sub(r"\$\{[^}]*\}|\{\{[^}]*\}\}", FILLED, path.read_text())
        return
    tree = ast.parse(path.read_text())
    docstrings = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    inside: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(node.values)
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else FILLED for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings and node not in inside:
            yield node.value


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command in ``text``, behind ``bascule``: its name, and what belongs to it of what follows."""
    while found := _COMMAND.search(text):
        text = found[1]
        words: list[str] = []
        command: click.Command = cli
        tokens = re.split(r"\s+", text)
        if tokens[0].startswith(FILLED):  # the program's name and its version
            continue
        value = False
        for token in tokens:
            bare = token.rstrip(".,:;)`'\"<").partition("`")[0].partition("</")[0]
            if isinstance(command, click.Group) and re.fullmatch("[a-z-]+", bare):
                words.append(bare)
                if bare not in command.commands:
                    break
                command = command.commands[bare]
            elif value or re.fullmatch("--?[a-z-]+", bare) or _ARGUMENT.fullmatch(bare):
                words.append(bare)
                options = {name: each for each in command.params if isinstance(each, click.Option) for name in each.opts}
                value = bare in options and not options[bare].is_flag
            else:
                break
            if bare != token:
                break
        yield words


def fault(words: list[str]) -> str:
    """Why ``bascule WORDS`` cannot be typed; nothing if it can."""
    words = [EXAMPLES.get(word, word) for word in words]
    try:
        command: click.Command = cli
        context = cli.make_context("bascule", list(words))
        while isinstance(command, click.Group):
            name, found, words = command.resolve_command(context, [*context._protected_args, *context.args])
            assert found is not None
            command, context = found, found.make_context(name, list(words), parent=context)
        node = context.params.get("node")
        if isinstance(node, GivenNode) and not node.is_elsewhere:
            assert node.config
    except click.ClickException as error:
        return error.format_message()
    return ""


def named() -> Iterator[tuple[str, list[str]]]:
    """(file, words) of every command that is named."""
    for path in [*(path for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py"))), *TEXTS]:
        for text in texts(path):
            for words in commands(text):
                yield str(path.relative_to(ROOT)), words


def test_every_command_that_is_named_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (node_calls.CONFIG_VARIABLE, node_calls.NODE_VARIABLE, node_calls.KEY_VARIABLE, node_calls.SERVER_KEY_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(node_calls, "SYSTEM_CONFIG", tmp_path / "none")
    monkeypatch.chdir(tmp_path)
    for name in ("edge.yaml", FILLED):
        (tmp_path / name).touch()
    found = list(named())

    wrong = [
        f"{file}: bascule {' '.join(words)}: {why}"
        for file, words in found
        if (file, f"bascule {' '.join(words)}") not in ABOUT and (why := fault(words))
    ]

    assert wrong == []
    assert len(found) > 60


def test_what_is_said_about_a_command_is_still_said() -> None:
    assert set(ABOUT) - {(file, f"bascule {' '.join(words)}") for file, words in named()} == set()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("bascule token new makes one", "No such command 'new'."),
        ("say bascule reload, which applies it", "Missing argument 'CONFIG'"),
        ("bascule queue peek --dead shows them", "Missing argument 'BRIDGE'"),
        ("bascule queue peek CONFIG BRIDGE --daed shows them", "No such option"),
        ("bascule queue peek CONFIG BRIDGE --dead shows them", ""),
    ],
)
def test_a_command_that_does_not_work_is_found(text: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(node_calls.CONFIG_VARIABLE, raising=False)
    monkeypatch.setattr(node_calls, "SYSTEM_CONFIG", tmp_path / "none")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edge.yaml").touch()
    (words,) = commands(text)

    assert fault(words).startswith(wrong) if wrong else fault(words) == ""
