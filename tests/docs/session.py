"""A person at a shell who does what a page says.

One bash in an empty folder, with the environment of this checkout, is given the page's blocks one after another. The ports of
the pages become free ones, so that several runs do not meet. The shell ends at the first command that fails. A block of kind
``text`` is what the block before it shows, in any order and perhaps a little later; ``...`` in it stands for anything.

Commands that only look are repeated until they are answered and show it, as a person would. A program that is started in the
background has begun when its block is done: a node is ready, a broker accepts, a subscriber has its SUBACK.

``bascule`` is forked with its modules imported (``forked_command.py``), ``bascule run`` as the node that it becomes. On one page,
README, ``bascule run`` is started for real.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
import yaml

from supervisor.config.loading import load
from tests.docs.pages import ROOT, Block
from tests.support import forked_command, preloaded
from tests.support.mosquitto import program
from tests.support.ports import accepts, free_port
from tests.support.waiting import PATIENCE_S, wait_until

_PORT = re.compile(r"(?<![\d.])(1883|7000|1884|1885|1886|4222|4223|4224|6222|6223|6224|8883|8884|8885|8080|9090)(?!\d)")
_RUNS = re.compile(r"^(?:\w+=\S+ )*bascule run(?: \S+)?(?: --\S+)* &", re.MULTILINE)
_READY = re.compile(r'^\{.*"node\.(ready|stands_by)"', re.MULTILINE)  # said once, where its output and its log go to one place
_BROKER = re.compile(r"^mosquitto (?:-p (?P<port>\d+)|-c (?P<config>\S+)) &", re.MULTILINE)
_LISTENER = re.compile(r"^listener (\d+)", re.MULTILINE)
_SUBSCRIBER = re.compile(r"^mosquitto_sub .* &", re.MULTILINE)
_LOOKS = re.compile(
    r"promtool query|bascule (status|cluster show|bridge (list|show)|queue (list|peek)|session (list|show)|events|snapshot list)\b"
)
_BASCULE = """\
case $1 in
    run) shift; exec {run} "${{@:-${{BASCULE_CONFIG:-bascule.yaml}}}}" ;;
    *) exec {other} "$@" ;;
esac"""
_SUBSCRIBE = Path(__file__).with_name("subscribe.py")
_JAVA = "-XX:TieredStopAtLevel=1"  # what takes a few seconds is not worth the second compiler; Spark itself is set as the reader's
_BLOCK_S = 300.0
_LOOK_AGAIN_S = 1.0
_SEARCH_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"


class Session:
    """One shell in ``folder``. Leaving the context kills all that it has started."""

    def __init__(self, folder: Path, *, starts_nodes: bool = False, newcomer: bool = False) -> None:
        """starts_nodes: ``bascule run`` is an interpreter of its own, as the reader's is.

        newcomer: PATH is that of a user of Debian, in which no ``sbin`` is; later pages are read in the shell of the first ones.
        """
        self._folder = folder
        self._ports: dict[str, str] = {}
        self._transcript = folder.parent / f"{folder.name}.transcript"
        self._marks = folder.parent / f"{folder.name}.marks"
        self._count = 0
        self._last: tuple[str, int] = ("", 0)  # what was run last, and where its output begins
        folder.mkdir()
        shutil.copytree(ROOT / "configs", folder / "configs")
        for config in (folder / "configs").glob("*.yaml"):
            config.write_text(self._ported(config.read_text()))
        (folder / ".venv").symlink_to(sys.prefix)
        programs = folder.parent / f"{folder.name}.programs"
        programs.mkdir()
        self._subscribed = folder.parent / f"{folder.name}.subscribed"
        self._subscribed.touch()
        own = {
            "bascule": _BASCULE.format(
                run=f'"{sys.executable}" -P -m {preloaded.COMMAND} run' if starts_nodes else _forked(preloaded.NODE),
                other=_forked(preloaded.COMMAND),
            ),
            "mosquitto_sub": f'exec "{sys.executable}" "{_SUBSCRIBE}" "{program("mosquitto_sub")}" "{self._subscribed}" "$@"',
        }
        for name, line in own.items():
            (programs / name).write_text(f"#!/bin/sh\n{line}\n")
            (programs / name).chmod(0o755)
        environment = {
            **os.environ,
            "PATH": f"{programs}:{sys.prefix}/bin:{_without_sbin(_SEARCH_PATH) if newcomer else _SEARCH_PATH}",
            "PYTHONPATH": str(ROOT),
            "JAVA_TOOL_OPTIONS": _JAVA,
        }
        with self._transcript.open("wb") as out:
            self._shell = subprocess.Popen(
                ["bash", "--noprofile", "--norc"],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                text=True,
                start_new_session=True,
            )
        self._type("set -e")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            os.killpg(self._shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._shell.wait(PATIENCE_S)

    def do(self, block: Block) -> None:
        """The reader's work with ``block``; fails the test where that does not go as the page says."""
        text = self._ported(block.text)
        match block.kind:
            case _ if block.title:
                self._write(block.title, text)
            case "sh":
                self._shell_does(text, block)
            case "text":
                self._see(text, block)
            case "yaml":
                self._check_part(text, block)
            case "mermaid":
                pass
            case _:
                pytest.fail(f"{block}: a block of kind {block.kind} is nothing a reader does")

    # --- inside ---

    def _ported(self, text: str) -> str:
        return _PORT.sub(lambda found: self._ports.setdefault(found[0], "") or self._new_port(found[0]), text)

    def _new_port(self, port: str) -> str:
        self._ports[port] = str(free_port())
        return self._ports[port]

    def _write(self, name: str, text: str) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".conf" and _LISTENER.search(text) and os.geteuid() == 0:
            text = f"user root\n{text}"  # else Mosquitto gives up the rights to read its files
        path.write_text(text)

    def _type(self, text: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(text + "\n")
        self._shell.stdin.flush()

    def _shell_does(self, text: str, block: Block) -> None:
        begin, before = self._transcript.stat().st_size, len(self._subscribed.read_text())
        looks = _looks(text)
        parts = " && ".join(f"{{ {line}\n}}" for line in looks)
        self._run(f"until {parts}; do sleep {_LOOK_AGAIN_S}; done" if looks else text, block)
        self._last = (text, begin)
        nodes, subscribers = len(_RUNS.findall(text)), len(_SUBSCRIBER.findall(text))
        ports = [int(found["port"] or self._port_of(found["config"])) for found in _BROKER.finditer(text)]

        def began() -> bool:
            subscribed = len(self._subscribed.read_text()) - before
            return len(_READY.findall(self._since(begin))) >= nodes and subscribed >= subscribers and all(map(accepts, ports))

        wait_until(began, PATIENCE_S, lambda: f"{block}: what it starts has not begun:\n{self._since(begin)}")

    def _port_of(self, config: str) -> str:
        found = _LISTENER.search((self._folder / config).read_text())
        assert found is not None, f"{config} has no listener"
        return found[1]

    def _run(self, text: str, block: Block) -> None:
        begin = self._transcript.stat().st_size
        self._count += 1
        try:
            self._type(f"{text}\necho {self._count} >>'{self._marks}'")
        except BrokenPipeError:
            pass
        done = f"{self._count}\n"

        def ended() -> bool:
            return self._shell.poll() is not None or (self._marks.exists() and self._marks.read_text().endswith(done))

        wait_until(ended, _BLOCK_S, lambda: f"{block} to end:\n{self._since(begin)}")
        assert self._shell.poll() is None, f"{block}: a command failed:\n{self._since(begin)}"

    def _see(self, text: str, block: Block) -> None:
        commands, begin = self._last
        wanted = [line.strip() for line in text.splitlines() if line.strip()]
        only_looks = bool(_looks(commands))
        looked = [begin]

        def missing() -> list[str]:
            lines = [line.strip() for line in self._since(looked[0]).splitlines()]
            return [line for line in wanted if not any(_pattern(line).fullmatch(each) for each in lines)]

        def seen() -> bool:
            if missing() and only_looks:
                self._run(f"{{ {commands}\n}} || true", block)  # it may say meanwhile that all is not well
            return not missing()

        what = lambda: f"{block}: missing {missing()} in:\n{self._since(begin)}"  # noqa: E731
        wait_until(seen, PATIENCE_S, what, period_s=_LOOK_AGAIN_S if only_looks else 0.05)

    def _since(self, begin: int) -> str:
        with self._transcript.open("rb") as file:
            file.seek(begin)
            return file.read().decode(errors="replace")

    def _check_part(self, text: str, block: Block) -> None:
        """A part of a configuration: the smallest one holds with these keys in place of its own."""
        part = yaml.safe_load(text)
        assert isinstance(part, dict), f"{block}: a part of a configuration has top-level keys"
        whole: dict[str, Any] = {**yaml.safe_load((self._folder / "configs" / "minimal.yaml").read_text()), **part}
        path = self._folder / "part.yaml"
        path.write_text(yaml.safe_dump(whole))
        load(path)
        path.unlink()


def _without_sbin(path: str) -> str:
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if Path(folder).name != "sbin")


def _looks(text: str) -> list[str]:
    """The commands of ``text`` if they only look."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return lines if all(map(_LOOKS.match, lines)) else []


def _forked(module: str) -> str:
    return f'"{sys.executable}" -I -S "{forked_command.__file__}" {preloaded.address(module)} {module}'


def _pattern(line: str) -> re.Pattern[str]:
    words = [re.escape(word) for word in re.split(r"\s+", line)]
    return re.compile(r"\s+".join(words).replace(re.escape("..."), ".*"))
