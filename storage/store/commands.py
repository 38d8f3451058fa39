"""The line of an operator's commands about queues and sessions: each is carried out between two commits, one after the other.

A command sees committed state only, and is answered when its changes are committed. While the disk refuses, those that only look
are carried out all the same, as far as the disk can be read; others need a commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from wire.errors import BasculeError, ConfigError, DiskFull, StorageDamaged, Unavailable
from wire.figure import to_map
from wire.frames.frame import Frame
from wire.frames.names import SUPERVISOR
from wire.frames.supervision import QueueAnswer, QueueCommand, SessionCommand
from wire.status import answers
from wire.status.refusals import Refusal

Answer = (
    answers.Queues
    | answers.HeldMessages
    | answers.Purged
    | answers.Replayed
    | answers.Resent
    | answers.Imported
    | answers.Events
    | answers.Sessions
    | answers.SessionPage
    | answers.Will
    | answers.SessionEnded
)


class CommandError(BasculeError):
    """A command was refused, and nothing was changed. ``kind`` tells programs why."""

    def __init__(self, kind: Refusal, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class OnQueues(Protocol):
    """The part that carries out commands about queues and dead letters."""

    def carry_out(self, command: QueueCommand, now_s: float, wall_ms: int, *, refused: bool) -> Answer: ...


class OnSessions(Protocol):
    """The part that carries out commands about sessions."""

    def carry_out(self, command: SessionCommand, wall_ms: int) -> Answer: ...


Order = QueueCommand | SessionCommand
_CHANGES = ("purge", "replay", "resend", "import", "end")
_LOOKS = ("list", "peek", "events", "show")
ORDERED = "ordered"  # in the result of a command that is refused for now: it is done as soon as the disk takes it


class Commands:
    """Takes commands as they come, has them carried out when the store has committed. waiting: those that were not yet."""

    def __init__(
        self,
        commit_now: Callable[[float, int], bool],
        refuses: Callable[[Unavailable, float, int], None],
        on_queues: OnQueues,
        on_sessions: OnSessions,
    ) -> None:
        """commit_now: commits all that is there, and says whether the disk took it. refuses: is told that it did not."""
        self._commit_now = commit_now
        self._refuses = refuses
        self._on_queues = on_queues
        self._on_sessions = on_sessions
        self.waiting: list[Order] = []

    def apply(self, command: Order) -> None:
        """Take a command."""
        self.waiting.append(command)

    def answer_while_refused(self, now_s: float, wall_ms: int, refusal: Unavailable) -> list[tuple[str, Frame]]:
        """Answer those that wait while the disk refuses for ``refusal``: what needs a commit is not done."""
        waiting, self.waiting = self.waiting, []
        return [(_asker(command), self._looked(command, now_s, wall_ms, refusal)) for command in waiting]

    def _looked(self, command: Order, now_s: float, wall_ms: int, refusal: Unavailable) -> QueueAnswer:
        if command.verb not in _LOOKS and (command.verb in _CHANGES or isinstance(command, QueueCommand)):
            return _refusal(command, Refusal.UNAVAILABLE, needs_a_commit(refusal))
        try:
            result = self._carry_out(command, now_s, wall_ms, refused=True)
        except CommandError as error:
            return _refusal(command, error.kind, error.message)
        except (StorageDamaged, ConfigError) as error:
            return _refusal(command, Refusal.DAMAGED, str(error))
        except Unavailable as error:
            return _refusal(command, Refusal.UNAVAILABLE, f"the store cannot be read for now: {error}")
        return QueueAnswer(request=command.request, error="", message="", result=to_map(result))

    def obey(self, now_s: float, wall_ms: int) -> list[tuple[str, Frame]]:
        """Carry out those that wait, commit, and answer."""
        done: list[tuple[str, Frame]] = []
        while self.waiting:
            command = self.waiting.pop(0)
            try:
                result = self._carry_out(command, now_s, wall_ms)
            except CommandError as error:
                answer = _refusal(command, error.kind, error.message)
            except (StorageDamaged, ConfigError) as error:
                answer = _refusal(command, Refusal.DAMAGED, str(error))
            except Unavailable as error:
                self._refuses(error, now_s, wall_ms)
                self.waiting.insert(0, command)
                return [*done, *self.answer_while_refused(now_s, wall_ms, error)]
            else:
                if command.verb in _CHANGES and not self._commit_now(now_s, wall_ms):
                    text = "the disk refuses for now; what was ordered is done as soon as it does not"
                    done.append((_asker(command), _refusal(command, Refusal.UNAVAILABLE, text, {ORDERED: True})))
                    return [*done, *self.answer_while_refused(now_s, wall_ms, Unavailable("the disk refuses"))]
                answer = QueueAnswer(request=command.request, error="", message="", result=to_map(result))
            done.append((_asker(command), answer))
        return done

    def _carry_out(self, command: Order, now_s: float, wall_ms: int, *, refused: bool = False) -> Answer:
        if isinstance(command, SessionCommand):
            return self._on_sessions.carry_out(command, wall_ms)
        return self._on_queues.carry_out(command, now_s, wall_ms, refused=refused)


def _asker(command: Order) -> str:
    return command.asker if isinstance(command, SessionCommand) else SUPERVISOR


def _refusal(command: Order, kind: Refusal, message: str, result: dict[str, Any] | None = None) -> QueueAnswer:
    return QueueAnswer(request=command.request, error=kind, message=message, result=result or {})


def needs_a_commit(refusal: Unavailable) -> str:
    """The answer to an operator whose order the disk does not let us carry out."""
    if isinstance(refusal, DiskFull):
        return f"{refusal}; what is removed is written down first, so make room and say it again; nothing was done"
    return f"{refusal}; nothing was done"
