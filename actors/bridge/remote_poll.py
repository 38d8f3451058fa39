"""Events of the remote's socket that the poll waits for: that it can be read, and that it takes more."""

from __future__ import annotations

from actors.process.mailbox import READ, WRITE, Mailbox
from actors.remote.remote_socket import Remote


class RemotePoll:
    """Watches the socket of one connection at a time; the poll tells of it under its ``Remote``."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._remote: Remote | None = None
        self._reads = self._writes = False

    def on_opened(self, remote: Remote) -> None:
        """A connection is up: tell when it can be read."""
        self._remote = remote
        self._reads, self._writes = True, False
        self._watch(remote)

    def on_closed(self) -> None:
        """Its socket is about to be closed."""
        assert self._remote is not None
        self._mailbox.forget(self._remote.fileno())
        self._remote = None

    def reads(self, wanted: bool) -> None:
        """Whether to tell that it can be read."""
        self._reads = wanted
        if self._remote is not None:
            self._watch(self._remote)

    def writes(self, wanted: bool) -> None:
        """Whether to tell that it takes more."""
        self._writes = wanted
        if self._remote is not None:
            self._watch(self._remote)

    def _watch(self, remote: Remote) -> None:
        self._mailbox.watch(remote.fileno(), (READ if self._reads else 0) | (WRITE if self._writes else 0), remote)
