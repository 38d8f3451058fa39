"""``bascule``, and ``python -m supervisor.cli`` where it is not installed.

Signals wait from here on until it is known whether this becomes a node, which takes them in its own way: what is imported until
then takes longer than a container's first moment.
"""

from __future__ import annotations

import sys


def begin() -> int:
    """Run the command line; the exit status."""
    from supervisor.tree import signals

    signals.block()
    from supervisor.cli.main import main

    return main()


if __name__ == "__main__":
    sys.exit(begin())
