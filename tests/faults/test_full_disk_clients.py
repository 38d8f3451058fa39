"""A disk that takes nothing, or a store that stands still: clients that need nothing of it go on, and the others are told.

An operator sees all the while where each message is.
"""

from __future__ import annotations

import errno
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import StartNode
from tests.faults.test_disk_faults import FaultyNode
from tests.faults.test_disk_faults import shim as shim
from tests.support.mqtt_client import Closed, MqttClient
from tests.support.mqtt_packets import CONNACK, PUBACK, PUBLISH, Will
from tests.support.node import Node, node_config
from tests.support.placements import one_process_alone
from tests.support.shim import NO_SPACE
from tests.support.waiting import PATIENCE_S, wait_until

PATIENT = {"heartbeat_timeout": "120s", "restarts_max": 1000}


def answer_of(node: Node, *words: str) -> Any:
    """The answer of a command of the command line, as JSON Lines."""
    done = node.cli(*words, "--json")
    assert done.returncode == 0, (done.stdout, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def hears(client: MqttClient, topic: str, payload: bytes) -> None:
    message = client.expect(PUBLISH)
    assert (message.topic, message.payload, message.retain) == (topic, payload, False)


def live_clients_go_on(node: Node, version: int, known: MqttClient) -> None:
    """While the store takes nothing clients come, subscribe, take over, leave a Will and hear each other. ``known`` was there."""
    subscriber = MqttClient(node.port, "subscriber", version=version)
    assert not subscriber.connect().session_present
    subscriber.subscribe("live/#")  # SUBACK comes, with what is retained still owed
    with MqttClient(node.port, "publisher", version=version) as publisher:
        publisher.publish("live/a", b"1")
        hears(subscriber, "live/a", b"1")
        hears(known, "live/a", b"1")
        known.publish("live/b", b"2")
        hears(subscriber, "live/b", b"2")
        hears(known, "live/b", b"2")
        assert not publisher.unsubscribe("never").reason_code & ~0x11  # of what it was not subscribed to
        publisher.publish("live/kept", b"qos 1", qos=1, packet_id=7)  # a Will below passes it: nothing here waits for it
    mourned = MqttClient(node.port, "mourned", version=version, will=Will(topic="live/gone", payload=b"will", qos=0))
    assert mourned.connect().reason_code == 0
    mourned.subscribe("other")
    again = MqttClient(node.port, "subscriber", version=version)
    assert not again.connect().session_present, "it took the other over"
    again.subscribe("live/#", "more/#")
    again.unsubscribe("more/#")
    mourned.close()
    hears(again, "live/gone", b"will")
    again.ping()
    again.close()


def test_local_clients_go_on_while_the_disk_is_full(shim: Path, tmp_path: Path) -> None:
    version = 5
    with FaultyNode(shim, tmp_path) as faulty:
        node = faulty.node
        node.start()
        kept = MqttClient(node.port, "kept", version=version, clean=False, session_expiry_s=3600)
        kept.connect()
        kept.subscribe("kept/#", qos=1)
        kept.close()
        with MqttClient(node.port, "known", version=version) as known:
            known.subscribe("live/#")
            known.publish("state", b"retained", qos=1, retain=True, packet_id=1)
            known.expect(PUBACK, packet_id=1)
            faulty.faults.fail(NO_SPACE, errno.ENOSPC)
            known.publish("t", b"waits", qos=1, packet_id=2)
            wait_until(lambda: faulty.store_state() == "disk_full", PATIENCE_S, "disk_full")
            kept.connect_without_waiting()  # its session is on record: the store would have to answer
            live_clients_go_on(node, version, known)
            look(node)
            late = MqttClient(node.port, "late", version=version)
            late.connect()
            late.subscribe("state")
            refusal = kept.expect(CONNACK)
            assert (refusal.session_present, refusal.reason_code) == (False, 0x88)
            with pytest.raises((Closed, ConnectionError)):
                kept.read()
            assert node.status()["listener"]["limited"]["store_unavailable"] >= 1
            faulty.faults.heal()
            state = late.expect(PUBLISH)
            assert (state.payload, state.retain) == (b"retained", True), "it comes when the disk is back"
            while True:  # its Will, and others' messages
                packet = known.read()
                if packet.kind == PUBACK:
                    break
            assert packet.packet_id == 2
            assert kept.connect().session_present
            kept.close()
            late.close()
        assert faulty.restarts() == {}


def look(node: Node) -> None:
    """Commands that only look are answered; those that change something say why not."""
    config = str(node.config_path)
    (listed,) = answer_of(node, "queue", "list", config)
    assert [(row["queue"], row["tail"]) for row in listed["queues"]] == [("bridge:cloud:0", 1)]
    kinds = [(event["kind"], event["reason"]) for event in answer_of(node, "events", config)]
    assert ("disk.full", "disk_full") in kinds, "the very thing"
    assert {row["client_id"] for row in answer_of(node, "session", "list", config)} >= {"kept", "known"}
    exported = node.folder / "exported"
    assert node.cli("queue", "export", config, "cloud", "--to", str(exported)).returncode == 0
    assert exported.exists()
    purged = node.cli("queue", "purge", config, "cloud", "--yes")
    assert purged.returncode != 0
    assert "make room" in purged.stderr
    assert "nothing was done" in purged.stderr


@one_process_alone
def test_local_clients_go_on_while_the_store_stands_still(start_node: StartNode) -> None:
    """Stopped, and then killed with what it was asked for: all of it is caught up with."""
    version = 4
    node = start_node(node_config(supervision=PATIENT))
    with MqttClient(node.port, "known", version=version) as known:
        known.subscribe("live/#")
        stopped = node.kill("store", signal.SIGSTOP)
        live_clients_go_on(node, version, known)
        hears(known, "live/gone", b"will")
        will = Will(topic="live/gone", payload=b"again", qos=1, retain=True)
        with MqttClient(node.port, "mourned", version=version, will=will) as mourned:
            node.kill("store", signal.SIGKILL)
            node.wait_replaced("store", stopped)
            mourned.publish("t", b"on record", qos=1, packet_id=1)
            mourned.expect(PUBACK, packet_id=1)
            wait_until(lambda: shown(node, "mourned")["will"], PATIENCE_S, "the Will gets on record")
            clients = node.kill("clients")  # a new one publishes what is on record
            node.wait_replaced("clients", clients)
            wait_until(lambda: node.status()["listener"].get("accepting"), PATIENCE_S, "the new Listener takes clients")
            wait_until(lambda: node.status()["store"]["sessions"]["retained"]["messages"] == 1, PATIENCE_S, "the Will is out")
        with MqttClient(node.port, "asks") as later:
            later.subscribe("live/gone")
            assert later.expect(PUBLISH).payload == b"again"


def shown(node: Node, client_id: str) -> dict[str, Any]:
    """``bascule session show``."""
    (row,) = answer_of(node, "session", "show", str(node.config_path), client_id)
    return dict(row)


def test_a_session_that_comes_to_last_while_the_disk_refuses_is_whole(shim: Path, tmp_path: Path) -> None:
    """A live session goes on as one that lasts, and back: at each step one session, and what was promised of it."""
    with FaultyNode(shim, tmp_path) as faulty:
        node = faulty.node
        node.start()
        faulty.faults.fail(NO_SPACE, errno.ENOSPC)
        live = MqttClient(node.port, "c", version=5)
        live.connect()
        live.publish("t", b"waits", qos=1, packet_id=1)
        faulty.faults.wait_hits()
        lasting = MqttClient(node.port, "c", version=5, clean=False, session_expiry_s=3600)
        lasting.connect_without_waiting()
        with pytest.raises((Closed, ConnectionError, AssertionError)):
            live.expect(PUBACK, packet_id=1)
        faulty.faults.heal()
        assert not lasting.expect(CONNACK).session_present
        lasting.subscribe("t", qos=1)
        lasting.close()
        faulty.faults.fail(NO_SPACE, errno.ENOSPC)
        with MqttClient(node.port, "other") as other:
            other.publish("x", b"waits", qos=1, packet_id=1)
            faulty.faults.wait_hits()
            fresh = MqttClient(node.port, "c", version=5)
            fresh.connect_without_waiting()
            assert fresh.is_silent_for(1.0), "there is a session on record: it has to end first [MQTT-3.1.2-4]"
            faulty.faults.heal()
            assert not fresh.expect(CONNACK).session_present
            fresh.close()
            other.expect(PUBACK, packet_id=1)
        with MqttClient(node.port, "c", version=5, clean=False, session_expiry_s=60) as again:
            again.ping()
        assert faulty.restarts() == {}
