"""A node under load, between publishers of each QoS and a Mosquitto: what must get through, and what must hold at the end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.node import Node, bridge_config, node_config
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.waiting import wait_until

PROGRESS = 20  # messages that must get through between two faults


def publishers(stack: ExitStack, node: Node) -> list[Publisher]:
    """One publisher for each QoS, publishing."""
    return [stack.enter_context(Publisher(node.port, f"q{qos}", qos=qos, rate_per_s=150.0)) for qos in (0, 1, 2)]


def wait_progress(subscriber: Subscriber, crowd: list[Publisher]) -> None:
    """Wait until every acknowledged quality makes progress, at the publisher and at the far end."""
    for publisher in crowd[1:]:
        publisher.wait_acknowledged(PROGRESS)
    target = subscriber.count() + PROGRESS
    wait_until(lambda: subscriber.count() >= target, 20.0, "messages at the far end")


def judge(node: Node, subscriber: Subscriber, crowd: list[Publisher], *, remote_repeats: bool = False) -> None:
    """Everything that was acknowledged is there; the promises of each QoS hold; the ledger closes."""
    quality_0, quality_1, quality_2 = crowd
    sent_1, sent_2 = quality_1.finish(), quality_2.finish()
    sent_0 = quality_0.finish()
    arrivals_1 = subscriber.wait_for("q1", sent_1, deadline_s=30.0)
    arrivals_2 = subscriber.wait_for("q2", sent_2, deadline_s=30.0)
    lane = node.wait_lane("cloud", depth=0, in_flight=0)
    arrivals_0 = subscriber.arrivals("q0", sent_0)
    assert arrivals_1.are_complete(), arrivals_1
    assert remote_repeats or subscriber.arrivals("q2", sent_2).are_exact(), arrivals_2
    assert arrivals_2.are_complete(), arrivals_2
    assert not arrivals_0.duplicates, arrivals_0
    assert not arrivals_0.out_of_order, arrivals_0
    assert quality_2.sessions_lost == 0, "the node forgot a session that it had acknowledged"
    assert lane["ledger_closes"] is True, lane


@dataclass(frozen=True)
class UnderLoad:
    """A node with the bridge ``cloud``, and who publishes and subscribes at its ends."""

    remote: Mosquitto
    node: Node
    subscriber: Subscriber
    crowd: list[Publisher]

    def wait_progress(self) -> None:
        wait_progress(self.subscriber, self.crowd)

    def judge(self, *, remote_repeats: bool = False) -> None:
        """What came with the last progress is all there is to come."""
        self.wait_progress()
        judge(self.node, self.subscriber, self.crowd, remote_repeats=remote_repeats)


@contextmanager
def under_load(folder: Path, start_node: StartNode, *, persistence: bool = False, **keys: Any) -> Iterator[UnderLoad]:
    """Messages of each QoS arrive. The remote has no limits: with them, 2.0 drops and reorders on the way to its own subscriber."""
    with ExitStack() as stack:
        broker = Mosquitto(folder / "remote", persistence=persistence, max_inflight_messages=0, max_queued_messages=0)
        remote = stack.enter_context(broker)
        node = start_node(node_config(bridge_config("cloud", remote.port, **keys)))
        subscriber = stack.enter_context(Subscriber(remote.port, "#"))
        loaded = UnderLoad(remote, node, subscriber, publishers(stack, node))
        loaded.wait_progress()
        yield loaded


def published_after_release(log: str) -> list[str]:
    """The packet identifiers that the bridge published again after it had released them (there are fewer than 65,000 messages)."""
    released: set[str] = set()
    again = []
    for line in log.splitlines():
        if found := re.search(r"Received PUBREL from bridge-cloud \(Mid: (\d+)\)", line):
            released.add(found[1])
        elif (found := re.search(r"Received PUBLISH from bridge-cloud \(d\d, q2, r0, m(\d+),", line)) and found[1] in released:
            again.append(found[1])
    assert released, "the remote's log says what it received"
    return again
