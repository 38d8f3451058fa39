"""The kinds of error. An error's class says whose fault it is and who acts; concrete errors carry the facts as fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType


class BasculeError(Exception):
    """Base of every error that Bascule raises on purpose. ``fields`` are the facts, ready for a log line."""

    exit_status = 70

    def __init__(self, message: str, **fields: object) -> None:
        super().__init__(message)
        self.message = message
        self.fields: Mapping[str, object] = MappingProxyType(fields)

    def add(self, **fields: object) -> None:
        """These are facts as well."""
        self.fields = MappingProxyType({**self.fields, **fields})

    def __str__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f"{self.message} ({facts})" if facts else self.message


class ConfigError(BasculeError):
    """The operator's: refuse to start, exit 78, no restart."""

    exit_status = 78

    def __init__(self, message: str, *, problems: Sequence[str] = (), **fields: object) -> None:
        """``problems`` are whole lines for the operator, ``file:line:column: key: what is wrong and what would be right``."""
        super().__init__(message, **fields)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        return "\n".join((super().__str__(), *self.problems))


class PeerViolation(BasculeError):
    """The remote's or a client's: close that connection with ``reason_code``, and back off.

    ``message`` starts with the clause that was broken, such as ``MQTT-3.1.0-2``.
    """

    def __init__(self, message: str, *, reason_code: int = 0x82, **fields: object) -> None:
        super().__init__(message, reason_code=reason_code, **fields)
        self.reason_code = reason_code


class Unavailable(BasculeError):
    """The world's, for now: retry in place with backoff and jitter."""

    exit_status = 75


class StoreGone(BasculeError):
    """The node's store is not there, or another one is: what was promised is in the one that is gone.

    The process that had it open ends; the next one waits until it is back. Nothing is acknowledged meanwhile.
    """

    exit_status = 75


class DiskFull(Unavailable):
    """There is no room on the disk, or the quota is used up."""


class StorageDamaged(BasculeError):
    """The disk's: exit 65, that queue stops, files are kept, no restart."""

    exit_status = 65


class UnknownFrame(BasculeError):
    """A frame of a kind or version that this build does not know; it is refused, never guessed at."""
