"""The demo: its account of messages, its link, and what it keeps for a report."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from storage.snapshots.manifest import find_snapshots, verify
from supervisor.demo.cut_link import Link
from supervisor.demo.demo import account
from supervisor.demo.held_port import held_port, port_of
from tests.support import programs
from tests.support.node import ROOT
from tests.support.waiting import wait_until

# Of the numbers 0 ... 8, QoS 1 are 1, 4, 7 and QoS 2 are 2, 5, 8.


def test_an_account_compares_by_number() -> None:
    entry = account(1, 9, {1, 4, 7, 2}, Counter({1: 1, 4: 2, 2: 1}))
    assert (entry.published, entry.acknowledged, entry.once, entry.duplicated, entry.lost) == (3, 3, 1, 1, 1)
    assert not entry.kept


@pytest.mark.parametrize(
    ("qos", "acknowledged", "arrivals", "kept"),
    [
        (0, set(), {}, True),
        (0, set(), {0: 2}, False),
        (1, {1, 4, 7}, {1: 1, 4: 2, 7: 3}, True),
        (1, {1, 4, 7}, {1: 1, 4: 1}, False),
        (1, {1, 4}, {1: 1, 4: 1, 7: 1}, False),
        (2, {2, 5, 8}, {2: 1, 5: 1, 8: 1}, True),
        (2, {2, 5, 8}, {2: 1, 5: 2, 8: 1}, False),
        (2, {2, 5, 8}, {2: 1, 8: 1}, False),
    ],
)
def test_each_qos_has_its_promise(qos: int, acknowledged: set[int], arrivals: dict[int, int], kept: bool) -> None:
    assert account(qos, 9, acknowledged, Counter(arrivals)).kept is kept


def test_a_link_relays_until_it_is_cut_and_again_when_mended() -> None:
    with socket.create_server(("127.0.0.1", 0)) as target, Link(target.getsockname()[1]) as link:
        with socket.create_connection(("127.0.0.1", link.port), 5.0) as near:
            far, _ = target.accept()
            near.sendall(b"there")
            assert far.recv(10) == b"there"
            far.sendall(b"back")
            assert near.recv(10) == b"back"
            link.cut()
            assert near.recv(10) == b""
            assert far.recv(10) == b""
            far.close()
        with socket.create_connection(("127.0.0.1", link.port), 5.0) as refused:
            assert refused.recv(10) == b""
        link.mend()

        def mended() -> bool:
            with socket.create_connection(("127.0.0.1", link.port), 5.0) as near:
                near.settimeout(0.5)
                near.sendall(b"x")
                try:
                    return near.recv(1) != b""
                except TimeoutError:
                    return True

        wait_until(mended, 5.0, "a connection that stays")


def test_a_port_is_kept_for_its_server_while_that_is_down_and_nobody_else_is_given_it() -> None:
    with held_port() as held:
        port = port_of(held)
        for _ in range(2):
            with socket.create_server(("127.0.0.1", port)) as server, socket.create_connection(("127.0.0.1", port), 5.0) as near:
                far, _ = server.accept()
                near.close()
                far.close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), 5.0)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))


def demo(folder: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-P", "-m", "supervisor.cli", "demo", "--messages", "300", "--keep", str(folder)]
    return programs.run(words, env={"PYTHONPATH": str(ROOT)}, timeout_s=300.0)


@pytest.mark.process
def test_the_demo_keeps_promises_and_two_whole_snapshots_with_their_history(tmp_path: Path) -> None:
    folder = tmp_path / "kept"

    done = demo(folder)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"bascule report {folder}" in done.stdout.replace("\n", "")
    (of_qos0,) = [line.split() for line in done.stdout.splitlines() if line.startswith("0 (at most once)")]
    assert of_qos0[-2:] == ["-", "kept"], "nothing is said to be lost where nothing was promised"
    assert "bascule init" in done.stdout.splitlines()[-1], "the last line is the next step"
    cut, end = find_snapshots(folder)
    assert cut.manifest is not None
    assert end.manifest is not None
    assert [verify(found.path) for found in (cut, end)] == [[], []]
    queues = [found.manifest.queues[0] for found in (cut, end) if found.manifest is not None]
    assert [queue.name for queue in queues] == ["bridge:cloud:0"] * 2
    assert queues[0].depth > 0, "the link was cut"
    assert queues[1].depth == 0
    assert queues[1].ledger.accepted == 300
    assert queues[1].settlements[1] > 0, "what was settled is kept"

    again = demo(folder)

    assert again.returncode == 75
    assert "not empty" in again.stderr
    assert len(find_snapshots(folder)) == 2


@pytest.mark.process
def test_the_demo_of_a_cluster_loses_nodes_and_no_message() -> None:
    words = [sys.executable, "-P", "-m", "supervisor.cli", "demo", "--messages", "300", "--replicated"]

    done = programs.run(words, env={"PYTHONPATH": str(ROOT)}, timeout_s=300.0)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("  killed node") == 2
    assert "Nothing that was acknowledged was lost" in done.stdout


@pytest.mark.process
def test_the_demo_of_a_cluster_says_what_it_lacks(tmp_path: Path) -> None:
    words = [sys.executable, "-P", "-m", "supervisor.cli", "demo", "--replicated", "--keep", str(tmp_path / "kept")]
    done = programs.run(words, env={"PYTHONPATH": str(ROOT)}, timeout_s=60.0)
    assert (done.returncode, "--keep is for the demo without --replicated" in done.stderr) == (2, True)
