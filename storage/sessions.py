"""Which sessions there are, and the received QoS 2 identifiers of each: committed with their messages, removed before PUBCOMP
[MQTT-4.3.3-2].

A row per session that outlives its connection: its identifiers, sorted, and the opening that changed it last. Rows are read when a
session is first mentioned. What else a session has is the business of others.

S1  an opening that is asked for again, because its answer was lost with a store, gets the answer that it had: a session that it
    has itself begun was not there before [MQTT-3.2.2-2, MQTT-3.2.2-4].
S2  a session that ends with its connection is not there for the next one [MQTT-3.1.2-6].
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgpack

from storage.engine import Engine, Write
from storage.keys import session_key
from storage.ledger import unpack_row
from wire.batch import pack_column, unpack_column
from wire.errors import StorageDamaged

ROW_VERSION = 2
_OLDER_VERSION = 1  # has no opening
_CACHED_MAX = 10_000

Opening = tuple[str, int, int]  # sender, its epoch, its request


@dataclass(slots=True)
class _Session:
    kept: bool = False  # it outlives its connection
    opening: Opening | None = None  # the last one that began or ended it, while that may be asked for again
    answer: bool = False  # whether that one found it
    received: set[int] = field(default_factory=set)

    @property
    def has_row(self) -> bool:
        """Whether there is something to keep: the session itself, or what the opening that ends it was answered."""
        return self.kept or self.answer


class Sessions:
    """Changes memory at once and disk with the next ``write_rows``; whoever answers waits for that commit."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sessions: dict[str, _Session] = {}
        self._changed: set[str] = set()

    def open(self, session: str, opening: Opening, *, clean: bool, keep: bool) -> tuple[bool, bytes]:
        """Whether ``session`` was there, and its received identifiers (u16 column).

        clean: what was there is forgotten. keep: it is there for the openings after this one, too.
        """
        known = self._get(session)
        if known.opening == opening:  # S1
            return known.answer, _column(known.received)
        present = known.kept and not clean
        if not (present and keep):  # otherwise nothing changes, and the answer does not either
            received = known.received if present else set()
            had_row = known.has_row
            known = self._sessions[session] = _Session(keep, opening, present, received)
            if had_row or known.has_row:
                self._changed.add(session)
        return present, _column(known.received)

    @property
    def changed(self) -> bool:
        """Whether something waits for ``write_rows``."""
        return bool(self._changed)

    def receive(self, session: str, packet_ids: Iterable[int]) -> None:
        """Add identifiers, whose messages go into the same write."""
        known = self._get(session)
        known.received.update(packet_ids)
        known.kept = True  # the identifiers of others are not told
        self._changed.add(session)

    def release(self, session: str, packet_ids: Iterable[int]) -> None:
        """Remove identifiers, whose PUBREL came; unknown ones are ignored."""
        known = self._get(session)
        known.received.difference_update(packet_ids)
        self._changed.add(session)

    def write_rows(self, write: Write) -> None:
        """Put what changed into ``write``."""
        for session in self._changed:
            known = self._sessions[session]
            if known.has_row:
                row = (ROW_VERSION, known.kept, _column(known.received), known.opening, known.answer)
                write.put("meta", session_key(session), msgpack.packb(row))
            else:
                write.delete("meta", session_key(session))
        self._changed.clear()
        if len(self._sessions) > _CACHED_MAX:
            write.on_commit(self._sessions_forget)

    def _sessions_forget(self) -> None:
        self._sessions = {session: self._sessions[session] for session in self._changed}

    def _get(self, session: str) -> _Session:
        known = self._sessions.get(session)
        if known is None:
            known = _Session()
            value = self._engine.get("meta", session_key(session))
            if value is not None:
                known = _decoded(value, session)
            self._sessions[session] = known
        return known


def _column(received: set[int]) -> bytes:
    return pack_column(array("H", sorted(received)))


def _decoded(value: bytes, session: str) -> _Session:
    fields = unpack_row(value, ROW_VERSION, _OLDER_VERSION, what="session", name=session)
    try:
        if len(fields) == 2:
            return _Session(kept=True, received=set(unpack_column("H", fields[1])))
        kept, column, opening, answer = fields
        if opening is not None:
            sender, epoch, request = opening
            opening = (sender, epoch, request)
        return _Session(kept, opening, answer, set(unpack_column("H", column)))
    except (TypeError, ValueError) as error:
        raise StorageDamaged("the row of a session is damaged", session=session) from error
