"""A machine with a fresh Debian: a folder made by debootstrap. Its programs run by chroot or, with systemd, by systemd-nspawn.

The network is this machine's. The result of debootstrap is kept in ``~/.cache/bascule`` (or below XDG_CACHE_HOME) for the next
time.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import keeper, programs
from tests.support.waiting import wait_until

SUITES = ("bookworm", "trixie")  # Debian 12, with Python 3.11, and 13, with 3.13
_PATH = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", "HOME": "/root"}
_PROC = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'  # in a mount namespace of its own, which ends with it
_SLOW_S = 600.0  # downloads
_BOOTED_S = 90.0


class Machine:
    """``root`` is made anew with the base system of ``suite`` only."""

    def __init__(self, root: Path, suite: str) -> None:
        self.root = root
        self._init = 0  # the process that is number 1 there
        root.mkdir()
        programs.run(["tar", "-C", str(root), "--numeric-owner", "-xf", str(base(suite))], timeout_s=_SLOW_S)
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")  # as Debian's installer does
        shutil.copy("/etc/ssl/certs/ca-certificates.crt", root / "etc/authorities.crt")  # whom this machine trusts
        (root / "etc/pip.conf").write_text("[global]\ncert = /etc/authorities.crt\n")
        self.run("apt-get", "update", "-qq")

    def words(self, *words: str, user: str = "root") -> list[str]:
        """The command that runs ``words`` there."""
        if self._init:
            return [
                "nsenter",
                "-t",
                str(self._init),
                "-a",
                "--",
                "env",
                "-i",
                *(f"{name}={is_}" for name, is_ in _PATH.items()),
                *words,
            ]
        return [
            "unshare",
            "-m",
            "sh",
            "-c",
            _PROC,
            str(self.root),
            "setpriv",
            f"--reuid={user}",
            f"--regid={user}",
            "--init-groups",
            *words,
        ]

    def environment(self) -> dict[str, str]:
        """The environment of programs there."""
        return {**_PATH, **keeper.environment()}

    def ask(self, *words: str, timeout_s: float = _SLOW_S) -> subprocess.CompletedProcess[str]:
        """Run a program there; whatever came of it."""
        return programs.run(self.words(*words), timeout_s=timeout_s, env=self.environment())

    def run(self, *words: str) -> str:
        """Run a program there as root, which must succeed; what it said."""
        done = self.ask(*words)
        assert done.returncode == 0, f"{' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def type(self, commands: str) -> str:
        """Type ``commands`` as root in root's folder, which must all succeed, with yes as answer to apt. What they said."""
        (self.root / "etc/apt/apt.conf.d/yes").write_text('APT::Get::Assume-Yes "true";\n')
        return self.run("bash", "-ec", f"cd /root\n{commands}")

    def take(self, file: Path) -> str:
        """Copy ``file`` there; its path there."""
        shutil.copy(file, self.root / "root" / file.name)
        return f"/root/{file.name}"

    @contextmanager
    def booted(self) -> Iterator[None]:
        """With systemd as process 1, which must be installed there; ``run`` and ``ask`` are within it."""
        words = [
            "systemd-nspawn",
            "--boot",
            "--register=no",
            "--keep-unit",
            "--console=pipe",
            "--quiet",
            f"--directory={self.root}",
        ]
        with (self.root.parent / "boot.log").open("ab") as log:
            container = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            self._init = wait_until(lambda: _init_below(container.pid), _BOOTED_S, "process 1 of the machine")
            wait_until(
                lambda: self.ask("systemctl", "is-system-running").stdout.strip() in ("running", "degraded"),
                _BOOTED_S,
                lambda: f"the end of booting\n{(self.root.parent / 'boot.log').read_text()}",
                period_s=0.5,
            )
            yield
        finally:
            self._init = 0
            container.send_signal(signal.SIGTERM)  # nspawn has its machine shut down
            try:
                container.wait(_BOOTED_S)
            finally:
                container.kill()


def base(suite: str) -> Path:
    """The base system as a tar file, from the archive that debootstrap takes unless it is told otherwise."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bascule"
    kept = folder / f"{suite}-minbase.tar"
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = folder / f"{suite}.{os.getpid()}"
        done = programs.run(["debootstrap", "--variant=minbase", suite, str(made)], timeout_s=2 * _SLOW_S)
        assert done.returncode == 0, done.stdout[-4000:]
        part = kept.with_suffix(".part")
        programs.run(["tar", "-C", str(made), "--numeric-owner", "-cf", str(part), "."], timeout_s=_SLOW_S)
        part.replace(kept)
        shutil.rmtree(made)
    return kept


def _init_below(pid: int) -> int:
    """The process below ``pid`` that is number 1 in a namespace of its own and has become systemd; 0 while there is none."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    for child in children.read_text().split() if children.exists() else ():
        status = Path(f"/proc/{child}/status").read_text()
        numbers = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
        if len(numbers) > 1 and numbers[-1] == "1" and status.startswith("Name:\tsystemd\n"):
            return int(child)
    return 0
