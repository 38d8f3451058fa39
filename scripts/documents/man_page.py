"""Prints the manual page bascule(1), made of the commands' own help: ``python man_page.py VERSION``."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
from command_tree import leaves, tasks

from supervisor.cli.main import cli

FILES = (
    ("/etc/bascule/bascule.yaml", "The node's configuration, which commands take when they are given no other."),
    ("/etc/bascule/secrets", "Passwords and private keys."),
    ("/etc/default/bascule", "Variables for the service."),
    ("/var/lib/bascule", "Queues, sessions and retained messages."),
    ("/usr/share/doc/bascule", "Guides, reference and example configurations."),
)


def roff(text: str) -> str:
    """``text`` as roff takes it for itself."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").split("\n")
    return "\n".join(f"\\&{line.strip()}" if line.strip()[:1] in ("'", ".") else line.strip() for line in lines)


def page(version: str) -> Iterator[str]:
    """The page's lines."""
    yield f'.TH BASCULE 1 "" "bascule {version}" "User Commands"'
    yield ".SH NAME\nbascule \\- a durable store\\-and\\-forward MQTT bridge with a local broker"
    yield ".SH SYNOPSIS\n.B bascule\n[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]"
    yield f".SH DESCRIPTION\n{roff(cli.help or '')}"
    yield ".SH COMMANDS"
    for task, names in tasks():
        yield f".SS {roff(task)}"
        for name, command in leaves():
            if name.split()[1] in names:
                context = click.Context(command, info_name=name)
                yield f".TP\n.B {roff(' '.join([name, *command.collect_usage_pieces(context)]))}\n{roff(command.help or '')}"
    yield ".PP\nEach command has its options in \\fBbascule COMMAND \\-\\-help\\fR."
    yield ".SH FILES"
    yield from (f".TP\n.I {roff(path)}\n{roff(what)}" for path, what in FILES)
    yield ".SH EXIT STATUS\n0: done; 1: refused, or not ready; 2: wrong usage; 65: damaged data;"
    yield "69: the node does not run; 75: try again; 78: wrong configuration."


if __name__ == "__main__":
    sys.stdout.write("\n".join(page(sys.argv[1])) + "\n")
