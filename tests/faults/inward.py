"""Messages from the remote while faults befall the node: publishers there, subscribers here, and the judgement of the order.

Publishers of QoS 1 and 2 share each topic at the remote, and the bridge subscribes to one topic at QoS 2 and to the other at QoS 1.
At the node a client that never comes to fetch them has all that was taken in in its queue, in the order of the store; another is
there most of the time and gets the same; a third gets what is delivered live, at QoS 0.

The order is judged against what the remote has sent on its connections (``tests/support/intake_order.py``), not against what was
published there. Of a topic that several lanes share the part of each lane is judged so, and no message is of two parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import takewhile

from tests.support.arrivals import Arrivals
from tests.support.intake_order import IntakeOrder
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import Packet
from tests.support.node import Config, Node
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.tape import Tape
from tests.support.waiting import PATIENCE_S, wait_until

BOTH, LOWERED, FENCE = "in/both", "in/lowered", "in/fence"
REMOTE_SUBSCRIPTIONS: list[Config] = [{"filters": [BOTH]}, {"filters": [LOWERED], "max_qos": 1}]
SHARED_AND_PLAIN: list[Config] = [{**REMOTE_SUBSCRIPTIONS[0], "shared": "half"}, REMOTE_SUBSCRIPTIONS[1]]
SESSIONS = {"queue_max_messages": 1_000_000, "queue_max_bytes": "1GiB"}  # one client never fetches its own


@dataclass(slots=True)
class InwardTotals:
    """The counts of one run or of several."""

    publishes: int = 0
    taken: int = 0
    connections: int = 0
    runs_late: int = 0
    late: list[str] = field(default_factory=list)  # topics and payloads

    def __str__(self) -> str:
        return (
            f"from the remote: {self.publishes} PUBLISHes on {self.connections} connections, {self.taken} messages taken in; the "
            f"remote itself sent {len(self.late)} late in {self.runs_late} runs{': ' * bool(self.late)}{', '.join(self.late[:10])}"
        )


class Inward:
    """The direction from ``remote`` to ``node``, as ``tape`` records it.

    remote_keeps: the remote loses nothing. rate_per_s: of each of the four publishers. shared: two lanes share the first topic.
    """

    def __init__(
        self,
        stack: ExitStack,
        node: Node,
        remote: Mosquitto,
        tape: Tape,
        totals: InwardTotals,
        *,
        remote_keeps: bool,
        rate_per_s: float,
        shared: bool = False,
    ) -> None:
        self._node = node
        self._tape = tape
        self._totals = totals
        self._remote_keeps = remote_keeps
        with MqttClient(node.port, "keeper", clean=False) as keeper:
            keeper.subscribe("in/#", qos=2)
            keeper.disconnect()
        self._watcher = stack.enter_context(Subscriber(node.port, "in/#", client_id="watcher"))
        self._live = stack.enter_context(Subscriber(node.port, "in/#", qos=0, client_id="live"))
        granted = {0: len(REMOTE_SUBSCRIPTIONS), **({1: 1} if shared else {})}
        wait_until(
            lambda: all(node.lane("cloud", lane)["remote_subscriptions"].get("granted") == n for lane, n in granted.items()),
            PATIENCE_S,
            "the remote grants the subscriptions",
        )
        self._crowd = [
            stack.enter_context(Publisher(remote.port, topic, qos=qos, window=20, rate_per_s=rate_per_s, mark=mark))
            for topic, qos, mark in ((BOTH, 1, "a"), (BOTH, 2, "b"), (LOWERED, 1, "c"), (LOWERED, 2, "d"))
        ]

    def finish(self, deadline_s: float) -> None:
        """Publish nothing more; where the remote keeps everything, wait until the node has taken all of it in."""
        for publisher in self._crowd:
            publisher.finish(deadline_s)
        if self._remote_keeps:
            wait_until(lambda: not self._unanswered(), deadline_s, lambda: f"answers to {self._unanswered()}", period_s=0.2)

    def judge(self, deadline_s: float) -> None:
        """The messages that the store has, that its client gets and that were live came in the order in which the remote sent
        them."""
        answered_by = {client: len(recording) for client, recording in self._tape.by_client().items()}
        # what was answered by now is in the keeper's queue, in front of the fence
        with MqttClient(self._node.port, "fence") as client:
            client.publish_burst(FENCE, ["end"], 1)
        with Subscriber(self._node.port, "in/#", client_id="keeper") as keeper:
            keeper.wait_for(FENCE, ["end"], deadline_s)
        self._watcher.wait_for(FENCE, ["end"], deadline_s)
        recordings = self._tape.by_client()
        orders = [IntakeOrder(recording, answered_by=answered_by.get(client, 0)) for client, recording in recordings.items()]
        late = [f"{topic} {payload}" for order in orders for topic in order.topics for payload in order.sent_late(topic)]
        self._totals.publishes += sum(order.publishes for order in orders)
        self._totals.connections += len({passed.connection for recording in recordings.values() for passed in recording})
        self._totals.runs_late += bool(late)
        self._totals.late += late
        for topic in (BOTH, LOWERED):
            taken = _before_fence(keeper.packets, topic)
            self._totals.taken += len(taken)
            _judge_parts(topic, orders, taken, self._live.payloads(topic))
            arrivals = Arrivals.of(_before_fence(self._watcher.packets, topic), taken)
            assert arrivals.are_complete(), f"{topic}: {arrivals}"

    def _unanswered(self) -> dict[str, int]:
        """How many of the messages of each topic the node has not answered."""
        orders = [IntakeOrder(recording) for recording in self._tape.by_client().values()]
        waiting: dict[str, int] = {}
        for publisher in self._crowd:
            sent = {payload for order in orders for payload in order.sent(publisher.topic)}
            unanswered = {payload for order in orders for payload in order.unanswered(publisher.topic)}
            left = len((set(publisher.sent) - sent) | unanswered & set(publisher.sent))
            if left:
                waiting[publisher.topic] = waiting.get(publisher.topic, 0) + left
        return waiting


def _judge_parts(topic: str, orders: Sequence[IntakeOrder], taken: Sequence[str], live: Sequence[str]) -> None:
    """``taken`` is all that the lanes have answered, each message by one of them, and each lane's part in the order of its own."""
    parts = [set(order.sent(topic)) for order in orders]
    assert sum(map(len, parts)) == len(set().union(*parts)), f"{topic}: the remote sent a message to two lanes"
    unknown = {*taken, *live} - set().union(*parts)
    assert not unknown, f"{topic}: taken, and never sent: {sorted(unknown)[:10]}"
    for order, part in zip(orders, parts, strict=True):
        fault = order.fault(topic, [payload for payload in taken if payload in part])
        assert fault is None, fault
        fault = order.live_fault(topic, [payload for payload in live if payload in part])
        assert fault is None, f"live: {fault}"


def _before_fence(packets: Sequence[Packet], topic: str) -> list[str]:
    """The payloads of ``topic`` that came in front of the fence; a remote that was down may have more, which come behind it."""
    before = takewhile(lambda packet: packet.topic != FENCE, packets)
    return [packet.payload.decode() for packet in before if packet.topic == topic]
