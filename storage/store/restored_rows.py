"""Makes of a checkpoint a store that a node may go on with: what the node sent and received since the checkpoint is not in it.

The checkpoint's sequences are given again, to other messages, and remotes and clients may hold packet identifiers of those that had
them first. They would take another message for a repeat, and throw it away. So nothing that was on record of an exchange holds:

store.restored-begins-anew [P2]: after a restore no exchange goes on where the record says it stood. A lane's session is left, and
    may hold every packet identifier: it is ended by a clean start, or releases all of them before anything is PUBLISHed. All that
    is in a queue may have been sent. Received identifiers are forgotten: what they stand for may come twice, and nothing is taken
    for a repeat that is none.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from storage.engine.engine import Engine, Write
from storage.engine.keys import IDENTITY_BYTES, lane_key, open_format
from storage.engine.queue_numbers import QueueNumbers
from storage.engine.store_identity import IDENTITY_KEY
from storage.queue.ledger import LedgerRow
from storage.replication.position import POSITION_KEY
from storage.store.event_rows import Detail, Event, event_key, event_number
from storage.store.session_rows import Session, Sessions
from wire.errors import StorageDamaged
from wire.frames.batch import QOS_MASK
from wire.frames.names import CLIENT_SESSION, lane_of_queue, session_of_queue
from wire.status.event_kinds import EventKind

_LAST = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The corrections. damaged: the queues whose row cannot be read; they stay as they are, and stand still."""

    queues: int
    sessions: int
    damaged: tuple[str, ...]


def restart_exchanges(engine: Engine, *, wall_ms: int, snapshot: str, messages: int) -> Restored:
    """Change the rows of ``engine`` by one synced commit, and note it as an event (store.restored-begins-anew).

    Done twice, it is as done once. snapshot: where the store comes from; messages: that are in its queues.

    Raises:
        StorageDamaged, ConfigError, Unavailable: the store cannot be read or written; nothing has changed.
    """
    former, _ = open_format(engine)
    numbers, write, sessions = QueueNumbers(engine), Write(), Sessions(engine)
    write.put("meta", IDENTITY_KEY, os.urandom(IDENTITY_BYTES))
    write.delete("meta", POSITION_KEY)  # replication.foreign-log-left-alone
    of_qos2 = {session.queue for session in sessions if _takes_qos2(session)}
    queues, damaged = 0, []
    for name in numbers.names():
        is_bridge = lane_of_queue(name) is not None
        if not (is_bridge or session_of_queue(name) is not None):
            continue  # dead letters are in no exchange
        number = numbers.number(name)
        value = engine.get("meta", lane_key(number))
        if value is None and is_bridge:
            continue  # nothing was ever in it, and no session is on record: one that its remote has is ended by a clean start
        try:
            row = LedgerRow.decode(value, queue=name) if value is not None else LedgerRow.begin(0, CLIENT_SESSION)
        except StorageDamaged:
            damaged.append(name)
            continue
        row.restart_exchange(leaves=is_bridge or name in of_qos2)
        write.put("meta", lane_key(number), row.encode())
        queues += 1
    known = list(sessions)
    for session in known:
        sessions.release(session.name, tuple(session.received))
    sessions.write_rows(write)
    details: dict[str, Detail] = {"of_store": former}
    _note(
        engine,
        write,
        Event(at_ms=wall_ms, kind=EventKind.NODE_RESTORED, actor="operator", reason=snapshot, count=messages, details=details),
    )
    engine.commit(write, sync=True)
    engine.check_files(messages)  # what is noted beside it follows
    return Restored(queues=queues, sessions=len(known), damaged=tuple(damaged))


def _takes_qos2(session: Session) -> bool:
    return any(options & QOS_MASK == 2 for options, _ in session.subscriptions.values())


def _note(engine: Engine, write: Write, event: Event) -> None:
    last = engine.seek_before("history", event_key(_LAST), event_key(0))
    write.put("history", event_key(0 if last is None else event_number(last[0]) + 1), event.encode())
