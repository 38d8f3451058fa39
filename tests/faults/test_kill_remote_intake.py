"""P1-P4 for what comes from a remote: kill -9 of any process on its way, or of the node, while QoS 1 and 2 flow. None is lost, QoS
2 comes once, order holds.

One Mosquitto is the source, with publishers that it acknowledges; the node takes from it and passes on to a second one.
"""

from __future__ import annotations

import logging
import random
import re
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.node import Node, bridge_config, node_config
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

log = logging.getLogger(__name__)

KILLS = 9  # of each once, then as the seed says
PROGRESS = 20
VICTIMS = ["bridge", "clients", "store", "node"]
SEED = 20_261_121


def kill(node: Node, victim: str, choice: random.Random) -> None:
    """kill -9, and wait for the next life; a process may be hit again while it starts."""
    if victim == "node":
        node.kill_supervisor()
        node.start()
        return
    bridge = "from" if victim == "bridge" else None
    for _ in range(choice.choice([1, 1, 2])):
        old = node.kill(victim, bridge=bridge)
        wait_until(
            lambda old=old: node.find_pid(victim, bridge) not in (None, old),  # type: ignore[misc]  # mypy does not infer it
            10.0,
            lambda: f"a new {victim}\n{node.output[-4000:]}",
        )


def published_after_pubrec(log_text: str) -> int:
    """How many QoS 2 messages the source published again although it had their PUBREC, which nobody can tell from new ones.

    Mosquitto 2.0.11 does that when a connection breaks while it sends a session's PUBRELs again.
    """
    answered: set[str] = set()
    again: set[str] = set()
    for line in log_text.splitlines():
        if found := re.search(r"Received PUBREC from bridge-from \(Mid: (\d+)", line):
            answered.add(found[1])
        elif found := re.search(r"Sending PUBLISH to bridge-from \(d(\d), q2, r0, m(\d+),", line):
            if found[1] == "0":
                answered.discard(found[2])
            elif found[2] in answered:
                again.add(found[2])
    assert answered, "the source's log says what it received"
    return len(again)


@pytest.mark.parametrize("protocol", ["mqtt311", "mqtt5"])
def test_nothing_that_the_remote_sent_is_lost_or_doubled(
    tmp_path: Path, start_node: StartNode, protocol: str, soak: bool, request: pytest.FixtureRequest
) -> None:
    seed = random.randrange(1 << 32) if soak else SEED
    log.warning("seed %d", seed)  # shown when the test fails
    choice = random.Random(seed)
    end_s = time.monotonic() + request.config.getoption("--soak") / 2 if soak else None
    with ExitStack() as stack:
        source, sink = (
            stack.enter_context(Mosquitto(tmp_path / name, max_inflight_messages=0, max_queued_messages=0))
            for name in ("source", "sink")
        )
        taking = bridge_config(
            "from",
            source.port,
            protocol=protocol,
            remote={"receive_maximum": 65_000},  # Mosquitto 2.0 reorders what goes beyond it
            local_subscriptions=[],
            remote_subscriptions=[{"filters": ["#"]}],
        )
        node = start_node(node_config(taking, bridge_config("to", sink.port, protocol=protocol, loop_prevention={"max_hops": 2})))
        wait_until(lambda: node.lane("from")["remote_subscriptions"].get("granted") == 1, 20.0, "the subscription is granted")
        arrived = stack.enter_context(Subscriber(sink.port, "#"))
        crowd = [stack.enter_context(Publisher(source.port, f"q{qos}", qos=qos, rate_per_s=150.0)) for qos in (1, 2)]
        kills = 0
        while kills < KILLS if end_s is None else time.monotonic() < end_s:
            target = arrived.count() + PROGRESS
            wait_until(lambda target=target: arrived.count() >= target, 30.0, lambda: f"progress\n{node.output[-4000:]}")  # type: ignore[misc]
            kill(node, VICTIMS[kills % len(VICTIMS)] if kills < len(VICTIMS) else choice.choice(VICTIMS), choice)
            kills += 1
        sent_1, sent_2 = (publisher.finish() for publisher in crowd)
        expected = len(sent_1) + len(sent_2)
        wait_until(
            lambda: arrived.count() >= expected, 60.0, lambda: f"all of {expected}: {node.status()['bridges']}", period_s=0.1
        )
        assert arrived.wait_for("q1", sent_1, deadline_s=30.0).are_complete()
        arrived.wait_for("q2", sent_2, deadline_s=30.0)
        lane = node.wait_lane("to", depth=0, in_flight=0)
        arrivals = arrived.arrivals("q2", sent_2)
        assert arrivals.are_complete(), arrivals
        assert len(arrivals.duplicates) <= published_after_pubrec(source.log), f"{arrivals}\n{node.output[-4000:]}"
        assert lane["ledger_closes"] is True
        assert not node.events("session.unknown")
