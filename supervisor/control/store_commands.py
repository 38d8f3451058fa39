"""The control socket's commands that the store obeys: from text to a frame for the store, and who waits for its answer. Pure.

The store carries a command out between two commits; the supervisor goes on meanwhile. If the store ends before it has answered, or
does not answer in time, whoever gave an order is told so: to purge or replay may then have been carried out, or not. Commands that
only look can be asked again, once: such a one may be what the store ends of. Commands about local clients' sessions go by the
Listener, where one lives, and the same holds if that ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from supervisor.control.control_socket import ControlError, Request
from wire.frames.names import SUPERVISOR
from wire.frames.supervision import QueueAnswer, QueueCommand, SessionCommand

Asker = TypeVar("Asker")

ASKERS_MAX = 32
ANSWER_TIMEOUT_S = 20.0
UNKNOWN_OUTCOME = "an order to purge or replay may have been carried out or not: look with queue ls"
UNKNOWN_LEADER = "an order to the cluster may have been carried out or not: look with cluster status"
UNKNOWN_SESSION = "an order to end or disconnect may have been carried out or not: look with session ls"

_VERBS = {
    "queue.ls": "ls",
    "queue.peek": "peek",
    "queue.export": "peek",
    "queue.purge": "purge",
    "queue.replay": "replay",
    "events": "events",
    "cluster.promote": "promote",
    "cluster.step_down": "step_down",
    "cluster.forget": "forget",
}
_SESSION_VERBS = {
    "session.ls": "ls",
    "session.show": "show",
    "session.will": "will",
    "session.end": "end",
    "session.disconnect": "disconnect",
}
CHANGES = (
    "cluster.promote",
    "cluster.step_down",
    "cluster.forget",
    "queue.purge",
    "queue.replay",
    "session.end",
    "session.disconnect",
)
_PEEK_PAYLOAD_BYTES = 200
_STARS_MAX = 16  # a glob is compared with each session


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >> 63:
        raise ValueError("a whole number of 0 or more")
    return int(text)


def _flag(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError("yes or no")
    return text == "yes"


def _glob(text: str) -> str:
    if text.count("*") > _STARS_MAX:
        raise ValueError(f"a glob with at most {_STARS_MAX} *")
    return text


_READ: Mapping[str, Callable[[str], object]] = {
    "bridge": str,
    "reason": str,
    "lane": _number,
    "from": _number,
    "count": _number,
    "dead": _flag,
    "in_flight": _flag,
    "client_id": str,
    "member": str,
    "to": str,
    "after": str,
    "like": _glob,
    "user": str,
    "connected": _flag,
    "drops_will": _flag,
}


def is_queue_command(command: str) -> bool:
    """Whether ``command`` is the store's to carry out."""
    return command in _VERBS or is_session_command(command)


def is_session_command(command: str) -> bool:
    """Whether ``command`` is about local clients' sessions, and the Listener has a part in it."""
    return command in _SESSION_VERBS


def to_arguments(request: Request) -> dict[str, Any]:
    """The arguments of ``request`` as the store takes them.

    Raises:
        ControlError: one is not what it should be.
    """
    arguments: dict[str, Any] = {}
    for name, text in request.arguments.items():
        try:
            arguments[name] = _READ[name](text)
        except ValueError as error:
            raise ControlError("bad_arguments", f"{name} is {error}, not {text!r:.80}", request.request_id) from error
    if request.command in ("queue.peek", "queue.export") and not arguments.get("dead") and "lane" not in arguments:
        raise ControlError("bad_arguments", f"{request.command} wants lane, or dead: yes", request.request_id)
    if request.command == "queue.peek":
        arguments["payload_bytes"] = _PEEK_PAYLOAD_BYTES
    return arguments


@dataclass(slots=True)
class _Pending(Generic[Asker]):
    asker: Asker
    request: Request
    deadline_s: float
    outcome: str  # what to say if it is not known
    by_listener: bool
    again: bool


class StoreCommands(Generic[Asker]):
    """Askers by the answer of the store that they wait for."""

    def __init__(self) -> None:
        self._pending: dict[int, _Pending[Asker]] = {}
        self._number = 0

    def ask(
        self, asker: Asker, request: Request, now_s: float, *, by_listener: bool = False, again: bool = False
    ) -> QueueCommand | SessionCommand:
        """The frame for the store, or for the Listener, where that lives and has a part; ``asker`` waits from now on.

        again: a store has ended with it before.

        Raises:
            ControlError: the arguments are wrong, or too many wait.
        """
        arguments = to_arguments(request)
        if len(self._pending) >= ASKERS_MAX:
            raise ControlError("busy", "too many queue commands are waiting", request.request_id)
        self._number += 1
        about_sessions = is_session_command(request.command)
        about_cluster = request.command.startswith("cluster.")
        outcome = UNKNOWN_SESSION if about_sessions else UNKNOWN_LEADER if about_cluster else UNKNOWN_OUTCOME
        self._pending[self._number] = _Pending(asker, request, now_s + ANSWER_TIMEOUT_S, outcome, by_listener, again)
        if about_sessions:
            verb = _SESSION_VERBS[request.command]
            return SessionCommand(request=self._number, verb=verb, arguments=arguments, asker=SUPERVISOR)
        return QueueCommand(request=self._number, verb=_VERBS[request.command], arguments=arguments)

    def on_answered(self, answer: QueueAnswer) -> tuple[Asker, Any, ControlError | None] | None:
        """Returns the asker, the identifier of the request and what was wrong, if anything was; None if nobody waits any more."""
        pending = self._pending.pop(answer.request, None)
        if pending is None:
            return None
        error = ControlError(answer.error, answer.message, pending.request.request_id) if answer.error else None
        return pending.asker, pending.request.request_id, error

    def take_looks(self) -> list[tuple[Asker, Request]]:
        """Those who wait for an answer and ordered nothing, the first time, with what they asked; they wait here no more."""
        numbers = [
            number for number, pending in self._pending.items() if pending.request.command not in CHANGES and not pending.again
        ]
        taken = [self._pending.pop(number) for number in numbers]
        return [(pending.asker, pending.request) for pending in taken]

    def on_store_ended(self) -> list[tuple[Asker, ControlError]]:
        """The store has ended: what to tell all who wait."""
        return self._give_up(list(self._pending), "the queue store ended meanwhile")

    def on_listener_ended(self) -> list[tuple[Asker, ControlError]]:
        """The Listener has ended: what to tell those whose questions went by it."""
        return self._give_up(
            [number for number, pending in self._pending.items() if pending.by_listener], "the listener ended meanwhile"
        )

    def timed_out(self, now_s: float) -> list[tuple[Asker, ControlError]]:
        """The answers to those whose time is up at ``now_s``."""
        late = [number for number, pending in self._pending.items() if pending.deadline_s <= now_s]
        return self._give_up(late, f"the queue store has not answered within {ANSWER_TIMEOUT_S:g} s")

    def next_deadline_s(self) -> float | None:
        """The time at which ``timed_out`` has something to say; None if nobody waits."""
        return min((pending.deadline_s for pending in self._pending.values()), default=None)

    def _give_up(self, numbers: list[int], why: str) -> list[tuple[Asker, ControlError]]:
        given_up = []
        for number in numbers:
            pending = self._pending.pop(number)
            given_up.append((pending.asker, ControlError("unavailable", f"{why}; {pending.outcome}", pending.request.request_id)))
        return given_up
