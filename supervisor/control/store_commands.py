"""The control socket's commands that the store obeys: from text to a frame for the store. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from supervisor.control.control_socket import ControlError, Request
from supervisor.control.imported_messages import read_lines
from wire.frames.names import SUPERVISOR, LaneLabel
from wire.frames.supervision import QueueCommand, SessionCommand
from wire.status.refusals import Refusal

ANSWER_TIMEOUT_S = 20.0  # from when the store has it
_VERBS = {
    "queue.list": "list",
    "queue.peek": "peek",
    "queue.export": "peek",
    "queue.outline": "peek",
    "queue.purge": "purge",
    "queue.replay": "replay",
    "queue.resend": "resend",
    "queue.import": "import",
    "events": "events",
    "cluster.promote": "promote",
    "cluster.step_down": "step_down",
    "cluster.remove": "remove",
}
_SESSION_VERBS = {
    "session.list": "list",
    "session.show": "show",
    "session.will": "will",
    "session.end": "end",
    "session.disconnect": "disconnect",
}
CHANGES = (
    "cluster.promote",
    "cluster.step_down",
    "cluster.remove",
    "queue.purge",
    "queue.replay",
    "queue.resend",
    "queue.import",
    "session.end",
    "session.disconnect",
)
_PAYLOAD_BYTES = {"queue.peek": 200, "queue.outline": 0}
_STARS_MAX = 16  # a glob is compared with each session


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >> 63:
        raise ValueError("a whole number of 0 or more")
    return int(text)


def _lane(text: str) -> LaneLabel:
    return _number(text) if text.isdecimal() else text


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
    "run": str,
    "messages": read_lines,
    "into": str,
    "below": _number,
    "since_ms": _number,
    "until_ms": _number,
    "lane": _lane,
    "from": _number,
    "count": _number,
    "dead": _flag,
    "held": _flag,
    "left": _flag,
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


def _arguments_of(request: Request) -> dict[str, Any]:
    """The arguments of ``request`` as the store takes them.

    Raises:
        ControlError: one is not what it should be.
    """
    arguments: dict[str, Any] = {}
    for name, text in request.arguments.items():
        try:
            arguments[name] = _READ[name](text)
        except ValueError as error:
            raise ControlError(Refusal.BAD_ARGUMENTS, f"{name} is {error}, not {text!r:.80}", request.request_id) from error
    if wrong := _wrong_together(request.command, arguments):
        raise ControlError(Refusal.BAD_ARGUMENTS, wrong, request.request_id)
    if request.command in _PAYLOAD_BYTES:
        arguments["payload_bytes"] = _PAYLOAD_BYTES[request.command]
    return arguments


def _wrong_together(command: str, arguments: Mapping[str, Any]) -> str:
    """What is wrong with ``arguments``, each of which is good alone; empty if nothing is."""
    if _VERBS.get(command) == "peek":
        if not arguments.get("dead") and "lane" not in arguments:
            return f"{command} wants lane, or dead: yes"
        if sum(bool(arguments.get(kind)) for kind in ("dead", "held", "left")) > 1:
            return "of dead, held and left one at most is yes"
        if not arguments.get("left") and not arguments.keys().isdisjoint(("since_ms", "until_ms")):
            return "since_ms and until_ms go with left: yes"
    if command == "queue.purge" and "reason" in arguments and not arguments.get("dead"):
        return "reason goes with dead: yes"
    return ""


def to_frame(request: Request, number: int) -> QueueCommand | SessionCommand:
    """``request`` under this ``number``, for the store, or for the Listener, where that lives and has a part.

    Raises:
        ControlError: an argument is not what it should be.
    """
    arguments = _arguments_of(request)
    if is_session_command(request.command):
        return SessionCommand(request=number, verb=_SESSION_VERBS[request.command], arguments=arguments, asker=SUPERVISOR)
    return QueueCommand(request=number, verb=_VERBS[request.command], arguments=arguments)


def unknown_outcome(request: Request) -> str:
    """The words for whoever asked that, and is not answered."""
    if is_session_command(request.command):
        return "an order to end or disconnect may have been carried out or not: look with session list"
    if request.command.startswith("cluster."):
        return "an order to the cluster may have been carried out or not: look with cluster show"
    return "an order to purge or replay may have been carried out or not: look with queue list"
