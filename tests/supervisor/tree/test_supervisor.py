"""The supervisor with real processes and real signals."""

from __future__ import annotations

import ctypes
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from actors.process.request_sockets import RequestConnections, ipc_endpoint
from supervisor.control.client import call
from supervisor.control.control_socket import SOCKET_NAME, ControlError, NotRunning, encode_request
from tests.supervisor.conftest import StartSupervisor, TestNode, alive
from tests.support.waiting import PATIENCE_S, wait_until
from wire.frames.names import actors_of

pytestmark = pytest.mark.process

LANE = "bridge:cloud:0"
CHILDREN = ["store", LANE, "clients"]
ACTORS = {name: list(actors_of(name)) for name in CHILDREN}
ALL_ACTORS = [actor for actors in ACTORS.values() for actor in actors]


def test_all_children_are_started_in_order_and_the_node_is_ready_once(start: StartSupervisor) -> None:
    node = start().wait_ready()
    assert [event["child"] for event in node.named("child.started")] == CHILDREN
    epochs = [event["epoch"] for event in node.named("child.started")]
    assert epochs == sorted(set(epochs))
    status = node.status()
    assert status["ready"] is True
    assert [row["name"] for row in status["processes"]] == ["supervisor", "template", *CHILDREN]
    assert [row["actors"] for row in status["processes"]] == [[], [], *ACTORS.values()]
    assert [row["name"] for row in status["actors"]] == ALL_ACTORS
    assert all(row["state"] == "ready" and row["restarts"] == 0 for row in [*status["actors"], *status["processes"]])
    wait_until(lambda: all(row["heartbeat_age_s"] < 0.5 for row in node.status()["actors"]), 10.0, "fresh heartbeats of all")
    lines = [line for line in node.events if line["event"] == "node.ready"]
    assert len(lines) == 1, "standard output is where the log is"


def test_the_children_are_in_the_supervisors_session_and_process_group(start: StartSupervisor) -> None:
    node = start().wait_ready()
    pids = node.pids()
    assert list(pids) == CHILDREN
    for pid in pids.values():
        assert os.getsid(pid) == os.getsid(node.process.pid)
        assert os.getpgid(pid) == os.getpgid(node.process.pid)


def test_what_is_in_the_run_folder_is_the_owners_only(start: StartSupervisor) -> None:
    node = start().wait_ready()
    assert stat.S_IMODE(node.run_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE((node.run_dir / "settings").stat().st_mode) == 0o600
    assert stat.S_IMODE((node.run_dir / SOCKET_NAME).stat().st_mode) == 0o600


def test_status_tells_what_each_process_takes_and_nothing_of_one_that_does_not_run(start: StartSupervisor) -> None:
    node = start(LANE, "--exit", "78")
    node.wait_process(LANE, state="misconfigured", pid=None, pss_bytes=None, cpu_s=None)
    node.wait_process("clients", state="ready")
    for name in ("supervisor", "template", "store", "clients"):
        row = node.process_row(name)
        assert row["pss_bytes"] > 1 << 20, row
        assert 0.0 <= row["cpu_s"] < 60.0, row  # a process that does nothing has not had a tick
    assert node.process_row("supervisor")["cpu_s"] > 0.0
    assert node.process_row("supervisor")["pid"] == node.process.pid


def test_everyone_learns_that_everyone_else_is_up(start: StartSupervisor) -> None:
    """Those in the same process, too."""
    node = start().wait_ready()
    epochs = {actor: event["epoch"] for event in node.named("child.started") for actor in ACTORS[event["child"]]}
    for name in ALL_ACTORS:
        wanted = {peer: epoch for peer, epoch in epochs.items() if peer != name}
        wait_until(lambda name=name, wanted=wanted: heard_of(node, name) == wanted, 10.0, f"all peers at {name}")  # type: ignore[misc]


def test_one_lane_is_not_told_of_another(start: StartSupervisor) -> None:
    node = start(lanes=2).wait_ready()
    others = [actor for actor in ALL_ACTORS if actor != "connection:cloud:0"]
    wait_until(lambda: sorted(heard_of(node, "connection:cloud:0")) == sorted(others), 10.0, "its peers")
    os.kill(node.process_row("bridge:cloud:1")["pid"], signal.SIGKILL)
    node.wait_process("bridge:cloud:1", state="ready", restarts=1)
    wait_until(lambda: heard_of(node, "queue_store").keys() >= {"forwarder:cloud:1"}, 10.0, "the store hears of it")
    assert sorted(heard_of(node, "connection:cloud:0")) == sorted(others)


def heard_of(node: TestNode, name: str) -> dict[str, int]:
    """The lives that actor ``name`` was told are up."""
    return {note[1]: note[2] for note in node.heard(name) if note[0] == "peer"}


def test_a_child_that_waits_for_a_peer_is_told_of_it_in_every_life(start: StartSupervisor) -> None:
    node = start("clients", "--needs=queue_store").wait_ready()
    os.kill(node.process_row("clients")["pid"], signal.SIGKILL)
    node.wait_process("clients", state="ready", restarts=1)
    os.kill(node.process_row("store")["pid"], signal.SIGKILL)
    node.wait_process("store", state="ready", restarts=1)
    assert node.status()["ready"] is True


def test_a_process_is_ready_once_all_its_actors_are_and_each_is_known_as_soon_as_it_is(start: StartSupervisor) -> None:
    node = start("clients", "--slow=listener")
    for name in ("queue_store", "forwarder:cloud:0"):
        wait_until(lambda name=name: "distributor" in heard_of(node, name), 10.0, f"{name} hears of the Distributor")  # type: ignore[misc]
    wait_until(lambda: heard_of(node, "listener").keys() >= {"distributor", "queue_store"}, 10.0, "what the Listener hears")
    status = node.status()
    states = {row["name"]: row["state"] for row in [*status["actors"], *status["processes"]]}
    assert (states["distributor"], states["listener"], states["clients"]) == ("ready", "starting", "starting")
    assert status["ready"] is False
    assert "listener" not in heard_of(node, "distributor") | heard_of(node, "queue_store")
    (node.run_dir / "go").touch()
    node.wait_ready()
    for name in ("queue_store", "distributor"):
        wait_until(lambda name=name: "listener" in heard_of(node, name), 10.0, f"{name} hears of the Listener")  # type: ignore[misc]


@pytest.mark.parametrize("name", CHILDREN)
def test_a_killed_child_is_restarted_at_once_in_a_new_epoch_and_its_peers_are_told(start: StartSupervisor, name: str) -> None:
    node = start().wait_ready()
    before = node.pids()
    os.kill(before[name], signal.SIGKILL)
    exited = node.wait_for("child.exited", name)
    assert (exited["signal"], exited["pid"], exited["hung"]) == ("SIGKILL", before[name], False)
    row = node.wait_process(name, state="ready", restarts=1)
    assert row["pid"] != before[name]
    first, second = (event["epoch"] for event in node.named("child.started", name))
    assert second > first
    for actor in ACTORS[name]:
        for peer in ALL_ACTORS:
            if peer != actor:
                wait_until(
                    lambda peer=peer, actor=actor: ["peer", actor, second] in node.heard(peer),  # type: ignore[misc]
                    10.0,
                    f"{peer} hears of {actor}",
                )
                wait_until(
                    lambda peer=peer, actor=actor: [note[1] for note in node.heard(actor) if note[0] == "peer"].count(peer) == 2,  # type: ignore[misc]
                    10.0,
                    f"{actor} is told of {peer} again",
                )
    assert {**node.pids(), name: before[name]} == before, "nobody else died"


def test_a_lanes_markers_are_reset_when_its_process_ends(start: StartSupervisor) -> None:
    node = start().wait_ready()
    for name in ("clients", "store"):
        os.kill(node.process_row(name)["pid"], signal.SIGKILL)
        node.wait_process(name, state="ready", restarts=1)
    assert not node.named("markers.reset"), "neither a first start nor the end of another resets anything"
    epoch = node.named("child.started", LANE)[0]["epoch"]
    os.kill(node.process_row(LANE)["pid"], signal.SIGKILL)
    node.wait_process(LANE, state="ready", restarts=1)
    assert [event["queue"] for event in node.named("markers.reset", LANE)] == ["bridge:cloud:0"]
    events = [(event["event"], event.get("child")) for event in node.events]
    assert events.index(("markers.reset", LANE)) < len(events) - 1 - events[::-1].index(("child.started", LANE)), (
        "before its next life"
    )

    def resets() -> list[list[Any]]:
        return [note for note in node.heard("queue_store") if note[0] == "reset"]

    wait_until(resets, 10.0, "the store hears of it")
    assert resets() == [["reset", "bridge:cloud:0", epoch]], "once, and of which life"


def test_a_stopped_process_is_noticed_and_replaced(start: StartSupervisor) -> None:
    node = start(heartbeat_timeout_s=1.5).wait_ready()
    pid = node.process_row("clients")["pid"]
    os.kill(pid, signal.SIGSTOP)
    assert node.wait_for("child.hung", "clients")["pid"] == pid
    exited = node.wait_for("child.exited", "clients")
    assert (exited["signal"], exited["hung"]) == ("SIGKILL", True)
    assert node.wait_process("clients", state="ready", restarts=1)["pid"] != pid
    assert len(node.named("child.hung")) == 1


def test_a_child_that_dies_under_a_debugger_is_replaced_when_that_lets_it_go(start: StartSupervisor) -> None:
    """Until then the kernel says that it has ended, and gives its exit status to its tracer only."""
    seize, all_children = 0x4206, 0x40000000
    node = start().wait_ready()
    pid = node.process_row("clients")["pid"]
    if ctypes.CDLL(None, use_errno=True).ptrace(seize, pid, None, None) != 0:
        pytest.skip(f"this environment does not allow it: {os.strerror(ctypes.get_errno())}")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(pid), 10.0, "its death")
    assert node.status()["ready"] is True, "the supervisor serves on"
    os.waitpid(pid, all_children)
    assert node.wait_process("clients", state="ready", restarts=1)["pid"] != pid


def test_a_supervisor_that_was_stopped_itself_kills_nobody(start: StartSupervisor) -> None:
    node = start(heartbeat_timeout_s=2.5).wait_ready()
    before = node.pids()
    node.process.send_signal(signal.SIGSTOP)
    with pytest.raises(NotRunning):
        call(node.run_dir, "ping", timeout_s=4.0)  # passes the time: nobody answers
    node.process.send_signal(signal.SIGCONT)
    assert node.pids() == before
    assert not node.named("child.hung")


def test_no_child_outlives_a_killed_supervisor_and_the_next_run_goes_on_at_once(start: StartSupervisor) -> None:
    node = start().wait_ready()
    pids = node.pids().values()
    epochs = [event["epoch"] for event in node.named("child.started")]
    node.process.kill()
    node.process.wait(PATIENCE_S)
    again = start()
    again.wait_ready()
    assert not any(alive(pid) for pid in pids), "the lock is free only when all of them are gone"
    assert min(event["epoch"] for event in again.named("child.started")) > max(epochs)


def test_every_child_holds_the_lock_of_the_data_folder(start: StartSupervisor) -> None:
    node = start().wait_ready()
    lock = str(node.data_dir / "lock")
    for name, pid in node.pids().items():
        descriptors = Path(f"/proc/{pid}/fd").iterdir()
        assert lock in [str(descriptor.readlink()) for descriptor in descriptors], name


def test_a_stop_goes_in_reverse_order_and_exits_0(start: StartSupervisor) -> None:
    node = start().wait_ready()
    pids = node.pids().values()
    node.process.terminate()
    assert node.wait_end() == 0
    assert [event["child"] for event in node.named("child.exited")] == CHILDREN[::-1]
    assert all(event["exit_status"] == 0 for event in node.named("child.exited"))
    assert not any(alive(pid) for pid in pids)


def test_a_child_that_does_not_stop_in_time_is_killed_and_the_stop_goes_on(start: StartSupervisor) -> None:
    node = start(LANE, "--ignore-stop", stop_timeout_s=0.3).wait_ready()
    node.process.send_signal(signal.SIGINT)
    assert node.wait_end() == 0
    assert [event["child"] for event in node.named("child.killed")] == [LANE]
    assert [event["child"] for event in node.named("child.exited")] == CHILDREN[::-1]


def test_a_stop_while_the_children_are_starting_ends_them_all(start: StartSupervisor) -> None:
    node = start()
    node.wait_for("child.started", "clients")
    node.process.terminate()
    assert node.wait_end() == 0


def test_a_child_that_crashes_too_often_ends_the_node(start: StartSupervisor) -> None:
    node = start("clients", "--exit", "70", restarts_max=3)
    assert node.wait_end() == 70
    assert node.named("node.escalated")[0]["child"] == "clients"
    assert len(node.named("child.started", "clients")) == 4
    assert not node.named("node.ready")


def test_an_unavailable_child_is_tried_for_ever(start: StartSupervisor) -> None:
    node = start(LANE, "--exit", "75", restarts_max=2)
    node.wait_for("child.exited", LANE, count=5)
    assert node.process.poll() is None
    assert node.status()["ready"] is False
    cause = "it ended with status 75: something that it needs is not there, see the log"
    assert node.process_row(LANE)["last_cause"] == cause
    assert node.actor("connection:cloud:0")["last_cause"] == cause
    assert node.process_row("store")["last_cause"] == node.actor("queue_store")["last_cause"] == ""


def test_a_damaged_store_stays_down_and_stops_intake_while_status_answers(start: StartSupervisor) -> None:
    node = start("store", "--exit", "65")
    cause = "it ended with status 65: its files are damaged, see the log"
    node.wait_process("store", state="damaged", pid=None, restarts=0, last_cause=cause)
    node.wait_process("clients", state="stopped", pid=None)
    node.wait_process(LANE, state="ready")
    assert node.named("intake.stopped")
    assert call(node.run_dir, "stop")["stopping"] is True
    assert node.wait_end() == 0


@pytest.mark.parametrize("name", ["store", "clients"])
def test_a_misconfigured_process_of_the_whole_node_ends_it_with_78(start: StartSupervisor, name: str) -> None:
    assert start(name, "--exit", "78").wait_end() == 78


def test_a_misconfigured_lane_leaves_the_others_at_work(start: StartSupervisor) -> None:
    node = start(LANE, "--exit", "78")
    node.wait_process(LANE, state="misconfigured", restarts=0)
    node.wait_process("clients", state="ready")
    assert node.status()["bridges"][0]["state"] == "misconfigured"


def test_a_second_run_in_the_same_folder_is_refused(start: StartSupervisor) -> None:
    node = start().wait_ready()
    second = start()
    assert second.wait_end() == 75
    assert "another node runs in this data folder" in second.log_path.read_text()
    assert node.status()["ready"] is True


def test_a_hangup_with_a_wrong_configuration_changes_nothing(start: StartSupervisor) -> None:
    """tree.reload-all-or-nothing"""
    node = start().wait_ready()
    node.process.send_signal(signal.SIGHUP)
    event = node.wait_for("node.reload_refused")
    assert event["problems"] == ["line 3: something is wrong"]
    assert node.status()["ready"] is True


def test_status_joins_the_figures_of_a_lane_and_checks_its_ledger(start: StartSupervisor) -> None:
    row = start().wait_ready().status()["bridges"][0]
    assert (row["name"], row["lane"], row["state"], row["depth"], row["dropped"]) == ("cloud", 0, "connected", 3, {"full": 1})
    assert row["ledger_closes"] is True
    assert row["tier2"] == {"messages": 4, "bytes": 40}


def test_status_answers_in_time_with_a_stopped_child(start: StartSupervisor) -> None:
    node = start(heartbeat_timeout_s=30.0).wait_ready()
    os.kill(node.process_row(LANE)["pid"], signal.SIGSTOP)
    assert call(node.run_dir, "status", timeout_s=20.0)["ready"] is True


def test_pause_and_resume_reach_the_connection_and_pause_outlives_it(start: StartSupervisor) -> None:
    node = start().wait_ready()
    name = "connection:cloud:0"
    call(node.run_dir, "bridge.pause", {"bridge": "cloud"})
    wait_until(lambda: ["command", "pause"] in node.heard(name), 10.0, "the pause")
    os.kill(node.process_row(LANE)["pid"], signal.SIGKILL)
    node.wait_process(LANE, state="ready", restarts=1)
    life = wait_until(lambda: [note for note in node.heard(name) if note[0] == "started"][1:], 10.0, "the new life")[0]
    wait_until(lambda: ["command", "pause"] in node.heard(name)[node.heard(name).index(life) :], 10.0, "the pause again")
    call(node.run_dir, "bridge.resume", {"bridge": "cloud"})
    wait_until(lambda: node.heard(name)[-1] == ["command", "resume"], 10.0, "the resumption")


def test_a_pause_outlives_the_node_and_is_what_a_new_connection_hears_first(start: StartSupervisor) -> None:
    name = "connection:cloud:0"
    node = start().wait_ready()
    call(node.run_dir, "bridge.pause", {"bridge": "cloud"})
    since_ms = node.status()["bridges"][0]["paused_since_ms"]
    assert since_ms
    node.process.kill()
    node.process.wait(PATIENCE_S)
    node = start().wait_ready()
    assert node.status()["bridges"][0]["paused_since_ms"] == since_ms
    assert node.wait_for("bridge.paused")["bridge"] == "cloud"
    from_outside = wait_until(
        lambda: [note for note in _heard_in_this_run(node, name) if note[:2] != ["peer", "forwarder:cloud:0"]],
        10.0,
        "its first words",
    )
    assert from_outside[0] == ["command", "pause"]
    call(node.run_dir, "bridge.resume", {"bridge": "cloud"})
    wait_until(lambda: node.heard(name)[-1] == ["command", "resume"], 10.0, "the resumption")
    node.process.kill()
    node.process.wait(PATIENCE_S)
    node = start().wait_ready()
    assert node.status()["bridges"][0]["paused_since_ms"] is None
    assert not [note for note in _heard_in_this_run(node, name) if note[0] == "command"]
    assert not node.named("bridge.paused")


def _heard_in_this_run(node: TestNode, name: str) -> list[list[Any]]:
    heard = node.heard(name)
    return heard[heard.index(["started", node.named("child.started", LANE)[0]["epoch"]]) + 1 :]


def test_bridge_restart_replaces_the_process_of_each_lane_and_counts_as_no_crash(start: StartSupervisor) -> None:
    node = start(restarts_max=0).wait_ready()
    pid = node.process_row(LANE)["pid"]
    assert call(node.run_dir, "bridge.restart", {"bridge": "cloud"})["processes"] == [LANE]
    node.wait_for("child.restarted", LANE)
    row = node.wait_process(LANE, state="ready", restarts=0, last_cause="")
    assert row["pid"] != pid
    assert node.wait_for("child.exited", LANE)["exit_status"] == 0
    assert node.wait_for("markers.reset")["queue"] == "bridge:cloud:0"


def test_bad_control_requests_are_refused_and_stop_nothing(start: StartSupervisor) -> None:
    node = start().wait_ready()
    raw = RequestConnections(ipc_endpoint(node.run_dir / SOCKET_NAME))  # what the client would never send
    for payload in (b"", b"\xc1", b"hello", encode_request(1, "status", {"x": "y"}), bytes(100_000)):
        assert b"error" in raw.ask(payload, 5.0)
    raw.close()
    for command, arguments, kind in (
        ("explode", {}, "unknown_command"),
        ("bridge.pause", {}, "bad_arguments"),
        ("bridge.pause", {"bridge": "nowhere"}, "unknown_bridge"),
    ):
        with pytest.raises(ControlError) as refused:
            call(node.run_dir, command, arguments)
        assert refused.value.kind == kind
    assert call(node.run_dir, "ping")["ready"] is True
