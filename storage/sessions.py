"""Received QoS 2 identifiers of each session: committed with their messages, removed before PUBCOMP [MQTT-4.3.3-2].

A row per session: whether the session outlives its connection, and its identifiers, sorted. Rows are read when a session is first
mentioned. What else a session has is the business of others.
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

ROW_VERSION = 1
_CACHED_MAX = 10_000


@dataclass(slots=True)
class _Session:
    kept: bool = False  # opened without a clean start: its row stays when it has no identifiers
    present: bool = False
    received: set[int] = field(default_factory=set)


class Sessions:
    """Changes memory at once and disk with the next ``write_rows``; whoever answers waits for that commit."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sessions: dict[str, _Session] = {}
        self._changed: set[str] = set()

    def open(self, session: str, *, clean: bool) -> tuple[bool, bytes]:
        """Whether ``session`` was known, and its received identifiers (u16 column). A clean start forgets them."""
        known = self._get(session)
        if clean:
            self._sessions[session] = _Session()
            if known.present:
                self._changed.add(session)
            return False, b""
        present = known.present
        if not (known.present and known.kept):
            known.kept = known.present = True
            self._changed.add(session)
        return present, pack_column(array("H", sorted(known.received)))

    @property
    def changed(self) -> bool:
        """Whether something waits for ``write_rows``."""
        return bool(self._changed)

    def receive(self, session: str, packet_ids: Iterable[int]) -> None:
        """Add identifiers, whose messages go into the same write."""
        known = self._get(session)
        known.received.update(packet_ids)
        known.present = True
        self._changed.add(session)

    def release(self, session: str, packet_ids: Iterable[int]) -> None:
        """Remove identifiers, whose PUBREL came; unknown ones are ignored."""
        known = self._get(session)
        known.received.difference_update(packet_ids)
        if not known.received and not known.kept:
            known.present = False
        self._changed.add(session)

    def write_rows(self, write: Write) -> None:
        """Put what changed into ``write``."""
        for session in self._changed:
            known = self._sessions[session]
            if known.present:
                column = pack_column(array("H", sorted(known.received)))
                write.put("meta", session_key(session), msgpack.packb((ROW_VERSION, known.kept, column)))
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
                fields = unpack_row(value, ROW_VERSION, what="session", name=session)
                try:
                    kept, column = fields
                    known = _Session(kept, True, set(unpack_column("H", column)))
                except (TypeError, ValueError) as error:
                    raise StorageDamaged("the row of a session is damaged", session=session) from error
            self._sessions[session] = known
        return known
