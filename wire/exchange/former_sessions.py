"""The sessions of one lane that its remotes may still have at addresses that it has left. Pure.

exchange.session-number-unique [P2]: a session is known by client identifier, address and number: the generation in which it began
    there. No two sessions of a lane have the same number, so what is on record of one is never taken for another's at the same
    address.

At most one session is kept for each configured address, and none for a lane that takes nothing from its remote: such a lane has
nothing to lose there, and ends what it finds by a clean start (exchange.left-session-on-record).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from wire.ranges import ArrivalSet, Ranges, RangeSet


class LeftSession(NamedTuple):
    """The lane's knowledge of a session at an address that it has left.

    session: client identifier and address. generation: its number. sent_below: sequences below may have been PUBLISHed in it.
    released: those of QoS 2 that had their PUBREC and no PUBCOMP, in the order of the PUBRECs. sent: those that may have been sent
    at QoS 2 and had no PUBREC. Of both the remote may hold the packet identifiers. Messages that they have from ``sent_below`` on
    were sent by a life of which no record is left, because the store was restored since: these sequences will be other messages'.
    """

    session: str
    generation: int
    sent_below: int
    released: Ranges
    sent: Ranges

    @property
    def on_record(self) -> LeftSession:
        """This session without the sequences that no surviving record covers."""
        below = RangeSet(((0, self.sent_below),))
        return self._replace(released=ArrivalSet(self.released).within(below), sent=ArrivalSet(self.sent).within(below))


LeftRows = tuple[LeftSession, ...]


def left_rows(rows: Iterable[tuple[str, int, int, Ranges, Ranges]]) -> LeftRows:
    """Those of a frame or a row, which are plain tuples."""
    return tuple(LeftSession(*row) for row in rows)


class LeftSessions:
    """Those of one lane. ``keep`` says of which sessions they may be; without it there are none."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._left: dict[str, LeftSession] = {}

    def keep(self, names: Iterable[str]) -> None:
        """The lane takes what its remote publishes, in sessions of these ``names``, one for each address."""
        self._names = frozenset(names)

    @property
    def kept(self) -> bool:
        """Whether sessions are kept at all (exchange.left-session-on-record)."""
        return bool(self._names)

    def open(self, rows: LeftRows) -> None:
        """The lane is opened: those on record."""
        self._left = {}
        for left in rows:
            self.leave(left)

    def leave(self, left: LeftSession) -> None:
        """The lane goes to another session."""
        if left.session in self._names:
            self._left[left.session] = left

    def drop(self, session: str) -> None:
        """The lane uses that one, or the remote has lost it."""
        self._left.pop(session, None)

    def get(self, session: str) -> LeftSession | None:
        """The one of that name, if there is one."""
        return self._left.get(session)

    def rows(self) -> LeftRows:
        """All of them, as they go on record."""
        return tuple(self._left.values())

    def next_number(self, generation: int) -> int:
        """The number of a session that begins after one of ``generation`` (exchange.session-number-unique)."""
        return 1 + max((generation, *(left.generation for left in self._left.values())))
