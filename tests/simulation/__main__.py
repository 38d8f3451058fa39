"""``python -m tests.simulation``: run seeds, replay one, show its trace, shrink what fails, switch a mutation on."""

from __future__ import annotations

import sys

from tests.simulation.command import main

if __name__ == "__main__":
    sys.exit(main())
