"""Files and sockets that other users of the machine must not read or write, whatever the umask is of who has them made."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor import launch
from tests.support import keeper
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK
from tests.support.node import Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[2]
FOR_ALL = ("bascule.yaml", "me.pub", "deep/keys/laptop.key")  # nothing in them is secret
TIMEOUT_S = 120.0


class Commands:
    """``bascule`` as it is begun by somebody with this umask, in a folder of theirs."""

    def __init__(self, folder: Path, umask: int) -> None:
        self._begin = ["sh", "-c", f'umask {umask:03o}; exec "$@"', "sh", sys.executable, "-P", "-m", "supervisor.cli"]
        self._folder = folder
        self._environment = {**launch.environment(), **keeper.environment()}

    def run(self, *words: str, text: str = "") -> str:
        done = subprocess.run(
            [*self._begin, *words],
            cwd=self._folder,
            env=self._environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def node(self, config: str) -> subprocess.Popen[bytes]:
        with (self._folder / "node.log").open("wb") as log:
            os.fchmod(log.fileno(), 0o600)
            return subprocess.Popen(
                [*self._begin, "run", config],
                cwd=self._folder,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


@pytest.fixture(params=[0o000, pytest.param(0o077, marks=pytest.mark.soak)], ids=["000", "077"])
def commands(request: pytest.FixtureRequest, tmp_path: Path) -> Commands:
    tmp_path.chmod(0o700)
    return Commands(tmp_path, request.param)


@pytest.mark.process
def test_what_commands_and_a_node_make_is_for_its_owner(commands: Commands, tmp_path: Path) -> None:
    """Of all that is made, three kinds of file may be read by others, and none may be written by them."""
    port = free_port()
    commands.run("init", "bascule.yaml", "-y", "--bind", f"127.0.0.1:{port}", "--user", "site", "--remote", "mqtt://a@127.0.0.1:9")
    commands.run("user", "add", "--stdin", "secrets/more", "pump", text="secret\n")
    commands.run("token", "add", "secrets/tokens", "ada")
    more = 'control: {bind: "tcp://127.0.0.1:0", allowed_keys: deep/keys}\n'
    (tmp_path / "bascule.yaml").write_text((tmp_path / "bascule.yaml").read_text() + more)
    commands.run("key", "make", "me")
    commands.run("key", "add", "bascule.yaml", "laptop", "me.pub")
    node = commands.node("bascule.yaml")
    try:
        wait_until(lambda: b"node.ready" in (tmp_path / "node.log").read_bytes(), PATIENCE_S, "node.ready")
        password = (tmp_path / "secrets" / "site.password").read_text().strip()
        with MqttClient(port, "pump", username="site", password=password) as client:
            client.publish("a", "payload", qos=1, packet_id=1)
            client.expect(PUBACK, packet_id=1)
        commands.run("snapshot", "make", "bascule.yaml", "--to", "shared/snapshots")
        commands.run("backup", "bascule.yaml", "--to", "saved/backups", "--secrets")
        commands.run("queue", "export", "bascule.yaml", "cloud", "--to", "messages.jsonl")
        commands.run("export", "shared/snapshots", "--to", "exported/tables")
        commands.run("reload", "bascule.yaml")
        sockets = [path for path in tmp_path.rglob("*") if path.is_socket()]
        assert len(sockets) >= 5, sockets
        wrong = list(open_to_others(tmp_path))
    finally:
        node.terminate()
        node.wait(TIMEOUT_S)
    (backup,) = (tmp_path / "saved" / "backups").iterdir()
    commands.run("restore", "elsewhere/bascule.yaml", str(backup), "--yes")
    assert wrong + list(open_to_others(tmp_path)) == []


def open_to_others(folder: Path) -> Iterator[str]:
    """The files below ``folder`` with another mode than is right: all but ``FOR_ALL`` is for the owner only."""
    for path in folder.rglob("*"):
        mode = stat.S_IMODE(path.lstat().st_mode)
        right = 0o700 if path.is_dir() else 0o644 if str(path.relative_to(folder)) in FOR_ALL else 0o600
        if mode != right:
            yield f"{path.relative_to(folder)} {mode:o}"


CONNECT = """
import os, pwd, socket, sys
nobody = pwd.getpwnam("nobody")
os.setgroups([])
os.setgid(nobody.pw_gid)
os.setuid(nobody.pw_uid)
for name in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect(name)
        print(name, "connected")
    except OSError as error:
        print(name, error.strerror)
"""


@pytest.mark.process
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_puts_no_frame_into_a_process_and_asks_no_node(tmp_path: Path) -> None:
    """Neither its folder lets them in, nor, were it open or its descriptor at hand, a socket."""
    with Node(node_config(bridge_config("cloud", free_port())), tmp_path) as node:
        run_dir = node.data_dir / "run"
        sockets = sorted(path.name for path in run_dir.iterdir() if path.is_socket())
        places = {node.place_of(child) for child in ("clients", "store", "bridge:cloud:0")}
        assert {f"{place.replace(':', '.')}.ipc" for place in ("supervisor", "control", *places)} <= set(sockets)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(run_dir / "open"))
            listening.listen()
            (run_dir / "open").chmod(0o777)
            for mode, of_open in ((0o700, "Permission denied"), (0o755, "connected")):
                run_dir.chmod(mode)
                words = [sys.executable, "-I", "-c", CONNECT, "open", *sockets]
                done = subprocess.run(words, cwd=run_dir, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=True)
                assert done.stdout.splitlines() == [f"open {of_open}", *(f"{name} Permission denied" for name in sockets)]


def test_the_variables_of_the_packages_service_are_not_for_all() -> None:
    """They are where a configuration takes its passwords from."""
    (line,) = [line for line in (ROOT / "packaging/debian/build.sh").read_text().splitlines() if "bascule.default" in line]
    assert line.split()[:4] == ["install", "-D", "-m", "640"]
