"""The replicated log as a double: what its servers have, what a member sees of them. The maker of it decides what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from storage.replication.log import Behind, Entry, LogAway
from storage.replication.records import HEAD_BYTES

ALL = 1 << 30


@dataclass(frozen=True, slots=True)
class Fate:
    """The fate of an append: the first ``landed`` messages land, others never or ``late``. answered: or only sent."""

    landed: int = ALL
    late: bool = False
    answered: bool = True


LANDED_UNANSWERED = Fate(answered=False)
LOST = Fate(landed=0, answered=False)
LATE = Fate(landed=0, late=True, answered=False)


@dataclass(frozen=True, slots=True)
class Late:
    """A message that is still on its way."""

    message: bytes
    after: int


class Servers:
    """The common state of the servers.

    entries: of all time, from number 1; those below ``first`` are trimmed. objects: bases, by name. late: what may land later.
    away: nobody reaches them, or they have no majority. full: they take nothing. cut: the members that do not reach them.

    fate: is asked what becomes of a member's append of so many messages. hidden: how many of the newest a reader does not see.
    pause: is called while a member waits: ``sending`` or ``reading`` before, ``part`` between the parts, ``answer`` after.
    landed: is told what has landed.
    """

    def __init__(self, part_bytes: int = HEAD_BYTES + 256) -> None:
        self.part_bytes = part_bytes
        self.entries: list[Entry] = []
        self.first = 1
        self.reports: dict[str, bytes] = {}
        self.objects: dict[str, bytes] = {}
        self.late: list[Late] = []
        self.away = self.full = False
        self.cut: set[str] = set()
        self.read_messages = 3
        self.fate: Callable[[str, int], Fate] = lambda member, count: Fate()
        self.hidden: Callable[[], int] = lambda: 0
        self.pause: Callable[[str, str], None] = lambda member, moment: None
        self.landed: Callable[[Entry], None] = lambda entry: None

    @property
    def last(self) -> int:
        """The number of the newest message."""
        return len(self.entries)

    def land(self, message: bytes, after: int) -> bool:
        """A message arrives that says what it follows; whether it is taken."""
        if after != self.last or self.full:
            return False
        self.entries.append(Entry(after + 1, message))
        self.landed(self.entries[-1])
        return True

    def land_late(self, place: int = 0) -> None:
        """One that was on its way arrives."""
        late = self.late.pop(place)
        self.land(late.message, late.after)

    def client(self, member: str) -> LogDouble:
        """The log as ``member`` sees it."""
        return LogDouble(self, member)


class LogDouble:
    """The log as one member sees it; ``storage.replication.log.Log``."""

    def __init__(self, servers: Servers, member: str) -> None:
        self.servers = servers
        self.member = member
        self.part_bytes = servers.part_bytes

    def append(self, messages: Sequence[bytes], after: int) -> int:
        servers = self.servers
        fate = servers.fate(self.member, len(messages))
        servers.pause(self.member, "sending")
        if not self._reaches():
            fate = Fate(landed=0, late=fate.late, answered=False)
        elif servers.full:
            raise LogAway("the log is full")
        refused = False
        for place, message in enumerate(messages):
            if place:
                servers.pause(self.member, "part")
            if place < fate.landed:
                refused |= not servers.land(message, after + place)
            elif fate.late:
                servers.late.append(Late(message, after + place))
        servers.pause(self.member, "answer")
        if not fate.answered or fate.landed < len(messages) or not self._reaches():
            raise LogAway("no answer has come")
        if refused:
            raise Behind("the log goes on behind what this node knows of it")
        return after + len(messages)

    def read(self, after: int, *, wait_s: float = 0.0) -> list[Entry]:
        self._reach()
        start = max(after + 1, self.servers.first)
        seen = self.servers.last - self.servers.hidden()
        return self.servers.entries[start - 1 : min(start - 1 + self.servers.read_messages, max(seen, 0))]

    def ends(self) -> tuple[int, int]:
        self._reach()
        return self.servers.first, max(self.servers.last - self.servers.hidden(), self.servers.first - 1)

    def trim(self, before: int) -> None:
        self._reach()
        self.servers.first = max(self.servers.first, min(before, self.servers.last + 1))

    def size_bytes(self) -> int:
        return sum(len(entry.data) for entry in self.servers.entries[self.servers.first - 1 :])

    def report(self, member: str, report: bytes) -> None:
        self._reach()
        self.servers.reports[member] = report

    def reports(self) -> dict[str, bytes]:
        self._reach()
        return dict(self.servers.reports)

    def forget(self, member: str) -> bool:
        self._reach()
        return self.servers.reports.pop(member, None) is not None

    def close(self) -> None:
        """There is no connection."""

    # --- large things ---

    def put(self, name: str, path: Path) -> None:
        self._reach()
        self.servers.objects[name] = path.read_bytes()

    def get(self, name: str, path: Path) -> None:
        self._reach()
        if name not in self.servers.objects:
            raise LogAway("nothing is called so", name=name)
        path.write_bytes(self.servers.objects[name])

    def names(self) -> list[str]:
        self._reach()
        return list(self.servers.objects)

    def remove(self, name: str) -> None:
        self._reach()
        self.servers.objects.pop(name, None)

    def _reaches(self) -> bool:
        return not self.servers.away and self.member not in self.servers.cut

    def _reach(self) -> None:
        self.servers.pause(self.member, "reading")
        if not self._reaches():
            raise LogAway("the log is not reached")
