"""Callers over HTTP, and whether their role may give the command that a route stands for.

With a tokens file everybody needs a token. Without one the address is loopback (the configuration sees to it), and whoever is on
this machine may do everything. The rights of a role are ``supervisor/control/roles.py``'s.

After too many wrong tokens from one address, tokens that have not been right from there before are refused for a while; whoever was
let in stays in. ``actors/access/login_limits.py`` counts, as for MQTT (access.failed-logins-wait).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request
from fastapi.params import Depends as Dependency
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from actors.access.login_limits import LoginLimits, network_of
from actors.access.token_file import TokenFile
from supervisor.control.roles import may, needed
from supervisor.http.front import READING
from supervisor.http.http_counts import HttpCounts
from wire.access.roles import ROLES
from wire.config_settings import HttpSettings

log = logging.getLogger("bascule")

CHECK_PERIOD_S = 1.0
ON_LOOPBACK = "loopback"

BEARER = HTTPBearer(
    auto_error=False,
    description="A token of the tokens file, made with `bascule token add FILE NAME`. On loopback without one, none is needed.",
)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller and its role."""

    name: str
    role: str


class NotLetIn(HTTPException):
    """The caller is not let in. kind: for the count, and for programs."""

    def __init__(self, status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, message, headers)
        self.kind = kind


class Callers:
    """Tells them by their tokens."""

    def __init__(self, settings: HttpSettings, figures: HttpCounts, asks: Callable[[str], object]) -> None:
        """asks: is told in the task of each request who asks."""
        self._figures = figures
        self._asks = asks
        self._file = None if settings.tokens_file is None else TokenFile(settings.tokens_file)
        self._limits = LoginLimits(lambda: settings.login_limits)
        self._block_s = settings.login_limits.block_s
        self._looked_s = float("-inf")

    def may(self, command: str) -> Any:
        """A dependency of a route: lets those through who may give ``command``, and says who they are."""
        return Dependency(self._judging(command))

    def _judging(self, command: str) -> Any:
        async def judge(request: Request, credentials: Credentials) -> Caller:
            caller = self._caller(request, credentials)
            if not may(caller.role, command):
                self._figures.refuse("role")
                raise NotLetIn(403, "forbidden", f"{caller.name} has the role {caller.role}; this needs {needed(command)}")
            if request.method not in READING:
                client = request.client.host if request.client is not None else ""
                log.info("http.ordered", extra={"command": command, "by": caller.name, "address": client})
            request.state.caller = caller
            self._asks(caller.name)
            return caller

        return judge

    def _caller(self, request: Request, credentials: HTTPAuthorizationCredentials | None) -> Caller:
        if self._file is None:
            return Caller(ON_LOOPBACK, ROLES[-1])
        now_s = time.monotonic()
        if now_s - self._looked_s >= CHECK_PERIOD_S:
            self._looked_s = now_s
            self._file.reload()
        if credentials is None:
            self._figures.refuse("no_token")
            message = "send the header Authorization: Bearer TOKEN; bascule token add FILE NAME makes one"
            raise NotLetIn(401, "no_token", message, {"WWW-Authenticate": "Bearer"})
        network = network_of(request.client.host if request.client is not None else "")
        token = self._file.table.find(credentials.credentials)
        digest = b"" if token is None else token.digest.encode()
        if self._limits.refuses(network, digest, now_s) and not self._limits.is_known(network, digest, digest, now_s):
            self._figures.refuse("login_limits")
            message = "too many wrong tokens came from this address; wait"
            raise NotLetIn(429, "too_many_wrong_tokens", message, {"Retry-After": f"{self._block_s:.0f}"})
        if token is None:
            self._wrong(network, now_s)
            raise NotLetIn(401, "wrong_token", "this token is not known", {"WWW-Authenticate": 'Bearer error="invalid_token"'})
        self._limits.let_in(network, digest, digest, now_s)
        return Caller(token.name, token.role)

    def _wrong(self, network: str, now_s: float) -> None:
        self._figures.refuse("wrong_token")
        if any(self._limits.on_failed(network, b"", now_s)):
            log.warning("http.logins_blocked", extra={"network": network, "block_s": self._block_s})
