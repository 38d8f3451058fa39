"""Which bridges an operator has paused, and since when; it outlives every process, and the machine.

A paused bridge has an empty file of its name in ``<data_dir>/paused``, and since when is when that was made: no content can be
damaged, and a resumption needs no room on the disk. A bridge that is taken out of the configuration and put back is still paused.
"""

from __future__ import annotations

from pathlib import Path

from storage import files

FOLDER_NAME = "paused"


class Pauses:
    """The paused bridges in ``data_dir``. It alone writes them."""

    def __init__(self, data_dir: Path) -> None:
        """Read what earlier runs have left.

        Raises:
            OSError: it cannot be read.
        """
        self._folder = data_dir / FOLDER_NAME
        self._since_ms: dict[str, int] = {}
        if self._folder.is_dir():
            self._since_ms = {entry.name: _made_ms(entry) for entry in self._folder.iterdir()}

    def since_ms(self, bridge: str) -> int | None:
        """Since when ``bridge`` is paused, UTC in milliseconds; None if it is not."""
        return self._since_ms.get(bridge)

    def pause(self, bridge: str) -> None:
        """Pause ``bridge``, on disk when this returns; one that is paused stays so since then.

        Raises:
            OSError: the disk refuses; the bridge is not paused.
        """
        if bridge not in self._since_ms:
            path = self._folder / bridge
            files.make_folder(self._folder)
            try:
                files.touch(path)
                self._since_ms[bridge] = _made_ms(path)
            except OSError:
                path.unlink(missing_ok=True)
                raise

    def resume(self, bridge: str) -> None:
        """End the pause of ``bridge``, if there is one, on disk when this returns.

        Raises:
            OSError: the disk refuses; the bridge is still paused.
        """
        if bridge in self._since_ms:
            files.remove(self._folder / bridge)
            del self._since_ms[bridge]


def _made_ms(path: Path) -> int:
    return path.stat().st_mtime_ns // 1_000_000


def paused_bridges(data_dir: Path) -> tuple[str, ...]:
    """The bridges that are paused in ``data_dir``, whose node may run.

    Raises:
        OSError: it cannot be read.
    """
    folder = data_dir / FOLDER_NAME
    return tuple(sorted(entry.name for entry in folder.iterdir())) if folder.is_dir() else ()
