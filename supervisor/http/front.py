"""Checks that each request passes before it reaches the application, and each answer on its way out.

It refuses what another web site has a browser send: a name that is not this node's (DNS rebinding), another origin, and changes
without a header of ours, which a page of another site cannot set. Security headers are put on each answer, and answers are counted.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from fastapi import HTTPException

from supervisor.http.answers import SECURITY_HEADERS, error_body
from supervisor.http.http_counts import HttpCounts
from wire.config_settings import HttpSettings

OWN_HEADER = b"x-bascule"
READING = ("GET", "HEAD", "OPTIONS")
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
_HEADERS = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]


class Refusal(Exception):
    """A request is refused with ``status``. why: for the count and for programs; the text is for people."""

    def __init__(self, status: int, why: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.why = why
        self.message = message


class Front:
    """An ASGI application before another one."""

    def __init__(self, app: App, settings: HttpSettings, figures: HttpCounts) -> None:
        self._app = app
        self._figures = figures
        self._request_max_bytes = settings.request_max_bytes
        # With tokens a page of another site gets nothing under whatever name it has this node asked.
        checked = settings.tokens_file is None or settings.hosts
        self._hosts = {settings.host, *LOOPBACK_NAMES, *(host.lower() for host in settings.hosts)} if checked else None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if scope["method"] not in READING or b"content-length" in headers or b"transfer-encoding" in headers:
            receive = self._limited(receive)
        send = self._finished(scope, send)
        try:
            self._judge(scope["method"], scope["path"], headers)
        except Refusal as refusal:
            self._figures.refuse(refusal.why)
            await _answer(send, refusal)
            return
        await self._app(scope, receive, send)

    def _judge(self, method: str, path: str, headers: dict[bytes, bytes]) -> None:
        """Raise Refusal if another site may be behind it, or it is too large."""
        if b"content-length" in headers and b"transfer-encoding" in headers:
            raise Refusal(400, "malformed", "a request says how long it is in one way")
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if host and _HOST.fullmatch(host) is None:
            raise Refusal(403, "malformed", "the header Host is no name with a port")
        if self._hosts is not None and _name_of(host) not in self._hosts:
            raise Refusal(
                421, "wrong_host", f"this node is not called {host[:100]!r}; http.hosts has the names it may be called by"
            )
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower().partition("://")[2] != host:
            raise Refusal(403, "cross_site", "requests of other web sites are refused")
        if path.startswith("/api/") and headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
            raise Refusal(403, "cross_site", "requests of other web sites are refused")
        if method not in READING and headers.get(OWN_HEADER) != b"1":
            raise Refusal(403, "no_own_header", "a request that changes something must have the header X-Bascule: 1")
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._request_max_bytes:
            raise Refusal(413, "too_large", self._too_large)

    @property
    def _too_large(self) -> str:
        return f"a request has at most {self._request_max_bytes} bytes"

    def _limited(self, receive: Receive) -> Receive:
        """``receive`` of a body whose length was not said; beyond the limit it raises what the application answers."""
        taken = 0

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._request_max_bytes:
                self._figures.refuse("too_large")
                raise HTTPException(413, self._too_large)
            return message

        return limited

    def _finished(self, scope: Message, send: Send) -> Send:
        """``send`` with the headers that each answer has; nothing of the API is kept by anybody on the way."""
        private = [] if scope["path"].startswith("/assets/") else [(b"cache-control", b"no-store")]

        async def finished(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._figures.on_answered(message["status"])
                message["headers"] = [*_without(message.get("headers", ()), private), *_HEADERS, *private]
            await send(message)

        return finished


def _without(headers: Iterable[tuple[bytes, bytes]], private: list[tuple[bytes, bytes]]) -> Iterable[tuple[bytes, bytes]]:
    names = {name for name, _ in private}
    return [header for header in headers if header[0] not in names]


def _name_of(host: str) -> str:
    """The name in a Host header, without its port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


async def _answer(send: Send, refusal: Refusal) -> None:
    body = error_body(refusal.why, refusal.message)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
