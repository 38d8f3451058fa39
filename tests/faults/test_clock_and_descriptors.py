"""Clocks that jump by hours and years, file descriptors that are used up: nothing lost, nothing twice, nothing spins."""

from __future__ import annotations

import os
import resource
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from supervisor.notify import notice_record
from tests.conftest import StartNode
from tests.supervisor.notify.web_service import WebService
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import MESSAGE_EXPIRY, PUBACK
from tests.support.node import Node, bridge_config, node_config
from tests.support.placements import one_process_alone
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, holds_for, wait_until
from wire.frames.placement import tables_open_max

# --- descriptors ---


def limit_descriptors(pid: int, descriptors_max: int) -> None:
    """Let process ``pid`` have no descriptor from ``descriptors_max`` on."""
    hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (descriptors_max, hard))


def descriptors(pid: int) -> int:
    """The highest descriptor of process ``pid``, plus one."""
    return max(int(name) for name in os.listdir(f"/proc/{pid}/fd")) + 1


def cpu_s(pid: int) -> float:
    """The processor time that process ``pid`` has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def crowd(port: int, count: int) -> Iterator[list[socket.socket]]:
    """``count`` connections that say nothing."""
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(count)]


@one_process_alone
def test_a_crowd_that_uses_up_the_descriptors_neither_spins_nor_stops_the_others(remote: Mosquitto, start_node: StartNode) -> None:
    """New clients wait; those that are there go on, also when the store is started anew meanwhile."""
    node = start_node(node_config(bridge_config("cloud", remote.port), clients={"connect_timeout": "60s"}))
    with Subscriber(remote.port, "#") as subscriber, Publisher(node.port, "t", qos=2, rate_per_s=200.0) as publisher:
        publisher.wait_acknowledged(20)
        clients = node.pid("clients")
        limit_descriptors(clients, descriptors(clients) + 40)
        with crowd(node.port, 200):
            wait_until(lambda: node.events("listener.paused"), 10.0, "a word about it")
            assert 2 <= node.status()["listener"]["clients"] < 60
            used_s, since_s = cpu_s(clients), time.monotonic()
            publisher.wait_acknowledged(200)
            holds_for(lambda: True, 1.0, "time to spin")
            busy = (cpu_s(clients) - used_s) / (time.monotonic() - since_s)
            assert busy < 0.7, f"{busy:.0%} of a processor for a listener that has little to do"
            for _ in range(2):
                node.wait_replaced("store", node.kill("store"))
                publisher.wait_acknowledged(50)
            assert node.find_pid("clients") == clients
            assert len(node.events("listener.paused")) == 1, "said once"
        with MqttClient(node.port, "late") as late:
            late.publish("late", "m", qos=1, packet_id=1)
            late.expect(PUBACK, packet_id=1)
        assert subscriber.wait_for("t", publisher.finish()).are_exact()
        assert publisher.reconnects == 0


def test_a_crowd_leaves_files_for_the_store_and_the_lanes_that_share_its_process(remote: Mosquitto, tmp_path: Path) -> None:
    """The store can open as many tables as it may, and a lane its connection, while clients wait for a place."""
    limit = 400
    config = node_config(bridge_config("cloud", remote.port), placement="together", clients={"connect_timeout": "60s"})
    with Node(config, tmp_path, descriptors_max=limit) as node, MqttClient(node.port, "first") as first:
        node.wait_lane("cloud", state="connected")
        alone = len(os.listdir(f"/proc/{node.pid('store')}/fd"))
        with crowd(node.port, 500):
            wait_until(lambda: node.events("listener.paused"), 10.0, "a word about it")
            clients = node.status()["listener"]["clients"]
            assert 20 <= clients <= limit - alone - tables_open_max(limit), "each table that the store may open finds a file"
            remote.kill()
            node.wait_lane_until(lambda lane: lane["state"] != "connected", "its remote gone")
            remote.start()
            node.wait_lane("cloud", state="connected")
            with Subscriber(remote.port, "#") as subscriber:
                first.publish("t", "m", qos=1, packet_id=1)
                first.expect(PUBACK, packet_id=1)
                assert subscriber.wait_for("t", ["m"]).are_exact()


@one_process_alone
def test_a_store_without_descriptors_waits_and_calls_nothing_damaged(remote: Mosquitto, start_node: StartNode) -> None:
    node = start_node(node_config(bridge_config("cloud", remote.port)))
    many_bytes = Publisher(node.port, "t", qos=2, size_bytes=80_000)  # a new file is needed soon
    with Subscriber(remote.port, "#") as subscriber, many_bytes as publisher:
        publisher.wait_acknowledged(20)
        store = node.pid("store")
        before = resource.prlimit(store, resource.RLIMIT_NOFILE)[0]
        limit_descriptors(store, 3)
        wait_until(lambda: node.status()["store"].get("state") == "disk_error", 20.0, lambda: str(node.status()["store"]))
        assert "Too many open files" in node.status()["store"]["error"]
        holds_for(lambda: node.find_pid("store") == store, 0.7, "it waits, it does not crash")
        limit_descriptors(store, before)
        publisher.wait_acknowledged(50)
        assert subscriber.wait_for("t", publisher.finish()).are_exact()
        assert node.wait_lane("cloud", depth=0)["ledger_closes"] is True
        assert not node.events("queue.damaged")


@one_process_alone
def test_a_connection_without_descriptors_tries_again(remote: Mosquitto, start_node: StartNode) -> None:
    node = start_node(node_config(bridge_config("cloud", remote.port)))
    node.wait_lane("cloud", state="connected")
    bridge = node.pid("bridge")
    before = resource.prlimit(bridge, resource.RLIMIT_NOFILE)[0]
    limit_descriptors(bridge, 3)
    remote.kill()
    remote.start()
    with Subscriber(remote.port, "#") as subscriber, Publisher(node.port, "t", qos=2, rate_per_s=200.0) as publisher:
        wait_until(lambda: "Too many open files" in node.output, 10.0, lambda: f"a reason\n{node.output[-2000:]}")
        publisher.wait_acknowledged(50)
        limit_descriptors(bridge, before)
        assert subscriber.wait_for("t", publisher.finish()).are_exact()
    assert node.find_pid("bridge") == bridge


# --- the clock ---


class Clock:
    """The wall clock of a node, by libfaketime; the monotonic clock is left alone."""

    def __init__(self, folder: Path) -> None:
        libraries = sorted(Path("/usr").glob("lib*/**/libfaketimeMT.so.1"))
        if not libraries:
            pytest.skip("the tests of jumping clocks need libfaketime (Debian: apt-get install libfaketime)")
        self._path = folder / "clock"
        self.jump(0)
        self.environment = {
            "LD_PRELOAD": str(libraries[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def jump(self, away_s: int) -> None:
        """Set the clock to ``away_s`` seconds after the true time."""
        temporary = self._path.with_name("clock.new")
        temporary.write_text(f"{away_s:+d}")
        temporary.replace(self._path)
        self._away_s = away_s

    def is_seen_by(self, node: Node) -> bool:
        """Whether the supervisor of ``node`` goes by it by now; SIGHUP makes it say something."""
        said = len(node.events("node.reloaded"))
        node.supervisor.send_signal(signal.SIGHUP)
        wait_until(lambda: len(node.events("node.reloaded")) > said, PATIENCE_S, "a word of the supervisor")
        return abs(away_s(node, "node.reloaded") - self._away_s) < 60


HOUR_S = 3600
YEAR_S = 365 * 24 * HOUR_S


def away_s(node: Node, said: str = "child.started") -> float:
    """How far from the true time the clock is by which the supervisor said that last."""
    return datetime.fromisoformat(node.events(said)[-1]["ts"]).timestamp() - time.time()


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path)


def test_a_clock_that_jumps_by_hours_and_years_changes_nothing(tmp_path: Path, clock: Clock) -> None:
    """Under load, over cuts of the link and over restarts: nothing lost, nothing twice, nothing expired; epochs rise."""
    with ExitStack() as stack:
        remote = stack.enter_context(
            Mosquitto(tmp_path / "remote", persistence=True, max_inflight_messages=0, max_queued_messages=0)
        )
        config = node_config(bridge_config("cloud", remote.port, remote={"keep_alive": "15s"}))
        node = stack.enter_context(Node(config, tmp_path / "edge", environment=clock.environment))
        subscriber = stack.enter_context(Subscriber(remote.port, "#"))
        crowd = [stack.enter_context(Publisher(node.port, f"q{qos}", qos=qos, rate_per_s=80.0)) for qos in (1, 2)]

        def progress() -> None:
            for publisher in crowd:
                publisher.wait_acknowledged(20)

        progress()
        for jump_s in (5 * HOUR_S, -26 * HOUR_S):
            clock.jump(jump_s)
            wait_until(lambda: clock.is_seen_by(node), 10.0, lambda: f"a clock {jump_s} s away\n{node.output[-2000:]}")  # noqa: B023
            progress()
        assert len(node.events("bridge.connected")) == 1, "keep-alives go by the monotonic clock"
        assert [publisher.reconnects for publisher in crowd] == [0, 0]
        epochs = [newest_epoch(node)]
        for jump_s in (-10 * YEAR_S, 10 * YEAR_S):
            node.kill_supervisor()
            clock.jump(jump_s)
            node.start()
            assert abs(away_s(node) - jump_s) < 60
            progress()
            epochs.append(newest_epoch(node))
        assert epochs == sorted(set(epochs)), "tree.epochs-only-rise"
        for publisher in crowd:
            arrivals = subscriber.wait_for(publisher.topic, publisher.finish(), deadline_s=30.0)
            assert arrivals.are_exact() if publisher.qos == 2 else arrivals.are_complete(), arrivals
            assert publisher.sessions_lost == 0
        lane = node.wait_lane("cloud", depth=0)
        assert lane["ledger_closes"] is True
        assert lane["expired"] == 0


def newest_epoch(node: Node) -> int:
    """The highest epoch that a child of the node's present run was given."""
    return max(int(event["epoch"]) for event in node.events("child.started"))


def test_steps_of_the_clock_expire_nothing_and_keep_nothing_alive(tmp_path: Path, clock: Clock) -> None:
    """By its own interval, by ``max_age``, retained, or of a session: what has its time keeps it over steps, deaths and starts.

    A message whose time is over goes, though the clock was set back (wire.steps-age-nothing).
    """
    away = Mosquitto(tmp_path / "remote")
    config = node_config(bridge_config("cloud", away.port, limits={"max_age": "10h"}, tier2={"max_messages": 1}))
    with Node(config, tmp_path / "edge", environment=clock.environment) as node:
        with MqttClient(node.port, "leaves", version=5, clean=False, session_expiry_s=3 * HOUR_S) as client:
            client.subscribe("for/leaves", qos=1)
        with MqttClient(node.port, version=5) as client:
            lasts = [(MESSAGE_EXPIRY, 2 * HOUR_S)]
            for packet_id in range(1, 21):
                client.publish("t", "m", qos=1, packet_id=packet_id, properties=lasts)
                client.expect(PUBACK, packet_id=packet_id)
            client.publish("kept", "r", qos=1, packet_id=21, retain=True, properties=lasts)
            client.expect(PUBACK, packet_id=21)
            client.publish("for/leaves", "q", qos=1, packet_id=22, properties=lasts)
            client.expect(PUBACK, packet_id=22)
        for jump_s in (11 * HOUR_S, -26 * HOUR_S):
            clock.jump(jump_s)
            wait_until(lambda: clock.is_seen_by(node), PATIENCE_S, "a node that sees the clock")
            node.wait_replaced("store", node.kill("store"))
            node.wait_replaced("clients", node.kill("clients"))
        node.kill_supervisor()
        clock.jump(YEAR_S)
        node.start()
        holds_for(lambda: node.lane("cloud")["expired"] == 0, 1.2, "nothing is too old")
        assert node.lane("cloud")["depth"] == 22
        clock.jump(-YEAR_S)
        wait_until(lambda: clock.is_seen_by(node), PATIENCE_S, "a node that sees the clock")
        with MqttClient(node.port, "leaves", version=5, clean=False, session_expiry_s=3 * HOUR_S) as client:
            assert client.connack.session_present
            waited = client.receive()
            assert waited.payload == b"q"
            assert 2 * HOUR_S - 120 < waited.number(MESSAGE_EXPIRY, 0) <= 2 * HOUR_S
            client.subscribe("kept", qos=0)
            assert client.receive().payload == b"r"
            client.publish("t", "short", qos=1, packet_id=1, properties=[(MESSAGE_EXPIRY, 2)])
            client.expect(PUBACK, packet_id=1)
        holds_for(lambda: True, 2.5, "more than the two seconds that one of them has")
        away.start()
        lane = node.wait_lane("cloud", depth=0)
        assert lane["ledger_closes"] is True
        assert (lane["expired"], lane["accepted"]) == (1, 23)


def test_max_age_goes_by_the_time_that_has_passed_and_each_step_is_told_once(tmp_path: Path, clock: Clock) -> None:
    away = Mosquitto(tmp_path / "remote")
    with WebService() as service:
        config = node_config(
            bridge_config("cloud", away.port, limits={"max_age": "2s"}, tier2={"max_messages": 1}),
            notify=[{"when": ["clock_step"], "webhook": {"url": service.url}}],
        )
        with Node(config, tmp_path / "edge", environment=clock.environment) as node, MqttClient(node.port) as client:
            node.wait_actors_ready()
            wait_until(
                lambda: notice_record.read(node.data_dir).seen.next is not None, PATIENCE_S, "a first look, which tells nothing"
            )
            clock.jump(-YEAR_S)
            wait_until(lambda: clock.is_seen_by(node), PATIENCE_S, "a node that sees the clock")
            for packet_id in range(1, 21):
                client.publish("t", "m", qos=1, packet_id=packet_id)
                client.expect(PUBACK, packet_id=packet_id)
            assert told_s(service) == pytest.approx(-YEAR_S, abs=60)
            clock.jump(-2 * YEAR_S)
            lane = node.wait_lane_until(
                lambda lane: lane["expired"] == 20, "messages that are too old, though the clock was set back"
            )
            assert lane["ledger_closes"] is True
            assert told_s(service) == pytest.approx(-YEAR_S, abs=60)
            assert service.taken.empty()


def told_s(service: WebService) -> float:
    """By how much the clock was set, as the next notice says."""
    notice = service.next()
    assert (notice["kind"], notice["state"]) == ("clock_step", "happened")
    return float(notice["text"].removeprefix("the clock was set by ").removesuffix(" s"))
