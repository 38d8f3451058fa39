"""The receiver's half towards a remote that a test plays packet by packet: answers, refusals, broken packets; and full queues."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.bridge.test_remote_subscriptions import LINES, figures, passing, publish, subscribed, taking
from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import DISCONNECT, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, RECEIVE_MAXIMUM, UNSUBSCRIBE
from tests.support.node import Config, node_config
from tests.support.placements import one_process_alone
from tests.support.proxy import Proxy
from tests.support.scripted_remote import RemoteEnd, ScriptedRemote
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, wait_until

RULE: Config = {"filters": ["in/#"]}
LEVELS = [("mqtt311", 4), ("mqtt5", 5)]


def expect(end: RemoteEnd, *answers: tuple[int, int]) -> None:
    """The next packets are these (kind, packet identifier)."""
    came = [end.read() for _ in answers]
    assert [(packet.kind, packet.packet_id) for packet in came] == list(answers)


@pytest.mark.parametrize(("protocol", "version"), LEVELS)
@one_process_alone
def test_answers_come_after_the_commit_in_order(start_node: StartNode, protocol: str, version: int) -> None:
    """While the store is stopped nothing is answered; a repeated PUBLISH is answered again and not taken again."""
    with ScriptedRemote(version) as remote:
        node = start_node(node_config(taking(remote.port, RULE, protocol=protocol)))
        end = remote.accept()
        asked = end.answer_subscribe(2)
        assert asked.packet_id > 65_000
        assert asked.filters == (("in/#", 2 | (4 | 8 | 16 if version == 5 else 0)),), "no local, as published, if new"
        wait_until(lambda: figures(node)["granted"] == 1, 10.0, "the subscription is granted")
        node.kill("store", signal.SIGSTOP)
        for packet_id, qos in ((3, 1), (1, 2), (2, 1), (9, 2)):
            end.publish("in/a", str(packet_id), qos=qos, packet_id=packet_id)
        end.publish("in/a", "1", qos=2, packet_id=1, dup=True)
        wait_until(lambda: node.find_pid("bridge", "from") is not None, 10.0, "the bridge lives")
        assert end.is_silent_for(0.3)
        node.kill("store", signal.SIGCONT)
        answers = [end.read() for _ in range(5)]
        ids = {kind: [answer.packet_id for answer in answers if answer.kind == kind] for kind in (PUBACK, PUBREC)}
        assert ids == {PUBACK: [3, 2], PUBREC: [1, 9, 1]}, "each kind in order [MQTT-4.6.0-2] [MQTT-4.6.0-3]"
        end.acknowledge(PUBREL, 9)
        end.acknowledge(PUBREL, 1)
        expect(end, (PUBCOMP, 9), (PUBCOMP, 1))
        end.acknowledge(PUBREL, 1)
        assert end.read().reason_code == (0x92 if version == 5 else 0)
        seen = figures(node)
        assert (seen["received"], seen["duplicates"]) == (4, 1)


def test_a_remote_that_keeps_the_session_less_long_than_configured_is_told_of(start_node: StartNode) -> None:
    with ScriptedRemote() as remote:
        node = start_node(node_config(taking(remote.port, RULE, protocol="mqtt5")))
        remote.accept(session_expiry_s=60).answer_subscribe(2)
        node.wait_lane("from", state="connected")
        wait_until(lambda: node.status()["bridges"][0]["link"]["session_expiry_s"] == 60, PATIENCE_S, "the status says so")
        assert "remote keeps the session 60 s only" in node.cli("status", str(node.config_path)).stdout
        (told,) = node.events("session.expires_early")
        assert (told["bridge"], told["session_expiry_s"], told["asked_s"]) == ("from", 60, 7 * 86_400)
        words = ("events", str(node.config_path), "--json", "--kind", "link.up")
        kept = wait_until(lambda: node.cli(*words).stdout, PATIENCE_S, "the event on record")
        assert json.loads(kept)["details"] == {"address": f"127.0.0.1:{remote.port}", "session_expiry_s": 60}


@pytest.mark.parametrize("dup", [True, False])
def test_an_identifier_on_record_is_a_repeat_until_its_pubrel_whatever_dup_says(
    sink: Mosquitto, start_node: StartNode, dup: bool
) -> None:
    """exchange.repeat-not-taken-again: Mosquitto 2.1 sends without DUP again after it was killed [MQTT-4.3.3-10]."""
    with ScriptedRemote(4) as remote, Subscriber(sink.port, "#") as arrived:
        node = start_node(node_config(taking(remote.port, RULE, protocol="mqtt311"), passing(sink.port)))
        first = remote.accept()
        first.answer_subscribe(2)
        first.publish("in/a", "one", qos=2, packet_id=7)
        expect(first, (PUBREC, 7))
        node.kill("bridge", bridge="from")
        second = remote.accept(session_present=True)
        second.publish("in/a", "one", qos=2, packet_id=7, dup=dup)
        second.answer_subscribe(2)
        expect(second, (PUBREC, 7))
        second.publish("in/a", "one", qos=2, packet_id=7)
        expect(second, (PUBREC, 7))
        second.acknowledge(PUBREL, 7)
        expect(second, (PUBCOMP, 7))
        second.publish("in/a", "end", qos=2, packet_id=7)
        expect(second, (PUBREC, 7))
        assert arrived.wait_for("in/a", ["one", "end"]).are_exact()


def test_a_lost_session_forgets_its_identifiers_before_it_subscribes(sink: Mosquitto, start_node: StartNode) -> None:
    with ScriptedRemote(4) as remote, Subscriber(sink.port, "#") as arrived:
        start_node(node_config(taking(remote.port, RULE, protocol="mqtt311"), passing(sink.port)))
        first = remote.accept()
        first.answer_subscribe(2)
        first.publish("in/a", "one", qos=2, packet_id=7)
        expect(first, (PUBREC, 7))
        first.close()
        second = remote.accept(session_present=False)
        second.answer_subscribe(2)
        second.publish("in/a", "two", qos=2, packet_id=7, dup=True)
        expect(second, (PUBREC, 7))
        assert arrived.wait_for("in/a", ["one", "two"]).are_exact()


@pytest.mark.parametrize(("protocol", "version"), LEVELS)
def test_an_exchange_is_completed_when_there_is_no_remote_subscription_any_more(
    sink: Mosquitto, start_node: StartNode, protocol: str, version: int
) -> None:
    """Else its identifier would stay on record, and another message that has it when there is one again be taken for a repeat."""
    sends: Config = {"local_subscriptions": [{"filters": ["none"]}]}
    with ScriptedRemote(version) as remote, Subscriber(sink.port, "#") as arrived:
        with_rule = node_config(taking(remote.port, RULE, protocol=protocol, **sends), passing(sink.port))
        node = start_node(with_rule)
        end = remote.accept()
        end.answer_subscribe(2)
        end.publish("in/a", "one", qos=2, packet_id=7)
        end.publish("in/a", "two", qos=2, packet_id=8)
        expect(end, (PUBREC, 7), (PUBREC, 8))
        assert node.stop() == 0
        end.close()

        node.configure(node_config(taking(remote.port, protocol=protocol, **sends), passing(sink.port)))
        node.start()
        end = remote.accept(session_present=True)
        assert end.read().kind == UNSUBSCRIBE
        end.publish("in/a", "two", qos=2, packet_id=8, dup=True)
        end.acknowledge(PUBREL, 7)
        expect(end, (PUBREC, 8), (PUBCOMP, 7))
        assert node.stop() == 0
        end.close()

        node.configure(with_rule)
        node.start()
        end = remote.accept(session_present=True)
        end.answer_subscribe(2)
        end.publish("in/a", "two", qos=2, packet_id=8, dup=True)
        end.publish("in/a", "three", qos=2, packet_id=7, dup=True)
        expect(end, (PUBREC, 8), (PUBREC, 7))
        assert arrived.wait_for("in/a", ["one", "two", "three"]).are_exact()


BROKEN: list[tuple[str, bytes, int]] = [
    ("QoS 3", b"\x36\x06\x00\x01a\x00\x01\x00", 0x81),
    ("too large", b"\x30\xff\xff\x7f", 0x95),
    ("wildcard in the topic", b"\x30\x04\x00\x01#\x00", 0x81),
    ("topic alias that nobody allowed", b"\x30\x07\x00\x01a\x03\x23\x00\x01", 0x94),
    ("PUBREL with wrong flags", b"\x60\x02\x00\x01", 0x81),
]


def test_a_broken_packet_ends_the_connection_with_its_reason(start_node: StartNode) -> None:
    with ScriptedRemote(5) as remote:
        node = start_node(node_config(taking(remote.port, RULE)))
        for number, (what, packet, code) in enumerate(BROKEN):
            end = remote.accept(session_present=number > 0)
            end.answer_subscribe(2)
            end.publish("in/a", "before", qos=1, packet_id=number + 1)
            expect(end, (PUBACK, number + 1))
            end.send(packet)
            said = end.read()
            assert (said.kind, said.reason_code) == (DISCONNECT, code), what
        remote.accept(session_present=True).answer_subscribe(2)
        assert figures(node)["received"] == len(BROKEN)


@one_process_alone
def test_more_than_the_receive_maximum_is_taken_all_the_same(start_node: StartNode) -> None:
    """A stock Mosquitto 2.0 sends that many when it resumes a session; to disconnect for it would never end."""
    with ScriptedRemote(5) as remote:
        node = start_node(node_config(taking(remote.port, RULE, remote={"receive_maximum": 5})))
        end = remote.accept()
        assert end.connect.property(RECEIVE_MAXIMUM) == 5
        end.answer_subscribe(2)
        wait_until(lambda: figures(node)["granted"] == 1, 10.0, "the subscription is granted")
        node.kill("store", signal.SIGSTOP)
        for packet_id in range(1, 11):
            end.publish("in/a", "x", qos=1, packet_id=packet_id)
        node.kill("store", signal.SIGCONT)
        expect(end, *((PUBACK, packet_id) for packet_id in range(1, 11)))


def test_a_refused_filter_is_shown_and_asked_for_again_and_the_rest_works(sink: Mosquitto, start_node: StartNode) -> None:
    """The outbound half goes on too."""
    rules: list[Config] = [RULE, {"filters": ["secret/#"]}]
    with ScriptedRemote(5) as remote, Subscriber(sink.port, "#") as arrived:
        local = [{"filters": ["out/#"]}]
        node = start_node(node_config(taking(remote.port, *rules, local_subscriptions=local), passing(sink.port)))
        end = remote.accept()
        end.answer_subscribe(2, 0x87)
        end.publish("in/a", "one", qos=1, packet_id=1)
        expect(end, (PUBACK, 1))
        arrived.wait_for("in/a", ["one"])
        publish(node.port, "out/a", ["two"], qos=1)
        came = end.read()
        assert (came.kind, came.payload) == (PUBLISH, b"two")
        end.acknowledge(PUBACK, came.packet_id)
        wait_until(lambda: figures(node)["refused"] == {"secret/#": "0x87"}, 10.0, lambda: f"the refusal; {figures(node)}")
        assert [event["filters"] for event in node.events("remote.subscription_refused")] == [{"secret/#": "0x87"}]
        assert "secret/# (0x87)" in node.cli("status", str(node.config_path)).stdout
        end.close()
        again = remote.accept(session_present=True)
        again.answer_subscribe(2, 2)
        wait_until(lambda: figures(node)["granted"] == 2, 10.0, "both are granted")


def test_without_suback_the_connection_is_made_again(start_node: StartNode) -> None:
    with ScriptedRemote(4) as remote, ThreadPoolExecutor() as thread:

        def play() -> None:
            remote.accept().read()
            remote.accept(session_present=True).answer_subscribe(0)

        played = thread.submit(play)  # in time, however long the node takes until it is ready
        node = start_node(node_config(taking(remote.port, RULE, protocol="mqtt311", remote={"connect_timeout": "2s"})))
        played.result(PATIENCE_S)
        subscribed(node)
        assert [event["error"] for event in node.events("bridge.retry")] == ["no SUBACK in time"]


@pytest.mark.parametrize(("protocol", "version"), LEVELS)
def test_a_full_queue_holds_the_remote_back_and_loses_nothing(
    tmp_path: Path, source: Mosquitto, start_node: StartNode, protocol: str, version: int
) -> None:
    """The bridge ``to`` is away and takes five messages. Messages that come in wait, in order, while the outbound half goes on."""
    from_config: dict[str, Any] = {"local_subscriptions": [{"filters": ["out/#"]}]}
    with Mosquitto(tmp_path / "far", max_inflight_messages=0, max_queued_messages=0) as far, Proxy(far.port) as proxy:
        proxy.cut()
        to = passing(proxy.port, limits={"max_messages": 5}, local_subscriptions=[{"filters": ["in/#"]}], tier2={"max_messages": 2})
        node = start_node(node_config(taking(source.port, RULE, protocol=protocol, **from_config), to))
        subscribed(node)
        lines = LINES[:30]
        with Subscriber(far.port, "#") as arrived, MqttClient(node.port) as local, Subscriber(source.port, "out/#") as out:
            assert local.subscribe("in/#").reason_code < 0x80
            for qos in (2, 1):
                publish(source.port, f"in/{qos}", lines, qos=qos, version=version)
            node.wait_lane_until(lambda row: row["remote_subscriptions"]["waiting"] > 0, "messages wait for room", "from")
            publish(node.port, "out/a", lines, qos=2)
            assert out.wait_for("out/a", lines).are_exact()
            assert 0 < node.lane("to")["depth"] <= 5
            proxy.restore()
            for qos in (1, 2):
                assert arrived.wait_for(f"in/{qos}", lines).are_exact()
            node.wait_lane_until(lambda row: row["remote_subscriptions"]["waiting"] == 0, "nothing waits any more", "from")
            live = [local.read() for _ in range(2 * len(lines))]
            assert sorted((packet.topic, packet.payload.decode()) for packet in live) == sorted(
                (f"in/{qos}", line) for qos in (1, 2) for line in lines
            ), "a live client gets each message once, however often it is offered"
