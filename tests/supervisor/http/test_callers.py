"""Access over HTTP: by token, role and how many wrong ones came before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request
from fastapi.security import HTTPAuthorizationCredentials

from supervisor.http.callers import Caller, Callers, NotLetIn
from supervisor.http.http_counts import HttpCounts
from tests.supervisor.http.served import TOKENS, write_tokens
from wire.access.roles import ROLES
from wire.config_settings import HttpSettings, LoginLimitSettings

FAILURES_MAX = 3
LIMITS = LoginLimitSettings(failures_max=FAILURES_MAX, period_s=60.0, block_s=60.0)


class Door:
    """Callers before a tokens file, or before none."""

    def __init__(self, tokens_file: Path | None) -> None:
        self.figures = HttpCounts()
        path = None if tokens_file is None else str(tokens_file)
        settings = HttpSettings(bind="127.0.0.1:0", tokens_file=path, login_limits=LIMITS)
        self.asked: list[str] = []
        self._callers = Callers(settings, self.figures, self.asked.append)

    def ask(self, command: str, token: str | None, host: str = "192.0.2.1") -> Caller | int:
        """The caller, or the status of the refusal."""
        request = Request({"type": "http", "method": "GET", "path": "/", "headers": [], "client": (host, 1)})
        credentials = None if token is None else HTTPAuthorizationCredentials(scheme="Bearer", credentials=token)
        judge: Any = self._callers.may(command).dependency
        try:
            caller: Caller = asyncio.run(judge(request, credentials))
        except NotLetIn as refusal:
            return refusal.status_code
        return caller


@pytest.fixture
def door(tmp_path: Path) -> Door:
    write_tokens(tmp_path / "tokens", *ROLES)
    return Door(tmp_path / "tokens")


def test_a_role_may_what_is_its_own_and_what_those_below_it_may(door: Door) -> None:
    commands = {"view": "status", "operate": "bridge.pause", "admin": "stop"}

    found = [[isinstance(door.ask(commands[needed], TOKENS[role]), Caller) for needed in ROLES] for role in ROLES]

    assert found == [[True, False, False], [True, True, False], [True, True, True]]
    assert door.figures.refused["role"] == 3
    assert len(door.asked) == 6, "for whom the node is asked"


def test_without_a_tokens_file_everybody_may_everything() -> None:
    assert Door(None).ask("stop", None) == Caller("loopback", "admin")


def test_too_many_wrong_tokens_keep_out_who_was_not_in(door: Door) -> None:
    """access.failed-logins-wait: by address; who was let in from there before stays in."""
    assert isinstance(door.ask("status", TOKENS["view"]), Caller)
    assert [door.ask("status", f"guess-{number}") for number in range(FAILURES_MAX)] == [401] * FAILURES_MAX

    assert door.ask("status", "another guess") == 429
    assert door.ask("status", TOKENS["admin"]) == 429
    assert isinstance(door.ask("status", TOKENS["view"]), Caller)
    assert isinstance(door.ask("status", TOKENS["admin"], host="192.0.2.2"), Caller)
    assert door.ask("status", None) == 401, "no token is no guess"
    assert door.figures.refused == {"wrong_token": FAILURES_MAX, "login_limits": 2, "no_token": 1}
