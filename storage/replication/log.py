"""The log that the nodes of a cluster share, as the modules above see it; ``jetstream_log.py`` is the one there is.

A log is a sequence of messages that is only appended to, at the end that the writer knows: an append says which message it follows,
and is refused if that is not the last one. This is all that keeps two nodes from leading at a time
(replication.expected-sequence).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from wire.errors import Unavailable
from wire.frozen_records import record


class LogAway(Unavailable):
    """The log cannot be used for now: no majority, full, slow or not reached. An appended record may be in it, or not."""


class Behind(LogAway):
    """The log goes on behind what the writer took for its end; it has to read on before it appends."""


@record
class Entry:
    """One message of the log."""

    sequence: int
    data: bytes


class Log(Protocol):
    """Blocks; only one thread uses it. Every method raises ``LogAway``."""

    part_bytes: int  # the largest message that it takes

    def append(self, messages: Sequence[bytes], after: int) -> int:
        """Append ``messages`` behind number ``after``; the number of the last one, once a majority has them all on disk.

        Raises:
            Behind: ``after`` is not the last number. Some of ``messages`` may have been appended.
        """

    def read(self, after: int, *, wait_s: float = 0.0) -> list[Entry]:
        """Some of the messages that follow ``after``; none where there are none, after ``wait_s`` at most.

        A first one that does not follow ``after`` directly says that what was between has been trimmed.
        """

    def ends(self) -> tuple[int, int]:
        """The first and the last number; the first is the last plus one where the log is empty."""

    def trim(self, before: int) -> None:
        """Remove the messages below number ``before``."""

    def size_bytes(self) -> int:
        """How large it was when ``ends`` was asked the last time."""

    def report(self, member: str, report: bytes) -> None:
        """Have ``report`` in place of what ``member`` said of itself before."""

    def reports(self) -> dict[str, bytes]:
        """The report of each member about itself."""

    def forget(self, member: str) -> bool:
        """Forget what ``member`` said; whether there was anything."""

    def close(self) -> None:
        """Release it."""
