"""Connections that this side has ended: what they were told last is left to be read.

A socket that is closed at once answers what its client goes on to send with a reset, and a client that is reset may never read why.
So the sending side alone is closed. Input is thrown away until the client has closed too, or its time is up.
"""

from __future__ import annotations

import socket

from actors.process.mailbox import READ, WRITE, Mailbox

LINGER_S = 2.0
LAST_S = 0.5  # for all that are left when the process stops
LINGERING_MAX = 256  # one more, and the oldest is closed
OUTPUT_MAX_BYTES = 64 * 1024  # who has left more than that unread does not read
_READ_BYTES = 64 * 1024


class ClosingConnection:
    """One of them. output: what its socket has not taken."""

    __slots__ = ("_output", "_sock", "due_s")

    def __init__(self, sock: socket.socket, output: bytearray, due_s: float) -> None:
        self._sock = sock
        self._output = output
        self.due_s = due_s

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def events(self) -> int:
        """The events to poll for."""
        return READ | WRITE if self._output else READ

    def end_output(self) -> bool:
        """Send what is left, and that nothing comes behind it; False when the client is gone."""
        try:
            if self._output:
                del self._output[: self._sock.send(self._output)]
            if not self._output:
                self._sock.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def drain(self) -> bool:
        """Throw away what has come; False when the client is gone."""
        try:
            return bool(self._sock.recv(_READ_BYTES))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        self._sock.close()


class ClosingConnections:
    """All of them, in the order in which they were ended. They count for nothing else: their clients are gone."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._partings: dict[ClosingConnection, None] = {}

    def __len__(self) -> int:
        return len(self._partings)

    def add(self, sock: socket.socket, output: bytearray) -> None:
        """Close ``sock`` once its client has had the time to read ``output`` and all before it."""
        parting = ClosingConnection(sock, output, self._mailbox.now_s() + LINGER_S)
        if len(output) > OUTPUT_MAX_BYTES or not parting.end_output() or not parting.drain():
            parting.close()
            return
        while len(self._partings) >= LINGERING_MAX:
            self._close(next(iter(self._partings)))
        self._partings[parting] = None
        self._mailbox.watch(parting.fileno(), parting.events, parting)

    def ready(self, parting: ClosingConnection, events: int) -> None:
        """Its socket can go on."""
        if parting not in self._partings:
            return  # it made room for another one
        if events & WRITE:
            if not parting.end_output():
                self._close(parting)
                return
            self._mailbox.watch(parting.fileno(), parting.events, parting)
        if events & ~WRITE and not parting.drain():
            self._close(parting)

    def close_overdue(self, now_s: float) -> None:
        """Close those whose time is up."""
        for parting in [parting for parting in self._partings if parting.due_s <= now_s]:
            self._close(parting)

    def hurry(self) -> None:
        """The process stops: little time is left for them."""
        due_s = self._mailbox.now_s() + LAST_S
        for parting in self._partings:
            parting.due_s = min(parting.due_s, due_s)

    def close(self) -> None:
        """Close all of them: their descriptors are needed."""
        for parting in list(self._partings):
            self._close(parting)

    def _close(self, parting: ClosingConnection) -> None:
        del self._partings[parting]
        self._mailbox.forget(parting.fileno())
        parting.close()
