"""The keys that a node lets in over the network: a folder with a file for each, looked at again as it changes."""

from __future__ import annotations

import logging
from pathlib import Path

from actors.system.watched_file import state_of
from supervisor.control.key_files import SUFFIX, Allowed, read_allowed

log = logging.getLogger("bascule")

CHECK_PERIOD_S = 0.1  # a key that was taken out is refused no later


class AllowedKeys:
    """The keys in ``folder`` now. problems: the files that are no keys, a line each; they let nobody in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: object = None
        self._looked_s = float("-inf")
        self._by_key: dict[str, Allowed] = {}
        self.problems: list[str] = []

    def __len__(self) -> int:
        return len(self._by_key)

    def find(self, public: str, now_s: float) -> Allowed | None:
        """The key ``public``, if it is let in."""
        self.reload(now_s)
        return self._by_key.get(public)

    def reload(self, now_s: float) -> None:
        """Read the files again, if any has changed; not more often than each ``CHECK_PERIOD_S``."""
        if now_s < self._looked_s + CHECK_PERIOD_S:
            return
        self._looked_s = now_s
        seen = self._state()
        if seen == self._seen:
            return
        self._seen = seen
        allowed, problems = read_allowed(self._folder)
        self._by_key = {key.public: key for key in allowed}
        if problems != self.problems:
            self.problems = problems
            for problem in problems:
                log.error("control.key_refused", extra={"problem": problem, "remedy": "correct or remove the file"})
        log.info("control.keys_read", extra={"folder": str(self._folder), "keys": [f"{key.name} ({key.role})" for key in allowed]})

    def _state(self) -> object:
        """A value that differs after a file was added, removed or changed."""
        return [state_of(self._folder), *((path, state_of(path)) for path in sorted(self._folder.glob(f"*{SUFFIX}")))]
