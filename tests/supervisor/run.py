"""Runs a supervisor over the children of ``child.py``: ``python -m tests.supervisor.run SETTINGS [CHILD OPTION ...] ROOM``.

The options after a child's name, up to the next name, go to that child.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from supervisor.tree.child_table import child_specs
from supervisor.tree.node import run_node
from supervisor.tree.template import Template
from wire.errors import BasculeError
from wire.settings import load


def main(argv: list[str]) -> int:
    settings = load(Path(argv[0]).read_bytes())
    options: dict[str, list[str]] = {spec.name: [] for spec in child_specs(settings)}
    name = ""
    for word in argv[1:-1]:
        if word in options:
            name = word
        else:
            options[name].append(word)
    specs = tuple(
        replace(spec, command=("tests.supervisor.child", "--process", spec.name, *options[spec.name]))
        for spec in child_specs(settings)
    )
    try:
        with Template(forked=True) as template:
            return run_node(template, lambda: settings, lambda: ["line 3: something is wrong"], lambda _: specs)
    except BasculeError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
