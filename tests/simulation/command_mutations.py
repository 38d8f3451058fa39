"""Planted bugs in what an operator may do: purge and replay."""

from __future__ import annotations

from typing import Any

from storage.engine.engine import Write
from storage.queue.dead_letters import DeadLetters
from storage.queue.queue import Queue, Unsent
from storage.store.lanes import Lanes
from storage.store.next_commit import NextCommit
from storage.store.queue_commands import QueueCommands
from storage.store.store import Store

DUE: list[tuple[DeadLetters, Any]] = []  # letters that went back with the commit that was just made


def _takes_what_was_sent(original: Any) -> Any:
    def unsent(self: Queue) -> Unsent:
        return Unsent(self.counts.head, 0, 0, 0)

    return unsent


def _session_kept(original: Any) -> Any:
    def purge_all(self: Queue, write: Write) -> int:
        sent = self.sent
        generation, session = sent.generation, sent.session
        purged: int = original(self, write)
        sent.generation, sent.session = generation, session
        return purged

    return purge_all


def _lane_goes_on(original: Any) -> Any:
    def purged(self: Lanes, name: str, *, whole: bool) -> None:
        original(self, name, whole=False)

    return purged


def _nothing_taken_out(self: DeadLetters, letters: Any, write: Write) -> None:
    pass


def _taken_out_later(original: Any) -> Any:
    def put_back(self: QueueCommands, name: str, back: Any, letters: DeadLetters, wall_ms: int) -> None:
        kept = DeadLetters.__dict__["on_replayed"]
        DeadLetters.on_replayed = _nothing_taken_out  # type: ignore[method-assign]
        try:
            original(self, name, back, letters, wall_ms)
        finally:
            DeadLetters.on_replayed = kept  # type: ignore[method-assign]
        self.next_commit.write.on_commit(lambda: DUE.append((letters, back)))

    return put_back


def _taken_out_now(original: Any) -> Any:
    def done(self: NextCommit, now_s: float, *, written: bool) -> None:
        original(self, now_s, written=written)
        while DUE:
            letters, back = DUE.pop()
            letters.on_replayed(back, self.write)

    return done


def _never_taken_out(original: Any) -> Any:
    return _nothing_taken_out


def _counted_and_not_put_back(original: Any) -> Any:
    def put_back(self: QueueCommands, name: str, back: Any, letters: DeadLetters, wall_ms: int) -> None:
        letters.on_replayed(back, self.next_commit.write)

    return put_back


def _answered_before_commit(original: Any) -> Any:
    def commit_now(self: Store, now_s: float, wall_ms: int) -> bool:
        return True

    return commit_now


PLANTED: tuple[tuple[str, str, tuple[tuple[Any, str, Any], ...]], ...] = (
    (
        "queue.handed-out-below-mark/sent-is-purged",
        "a purge takes what is in flight, too",
        ((Queue, "unsent", _takes_what_was_sent),),
    ),
    (
        "store.purge-begins-a-session/session-kept",
        "a purge of everything keeps session and generation",
        ((Queue, "purge_all", _session_kept),),
    ),
    (
        "store.purge-begins-a-session/lane-goes-on",
        "after a purge of everything the lane goes on",
        ((Lanes, "on_purged", _lane_goes_on),),
    ),
    (
        "queue.dead-or-queued-never-both/replayed-in-two-commits",
        "a dead letter leaves one commit after its message went back",
        ((QueueCommands, "put_back", _taken_out_later), (NextCommit, "on_done", _taken_out_now)),
    ),
    (
        "queue.dead-or-queued-never-both/letter-kept",
        "a dead letter goes back and stays",
        ((DeadLetters, "on_replayed", _never_taken_out),),
    ),
    (
        "queue.dead-or-queued-never-both/letter-lost",
        "a dead letter leaves and does not go back",
        ((QueueCommands, "put_back", _counted_and_not_put_back),),
    ),
    (
        "store.answer-after-commit/command-answered-first",
        "a command is answered before its commit",
        ((Store, "commit_now", _answered_before_commit),),
    ),
)
