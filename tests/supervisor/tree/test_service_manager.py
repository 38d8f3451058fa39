"""Words to the service manager, those of ``sd_notify(3)``, over a real socket, by themselves and by a real supervisor."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.tree.service_manager import ServiceManager
from tests.supervisor.conftest import StartSupervisor
from tests.support.waiting import PATIENCE_S, wait_until


class Manager:
    """A service manager's end: a bound socket, and all that was told."""

    def __init__(self, address: str) -> None:
        self.told: list[dict[str, str]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.settimeout(PATIENCE_S)

    def next(self) -> dict[str, str]:
        """The next message."""
        lines = self._socket.recv(65536).decode().split("\n")
        self.told.append(dict(line.split("=", 1) for line in lines))
        return self.told[-1]

    def wait_told(self, name: str) -> dict[str, str]:
        """Read until a message has ``name``; that message."""
        return wait_until(lambda: [message for message in [self.next()] if name in message], PATIENCE_S, f"{name} in {self.told}")[
            0
        ]

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    found = Manager(str(tmp_path / "notify"))
    yield found
    found.close()


def test_each_word_is_one_datagram(tmp_path: Path, manager: Manager) -> None:
    service = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")}, monotonic_ns=lambda: 7_654_321)
    service.say("starting")
    service.ready("ready")
    service.reloading()
    service.ready("ready")
    service.alive()
    service.stopping(5.0)
    assert [manager.next() for _ in range(6)] == [
        {"STATUS": "starting"},
        {"READY": "1", "STATUS": "ready"},
        {"RELOADING": "1", "MONOTONIC_USEC": "7654"},
        {"READY": "1", "STATUS": "ready"},
        {"WATCHDOG": "1"},
        {"STOPPING": "1", "STATUS": "stopping", "EXTEND_TIMEOUT_USEC": "15000000"},
    ]
    service.close()
    service.alive()  # to nobody


def test_a_state_is_told_when_it_changes(tmp_path: Path, manager: Manager) -> None:
    service = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    for state in ("starting", "starting", "ready", "ready"):
        service.say(state)
    assert [manager.next()["STATUS"] for _ in range(2)] == ["starting", "ready"]
    service.close()


def test_an_address_that_begins_with_an_at_sign_is_abstract(tmp_path: Path) -> None:
    name = f"bascule-test-{os.getpid()}"
    manager = Manager(f"\0{name}")
    service = ServiceManager({"NOTIFY_SOCKET": f"@{name}"})
    service.alive()
    assert manager.next() == {"WATCHDOG": "1"}
    service.close()
    manager.close()


def test_without_a_service_manager_nothing_is_told_and_one_that_is_gone_harms_nothing(tmp_path: Path) -> None:
    for environment in ({}, {"NOTIFY_SOCKET": str(tmp_path / "nobody")}):
        service = ServiceManager(environment)
        service.ready("ready")
        service.alive()
        service.stopping(1.0)
        service.close()


@pytest.mark.parametrize(
    ("usec", "pid", "period_s"),
    [
        ("30000000", "", 10.0),
        ("30000000", "own", 10.0),
        ("30000000", "1", None),
        ("0", "", None),
        ("", "", None),
        ("soon", "", None),
    ],
)
def test_the_watchdog_hears_three_times_in_its_time_if_it_watches_this_process(usec: str, pid: str, period_s: float | None) -> None:
    environment = {
        "NOTIFY_SOCKET": "/x",
        "WATCHDOG_USEC": usec,
        "WATCHDOG_PID": str(os.getpid()) if pid == "own" else pid,
        "A": "b",
    }
    service = ServiceManager(environment)
    assert service.watchdog_period_s == period_s
    assert environment == {"A": "b"}, "what this process starts does not speak in its name"
    service.close()
    assert ServiceManager({"WATCHDOG_USEC": usec}).watchdog_period_s is None


@pytest.mark.process
def test_a_node_tells_its_start_its_life_a_reload_a_death_and_its_end(
    tmp_path: Path, manager: Manager, start: StartSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    node = start()
    assert manager.next() == {"STATUS": "starting"}
    assert manager.wait_told("READY") == {"READY": "1", "STATUS": "ready"}
    for _ in range(3):
        manager.wait_told("WATCHDOG")
    node.process.send_signal(signal.SIGHUP)
    assert int(manager.wait_told("RELOADING")["MONOTONIC_USEC"]) > 0
    assert manager.wait_told("READY") == {"READY": "1", "STATUS": "ready"}
    os.kill(node.process_row("clients")["pid"], signal.SIGKILL)
    assert manager.wait_told("STATUS") == {"STATUS": "clients restarting"}
    assert manager.wait_told("STATUS") == {"STATUS": "ready"}
    node.process.send_signal(signal.SIGTERM)
    assert int(manager.wait_told("STOPPING")["EXTEND_TIMEOUT_USEC"]) > 0
    assert node.process.wait(PATIENCE_S) == 0
