"""A leader that goes on without the log of its cluster: it looks for that beside its work, and says what it has taken meanwhile.

Whether it goes on, and what follows when the log is back, is the engine's (``storage/replication/replicated_engine.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from storage.replication.leader import Leader
from storage.replication.log import LogAway
from storage.store.event_rows import Event

if TYPE_CHECKING:
    from actors.process.actor import MailboxActor
    from storage.replication.jetstream import JetStreamLog
    from storage.store.store import Store


@dataclass(frozen=True, slots=True)
class LogAsked:
    """Thread -> actor: the log can be used again, or why not."""

    error: str


class Alone:
    """connect: makes a connection to the log, for a thread."""

    def __init__(self, store: MailboxActor, connect: Callable[[], JetStreamLog]) -> None:
        self._actor = store
        self._connect = connect
        self._asking = False
        self._was_alone = False
        self._accepted: dict[str, int] | None = None  # what each queue had accepted before; None: all is shared

    def ask(self) -> None:
        """See in a thread whether the log can be used again: the store does not wait for that."""
        if self._asking:
            return
        self._asking = True

        def work() -> None:
            error = "it did not answer"
            try:
                asked = self._connect()
                try:
                    asked.ends()
                finally:
                    asked.close()
                error = ""
            except LogAway as away:
                error = str(away.fields.get("error") or away.message)
            except OSError as refusal:
                error = str(refusal)
            finally:
                self._actor.tell_from_thread(LogAsked(error))

        self._actor.mailbox.in_thread("log", work)

    def asked(self, message: LogAsked, leader: Leader | None) -> bool:
        """The thread has ended; whether ``leader`` has the log again."""
        self._asking = False
        if leader is None:
            return False
        leader.log_error, leader.log_answers = message.error, not message.error
        return leader.log_answers

    def look(self, leader: Leader, store: Store, wall_ms: int) -> None:
        """Have ``store`` keep what has become of ``leader`` and the log."""
        if self._accepted is None and not leader.is_shared:
            self._accepted = {name: lane.queue.ledger.accepted for name, lane in store.lanes.all.items()}
        elif self._accepted is not None and leader.is_shared:
            self._accepted = None
        if leader.engine.alone != self._was_alone:
            self._was_alone = leader.engine.alone
            left = Event(at_ms=wall_ms, kind="log.left")
            store.events.add(
                left if self._was_alone else Event(at_ms=wall_ms, kind="log.rejoined", count=leader.engine.alone_commits)
            )

    def accepted(self, name: str, accepted: int) -> int:
        """Of ``accepted`` messages of the queue of that name, those that no other member can take."""
        before: Mapping[str, int] | None = self._accepted
        return 0 if before is None else accepted - before.get(name, 0)
