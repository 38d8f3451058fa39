"""Which files a running node was made of, and whether they are still what they were.

Of each there is a digest in the settings (``wire.config_settings.NodeSettings.files``), so a file that was only touched has not
changed.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from actors.system.watched_file import State, state_of
from wire.config_settings import NodeSettings

_READ_MAX_BYTES = 4 << 20  # nothing that a configuration names is larger
_YAML = (".yaml", ".yml")


def digest(path: Path | str) -> str:
    """A mark of a file's content, or of the configuration files in a folder; empty for what cannot be read."""
    path = Path(path)
    try:
        if path.is_dir():
            content = "\0".join(sorted(file.name for file in path.iterdir() if file.suffix in _YAML)).encode()
        else:
            with path.open("rb") as file:
                content = file.read(_READ_MAX_BYTES)
    except OSError:
        return ""
    return blake2b(content, digest_size=8).hexdigest()


class FilesRead:
    """Looks at the files of ``settings`` again and again; only those whose state has changed are read."""

    def __init__(self, settings: NodeSettings, ignored: frozenset[str] = frozenset()) -> None:
        """ignored: those that the node reads again by itself."""
        self._digests = {path: digest for path, digest in settings.files if path not in ignored}
        self._seen: dict[str, State] = {}
        self._changed: set[str] = set()

    def poll_changes(self) -> tuple[str, ...]:
        """Those that are not what they were. Call it about each second."""
        for path, known in self._digests.items():
            state = state_of(path)
            if self._seen.get(path) != state:
                self._seen[path] = state
                if digest(path) == known:
                    self._changed.discard(path)
                else:
                    self._changed.add(path)
        return tuple(path for path in self._digests if path in self._changed)
