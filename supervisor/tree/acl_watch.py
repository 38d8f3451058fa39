"""The ACL files of a running node: read again when they change, and what is told the Listener then.

It runs in the supervisor because that may take its time over YAML, which a process of its own reads. A file that cannot be used
leaves the rules as they are, and is logged once.
"""

from __future__ import annotations

import logging
from dataclasses import astuple

from actors.system.watched_file import WatchedFile
from supervisor.config.loading_aside import load_acl
from wire.errors import ConfigError, Unavailable
from wire.frames.supervision import AclChanged
from wire.settings import NodeSettings

log = logging.getLogger("bascule")


class AclWatch:
    """All ACL files of ``settings``, whose rules the Listener has from the settings when it starts."""

    def __init__(self, settings: NodeSettings) -> None:
        found = [settings.access, *(listener.access for listener in settings.listeners if listener.access is not None)]
        self._rules = {access.acl_file: access.acl for access in found if access.acl_file is not None}
        self._files = [WatchedFile(path) for path in self._rules]
        self._changed: dict[str, AclChanged] = {}

    def changes(self) -> list[AclChanged]:
        """Changes since the last call; the first call compares with the settings."""
        return [frame for file in self._files if file.poll_change() and (frame := self._read(file)) is not None]

    def so_far(self) -> list[AclChanged]:
        """Rules that a Listener with just the settings lacks."""
        return list(self._changed.values())

    def _read(self, file: WatchedFile) -> AclChanged | None:
        path = str(file.path)
        try:
            rules = load_acl(path)
        except (ConfigError, Unavailable) as error:
            remedy = "the rules read before stay; correct the file; bascule check CONFIG says whether it holds"
            problems = error.problems[:5] if isinstance(error, ConfigError) else (str(error),)
            log.error("acl.refused", extra={"path": path, "problems": problems, "remedy": remedy})
            return None
        if rules == self._rules[path]:
            return None
        self._rules[path] = rules
        self._changed[path] = AclChanged(path=path, rules=tuple(astuple(rule) for rule in rules))
        return self._changed[path]
