"""``python -I -S forked_command.py ADDRESS MODULE WORDS``: ``MODULE`` with ``WORDS``, for a shell, by the process at ``ADDRESS``.

That process (``preloaded.py``) forks it with the environment, the working folder and the standard streams of this one. Signals are
passed on, and the end is the same. It imports little, for it is what each command of a page costs.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys

NUMBER = struct.Struct("=i")  # what comes back: the pid, and at its end the exit status


def ask(
    address: str, module: str, words: list[str], cwd: str, environment: dict[str, str], streams: tuple[int, int, int]
) -> socket.socket:
    """Have ``module`` run with ``words`` and these standard streams by the process at ``address``; the way back of ``NUMBER``."""
    way = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    way.connect(f"\0{address}")
    socket.send_fds(way, [json.dumps([module, words, cwd, environment]).encode()], streams)
    return way


def main(address: str, module: str, words: list[str]) -> int:
    """Have it forked, wait for its end."""
    with ask(address, module, words, os.getcwd(), dict(os.environ), (0, 1, 2)) as way:
        (pid,) = NUMBER.unpack(way.recv(NUMBER.size))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: os.kill(pid, number))
        (status,) = NUMBER.unpack(way.recv(NUMBER.size))
    return int(status) if status >= 0 else 128 - int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
