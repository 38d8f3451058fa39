"""``bascule``, and ``python -m supervisor.cli`` where it is not installed.

Signals wait from here on until it is known whether this becomes a node, which takes them in its own way: what is imported until
then takes longer than a container's first moment.

Every file that a command or a process of a node makes from here on is for its owner only, unless it is given another mode.
"""

from __future__ import annotations

import os
import sys


def begin() -> int:
    """Run the command line; the exit status."""
    from supervisor.tree import signals

    signals.block()
    os.umask(0o077)
    from supervisor.cli.main import main
    from supervisor.terminal.typed_commands import called

    called(sys.argv[0])
    return main()


if __name__ == "__main__":
    sys.exit(begin())
