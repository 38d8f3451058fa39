"""``python -m tests.simulation``: run seeds, replay one, show its trace, shrink what fails, switch a mutation on."""

from __future__ import annotations

import os
import sys

from tests.simulation.command import main

if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
