"""Runs a supervisor over the children of ``child.py``: ``python -m tests.supervisor.run SETTINGS [CHILD OPTION ...] ROOM``.

The options after a child's name, up to the next name, go to that child.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from supervisor.reload.source import Source
from supervisor.tree.child_table import ChildSpec, child_specs
from supervisor.tree.node import run_node
from supervisor.tree.signals import SignalPipe
from supervisor.tree.template import Template
from wire.config_settings import NodeSettings, load
from wire.errors import BasculeError, ConfigError


def main(argv: list[str]) -> int:
    settings = load(Path(argv[0]).read_bytes())
    options: dict[str, list[str]] = {spec.name: [] for spec in child_specs(settings)}
    name = ""
    for word in argv[1:-1]:
        if word in options:
            name = word
        else:
            options[name].append(word)

    def specs(wanted: NodeSettings) -> tuple[ChildSpec, ...]:
        return tuple(
            replace(spec, command=("tests.supervisor.child", "--process", spec.name, *options.get(spec.name, [])))
            for spec in child_specs(wanted)
        )

    def read() -> NodeSettings:
        """The extras that a test has put beside the settings that the node began with."""
        try:
            return load(Path(argv[0]).with_suffix(".next").read_bytes())
        except FileNotFoundError as error:
            raise ConfigError("the configuration is refused", problems=["line 3: something is wrong"]) from error

    try:
        with Template(forked=True) as template, SignalPipe() as signals:
            return run_node(template, signals, lambda: settings, Source(Path(argv[0]), read), specs)
    except BasculeError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
