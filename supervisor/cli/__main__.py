"""``python -m supervisor.cli``: the command ``bascule`` where it is not installed."""

from __future__ import annotations

import sys

from supervisor.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
