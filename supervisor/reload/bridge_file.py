"""A bridge's file that a command changes: written when its plan is agreed to, and put back if it does not come to hold."""

from __future__ import annotations

import json
import os
from pathlib import Path

from storage import files
from supervisor.config.loading_aside import Loading
from wire.config_settings import NodeSettings, load

_TRIAL = "supervisor.reload.bridge_trial"
_MODES = 0o640  # a group may go on reading it


def load_with_bridge(config: Path, name: str, content: str | None) -> tuple[Path, NodeSettings]:
    """The file of the bridge ``name``, and the settings if that had this ``content``; None: if it went. It is found out aside.

    The errors are those of ``Loading.settings``.
    """
    told = Loading(config, given=json.dumps((name, content)).encode(), module=_TRIAL).wait()
    place, _, settings = told.partition(b"\n")
    return Path(os.fsdecode(place)), load(settings)


class BridgeFile:
    """The file of the bridge ``name``, of which ``content`` is wanted; None: that it goes. written: whether it is that now."""

    def __init__(self, name: str, content: str | None) -> None:
        self.name, self.content = name, content
        self.written = False
        self._path: Path | None = None
        self._before: tuple[bytes, int] | None = None

    def found_at(self, path: Path) -> None:
        """Its place, once that is known."""
        self._path = path

    def write(self) -> None:
        """Have what is wanted there, on disk, for the node's user and those who could read it before; its folder is made.

        Raises:
            OSError: the disk refuses.
        """
        assert self._path is not None
        if self._path.exists():
            self._before = self._path.read_bytes(), files.PRIVATE | (self._path.stat().st_mode & _MODES)
        elif not self._path.parent.is_dir():
            files.make_folder(self._path.parent)
        self.written = True
        self._have(None if self.content is None else (self.content.encode(), self._before[1] if self._before else files.PRIVATE))

    def put_back(self) -> None:
        """Have there what was there before, if it was changed.

        Raises:
            OSError: the disk refuses.
        """
        if self.written:
            self.written = False
            self._have(self._before)

    def _have(self, wanted: tuple[bytes, int] | None) -> None:
        assert self._path is not None
        if wanted is None:
            files.remove(self._path)
        else:
            files.write(self._path, wanted[0], mode=wanted[1])
