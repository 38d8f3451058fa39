"""The control socket's language: requests and answers as values, and their codec. Clients ask by ``client.py``.

A request is the msgpack map ``{v: 1, id, cmd, args}``; its answer is ``{v: 1, id, ok: true, result}`` or ``{v: 1, id, ok: false,
error: {kind, message}}``. The socket is a ZeroMQ ROUTER at ``<run_dir>/control.ipc`` that only the node's owner can open. The
commands are the supervisor's; the socket itself is the mailbox's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgpack

from supervisor.units import shown
from supervisor.version import VERSION as RELEASE
from wire.errors import BasculeError, Unavailable
from wire.figure import to_map
from wire.status.refusals import Refusal

Asker = list[bytes]  # the way back to who asked
Answers = list[tuple[Asker, bytes]]

LINES_MAX_BYTES = 200_000  # of messages in one request, thus of one of them

VERSION = 1
SOCKET_NAME = "control.ipc"
PAYLOAD_MAX_BYTES = 262_144  # of three texts of 65,535 bytes, the longest that MQTT has, and some more

# Every command with the names of the arguments that it must have, all of them text.
COMMANDS: dict[str, tuple[str, ...]] = {
    "ping": (),
    "status": (),
    "history": (),
    "stop": (),
    "reload": (),
    "reload.plan": (),
    "snapshot": (),
    "snapshot.result": ("number",),
    "bridge.pause": ("bridge",),
    "bridge.resume": ("bridge",),
    "bridge.restart": ("bridge",),
    "bridge.show": ("name",),
    "bridge.put": ("name", "text"),
    "bridge.remove": ("name",),
    "queue.list": (),
    "queue.peek": ("bridge",),
    "queue.export": ("bridge",),
    "queue.outline": ("bridge",),
    "queue.purge": ("bridge",),
    "queue.replay": ("bridge",),
    "queue.resend": ("bridge", "run"),
    "queue.import": ("bridge", "run", "from", "below", "messages"),
    "session.list": (),
    "session.show": ("client_id",),
    "session.will": ("client_id",),
    "session.end": ("client_id",),
    "session.disconnect": ("client_id",),
    "events": (),
    "trace": ("topic",),
    "trace.result": ("number",),
    "topics": (),
    "access": (),
    "cluster.promote": (),
    "cluster.step_down": (),
    "cluster.remove": ("member",),
}

# Arguments that a command may have besides; numbers in decimal, switches yes or no.
OPTIONAL: dict[str, tuple[str, ...]] = {
    "history": ("since", "until", "step", "bridge"),
    "reload": ("yes",),
    "bridge.put": ("yes", "plan"),
    "bridge.remove": ("yes", "plan"),
    "queue.list": ("bridge",),
    "queue.peek": ("lane", "dead", "held", "left", "since_ms", "until_ms", "from", "count"),
    "queue.export": ("lane", "dead", "held", "left", "since_ms", "until_ms", "from", "count"),
    "queue.outline": ("lane", "dead", "held", "left", "since_ms", "until_ms", "from", "count"),
    "queue.purge": ("lane", "dead", "reason", "from", "in_flight"),
    "queue.replay": ("reason", "from", "count"),
    "queue.resend": ("lane", "into", "from", "below", "since_ms", "until_ms", "count"),
    "session.list": ("after", "count", "like", "user", "connected"),
    "session.show": ("from",),
    "session.end": ("drops_will",),
    "events": ("from", "count"),
    "trace": ("timeout_s",),
    "topics": ("count",),
    "cluster.step_down": ("to",),
}

# Those that look at much and change nothing: one of them at a time for who asks.
QUESTIONS = {
    "status",
    "history",
    "queue.list",
    "queue.peek",
    "queue.export",
    "queue.outline",
    "session.list",
    "session.show",
    "session.will",
    "events",
    "topics",
    "reload.plan",
    "access",
    "bridge.show",
}

# The longest text of an argument, in bytes of UTF-8. Those of MQTT are as long as MQTT lets them be; what is matched against each
# session is short, since its cost is paid for each of them.
_TEXT_MAX_BYTES = dict.fromkeys(("topic", "client_id", "after", "user", "text"), 65_535) | {"messages": LINES_MAX_BYTES}
_OTHER_TEXT_MAX_BYTES = 256

_CURE = "update the older of the two, the command or the node, which is then restarted"


class ControlError(BasculeError):
    """A request was refused, and nothing was changed. ``kind`` tells programs why, ``message`` tells people."""

    exit_status = 1

    def __init__(self, kind: str, message: str, request_id: Any = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.request_id = request_id


class NotRunning(Unavailable):
    """No node answers on the control socket."""

    exit_status = 69


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One command that is known and has its arguments. request_id is the asker's own, returned with the answer."""

    request_id: Any
    command: str
    arguments: dict[str, str]


def encode_request(request_id: Any, command: str, arguments: dict[str, str]) -> bytes:
    """A request as it goes over the socket.

    Raises:
        ControlError: an argument is no text: what a terminal sent was not UTF-8.
    """
    try:
        packed: bytes = msgpack.packb({"v": VERSION, "id": request_id, "cmd": command, "args": arguments})
    except UnicodeEncodeError as error:
        raise ControlError(Refusal.BAD_ARGUMENTS, f"{error.object!r} is not UTF-8", request_id) from error
    return packed


def parse_request(payload: bytes) -> Request:
    """The request in ``payload``.

    Raises:
        ControlError: it is none, of another version, of an unknown command, or with other arguments than the command has.
    """
    if len(payload) > PAYLOAD_MAX_BYTES:
        raise ControlError(Refusal.BAD_REQUEST, f"a request has at most {PAYLOAD_MAX_BYTES} bytes")
    try:
        request = msgpack.unpackb(payload)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise ControlError(Refusal.BAD_REQUEST, "a request is a msgpack map {v, id, cmd, args}") from error
    if not isinstance(request, dict):
        raise ControlError(Refusal.BAD_REQUEST, "a request is a msgpack map {v, id, cmd, args}")
    request_id = request.get("id")
    if not isinstance(request_id, str | int | bytes | None):
        raise ControlError(Refusal.BAD_REQUEST, "id is a number, text or bytes")
    if request.get("v") != VERSION:
        raise ControlError(Refusal.BAD_VERSION, _of_another_version("takes requests of another form"), request_id)
    command, arguments = request.get("cmd"), request.get("args") or {}
    if not isinstance(command, str) or command not in COMMANDS:
        raise ControlError(Refusal.UNKNOWN_COMMAND, _of_another_version(f"knows no command {shown(command)}"), request_id)
    if not isinstance(arguments, dict) or not all(isinstance(text, str) for pair in arguments.items() for text in pair):
        raise ControlError(Refusal.BAD_ARGUMENTS, f"args of {command} is a map of texts", request_id)
    names = COMMANDS[command]
    if unknown := [name for name in arguments if name not in (*names, *OPTIONAL.get(command, ()))]:
        why = _of_another_version(f"knows no argument {shown(unknown[0])} of {command}")
        raise ControlError(Refusal.BAD_ARGUMENTS, why, request_id)
    if missing := [name for name in names if name not in arguments]:
        why = _of_another_version(f"wants the argument {shown(missing[0])} of {command}")
        raise ControlError(Refusal.BAD_ARGUMENTS, why, request_id)
    for name, text in arguments.items():
        max_bytes = _TEXT_MAX_BYTES.get(name, _OTHER_TEXT_MAX_BYTES)
        if len(text.encode(errors="surrogatepass")) > max_bytes:
            raise ControlError(Refusal.BAD_ARGUMENTS, f"{name} has at most {max_bytes} bytes", request_id)
    return Request(request_id=request_id, command=command, arguments=arguments)


def _of_another_version(what: str) -> str:
    """Why this node refuses what the command line of its own version would not send."""
    return f"the node runs version {RELEASE}, which {what}; {_CURE}"


def encode_result(request_id: Any, result: Any) -> bytes:
    """The answer to a request that was carried out: figures, or a map of them."""
    packed: bytes = msgpack.packb({"v": VERSION, "id": request_id, "ok": True, "result": result}, default=to_map)
    return packed


def encode_error(error: ControlError) -> bytes:
    """The answer to a request that was refused."""
    said = {"kind": error.kind, "message": error.message}
    packed: bytes = msgpack.packb({"v": VERSION, "id": error.request_id, "ok": False, "error": said})
    return packed


def parse_answer(payload: bytes) -> Any:
    """The result in ``payload``.

    Raises:
        ControlError: the request was refused, or the answer is of a version that is not known here.
    """
    answer = msgpack.unpackb(payload, strict_map_key=False)
    if not isinstance(answer, dict) or answer.get("v") != VERSION:
        raise ControlError(Refusal.BAD_VERSION, f"the node answers in another form; {_CURE}")
    if not answer["ok"]:
        raise ControlError(answer["error"]["kind"], answer["error"]["message"])
    return answer["result"]
