"""Deliveries to a connected subscriber: every QoS, every subscription option, at both protocol levels."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mqtt_client import MqttClient, publish, take, take_one
from tests.support.mqtt_packets import (
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBLISH,
    SUBACK,
    SUBSCRIBE,
    SUBSCRIPTION_IDENTIFIER,
    TOPIC_ALIAS,
    UNSUBSCRIBE,
    Packet,
    packet_bytes,
    string,
    subscribe_bytes,
)
from tests.support.node import Config, Node, node_config
from tests.support.placements import one_process_alone

TOPIC_ALIAS_MAXIMUM = 0x22
RETAINED = 75  # of 100 kB each: under sessions.queue_max_bytes, more than the buffers of a connection
STANDING = 25_000  # messages that are published while the store stands still: more than two batches on their way and a full one
CROWD = 5_000  # messages of 1,000 bytes: more than two batches
NO_LOCAL, RETAIN_AS_PUBLISHED, ONLY_IF_NEW, NEVER = 0x04, 0x08, 0x10, 0x20


def standing_config() -> Config:
    """A node whose supervisor has patience with a store that stands still."""
    config = node_config()
    config["supervision"] |= {"heartbeat_timeout": "300s"}
    return config


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One node for all tests of this module; each has topics and client identifiers of its own."""
    with Node(node_config(), tmp_path_factory.mktemp("broker")) as node:
        yield node


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("published", [0, 1, 2])
def test_a_message_arrives_at_the_lower_of_both_qos(node: Node, version: int, granted: int, published: int) -> None:
    name = f"qos-{version}-{granted}-{published}"
    with MqttClient(node.port, f"{name}-s", version=version) as subscriber, MqttClient(node.port, f"{name}-p") as publisher:
        assert subscriber.subscribe(f"{name}/#", qos=granted).reason_codes == (granted,)
        publish(publisher, f"{name}/t", "0", "1", "2", qos=published)

        got = take(subscriber, 3)

        assert [message.payload for message in got] == [b"0", b"1", b"2"]
        assert {message.qos for message in got} == {min(granted, published)}
        assert not any(message.dup or message.retain for message in got)
        subscriber.ping()


@pytest.mark.parametrize("expiry_s", [0, 60])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_topic_is_named_once_to_a_client_that_takes_topic_aliases(node: Node, qos: int, expiry_s: int) -> None:
    name = f"alias-{qos}-{expiry_s}"
    with (
        MqttClient(node.port, name, version=5, session_expiry_s=expiry_s, properties=[(TOPIC_ALIAS_MAXIMUM, 10)]) as subscriber,
        MqttClient(node.port, f"{name}-p") as publisher,
    ):
        subscriber.subscribe(f"{name}/#", qos=qos)
        publish(publisher, f"{name}/t", "0", "1", "2", qos=qos)

        got = take(subscriber, 3)

        assert [(message.topic, message.payload) for message in got] == [(f"{name}/t", b"0"), ("", b"1"), ("", b"2")]
        assert len({message.property(TOPIC_ALIAS) for message in got}) == 1


def test_no_local_and_retain_as_published(node: Node) -> None:
    with MqttClient(node.port, "nl", version=5) as both, MqttClient(node.port, "nl-p", version=5) as other:
        both.subscribe("nl/#", qos=1, options=NO_LOCAL | RETAIN_AS_PUBLISHED)
        publish(both, "nl/own", "own", qos=1)
        publish(other, "nl/other", "kept", qos=1, retain=True)

        message = take_one(both)

        assert (message.payload, message.retain) == (b"kept", True)


def test_overlapping_subscriptions_send_one_copy_with_all_identifiers(node: Node) -> None:
    with MqttClient(node.port, "over", version=5) as subscriber, MqttClient(node.port, "over-p", version=5) as publisher:
        subscriber.subscribe("over/#", qos=0, identifier=7)
        subscriber.subscribe("over/+", qos=1, identifier=300)
        publish(publisher, "over/t", "x", qos=2)

        message = take_one(subscriber)
        identifiers = [value for known, value in message.properties if known == SUBSCRIPTION_IDENTIFIER]

        assert (message.qos, sorted(map(int, map(str, identifiers)))) == (1, [7, 300])
        publish(publisher, "over/t", "y")
        assert take_one(subscriber).payload == b"y", "there was no second copy of x"


def test_a_shared_subscription_sends_each_message_to_one(node: Node) -> None:
    with (
        MqttClient(node.port, "sh-1", version=5) as first,
        MqttClient(node.port, "sh-2") as second,
        MqttClient(node.port, "sh-p") as publisher,
    ):
        for member in (first, second):
            assert member.subscribe("$share/g/sh/#", qos=1).reason_codes == (1,)
            member.subscribe("end", qos=0)
        publish(publisher, "sh/t", *map(str, range(20)), qos=1)
        publish(publisher, "end", "", qos=0)

        got: list[bytes] = []
        counts = []
        for member in (first, second):
            mine = []
            while (message := take_one(member)).topic != "end":
                mine.append(message.payload)
            counts.append(len(mine))
            got += mine

        assert sorted(got) == sorted(str(number).encode() for number in range(20))
        assert min(counts) > 0


def test_retained_messages_come_as_the_subscription_says(node: Node) -> None:
    with MqttClient(node.port, "ret", version=5) as subscriber, MqttClient(node.port, "ret-p") as publisher:
        publish(publisher, "ret/0", "zero", retain=True)
        publish(publisher, "ret/2", "two", qos=2, retain=True)

        def retained(options: int) -> dict[str, tuple[int, bool]]:
            subscriber.subscribe("ret/#", qos=1, options=options)
            publish(publisher, "ret/end", "live", qos=1)
            found = {}
            while (message := take_one(subscriber)).topic != "ret/end":
                found[message.topic] = (message.qos, message.retain)
            return found

        assert retained(NEVER) == {}
        assert retained(ONLY_IF_NEW) == {}, "the subscription was there"
        assert retained(0) == {"ret/0": (0, True), "ret/2": (1, True)}
        assert subscriber.unsubscribe("ret/#", "ret/none").reason_codes == (0, 0x11)
        assert retained(ONLY_IF_NEW) == {"ret/0": (0, True), "ret/2": (1, True)}
        publish(publisher, "ret/0", "", retain=True)
        while take_one(subscriber).topic != "ret/0":
            pass
        assert retained(0) == {"ret/2": (1, True)}


@one_process_alone
def test_qos_0_never_waits_for_the_disk(tmp_path: Path) -> None:
    """A store that takes nothing: a full batch of them and more goes through, in order, and QoS 1 waits and gets its commit."""
    with (
        Node(standing_config(), tmp_path) as node,
        MqttClient(node.port, "s", version=5) as subscriber,
        MqttClient(node.port, "lasting", version=5, session_expiry_s=600) as lasting,
        MqttClient(node.port, "p") as publisher,
    ):
        for client in (subscriber, lasting):
            client.subscribe("t/#", qos=1)
        store = node.kill("store", signal.SIGSTOP)
        expected = []
        for number in range(STANDING // 100):
            publisher.send(b"".join(publisher.encode_publish("t/0", f"{number}.{at}", 0, 0) for at in range(100)))
            publisher.publish(f"t/retained/{number % 10}", str(number), retain=True)
            expected += [f"{number}.{at}" for at in range(100)] + [str(number)]
        publisher.publish("t/1", "waits", qos=1, packet_id=1)
        publisher.publish("t/0", "last")

        for client in (subscriber, lasting):
            got = take(client, len(expected) + 1)
            in_order = [message.payload.decode() for message in got] == [*expected, "last"]
            assert in_order
        publisher.ping()  # and nothing is acknowledged
        os.kill(store, signal.SIGCONT)
        publisher.expect(PUBACK, packet_id=1)
        for client in (subscriber, lasting):
            assert take_one(client).payload == b"waits"
            client.ping()
        figures = node.status()["listener"]
        assert figures["overtaking"]["passed"] >= len(expected) - 2 * 8_192, "all but two batches"
        assert 0 < figures["overtaking"]["dropped"] < figures["overtaking"]["passed"]
        assert figures["published"] == len(expected) + 2
        assert len(node.events("listener.qos_0_dropped")) == 1
        with MqttClient(node.port, "later") as later:
            later.subscribe("t/retained/+")
            states = {message.topic[-1]: int(message.payload) for message in take(later, 10)}
        assert states == {str(number % 10): number for number in range(STANDING // 100 - 10, STANDING // 100)}


@one_process_alone
def test_who_waits_for_the_disk_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    """A batch is full of QoS 1 that the store does not take: others are heard, and what they send at QoS 0 is delivered."""
    with (
        Node(standing_config(), tmp_path) as node,
        MqttClient(node.port, "s") as subscriber,
        MqttClient(node.port, "p", version=5) as publisher,
        MqttClient(node.port, "crowd") as crowd,
    ):
        subscriber.subscribe("t")
        store = node.kill("store", signal.SIGSTOP)
        crowd.send(b"".join(crowd.encode_publish("crowd", b"x" * 1000, 1, at + 1) for at in range(CROWD)))
        publisher.publish("crowd", "waits", qos=1, packet_id=1)
        for at in range(5):
            messages = b"".join(subscriber.encode_publish("t", f"{at}.{n}", 0) for n in range(1000))
            subscriber.send(messages)
            got = [message.payload.decode() for message in take(subscriber, 1000)]
            assert got == [f"{at}.{n}" for n in range(1000)]
            subscriber.ping()
        with pytest.raises(TimeoutError):
            crowd.read(0.01)
        os.kill(store, signal.SIGCONT)
        publisher.expect(PUBACK, packet_id=1)
        for at in range(CROWD):
            crowd.expect(PUBACK, packet_id=at + 1)
        crowd.ping()


@pytest.mark.parametrize("expiry_s", [0, 600])
@one_process_alone
def test_a_retained_message_comes_before_what_was_published_after_it(tmp_path: Path, expiry_s: int) -> None:
    """However long the store takes for it: a client that keeps the last value of a topic keeps the newest. Others don't wait.

    Only a session that lasts has its SUBACK when the store has it.
    """
    with (
        Node(standing_config(), tmp_path) as node,
        MqttClient(node.port, "s", version=5, session_expiry_s=expiry_s) as subscriber,
        MqttClient(node.port, "p") as publisher,
    ):
        publish(publisher, "state/1", "old", retain=True)
        subscriber.subscribe("state/+", options=NEVER)
        subscriber.subscribe("news", options=NEVER)
        publisher.ping()
        store = node.kill("store", signal.SIGSTOP)
        subscriber.send(subscribe_bytes(5, 7, [("state/1", 0)]))
        if not expiry_s:
            subscriber.expect(SUBACK, packet_id=7)
        subscriber.ping()
        publish(publisher, "state/1", "new")
        publish(publisher, "state/2", "other")
        publish(publisher, "news", "news")

        meanwhile = take(subscriber, 2)
        os.kill(store, signal.SIGCONT)
        if expiry_s:
            subscriber.expect(SUBACK, packet_id=7)
        states = take(subscriber, 2)

        assert [(message.topic, message.payload) for message in meanwhile] == [("state/2", b"other"), ("news", b"news")]
        assert [(message.payload, message.retain) for message in states] == [(b"old", True), (b"new", False)]
        publish(publisher, "state/1", "newest")
        assert take_one(subscriber).payload == b"newest"


def test_a_client_that_is_slow_to_read_gets_the_newest_value_last(tmp_path: Path) -> None:
    with (
        Node(node_config(), tmp_path) as node,
        MqttClient(node.port, "s", version=5) as subscriber,
        MqttClient(node.port, "p") as publisher,
    ):
        for number in range(RETAINED):
            publish(publisher, f"state/{number:03d}", "old".ljust(100_000), retain=True)
        publisher.ping()
        subscriber.subscribe("state/#", qos=0)  # more than its socket takes
        publish(publisher, f"state/{RETAINED - 1:03d}", "new")
        publisher.ping()

        states = {message.topic: message.payload.rstrip() for message in take(subscriber, RETAINED + 1)}

        assert len(states) == RETAINED
        assert [topic for topic, state in states.items() if state == b"new"] == [f"state/{RETAINED - 1:03d}"]


def test_what_is_dropped_for_a_slow_reader_gives_no_topic_alias(tmp_path: Path) -> None:
    """An alias that only a dropped packet has told the client would be a protocol error in the next one that uses it."""
    with (
        Node(node_config(), tmp_path) as node,
        MqttClient(node.port, "s", version=5, properties=[(TOPIC_ALIAS_MAXIMUM, 10)]) as subscriber,
        MqttClient(node.port, "w") as witness,
        MqttClient(node.port, "p") as publisher,
    ):
        witness.subscribe("news/large")
        subscriber.subscribe("news/#")
        publish(publisher, "news/fill", *["x" * 900_000] * 12)  # more than its socket takes
        publish(publisher, "news/large", "x" * 900_000)
        take(witness, 1)
        subscriber.send(packet_bytes(PINGREQ))
        messages: list[Packet] = []
        while (packet := subscriber.read()).kind != PINGRESP:
            messages.append(packet)
        assert "news/large" not in [message.topic for message in messages], "it was dropped"
        publish(publisher, "news/large", "small")
        messages.append(take_one(subscriber))

        topics: dict[object, str] = {}
        for message in messages:
            alias = message.property(TOPIC_ALIAS)
            assert message.topic or alias in topics, "the alias was never given"
            topics.setdefault(alias, message.topic)
        assert messages[-1].payload == b"small"


def test_a_client_takes_no_more_than_it_said(node: Node) -> None:
    limits: list[tuple[int, int | bytes | str | tuple[str, str]]] = [(0x21, 2), (0x27, 100)]
    with MqttClient(node.port, "small", version=5, properties=limits) as subscriber, MqttClient(node.port, "small-p") as publisher:
        subscriber.subscribe("small/#", qos=2)
        publish(publisher, "small/t", "x" * 200, qos=1)
        publish(publisher, "small/t", "x" * 200, qos=0)
        for number in range(5):
            publish(publisher, "small/t", str(number), qos=1)

        first, second = subscriber.expect(PUBLISH), subscriber.expect(PUBLISH)
        subscriber.ping()  # and nothing else came
        subscriber.acknowledge(PUBACK, first.packet_id)
        third = subscriber.expect(PUBLISH)

        assert [message.payload for message in (first, second, third)] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("kind", [SUBSCRIBE, UNSUBSCRIBE])
def test_an_answer_that_a_client_cannot_take_is_not_sent_and_nothing_is_done(node: Node, kind: int) -> None:
    """[MQTT-3.1.2-24]: it is told why, and can ask for less on its next connection."""
    name = f"answer-{kind}"
    filters = [f"{name}/{number}" for number in range(60)]
    options = b"\0" if kind == SUBSCRIBE else b""
    with MqttClient(node.port, name, version=5, session_expiry_s=60, properties=[(0x27, 50)]) as subscriber:
        subscriber.subscribe(filters[0])
        subscriber.send(packet_bytes(kind, 2, b"\0\1" + b"\0" + b"".join(string(each) + options for each in filters)))

        goodbye = subscriber.expect(DISCONNECT)

        assert goodbye.reason_code == 0x95
    with MqttClient(node.port, name, version=5, session_expiry_s=0, clean=False) as again:
        known = again.unsubscribe(*filters[:2])
        assert known.reason_codes == (0x00, 0x11)


def test_a_filter_that_is_named_twice_is_new_once(node: Node) -> None:
    """As two SUBSCRIBEs one behind the other [MQTT-3.8.4-6]."""
    with MqttClient(node.port, "twice", version=5) as subscriber, MqttClient(node.port, "twice-p") as publisher:
        publish(publisher, "twice/t", "kept", qos=1, retain=True)
        subscriber.subscribe("twice/t", "twice/t", options=ONLY_IF_NEW)

        assert take_one(subscriber).payload == b"kept"
        subscriber.ping()


def test_mosquitto_s_clients(node: Node) -> None:
    base = ["-h", "127.0.0.1", "-p", str(node.port), "-t", "mosq/t", "-q", "2"]
    with subprocess.Popen(
        ["stdbuf", "-oL", "mosquitto_sub", *base, "-V", "mqttv5", "-C", "3", "-W", "60", "-d"],
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as subscriber:
        assert subscriber.stdout is not None
        said = "nothing yet"
        while said and "Subscribed" not in said:
            said = subscriber.stdout.readline()
        assert said, "it has ended before it was subscribed"
        for payload in ("a", "b", "c"):
            subprocess.run(["mosquitto_pub", *base, "-m", payload], check=True, timeout=60)
        lines = [line.strip() for line in subscriber.stdout.read().splitlines()]

    assert [line for line in lines if line in ("a", "b", "c")] == ["a", "b", "c"]
