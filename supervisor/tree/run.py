"""The process of a node, which ``bascule run`` becomes: ``python -m supervisor.tree.run FILE ROOM``.

It is a program of its own so that neither it nor the children, which share its pages, hold what only the command line needs. The
template is forked before there is a thread, and before what only the supervisor needs is imported.
"""

from __future__ import annotations

import select
import shlex
import sys
from functools import partial
from pathlib import Path

from supervisor.config.loading_aside import Loading
from supervisor.running_node import MODULE
from supervisor.terminal.failures import printing, refused
from supervisor.terminal.typed_commands import about
from supervisor.tree.signals import SignalPipe, Stopped, block, has_ended_the_start
from supervisor.tree.template import Template
from wire.config_settings import NodeSettings
from wire.errors import BasculeError
from wire.frames.names import SUPERVISOR


def main(argv: list[str]) -> int:
    """Run the node of a configuration until it is stopped; the exit status, as of every command."""
    return printing(lambda: _main(Path(argv[0]), frozenset(argv[1:])))


def _main(config: Path, consent: frozenset[str]) -> int:
    block()
    if has_ended_the_start():
        return 0
    about(shlex.quote(str(config)))
    try:
        # Loading goes on beside everything that follows. It and the template begin while signals are blocked: neither ends by them.
        loading = Loading(config)
        with Template(forked=True, private=(loading.fileno(),)) as template, SignalPipe() as signals:
            template.command_line.show(SUPERVISOR, MODULE, [str(config)])
            from supervisor.reload.bridge_file import load_with_bridge
            from supervisor.reload.source import Source
            from supervisor.tree.node import run_node

            def settings() -> NodeSettings:
                select.select([loading.fileno(), signals.fileno()], [], [])
                signals.check()
                return loading.settings()

            source = Source(config.absolute(), lambda: Loading(config).settings(), partial(load_with_bridge, config))
            return run_node(template, signals, settings, source, consent=consent)
    except Stopped:
        return 0
    except BasculeError as error:
        return refused(error)
    finally:
        Loading.end_all()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
