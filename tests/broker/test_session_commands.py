"""``bascule session`` on a real node: listed, shown, disconnected, ended; and ended while a process is killed."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from supervisor.cli.main import main
from tests.broker.test_sessions import lasting, reconnect, will
from tests.conftest import StartNode
from tests.support.mqtt_client import Closed, MqttClient, publish_once, take
from tests.support.mqtt_packets import DISCONNECT, PUBLISH, PUBREC
from tests.support.node import ROOT, Node, bascule, node_config
from tests.support.placements import one_process_alone
from tests.support.waiting import PATIENCE_S, wait_until

BOTH = pytest.mark.parametrize("version", [4, 5])
ADMINISTRATIVE_ACTION = 0x98


class Typed:
    """Runs ``bascule session`` in this process; what it prints."""

    def __init__(self, node: Node, capsys: pytest.CaptureFixture[str]) -> None:
        self._config = str(node.config_path)
        self._capsys = capsys

    def __call__(self, verb: str, *words: str, status: int = 0, group: str = "session") -> str:
        self._capsys.readouterr()
        found = main([*([group] if group else []), verb, self._config, *words])
        said = self._capsys.readouterr()
        assert found == status, said
        return said.out if not status else said.err

    def listed(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self("list", *words, "--json").splitlines()]

    def one(self, name: str) -> dict[str, Any]:
        (row,) = self.listed(name)
        return row

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self("events", "--kind", kind, "--json", group="").splitlines()]


@contextmanager
def typed_aside(node: Node, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command that goes on while the test does something else."""
    command = [*bascule("session", words[0]), str(node.config_path), *words[1:]]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def expect_end(client: MqttClient, version: int) -> None:
    """The server ends the connection: an MQTT 5 client is told why [MQTT-3.14.2-1], one of 3.1.1 gets no packet for it."""
    if version == 5:
        assert client.expect(DISCONNECT).reason_code == ADMINISTRATIVE_ACTION
    with pytest.raises((Closed, ConnectionError)):
        client.read()


def abandoned(node: Node, name: str = "abandoned", *, messages: int = 3) -> None:
    """A session whose client does not come again, and what waits for it."""
    client = lasting(node, name)
    client.connect()
    client.subscribe("t/#", qos=1)
    client.close()
    publish_once(node.port, "t/x", *map(str, range(messages)))


def test_sessions_are_listed_shown_and_disconnected(start_node: StartNode, capsys: pytest.CaptureFixture[str]) -> None:
    node = start_node(node_config())
    session = Typed(node, capsys)
    assert session("list") == "no sessions\n"
    abandoned(node)
    with (
        MqttClient(node.port, "live", version=5, will=will("gone"), keep_alive_s=30) as live,
        MqttClient(node.port, "kept", version=5, clean=False, session_expiry_s=60) as kept,
    ):
        live.subscribe("a", "b", qos=1)
        kept.subscribe("$share/g/t", qos=2, options=0x08, identifier=7)
        kept.subscribe("u", qos=2)
        publish_once(node.port, "u", "1", "2", qos=2)
        first, second = kept.expect(PUBLISH), kept.expect(PUBLISH)
        assert (first.payload, second.payload) == (b"1", b"2")
        kept.publish("elsewhere", "x", qos=2, packet_id=9)
        kept.expect(PUBREC, packet_id=9)

        assert [row["client_id"] for row in session.listed()] == ["abandoned", "kept", "live"]
        row = session.one("abandoned")
        assert (row["connected"], row["depth"], row["in_flight"], row["subscriptions"], row["level"]) == (False, 3, 0, 1, None)
        row = session.one("kept")
        assert (row["connected"], row["depth"], row["in_flight"], row["received"], row["subscriptions"]) == (True, 2, 2, 1, 2)
        assert (row["expiry_s"], row["expires_ms"], row["level"], row["lasting"]) == (60, None, 5, True)
        row = session.one("l*")
        assert (row["subscriptions"], row["will"], row["lasting"], row["address"][:10]) == (2, True, False, "127.0.0.1:")
        assert [row["client_id"] for row in session.listed("--disconnected")] == ["abandoned"]
        assert [row["client_id"] for row in session.listed("--connected")] == ["kept", "live"]
        assert [row["client_id"] for row in session.listed("--sort", "depth")] == ["abandoned", "kept", "live"]
        assert session.listed("--user", "ada") == []
        lines = session("list").splitlines()
        assert lines[0].split()[:2] == ["client", "id"]
        assert [line.split()[0] for line in lines[1:]] == ["abandoned", "kept", "live"]

        shown = json.loads(session("show", "kept", "--json"))
        assert [(one["filter"], one["qos"], one["retain_as_published"], one["identifier"]) for one in shown["filters"]] == [
            ("$share/g/t", 2, True, 7),
            ("u", 2, False, None),
        ]
        text = session("show", "live")
        assert "to will at QoS 1, 4 B" in text
        assert "to will at QoS 1: gone" in session("show", "live", "--will")
        assert "MQTT 5.0, keep alive 30 s" in text
        assert "there is no session of a client 'nobody'" in session("show", "nobody", status=1)
        assert "'abandoned' is not connected" in session("disconnect", "abandoned", status=1)

        assert "its session is kept" in session("disconnect", "kept")
        expect_end(kept, 5)
        assert "its session has ended with it" in session("disconnect", "live")
        expect_end(live, 5)
        row = session.one("kept")
        assert (row["connected"], row["depth"], row["received"], row["in_flight"]) == (False, 2, 1, 2)
        assert "2 sent before, to be sent again; 1 QoS 2 received" in session("show", "kept")
        assert "0 sent before, to be sent again" in session("show", "abandoned")
        assert row["expires_ms"] - row["since_ms"] == 60_000
        assert session.listed("live") == []
        wait_until(lambda: len(session.events("session.disconnected")) == 2, PATIENCE_S, "both are told of")

        assert kept.connect().session_present
        again = [kept.expect(PUBLISH), kept.expect(PUBLISH)]
        assert [(one.packet_id, one.dup) for one in again] == [(first.packet_id, True), (second.packet_id, True)]


@BOTH
def test_a_client_is_disconnected_and_its_session_ended(
    start_node: StartNode, capsys: pytest.CaptureFixture[str], version: int
) -> None:
    node = start_node(node_config())
    session = Typed(node, capsys)
    client = lasting(node, "c", version)
    client.connect()
    client.subscribe("t", qos=1)

    session("disconnect", "c")
    expect_end(client, version)
    assert client.connect().session_present
    publish_once(node.port, "t", "x")
    client.expect(PUBLISH)

    assert "nothing was done: add --yes" in session("end", "c", status=2)
    assert session("end", "c", "--yes") == (
        "c: session ended; 1 message and 1 subscription went with it; its client was disconnected\n"
    )
    expect_end(client, version)
    assert session.listed() == []
    assert "there is no session" in session("end", "c", "--yes", status=1)
    publish_once(node.port, "t", "for nobody")
    assert not client.connect().session_present
    client.ping()
    (event,) = wait_until(lambda: session.events("session.ended"), PATIENCE_S, "it is told of")
    assert (event["count"], event["details"]["client_id"]) == (1, "c")
    assert (node.status()["store"]["sessions"]["ended"], node.status()["store"]["sessions"]["purged"]) == (1, 1)


def test_the_will_of_an_ended_session_is_published_at_once_unless_it_is_taken_back(
    start_node: StartNode, capsys: pytest.CaptureFixture[str]
) -> None:
    """[MQTT-3.1.2-8]: connected or away, whatever its delay is."""
    node = start_node(node_config())
    session = Typed(node, capsys)
    with MqttClient(node.port, "watcher") as watcher:
        watcher.subscribe("will", qos=1)
        for away in (False, True):
            for takes_back in (True, False):
                payload = f"{away} {takes_back}"
                client = MqttClient(node.port, "c", version=5, clean=False, session_expiry_s=600, will=will(payload, delay_s=500))
                client.connect()
                if away:
                    client.close()
                    wait_until(lambda: session.listed("c", "--disconnected"), PATIENCE_S, "it is away")
                said = json.loads(session("end", "c", "--yes", "--json", *(["--no-will"] if takes_back else [])))
                assert (said["was_connected"], said["will"]) == (not away, "dropped" if takes_back else "published")
                assert not client.connect().session_present
                if not takes_back:
                    (message,) = take(watcher, 1)
                    assert message.payload == payload.encode()
                client.disconnect()
        watcher.ping()
        assert node.status()["listener"]["pending_wills"] == 0


def test_paho_is_told_that_it_was_an_administrative_action(start_node: StartNode, capsys: pytest.CaptureFixture[str]) -> None:
    node = start_node(node_config())
    told: queue.Queue[tuple[str, object]] = queue.Queue()
    client = paho.Client(CallbackAPIVersion.VERSION2, "paho", protocol=paho.MQTTv5)
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho has no types for it
    properties.SessionExpiryInterval = 600
    client.on_connect = lambda _client, _data, flags, _code, _properties: told.put(("connected", flags.session_present))
    client.on_disconnect = lambda _client, _data, _flags, code, _properties: told.put(("disconnected", code.getName()))
    client.reconnect_delay_set(0, 0)
    client.connect("127.0.0.1", node.port, clean_start=False, properties=properties)
    client.loop_start()
    try:
        assert told.get(timeout=PATIENCE_S) == ("connected", False)
        session = Typed(node, capsys)
        session("disconnect", "paho")
        assert told.get(timeout=PATIENCE_S) == ("disconnected", "Administrative action")
        assert told.get(timeout=PATIENCE_S) == ("connected", True), "it comes again by itself, to its session"
        session("end", "paho", "--yes")
        assert told.get(timeout=PATIENCE_S) == ("disconnected", "Administrative action")
        assert told.get(timeout=PATIENCE_S) == ("connected", False)
    finally:
        client.disconnect()
        client.loop_stop()


@one_process_alone
def test_an_end_that_the_store_dies_with_is_carried_out_by_the_next_one(
    start_node: StartNode, capsys: pytest.CaptureFixture[str]
) -> None:
    """The operator is told that it is not known; a client that comes meanwhile waits, and gets a new session."""
    node = start_node(node_config())
    abandoned(node, "other")
    client = lasting(node, "c", 5)
    client.connect()
    client.subscribe("t", qos=1)
    publish_once(node.port, "t", "x")
    client.expect(PUBLISH)
    node.kill("store", signal.SIGSTOP)
    with typed_aside(node, "end", "c", "--yes") as command:
        expect_end(client, 5)
        client.connect_without_waiting()
        node.wait_replaced("store", node.kill("store"))
        _, said = command.communicate(timeout=PATIENCE_S)
        assert command.returncode == 1
    assert "may have been carried out or not: look with session list" in said
    assert not client.read().session_present
    assert [row["client_id"] for row in Typed(node, capsys).listed()] == ["c", "other"]
    client.subscribe("u", qos=1)
    publish_once(node.port, "t", "for nobody")
    publish_once(node.port, "u", "y")
    assert client.expect(PUBLISH).payload == b"y"


@pytest.mark.parametrize(
    ("process", "stopped"), [pytest.param("clients", True, marks=one_process_alone), ("store", False), ("supervisor", False)]
)
def test_a_session_is_there_whole_or_gone_whole_whoever_is_killed(
    start_node: StartNode, capsys: pytest.CaptureFixture[str], soak: bool, process: str, stopped: bool
) -> None:
    """Killed as soon as the client is sent away, or while the store stands still behind the order."""
    if process == "supervisor" and not soak:
        pytest.skip("the whole node is killed with --soak")
    node = start_node(node_config())
    session = Typed(node, capsys)
    client = lasting(node, "c", 5)
    client.connect()
    client.subscribe("t", qos=1)
    client.disconnect()
    publish_once(node.port, "t", *map(str, range(5)))
    client.connect()
    assert client.expect(PUBLISH).payload == b"0"
    if stopped:
        node.kill("store", signal.SIGSTOP)
    with typed_aside(node, "end", "c", "--yes") as command:
        while client.read().kind != DISCONNECT:
            pass
        if process == "supervisor":  # the command would wait for its answer until its own time is up
            node.kill_supervisor()
            node.start()
        else:
            pid = node.kill(process)
            if stopped:
                node.kill("store", signal.SIGCONT)
            node.wait_replaced(process, pid)
            command.communicate(timeout=PATIENCE_S)
    node.wait_actors_ready()
    present = reconnect(client)
    if present:
        assert [message.payload for message in take(client, 5)] == [b"0", b"1", b"2", b"3", b"4"], "whole"
    publish_once(node.port, "t", "next")
    wait_until(lambda: session.one("c")["depth"] == present, PATIENCE_S, "what was acknowledged has left the queue")
    assert session.one("c")["subscriptions"] == present


@pytest.mark.parametrize("waits", [True, False])
@one_process_alone
def test_how_a_connection_ended_is_not_lost_with_the_store(start_node: StartNode, waits: bool) -> None:
    """broker.end-told-until-committed: its session expires, and a Will that its client has taken
    back is not published by a later process [MQTT-3.14.4-3].
    """
    node = start_node(node_config())
    with MqttClient(node.port, "watcher", clean=False) as watcher:
        watcher.subscribe("will", qos=1)
        client = MqttClient(node.port, "c", version=5, clean=False, session_expiry_s=600 if waits else 1, will=will("taken back"))
        client.connect()
        node.kill("store", signal.SIGSTOP)
        client.disconnect()
        wait_until(lambda: node.status()["listener"]["clients"] == 1, PATIENCE_S, "it has gone")
        node.wait_replaced("store", node.kill("store"))
        if not waits:
            wait_until(lambda: node.status()["store"]["sessions"]["kept"] == 1, PATIENCE_S, "its session expires")
            return
        wait_until(lambda: node.status()["store"]["sessions"]["connected"] == 1, PATIENCE_S, "it is away")
        node.wait_replaced("clients", node.kill("clients"))
        assert reconnect(watcher)
        publish_once(node.port, "will", "end")
        assert watcher.expect(PUBLISH).payload == b"end"
