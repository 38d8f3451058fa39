"""``mosquitto_sub`` for a test: shows each message at once, and notes each SUBACK as a character in a file.

A program: ``subscribe.py MOSQUITTO_SUB FILE [arguments of mosquitto_sub]``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main(program: str, noted: str, *words: str) -> int:
    """Run it; its exit status."""
    with subprocess.Popen(["stdbuf", "-oL", program, "-d", *words], stdout=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Subscribed "):
                with Path(noted).open("a") as file:
                    file.write(".")
            elif not line.startswith("Client "):
                sys.stdout.write(line)
                sys.stdout.flush()
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
