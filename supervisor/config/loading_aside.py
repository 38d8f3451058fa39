"""Loads the configuration of a node in a process of its own: what that takes is as much memory as the node itself.

``python -m supervisor.config.loading_aside FILE`` writes the settings as the children read them; with ``--acl``, the rules of an
ACL file. For a file that is not valid, it writes why and exits 78.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

from supervisor.launch import environment
from wire.config_settings import AclRuleSettings, NodeSettings, dump, load
from wire.errors import ConfigError, Unavailable

_ACL = "--acl"
_running: set[subprocess.Popen[bytes]] = set()


class Loading:
    """The loading of ``words``, which goes on from here while the caller does other things."""

    def __init__(self, *words: str | Path, given: bytes | None = None, module: str = "supervisor.config.loading_aside") -> None:
        """given: what the process reads from its standard input. module: its program, which tells as this one does."""
        self._given = given
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *words],
                stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment(),
            )
        except OSError as error:
            raise Unavailable("the configuration cannot be loaded", error=str(error)) from error
        _running.add(self._process)

    @staticmethod
    def end_all() -> None:
        """End what still loads for any thread of this process, which is about to end itself."""
        for process in _running.copy():
            process.kill()
            process.wait()

    def fileno(self) -> int:
        """The pipe that the process writes to."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def settings(self) -> NodeSettings:
        """Wait for the settings of a node, whose password and ACL files were read, too.

        Raises:
            ConfigError: the configuration does not hold.
            Unavailable: it could not be loaded for another reason, which the process has printed.
        """
        return load(self.wait())

    def wait(self) -> bytes:
        """Wait for what the process writes; the errors are those of ``settings``."""
        told, _ = self._process.communicate(self._given)
        _running.discard(self._process)
        return self.judged(told, self._process.returncode)

    @staticmethod
    def judged(told: bytes, status: int) -> bytes:
        """``wait``, if the process that wrote it ended with 0; the errors are those of ``settings``."""
        if status == ConfigError.exit_status:
            message, problems = json.loads(told)
            raise ConfigError(message, problems=problems)
        if status:
            raise Unavailable("the configuration could not be loaded", exit_status=status)
        return told


def load_acl(path: str) -> tuple[AclRuleSettings, ...]:
    """The rules in the ACL file ``path``; the errors are those of ``Loading.settings``."""
    return tuple(_rule(values) for values in json.loads(Loading(_ACL, path).wait()))


def _rule(values: list[Any]) -> AclRuleSettings:
    """The rule with the fields ``values``; JSON has no tuples."""
    fields: Any = [tuple(value) if isinstance(value, list) else value for value in values]
    return AclRuleSettings(*fields)


def main(argv: list[str]) -> int:
    """The process: load, tell, end."""
    from supervisor.config import loading
    from supervisor.config.named_files import digests

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    path = Path(argv[-1])
    try:
        if argv[0] == _ACL:
            told = json.dumps([astuple(rule) for rule in loading.load_acl(path)]).encode()
        else:
            files = digests(path)  # before they are read, so that no change is missed
            told = dump(replace(loading.load(path), files=files))
    except ConfigError as error:
        told = json.dumps((error.message, error.problems)).encode()
        sys.stdout.buffer.write(told)
        return error.exit_status
    sys.stdout.buffer.write(told)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
