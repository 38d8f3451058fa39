"""The Debian package on a machine that has nothing but what it depends on: ``scripts/package --try``.

It runs, takes messages, is upgraded, rolled back, removed and installed again while messages wait, and nothing of them is lost.
With systemd it is a service that does all that by itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from supervisor.version import VERSION
from tests.packaging.conftest import Built
from tests.packaging.machine import SUITES, Machine
from tests.packaging.typed_pages import NEWER, commands, with_log
from tests.support import programs
from tests.support.mosquitto import Mosquitto, mosquitto_pub
from tests.support.ports import free_port
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.process, pytest.mark.timeout(2400)]

ROOT = Path(__file__).resolve().parents[2]
TOPIC = "plant/1"
CONFIG = """\
node: {{name: {name}, data_dir: /var/lib/bascule}}
listeners: [{{bind: "127.0.0.1:{port}"}}]
access: {{allow_anonymous: true}}
bridges:
  - name: cloud
    remote: {{addresses: ["127.0.0.1:{remote_port}"], client_id: edge-1, protocol: mqtt311}}
    backoff: {{initial: 100ms, max: 400ms}}
    local_subscriptions: [{{filters: ["#"]}}]
"""


class Box:
    """A machine with Bascule's package, and a remote that is away until it is started."""

    def __init__(self, folder: Path, suite: str) -> None:
        self.machine = Machine(folder / "root", suite)
        self.port = free_port()
        self.remote = Mosquitto(folder / "remote")
        self.published: list[str] = []

    def configure(self, more: str = "") -> None:
        """Change the configuration as an administrator does, but for the name; ``more`` is of the bridge."""
        path = self.machine.root / "etc/bascule/bascule.yaml"
        (name,) = re.findall(r"^node:\s*\{?name: ([\w-]+)", path.read_text(), re.MULTILINE)
        path.write_text(CONFIG.format(name=name, port=self.port, remote_port=self.remote.port) + more)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The node runs as the service's user, from its ready to its end in good order."""
        words = self.machine.words("/usr/bin/bascule", "run", user="bascule")
        with subprocess.Popen(words, env=self.machine.environment(), stdout=subprocess.DEVNULL, start_new_session=True) as node:
            try:
                self.wait_ready()
                yield
                self.machine.run("bascule", "stop")
                assert node.wait(PATIENCE_S) == 0
            finally:
                node.kill()

    def wait_ready(self) -> None:
        wait_until(lambda: self.machine.ask("bascule", "status").returncode == 0, PATIENCE_S, "a node that is ready", period_s=0.2)

    def status(self) -> dict[str, Any]:
        answer = json.loads(self.machine.run("bascule", "status", "--json"))
        assert isinstance(answer, dict)
        return answer

    def depth(self) -> int:
        return sum(int(row["depth"]) for row in self.status()["bridges"])

    def publish(self, count: int) -> None:
        """Messages that are acknowledged."""
        lines = [f"message {len(self.published) + number}" for number in range(count)]
        mosquitto_pub(self.port, TOPIC, lines, qos=1)
        self.published += lines

    def delivered(self) -> None:
        """Start the remote and wait until all that was published has arrived, in order."""
        self.remote.start()
        with Subscriber(self.remote.port, "#") as subscriber:
            arrivals = subscriber.wait_for(TOPIC, self.published)
            assert list(dict.fromkeys(subscriber.payloads(TOPIC))) == self.published, arrivals
        wait_until(lambda: self.depth() == 0, PATIENCE_S, "an empty queue", period_s=0.2)


@pytest.fixture(params=SUITES)
def box(request: pytest.FixtureRequest, built: Built, tmp_path: Path) -> Iterator[Box]:
    made = Box(tmp_path, request.param)
    yield made
    if made.remote.runs:
        made.remote.stop()
    shutil.rmtree(made.machine.root)


def test_lintian_finds_nothing(built: Built) -> None:
    judged = programs.run(["lintian", "--allow-root", "--fail-on", "error,warning", str(built.deb)], timeout_s=600.0)
    assert (judged.returncode, judged.stdout) == (0, "")


def test_upgrade_rollback_removal_purge_and_reinstallation_keep_what_waits(box: Box, built: Built) -> None:
    machine, root = box.machine, box.machine.root
    said = machine.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", machine.take(built.deb))
    assert "bascule: not started: systemd does not run here." in said
    name = re.sub("[^A-Za-z0-9_-]", "-", os.uname().nodename.partition(".")[0])
    assert f"node {name}" in machine.run("bascule", "check"), "the configuration that comes with the package holds"
    assert stat.S_IMODE((root / "etc/bascule").stat().st_mode) == 0o750
    assert _bills(root / "usr/share/doc/bascule/sbom.cdx.json") == _bills(built.bill)
    compiled = root / "usr/lib/bascule/lib/python3/site-packages/supervisor/__pycache__"
    machine.run("rm", "-r", f"/{compiled.relative_to(root)}")
    machine.run("apt-get", "install", "-y", "-qq", "--reinstall", "python3-minimal")
    assert list(compiled.glob("*.pyc")), "another Python has come"
    box.configure()
    configured = (root / "etc/bascule/bascule.yaml").read_text()
    with box.running():
        box.publish(100)
        assert box.depth() == 100
    machine.run("dpkg", "-i", machine.take(built.newer))
    assert machine.run("bascule", "--version") == f"bascule {NEWER}\n"
    assert (root / "etc/bascule/bascule.yaml").read_text() == configured
    with box.running():
        assert box.depth() == 100
        box.publish(50)
    machine.run("dpkg", "-i", f"/root/{built.deb.name}")
    assert machine.run("bascule", "--version") != f"bascule {NEWER}\n"
    with box.running():
        assert box.depth() == 150
    machine.run("dpkg", "-r", "bascule")
    assert not (root / "usr/lib/bascule").exists()
    assert not (root / "usr/bin/bascule").is_symlink()
    machine.run("dpkg", "-i", f"/root/{built.deb.name}")
    with box.running():
        box.publish(50)
        assert box.depth() == 200
    assert stat.S_IMODE((root / "etc/bascule/bridges.d").stat().st_mode) == 0o750
    said = machine.run("dpkg", "-P", "bascule")
    assert "/var/lib/bascule is kept" in said
    assert not (root / "etc/bascule").exists()
    assert not (root / "etc/default/bascule").exists()
    assert machine.ask("getent", "passwd", "bascule").returncode == 2
    data = [root / "var/lib/bascule", *(root / "var/lib/bascule").rglob("*")]
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in data} == {(0, 0)}
    machine.run("dpkg", "-i", f"/root/{built.deb.name}")
    box.configure()
    with box.running():
        assert box.depth() == 200
        box.delivered()


def test_it_does_not_begin_beside_an_installed_mosquitto_and_says_so(built: Built, tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root", SUITES[0])
    machine.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", "mosquitto")
    said = machine.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", machine.take(built.deb))
    assert "bascule: not started, and not started at boot: Mosquitto, which is installed, has port 1883." in said
    assert "systemctl enable --now bascule" in said
    machine.type(f'sudo() {{ "$@"; }}\n{commands("from-mosquitto", "sudo bascule convert")}')
    assert "mosquitto.conf" in (machine.root / "etc/bascule/bascule.yaml").read_text()
    wants = machine.root / "etc/systemd/system/multi-user.target.wants"
    assert not (wants / "bascule.service").is_symlink()
    machine.run("dpkg", "-i", machine.take(built.newer))
    assert not (wants / "bascule.service").is_symlink(), "an upgrade changes nothing of that"
    machine.run("dpkg", "-P", "bascule")
    machine.run("dpkg", "-P", "mosquitto")
    machine.run("dpkg", "-i", f"/root/{built.deb.name}")
    assert (wants / "bascule.service").is_symlink()
    shutil.rmtree(machine.root)


def _bills(path: Path) -> set[tuple[str, str]]:
    """What ``path`` lists: all that requirements.lock has and RocksDB, each with a licence; the bill is Bascule's."""
    bill = json.loads(path.read_text())
    listed = bill["components"]
    assert (bill["metadata"]["component"]["name"], bill["metadata"]["component"]["version"]) == ("bascule", VERSION)
    assert "rocksdb" in {each["name"] for each in listed}
    locked = set(re.findall(r"^([A-Za-z0-9_.-]+)==([^ ]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    found = {(each["name"].lower().replace("_", "-"), each["version"]) for each in listed}
    assert {(name.lower().replace("_", "-"), version) for name, version in locked} <= found
    assert all(each.get("licenses") for each in listed)
    return found


def test_systemd_starts_watches_reloads_upgrades_and_removes_the_service(box: Box, built: Built) -> None:
    machine = box.machine
    machine.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", "systemd", "systemd-sysv")
    machine.take(built.deb)
    machine.take(built.newer)
    drop_in = machine.root / "etc/systemd/system/bascule.service.d/soon.conf"
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text("[Service]\nWatchdogSec=3s\n")
    with machine.booted():
        machine.type(commands("install", "apt install ./"))
        assert _property(machine, "ActiveState") == "active", machine.ask("systemctl", "status", "bascule", "--no-pager").stdout
        wait_until(lambda: _property(machine, "StatusText") == "ready", PATIENCE_S, "a node that is ready", period_s=0.5)
        _type_a_first_message(machine)
        machine.run("bascule", "stop")
        assert _property(machine, "ActiveState") == "inactive"
        box.configure()
        machine.type(commands("install", "systemctl enable"))
        box.wait_ready()
        box.publish(100)
        # A process dies: the supervisor's business. The supervisor hangs: systemd's.
        store = next(row for row in box.status()["processes"] if row["name"] == "store")
        _signal(machine, signal.SIGKILL, store["pid"])
        box.wait_ready()
        assert _property(machine, "NRestarts") == "0"
        box.configure("    retention: 1h\n")
        machine.type(commands("install", "bascule reload"))
        assert _property(machine, "ActiveState") == "active"
        configuration = box.status()["configuration"]
        assert (configuration["number"], configuration["changed_on_disk"]) == (2, False)
        told = machine.ask("bascule", "report", "--to", "report").stderr.partition("a report needs duckdb: ")[2]
        machine.type(f"{told}\nbascule report --to report --check >/dev/null")
        _signal(machine, signal.SIGSTOP, _property(machine, "MainPID"))
        wait_until(lambda: _property(machine, "NRestarts") == "1", PATIENCE_S, "a restart by the watchdog", period_s=0.5)
        wait_until(lambda: _property(machine, "StatusText") == "ready", PATIENCE_S, "a node that is ready again", period_s=0.5)
        said = machine.type(commands("upgrade", "bascule backup"))
        assert f"bascule {NEWER}\n" in said
        box.wait_ready()
        assert (_property(machine, "ActiveState"), box.depth()) == ("active", 100)
        machine.type(commands("upgrade", "apt install"))
        assert machine.run("bascule", "--version") != f"bascule {NEWER}\n"
        assert box.depth() == 100
        machine.run("dpkg", "-r", "bascule")
        assert _property(machine, "ActiveState") in ("inactive", "failed")
        machine.run("dpkg", "-i", f"/root/{built.deb.name}")
        box.wait_ready()
        box.delivered()
        refusals = [
            line for line in machine.run("journalctl", "-u", "bascule", "--no-pager").splitlines() if "not permitted" in line
        ]
        assert refusals == [], "the service may do what a node does"


def _type_a_first_message(machine: Machine) -> None:
    """As a new user does, who reads when to go on."""
    _type_until(machine, "apt install mosquitto-clients", "node.ready")
    _type_until(machine, "mosquitto_sub -p 1884 -t '#' -v &  ", "plant/1/temperature 21.5\n")
    machine.type(commands("install", "bascule bridge remove"))


def _type_until(machine: Machine, begin: str, seen: str) -> None:
    log = machine.root / "root/typed.log"
    machine.type(with_log(commands("install", begin), "/root/typed.log"))
    wait_until(lambda: seen in log.read_text(), PATIENCE_S, lambda: f"{seen} in:\n{log.read_text()}")


def _property(machine: Machine, name: str) -> str:
    return machine.run("systemctl", "show", "bascule", "--property", name, "--value").strip()


def _signal(machine: Machine, number: signal.Signals, pid: object) -> None:
    machine.run("sh", "-c", f"kill -{number.value} {pid}")
