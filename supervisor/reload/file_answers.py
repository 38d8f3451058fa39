"""The answers of ``file_questions.py``, in the process aside that reads the files.

``python -m supervisor.reload.file_answers COMMAND CONFIG`` reads from its standard input what the answer is about: for ``access``
the settings that hold, for ``bridge.show`` the name as JSON. It writes the answer as JSON, which has no password, token or hash.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actors.access.password_file import read_passwords
from actors.access.token_file import read_tokens
from supervisor.config.loading import load_acl
from supervisor.reload.bridge_trial import file_of_bridge
from wire.config_settings import AccessSettings, AclRuleSettings, NodeSettings, load
from wire.errors import ConfigError
from wire.figure import to_map
from wire.status.answers import Access, AclRule, BridgeFile, ListenerAccess, TokenHolder

TOLD_MAX = 1_000  # of users, of rules, of tokens


@dataclass(slots=True)
class _Problems:
    """What cannot be read."""

    told: list[str] = field(default_factory=list)

    def or_none(self, read: Callable[[], Any]) -> Any:
        """What ``read`` returns; None where it cannot be read."""
        try:
            return read()
        except ConfigError as error:
            self.told += error.problems or [error.message]
            return None


def access_of(settings: NodeSettings) -> Access:
    """Who may do what at a node with these ``settings``, as their files say now."""
    listeners: dict[AccessSettings, list[str]] = {}
    for listener in settings.listeners:
        listeners.setdefault(listener.access or settings.access, []).append(listener.bind)
    problems = _Problems()
    file = None if settings.http is None else settings.http.tokens_file
    tokens = None if file is None else problems.or_none(lambda: read_tokens(file)) or ()
    return Access(
        listeners=tuple(_of_listeners(access, binds) for access, binds in listeners.items()),
        tokens=None if tokens is None else tuple(TokenHolder(name=one.name, role=one.role) for one in list(tokens)[:TOLD_MAX]),
        problems=tuple(problems.told),
    )


def _of_listeners(access: AccessSettings, binds: list[str]) -> ListenerAccess:
    problems = _Problems()
    users_file, rules_file = access.password_file, access.acl_file
    table = None if users_file is None else problems.or_none(lambda: read_passwords(users_file))
    users = [] if table is None else table.users
    rules = access.acl if rules_file is None else problems.or_none(lambda: load_acl(rules_file)) or ()
    return ListenerAccess(
        listeners=tuple(binds),
        allow_anonymous=access.allow_anonymous,
        users_file=users_file or "",
        users=tuple(users[:TOLD_MAX]),
        users_count=len(users),
        rules_file=rules_file or "",
        rules=None if rules is None else tuple(map(_rule, rules[:TOLD_MAX])),
        rules_count=len(rules or ()),
        problems=tuple(problems.told),
    )


def _rule(rule: AclRuleSettings) -> AclRule:
    return AclRule(
        permission="allow" if rule.allow else "deny",
        action=rule.action,
        topics=rule.topics,
        users=rule.users,
        anonymous=rule.anonymous,
        clients=rule.clients,
    )


def bridge_of(config: Path, name: str) -> BridgeFile:
    """The file of the bridge ``name`` of the configuration ``config``.

    Raises:
        ConfigError: there is no such bridge.
    """
    path, text, bridge, reasons = file_of_bridge(config, name)
    told = ("", {}) if reasons else (text, bridge)
    return BridgeFile(name=name, file=str(path), reasons=reasons, text=told[0], bridge=told[1])


def main(argv: list[str]) -> int:
    """The process aside: read, tell, end."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    command, config, given = argv[0], Path(argv[1]).absolute(), sys.stdin.buffer.read()
    try:
        answer = access_of(load(given)) if command == "access" else bridge_of(config, json.loads(given))
    except ConfigError as error:
        sys.stdout.buffer.write(json.dumps((error.message, error.problems)).encode())
        return error.exit_status
    sys.stdout.buffer.write(json.dumps(to_map(answer)).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
