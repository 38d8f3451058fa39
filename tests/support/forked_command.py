"""``python -I -S forked_command.py ADDRESS WORDS``: the command ``bascule WORDS``, for a shell, by the process at ``ADDRESS``.

That process (``preloaded.py``) forks it with the environment, the working folder and the standard streams of this one. Signals are
passed on, and the end is the same. It imports little, for it is what each command of a page costs.
"""

import json
import os
import signal
import socket
import struct
import sys

_NUMBER = struct.Struct("=i")


def main(address: str, words: list[str]) -> int:
    """Have it forked, wait for its end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as way:
        way.connect(f"\0{address}")
        request = json.dumps(["supervisor.cli", words, os.getcwd(), dict(os.environ)]).encode()
        socket.send_fds(way, [request], [0, 1, 2])
        (pid,) = _NUMBER.unpack(way.recv(_NUMBER.size))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: os.kill(pid, number))
        (status,) = _NUMBER.unpack(way.recv(_NUMBER.size))
    return int(status) if status >= 0 else 128 - int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
