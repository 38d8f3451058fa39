"""The settings that a running node goes by: one place, which all parts of the supervisor read, and the file that children read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from storage import files
from supervisor.running_node import SETTINGS_NAME
from wire.config_settings import NodeSettings, SettingsNow, dump


class CurrentSettings(SettingsNow):
    """Those of the supervisor. Values made of settings are made anew by ``Reloads``."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__(settings)
        self.file = Path(settings.run_dir) / SETTINGS_NAME  # for the children, readable by the owner only
        self._next = self.file.with_name(f"{SETTINGS_NAME}.next")

    def write(self) -> None:
        """Have the file say what holds.

        Raises:
            OSError: the disk refuses; the file is as it was.
        """
        files.write(self.file, dump(self.now))

    def change(self, settings: NodeSettings) -> None:
        """Go by ``settings``, under the next number. Children that begin do so once ``publish`` was called.

        Raises:
            OSError: the disk refuses; nothing has changed.
        """
        following = replace(settings, number=self.now.number + 1)
        files.write(self._next, dump(following))
        self.now = following

    def publish(self) -> None:
        """Have children begin with what holds now.

        Raises:
            OSError: the disk refuses; they begin with what was before, and are to be told.
        """
        if self._next.exists():
            files.rename(self._next, self.file)

    def set_apart(self, lane: str) -> bool:
        """Have this lane, a child, live in a process of its own; False if it does, or the disk refuses to keep that.

        All that share a process with the store begin anew then, and go by what holds now.
        """
        former, apart = self.now, self.now.apart
        if lane in apart:
            return False
        self.now = replace(former, apart=(*apart, lane))
        try:
            self.write()
            if self._next.exists():
                files.remove(self._next)
        except OSError:
            self.now = former
            return False
        return True

    def note(self, settings: NodeSettings) -> None:
        """``settings`` say the same as those that hold, of files that are not the same."""
        self.now = replace(self.now, files=settings.files)
