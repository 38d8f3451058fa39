"""A real Mosquitto on a free port of 127.0.0.1, or at the far end of a cable, and its command-line clients.

Without options it has Mosquitto 2.0's own defaults (in-flight window 20, queue 1000). It keeps its port from one start to the next.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.support.far import Far
from tests.support.ports import accepts, free_port
from tests.support.waiting import PATIENCE_S, wait_until

VERSION_2_1 = "BASCULE_BENCH_MOSQUITTO21"  # the environment's word for the path of such a mosquitto
_LISTENS = re.compile(r"^(listener|port|include_dir)\b", re.MULTILINE)
_SEARCH_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"


def program(name: str) -> str:
    """The path of ``mosquitto`` or one of its clients; fails the test if it is not installed."""
    found = shutil.which(name, path=_SEARCH_PATH)
    if found is None:
        pytest.fail(
            f"{name} is not installed; these tests need Mosquitto 2.0 (Debian: apt-get install mosquitto mosquitto-clients)"
        )
    return found


class Mosquitto:
    """One broker. ``persistence`` keeps sessions over a kill -9 too, as far as Mosquitto's autosave goes."""

    def __init__(
        self,
        folder: Path,
        *,
        persistence: bool = False,
        max_inflight_messages: int | None = None,
        max_queued_messages: int | None = None,
        users: dict[str, str] | None = None,
        websockets: bool = False,
        certificate: tuple[Path, Path] | None = None,
        lines: Sequence[str] = (),
        far: Far | None = None,
        path: str | None = None,
        whole: str | None = None,
        port: int | None = None,
    ) -> None:
        """path: another mosquitto than the one that is installed.

        whole: all that its file says, with ``port`` for a listener of its; the other options, but for ``path``, are then without
        effect.
        """
        self.folder = folder
        self._host = "127.0.0.1" if far is None else far.clear_host
        self._prefix = [] if far is None else far.prefix
        self.port = port or free_port()
        self._path = path
        # By itself it listens where no file says so; its log says all, wherever it goes.
        self._words = [] if whole is None else ["-v", "-p", str(self.port)] if not _LISTENS.search(whole) else ["-v"]
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        settings = [f"listener {self.port} {'127.0.0.1' if far is None else '0.0.0.0'}", "log_type all", "log_dest stderr"]
        if os.geteuid() == 0:
            settings.insert(0, "user root")
        if certificate is not None:
            settings += [f"certfile {certificate[0]}", f"keyfile {certificate[1]}"]
        if websockets:
            # 2.0.11 does not start with WebSocket listeners alone.
            settings += ["protocol websockets", f"listener {free_port()} 127.0.0.1"]
        settings.append(f"allow_anonymous {'false' if users else 'true'}")
        if users:
            settings.append(f"password_file {self._password_file(users)}")
        if persistence:
            settings += ["persistence true", f"persistence_location {folder}/", "autosave_on_changes true", "autosave_interval 1"]
        if max_inflight_messages is not None:
            settings.append(f"max_inflight_messages {max_inflight_messages}")
        if max_queued_messages is not None:
            settings.append(f"max_queued_messages {max_queued_messages}")
        self._config = folder / "mosquitto.conf"
        self._config.write_text("\n".join([*settings, *lines]) + "\n" if whole is None else whole)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    @property
    def runs(self) -> bool:
        """Whether it was started and not ended."""
        return self._process is not None

    @property
    def log(self) -> str:
        """Its log so far."""
        path = self.folder / "mosquitto.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> None:
        """Start it and wait until it accepts connections."""
        assert self._process is None, "it runs already"
        command = [*self._prefix, self._path or program("mosquitto"), "-c", str(self._config), *self._words]
        with (self.folder / "mosquitto.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(lambda: self._has_ended() or accepts(self.port, self._host), PATIENCE_S, "mosquitto accepts connections")
        assert not self._has_ended(), f"mosquitto ended at once:\n{self.log[-2000:]}"

    def stop(self) -> None:
        """SIGTERM; with persistence it writes its database."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def suspend(self) -> None:
        """SIGSTOP: it keeps its connections and says nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def reread(self) -> None:
        """SIGHUP: it reads its lists of users and of rights anew."""
        assert self._process is not None
        times = self.log.count("Reloading config")
        self._process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.log.count("Reloading config") > times, PATIENCE_S, "mosquitto reads its lists anew")

    def _has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(PATIENCE_S)

    def _password_file(self, users: dict[str, str]) -> Path:
        path = self.folder / "passwords"
        path.touch(mode=0o600)
        for user, password in users.items():
            words = [program("mosquitto_passwd"), "-b", str(path), user, password]
            subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE_S)
        return path


def mosquitto_pub(
    port: int, topic: str, lines: Sequence[str], *, qos: int, protocol: str = "mqttv311", options: Sequence[str] = ()
) -> None:
    """Publish each of ``lines`` as a message with the real ``mosquitto_pub`` and wait until all are acknowledged."""
    words = [program("mosquitto_pub"), "-p", str(port), "-t", topic, "-q", str(qos), "-V", protocol, "-l", *options]
    done = subprocess.run(
        words, input="".join(f"{line}\n" for line in lines), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, f"mosquitto_pub failed with {done.returncode}: {done.stderr}"
