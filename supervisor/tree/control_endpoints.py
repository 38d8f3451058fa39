"""The ways by which the node is asked: its control socket's file, and a TCP address where one is configured.

A process that can open the file may give every command. Over the network a key is shown, and its role says what it may; the key is
looked up for each request, so one that was taken off the list is refused though it is still connected. Refused requests are
answered and counted here, and go no further.

tree.one-question-each [P5, alive]: of each key the node has one question under way. The next ones of that key wait for its
    answer, a few at most; orders do not wait, and neither does anybody else.
"""

from __future__ import annotations

import logging
from collections import deque
from pathlib import Path

from actors.process.curve_router import CurveRouter
from actors.process.mailbox import Mailbox
from supervisor.control.allowed_keys import AllowedKeys
from supervisor.control.control_socket import QUESTIONS, SOCKET_NAME, Asker, ControlError, Request, encode_error, parse_request
from supervisor.control.key_files import server_key
from supervisor.control.roles import may, needed
from wire.config_settings import ControlSettings, NodeSettings
from wire.errors import BasculeError
from wire.status.node_status import ControlFigures
from wire.status.refusals import Refusal

log = logging.getLogger("bascule")

TIMER = "control"
FILE, REMOTE = "router", "remote"  # the tokens of their sockets
RETRY_S = 2.0  # after an address could not be bound
WAITING_MAX = 16  # questions of one key
_BY_FILE, _BY_TCP, _QUESTION = b"file", b"tcp", b"question"  # in front of whom to answer; of a question its key is next

Asked = tuple[Asker, Request]


class ControlEndpoints:
    """The node's control sockets. The timer ``TIMER`` is for ``bind``."""

    def __init__(self, mailbox: Mailbox, settings: NodeSettings) -> None:
        self._mailbox = mailbox
        self._run_dir, self._data_dir = Path(settings.run_dir), Path(settings.node.data_dir)
        self._settings = settings.control
        self._tcp: CurveRouter | None = None
        self._keys: AllowedKeys | None = None
        self._public = self._error = ""
        self._requests = self._malformed = self._forbidden = 0
        self._not_let_in: dict[str, int] = {}  # by sockets that were closed since
        self._waiting: dict[bytes, deque[Asked]] = {}  # by the keys of which a question is under way
        self._next: list[Asked] = []

    def open(self) -> None:
        """Take requests from now on. An address that is taken is tried again; the node does without meanwhile."""
        self._file = self._mailbox.router(self._run_dir / SOCKET_NAME)
        self.bind()

    def close(self) -> None:
        """Close the address."""
        if self._tcp is not None:
            for reason, count in self._tcp.connected.refused.items():
                self._not_let_in[reason] = self._not_let_in.get(reason, 0) + count
            self._mailbox.neglect(self._tcp)
            self._tcp.close()
        self._tcp = self._keys = None

    def rebind(self, settings: ControlSettings | None) -> None:
        """Go by other settings from the next turn on: connections of the address that was end, the file stays as it is."""
        if settings != self._settings:
            self._settings = settings
            self._mailbox.set_timer(TIMER, self._mailbox.now_s())

    def bind(self) -> None:
        """Bind to the configured address, if there is one."""
        self.close()
        self._error = ""
        if self._settings is None:
            return
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        endpoint = f"tcp://{host}:{self._settings.port}"
        try:
            key = server_key(self._data_dir)
            self._tcp = CurveRouter(
                endpoint,
                key.secret,
                connections_max=self._settings.connections_max,
                handshake_timeout_s=self._settings.handshake_timeout_s,
            )
        except (OSError, BasculeError) as error:
            self._error = f"{endpoint}: {getattr(error, 'strerror', None) or error}"
            log.error("control.not_bound", extra={"endpoint": endpoint, "error": self._error, "retry_s": RETRY_S})
            self._mailbox.set_timer(TIMER, self._mailbox.now_s() + RETRY_S)
            return
        self._mailbox.attend(self._tcp, REMOTE)
        self._public = key.public
        self._keys = AllowedKeys(Path(self._settings.allowed_keys))
        self._keys.reload(self._mailbox.now_s())
        log.info("control.bound", extra={"endpoint": self._tcp.endpoint, "public_key": key.public, "keys": len(self._keys)})

    def requests(self, token: str) -> list[Asked]:
        """Requests that came by ``token`` and are to be carried out; the asker comes first."""
        requests = []
        for whom, payload, role in self._file_requests() if token == FILE else self._tcp_requests():
            self._requests += 1
            try:
                request = self._read(payload, role)
                if whom[0] == _BY_FILE or request.command not in QUESTIONS:
                    requests.append((whom, request))
                elif self._take_turn(whom, request):
                    requests.append(([_QUESTION, *whom[1:]], request))
            except ControlError as error:
                self.answer(whom, encode_error(error))
        return requests

    def waited(self) -> list[Asked]:
        """Requests that have waited for an answer that is given by now, and are to be carried out (tree.one-question-each)."""
        due, self._next = self._next, []
        return due

    def _take_turn(self, whom: Asker, request: Request) -> bool:
        """Whether no question of its key is under way, as this one is then; if one is, it waits for that.

        Raises:
            ControlError: too many wait already.
        """
        waiting = self._waiting.get(whom[1])
        if waiting is None:
            self._waiting[whom[1]] = deque()
        elif len(waiting) >= WAITING_MAX:
            raise ControlError(Refusal.BUSY, "too many questions of this key are waiting", request.request_id)
        else:
            waiting.append(([_QUESTION, *whom[1:]], request))
        return waiting is None

    def answer(self, whom: Asker, payload: bytes) -> None:
        """Answer a request; an asker that has gone gets nothing."""
        way, *route = whom
        if way != _BY_FILE:
            key = route.pop(0)
            if way == _QUESTION and (waiting := self._waiting[key]):
                self._next.append(waiting.popleft())
            elif way == _QUESTION:
                del self._waiting[key]
        if way == _BY_FILE:
            self._file.answer(route, payload)
        elif self._tcp is not None:
            self._tcp.answer(route, payload)

    def figures(self) -> ControlFigures:
        """``control`` of ``status``."""
        refused = {"malformed": self._malformed, "role": self._forbidden, "key": 0, "handshake": 0, "too_many": 0}
        now_s = self._mailbox.now_s()
        for reason, count in self._not_let_in.items():
            refused[reason] += count
        if self._tcp is not None:
            self._tcp.connected.count(now_s)
            for reason, count in self._tcp.connected.refused.items():
                refused[reason] += count
        if self._keys is not None:
            self._keys.reload(now_s)
        return ControlFigures(
            requests=self._requests,
            refused=refused,
            endpoint="" if self._tcp is None else self._tcp.endpoint,
            error=self._error,
            public_key=self._public if self._tcp is not None else "",
            connections=0 if self._tcp is None else len(self._tcp.connected),
            keys=0 if self._keys is None else len(self._keys),
            problems=() if self._keys is None else tuple(self._keys.problems),
        )

    def _file_requests(self) -> list[tuple[Asker, bytes, str]]:
        return [([_BY_FILE, *whom], payload, "admin") for whom, payload in self._file.requests()]

    def _tcp_requests(self) -> list[tuple[Asker, bytes, str]]:
        if self._tcp is None or self._keys is None:
            return []
        now_s = self._mailbox.now_s()
        asked = self._tcp.work(self._is_allowed, now_s)
        found = [(whom, payload, key, self._keys.find(key, now_s)) for whom, key, payload in asked]
        return [([_BY_TCP, key.encode(), *whom], payload, of.role if of is not None else "") for whom, payload, key, of in found]

    def _is_allowed(self, public: str) -> bool:
        return self._keys is not None and self._keys.find(public, self._mailbox.now_s()) is not None

    def _read(self, payload: bytes, role: str) -> Request:
        """The request in ``payload``; raises ControlError if it is none, or not for ``role`` to ask."""
        if not role:
            self._forbidden += 1
            raise ControlError(Refusal.FORBIDDEN, "the key is not on the list any more")
        try:
            request = parse_request(payload)
        except ControlError:
            self._malformed += 1
            raise
        if not may(role, request.command):
            self._forbidden += 1
            text = f"{request.command} is for the role {needed(request.command)}, and this key's is {role}"
            raise ControlError(Refusal.FORBIDDEN, text, request.request_id)
        return request
