"""Other brokers as remotes, while the link is cut and the whole node is killed: what is lost or doubled is the remote's doing.

Each message is followed on the recorded connection between bridge and remote. A message that the remote has acknowledged there, and
never brought to its subscriber, it has lost; one that it sent as another message a second time, it has doubled.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

import pytest

from tests.bridge.test_remote_subscriptions import passing
from tests.conftest import Chances, StartNode
from tests.support.foreign_brokers import Aedes, ForeignBroker, NatsMqtt, RabbitMq
from tests.support.link_record import LinkRecord
from tests.support.mosquitto import Mosquitto
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.tape import Tape
from tests.support.waiting import wait_until

MESSAGES, FEW = 2_000, 240  # each way, over the three QoS; few without --soak
DEADLINE_S = 90.0

REMOTES = {"mosquitto": "mqtt311", "mosquitto-5": "mqtt5", "rabbitmq": "auto", "nats": "auto", "aedes": "auto"}
# Those speak no MQTT 5.0, or not all of it, and are asked for it first.
FOREIGN: dict[str, type[ForeignBroker]] = {"rabbitmq": RabbitMq, "nats": NatsMqtt, "aedes": Aedes}
# At which QoS messages cross. RabbitMQ 3.10 has no QoS 2, and answers it with PUBACK. aedes has, and closes the connection on a
# PUBREL of what it has completed ("no such packet"), which every cut can bring about; and it doubles QoS 2 inwards without end.
HIGHEST = {"rabbitmq": 1, "aedes": 1}


def broker(name: str, folder: Path) -> Mosquitto | ForeignBroker:
    return FOREIGN[name](folder) if name in FOREIGN else Mosquitto(folder, max_queued_messages=0)


def kill_all(node: Node) -> None:
    """SIGKILL to the whole tree, the supervisor first, and start again."""
    node.supervisor.send_signal(signal.SIGSTOP)
    for pid in node.pids():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    node.kill_supervisor()
    node.start()


def come(subscriber: Subscriber, topics: Iterable[str]) -> set[str]:
    """The arrivals of ``topics``."""
    return {payload for topic in topics for payload in subscriber.payloads(topic)}


@pytest.mark.parametrize("name", REMOTES)
def test_what_is_lost_or_doubled_is_the_remotes_doing(
    name: str, tmp_path: Path, start_node: StartNode, chances: Chances, soak: bool
) -> None:
    """Messages each way at QoS 0, 1 and 2, with two cuts of the link and one kill -9 of the whole node."""
    highest, share = HIGHEST.get(name, 2), (MESSAGES if soak else FEW) // 3 + 4
    tape = Tape()
    with ExitStack() as stack:
        remote = broker(name, tmp_path / name)
        stack.enter_context(remote)
        sink = stack.enter_context(Mosquitto(tmp_path / "sink", max_inflight_messages=0, max_queued_messages=0))
        proxy = stack.enter_context(Proxy(remote.port, tap=tape))
        at_remote = stack.enter_context(Subscriber(remote.port, "out/#", qos=highest))
        at_sink = stack.enter_context(Subscriber(sink.port, "in/#"))
        out_rule = {"filters": ["out/#"], "max_qos": 1 if name == "aedes" else 2}
        keys: Config = {"local_subscriptions": [out_rule], "remote_subscriptions": [{"filters": ["in/#"]}]}
        bridge = bridge_config("remote", proxy.port, protocol=REMOTES[name], **keys)
        node = start_node(node_config(bridge, passing(sink.port, local_subscriptions=[{"filters": ["in/#"]}])))
        wait_until(lambda: node.lane("remote")["link"]["protocol"] == (5 if name == "mosquitto-5" else 4), 20.0, "the version")
        node.wait_lane_until(lambda row: row["remote_subscriptions"].get("granted"), "the subscription", bridge="remote")
        publishers = [
            stack.enter_context(Publisher(port, f"{way}/{qos}", qos=min(qos, most), rate_per_s=200.0, mark=f"{way}-{qos}-"))
            for way, port, most in (("out", node.port, 2), ("in", remote.port, highest))
            for qos in range(3)
        ]
        for step in range(4):
            for publisher in publishers:
                publisher.wait_acknowledged(share // 4, DEADLINE_S)
            if step in (0, 2):
                proxy.cut()
                wait_until(lambda: node.lane("remote")["state"] != "connected", 20.0, "the link is down")
                proxy.restore()
            elif step == 1:
                kill_all(node)
        sent = {publisher.topic: publisher.finish(DEADLINE_S) for publisher in publishers}
        node.wait_lane("remote", depth=0, ledger_closes=True, deadline_s=DEADLINE_S)
        durable = {topic: payloads for topic, payloads in sent.items() if not topic.endswith("/0")}
        out = {topic: payloads for topic, payloads in durable.items() if topic.startswith("out")}
        back = {topic: payloads for topic, payloads in durable.items() if topic.startswith("in")}
        record = LinkRecord(tape)
        record.judge_out([*out["out/1"], *out["out/2"]], exactly_once=out["out/2"], lowered=highest < 2)
        wait_until(lambda: come(at_sink, back) >= unlost(record, back), DEADLINE_S, "all that the remote has sent", period_s=0.1)
        node.wait_lane("to", depth=0, deadline_s=DEADLINE_S)
        record.judge_back(twice(at_sink, "in/2"))
        lacks = {one["what"] for one in node.lane("remote")["link"]["lacks"] if one["learnt"]}
        assert lacks == ({"QoS above 1"} if name == "rabbitmq" else set())
        assert not node.lane("remote")["exchange"]["released_unanswered"] or name == "aedes"
        lost = [len({*chain(*way.values())} - come(there, way)) for there, way in ((at_remote, out), (at_sink, back))]
        doubled = [len(twice(at_remote, "out/2")), len(twice(at_sink, "in/2"))]
        chances.say(f"{name}: lost by it {lost[0]} out and {lost[1]} in, QoS 2 doubled by it {doubled[0]} and {doubled[1]}")


def twice(subscriber: Subscriber, topic: str) -> list[str]:
    """The messages that came more than once."""
    return [payload for payload, count in Counter(subscriber.payloads(topic)).items() if count > 1]


def unlost(record: LinkRecord, back: Mapping[str, list[str]]) -> set[str]:
    """The messages that the remote has brought to the bridge, of those it acknowledged."""
    payloads = {payload for of_topic in back.values() for payload in of_topic}
    return payloads - record.remotes_loss(payloads, out=False)
