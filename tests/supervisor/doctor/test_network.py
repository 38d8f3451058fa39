"""Listeners' addresses and remotes, with real sockets and a real Mosquitto: what is wrong is named with its cure."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.doctor.findings import FAIL, OK, Finding
from supervisor.doctor.network import examine_listeners, examine_remotes
from tests.supervisor.settings import node_settings
from tests.support.mosquitto import Mosquitto
from tests.support.settings import bridge
from tests.support.waiting import PATIENCE_S
from wire.config_settings import ListenerSettings, NodeSettings


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def listening(tmp_path: Path, **keys: object) -> NodeSettings:
    listener = replace(ListenerSettings(bind="127.0.0.1:0"), **keys)  # type: ignore[arg-type]
    return replace(node_settings(tmp_path), listeners=(listener,))


def test_a_port_that_is_taken_is_told_with_who_has_it(tmp_path: Path, taken: int) -> None:
    (finding,) = examine_listeners(listening(tmp_path, bind=f"127.0.0.1:{taken}"), None)

    assert finding.verdict == FAIL
    assert f"pid {os.getpid()}" in finding.found


def test_a_free_port_is_well_and_so_is_what_the_node_itself_has(tmp_path: Path, taken: int) -> None:
    assert [finding.verdict for finding in examine_listeners(listening(tmp_path), None)] == [OK]
    assert [finding.verdict for finding in examine_listeners(listening(tmp_path, bind=f"127.0.0.1:{taken}"), os.getpid())] == [OK]


def test_a_node_that_runs_and_waits_for_its_port_does_not_have_it(tmp_path: Path, taken: int) -> None:
    (finding,) = examine_listeners(listening(tmp_path, bind=f"127.0.0.1:{taken}"), 77)

    assert finding.verdict == FAIL
    assert f"pid {os.getpid()}" in finding.found


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"bind": "192.0.2.1:0"}, "no interface of this machine"),
        ({"bind": "nowhere.invalid:0"}, "not known"),
        ({"bind": "unix:/proc/nowhere/mqtt.sock"}, "cannot be written to"),
    ],
)
def test_an_address_that_cannot_be_had_is_told(keys: dict[str, str], told: str, tmp_path: Path) -> None:
    (finding,) = examine_listeners(listening(tmp_path, **keys), None)

    assert finding.verdict == FAIL
    assert told in finding.found
    assert finding.cure


def remotes(tmp_path: Path, *addresses: tuple[str, int], said: Sequence[str] = (), **keys: object) -> list[Finding]:
    remote = replace(bridge().remote, **{"addresses": addresses, "connect_timeout_s": 5.0, **keys})  # type: ignore[arg-type]
    return list(examine_remotes(replace(node_settings(tmp_path), bridges=(replace(bridge(), remote=remote),)), said))


def test_a_remote_that_is_not_there_is_told_by_step(tmp_path: Path, taken: int) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = free.getsockname()[1]

        found = remotes(tmp_path, ("127.0.0.1", closed), ("nowhere.invalid", 1883), ("127.0.0.1", taken))

    assert [finding.verdict for finding in found] == [FAIL] * 3
    assert [finding.found.split(":")[0] for finding in found] == ["tcp", "name", "connack"]
    assert all(finding.cure for finding in found)


def test_what_the_node_has_said_itself_is_not_told_twice(tmp_path: Path) -> None:
    said = ["backoff: 127.0.0.1:1: tcp: Connection refused", "running"]

    (finding,) = remotes(tmp_path, ("127.0.0.1", 1), ("127.0.0.1", 2), said=said)

    assert finding.about.endswith("127.0.0.1:2"), "of the other address it has said nothing"


def test_files_of_credentials_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (finding,) = remotes(tmp_path, ("127.0.0.1", 1), username="u", password_file=str(tmp_path / "nowhere"))

    assert (finding.verdict, finding.found.split(":")[0]) == (FAIL, "credentials")


@pytest.mark.process
@pytest.mark.parametrize("protocol", [4, 5])
def test_a_remote_lets_the_bridge_in_and_keeps_nothing_of_the_visit(protocol: int, tmp_path: Path, remote: Mosquitto) -> None:
    (finding,) = remotes(tmp_path, ("127.0.0.1", remote.port), protocol=protocol, client_id="edge-1")

    assert finding.verdict == OK
    log = remote.log
    assert "edge-1-doctor" in log
    assert "as edge-1 " not in log


@contextmanager
def older_broker(answer: bytes | None) -> Iterator[int]:
    """A broker that knows MQTT 3.1.1 only: to a CONNECT of 5.0 it says ``answer`` and closes; without one it says nothing."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def serve() -> None:
            while True:
                try:
                    sock, _ = server.accept()
                except OSError:
                    return
                stack.callback(sock.close)
                sock.settimeout(PATIENCE_S)
                is_level_4 = sock.recv(1000)[8] == 4
                if is_level_4:
                    sock.sendall(bytes.fromhex("20020000"))
                elif answer is not None:
                    sock.sendall(answer)
                    sock.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE_S)


@pytest.mark.parametrize("answer", [b"", None, bytes.fromhex("20020001")], ids=["closes", "says nothing", "refuses by code 1"])
def test_a_remote_that_knows_mqtt_3_1_1_only_is_found_out(answer: bytes | None, tmp_path: Path) -> None:
    with older_broker(answer) as port:
        (finding,) = remotes(tmp_path, ("127.0.0.1", port), protocol=5, connect_timeout_s=1.0)

    assert finding.verdict == FAIL
    assert "with MQTT 3.1.1 it lets the bridge in" in finding.found
    assert finding.cure == "write remote.protocol: mqtt311"


def test_what_lets_no_mqtt_in_is_not_taken_for_an_older_broker(tmp_path: Path, taken: int) -> None:
    (finding,) = remotes(tmp_path, ("127.0.0.1", taken), protocol=5, connect_timeout_s=0.5)

    assert "3.1.1 it lets" not in finding.found
    assert "remote.protocol: mqtt311" in finding.cure
