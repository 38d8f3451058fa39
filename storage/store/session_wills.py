"""The Wills of local clients' sessions once they are published: what becomes of each on record.

store.will-kept-until-published [P3, MQTT]: a Will stays on record until a batch with it is committed, or the client took it back
    [MQTT-3.1.2-8, MQTT-3.14.4-3]. One for which there is no room stays on record by itself, whatever becomes of the session, and is
    sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from storage.store.session_rows import Session, Sessions, Will
from wire.exchange.wills import REFUSED_WILLS_MAX, REFUSED_WILLS_MAX_BYTES, size_bytes

log = logging.getLogger("bascule")


class SessionWills:
    """Takes Wills off the record, and keeps those that were refused.

    refused: how many are kept. dropped: how many were not, because there were too many, in this life.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        refused = [will for session in sessions for will in session.refused_wills.values()]
        self.refused = len(refused)
        self.dropped = 0
        self._refused_bytes = sum(map(size_bytes, refused))

    def sent(self, wills: Iterable[tuple[str, int, int, int]], batch: tuple[int, int], refused: Collection[int]) -> None:
        """``wills``, as in ``Publishes``, are in the open write by way of ``batch`` (epoch, number), save ``refused`` rows
        (store.will-kept-until-published).
        """
        for name, row, epoch, number in wills:
            session = self._sessions.get(name)
            if session is None:
                continue
            if row not in refused:
                if number:
                    self._forget(session, (epoch, number))
                else:
                    self._sessions.put_will(session, None)
            elif not number and session.will is not None:
                self._keep(session, batch, session.will)
                self._sessions.put_will(session, None)

    def _keep(self, session: Session, batch: tuple[int, int], will: Will) -> None:
        size = size_bytes(will)
        if self.refused >= REFUSED_WILLS_MAX or self._refused_bytes + size > REFUSED_WILLS_MAX_BYTES:
            self.dropped += 1
            log.warning("will.dropped", extra={"client_id": session.name, "why": "too many Wills wait for room"})
            return
        self._sessions.put_will(session, will, batch)
        self.refused += 1
        self._refused_bytes += size

    def _forget(self, session: Session, batch: tuple[int, int]) -> None:
        will = session.refused_wills.get(batch)
        if will is not None:
            self._sessions.put_will(session, None, batch)
            self.refused -= 1
            self._refused_bytes -= size_bytes(will)
