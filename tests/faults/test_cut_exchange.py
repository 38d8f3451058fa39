"""P2, P3: the connection to the remote is cut before and after every byte of every packet of the QoS 1 and 2 exchanges.

The remote keeps its session and judges each packet (``tests/support/fake_remote.py``): DUP, original packet identifier, original
order, PUBREL and no PUBLISH after it. Each QoS 2 message is delivered exactly once. Then the same while the bridge, the
store or the whole node is killed at that point. ``--soak`` does the kills at every byte, at both levels.
"""

from __future__ import annotations

import logging
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, product

import pytest

from tests.conftest import StartNode
from tests.support.arrivals import Arrivals
from tests.support.fake_remote import WHOLE, Cut, FakeRemote
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import CONNACK, CONNECT, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Packet
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.placements import TOGETHER, one_process_alone
from tests.support.waiting import PATIENCE_S, holds_for, wait_until

log = logging.getLogger(__name__)

PROTOCOLS = {4: "mqtt311", 5: "mqtt5"}
STEPS = {1: (PUBLISH, PUBACK), 2: (PUBLISH, PUBREC, PUBREL, PUBCOMP)}  # by QoS: the packets of the exchange, in order
FROM_REMOTE = (CONNACK, PUBACK, PUBREC, PUBCOMP)
NAMES = {CONNECT: "CONNECT", CONNACK: "CONNACK", PUBLISH: "PUBLISH", PUBACK: "PUBACK"}
NAMES |= {PUBREC: "PUBREC", PUBREL: "PUBREL", PUBCOMP: "PUBCOMP"}
VICTIMS = ("bridge", "store", "node")
WINDOW = 5
SEED_ROUNDS = 6
SETTLED_DEADLINE_S = 30.0


def config(port: int, level: int) -> Config:
    """A node that loses no time between a fault and the next attempt."""
    quick = {"initial": "5ms", "max": "10ms"}
    node = node_config(bridge_config("cloud", port, protocol=PROTOCOLS[level], backoff=quick))
    node["supervision"] = {**node["supervision"], "restart_backoff": quick, "restarts_max": 100_000}
    return node


class Exchanges:
    """A node, its remote, and a local publisher with numbered messages; a whole exchange has told how long each packet is."""

    def __init__(self, node: Node, remote: FakeRemote, client: MqttClient) -> None:
        self.node = node
        self.remote = remote
        self.client = client
        self.published: list[tuple[str, int]] = []
        self.sizes: dict[tuple[int, int], int] = {}
        for qos in STEPS:
            self.publish(qos, 1)
            self.finish()
            for kind in (CONNECT, CONNACK, *STEPS[qos]):
                self.sizes[qos, kind] = next(record.size_bytes for record in reversed(remote.packets) if record.packet.kind == kind)

    def publish(self, qos: int, count: int) -> list[str]:
        """Publish ``count`` messages in one burst, and return their payloads when the node has acknowledged all."""
        return self.publish_mixed([qos] * count)

    def publish_mixed(self, qualities: list[int]) -> list[str]:
        """Publish one message of each QoS given, in that order, as ``publish`` does."""
        payloads = [f"{len(self.published) + number:06}" for number in range(len(qualities))]
        messages = list(zip(payloads, qualities, strict=True))
        self.client.send(b"".join(self.client.encode_publish("t", payload, qos) for payload, qos in messages))
        self.published += messages
        unacknowledged = len(messages)
        while unacknowledged:
            packet = self.client.read()
            if packet.kind == PUBREC:
                self.client.acknowledge(PUBREL, packet.packet_id)
            else:
                assert packet.kind in (PUBACK, PUBCOMP), packet
                unacknowledged -= 1
        return payloads

    def finish(self) -> None:
        """Wait until all that was published is delivered, its exchange has ended, and the connection stands."""
        self.remote.wait_finished(len(self.published))
        self.remote.wait_established()

    def transcript(self, payload: str, since: int) -> list[str]:
        """The packets of one message that the remote received from record ``since`` on: PUBLISH, DUP (one that carries it) and
        PUBREL."""
        found, ids = [], set()
        for record in self.remote.packets[since:]:
            packet = record.packet
            if not record.sent and packet.kind == PUBLISH and packet.payload == payload.encode():
                found.append("DUP" if packet.dup else "PUBLISH")
                ids.add(packet.packet_id)
            elif not record.sent and packet.kind == PUBREL and packet.packet_id in ids:
                found.append("PUBREL")
        return found

    def judge(self) -> None:
        """Order, exactly once or at least once, an empty queue and a closed ledger."""
        lane = self.node.wait_lane("cloud", depth=0, in_flight=0, ledger_closes=True, deadline_s=SETTLED_DEADLINE_S)
        assert lane["accepted"] == lane["delivered"] == len(self.published), lane
        self.remote.check()
        qos_of = dict(self.published)
        arrivals = Arrivals.of((packet.payload.decode() for packet in self.remote.delivered), list(qos_of))
        assert arrivals.are_complete(), arrivals
        assert all(qos_of[payload] == 1 for payload in arrivals.duplicates), f"at QoS 2: {arrivals}"


@contextmanager
def exchanges(start_node: StartNode, level: int, deliver_on: int) -> Iterator[Exchanges]:
    """Everything up and one message of each QoS through; at the end the node stops in good order."""
    with FakeRemote(deliver_on=deliver_on, long_answers=True) as remote:
        node = start_node(config(remote.port, level))
        with MqttClient(node.port, "publisher", version=level, clean=False, session_expiry_s=3600) as client:
            yield Exchanges(node, remote, client)
        assert node.stop() == 0


def name_of(cut: Cut) -> str:
    at = "whole" if cut.at == WHOLE else f"{cut.at} bytes"
    return f"{'RST' if cut.reset else 'FIN'} after {at} of {NAMES[cut.kind]} {cut.skip}"


def every_byte(sizes: dict[tuple[int, int], int], qos: int) -> list[Cut]:
    """Before and after each byte of each packet of the exchange. Before an answer is after what it answers, so that comes once."""
    return [Cut(kind, at) for kind in STEPS[qos] for at in range(kind in FROM_REMOTE, sizes[qos, kind] + 1)]


def every_packet(qos: int) -> list[Cut]:
    """Before and after each packet of the exchange."""
    return [Cut(PUBLISH, 0), *(Cut(kind) for kind in STEPS[qos])]


def resumed(cut: Cut, sizes: dict[tuple[int, int], int], qos: int) -> list[str]:
    """The packets that the remote must receive of a single message that is cut once: its bytes decide, nothing is left to
    chance."""
    whole = cut.at >= sizes[qos, cut.kind]
    if cut.kind == PUBLISH:
        received = ["PUBLISH", "DUP"] if whole else ["DUP"]
        return received + ["PUBREL"] * (qos - 1)
    if cut.kind in (PUBACK, PUBREC):
        received = ["PUBLISH"] if whole else ["PUBLISH", "DUP"]
        return received + ["PUBREL"] * (qos - 1)
    again = whole if cut.kind == PUBREL else not whole
    return ["PUBLISH", "PUBREL", "PUBREL"] if again else ["PUBLISH", "PUBREL"]


@pytest.mark.parametrize(("level", "deliver_on"), [(4, PUBLISH), (5, PUBREL)], ids=["mqtt311", "mqtt5"])
def test_a_single_message_cut_at_every_byte(start_node: StartNode, level: int, deliver_on: int) -> None:
    """With FIN and with RST. The resent packets are known exactly: the remote sees the same ones each time."""
    with exchanges(start_node, level, deliver_on) as run:
        for qos in STEPS:
            for cut in every_byte(run.sizes, qos):
                for reset in (False, True):
                    since = len(run.remote.packets)
                    run.remote.cut(replace(cut, reset=reset))
                    (payload,) = run.publish(qos, 1)
                    run.finish()
                    run.remote.check()
                    assert run.transcript(payload, since) == resumed(cut, run.sizes, qos), f"QoS {qos}, {name_of(cut)}"
        run.judge()


@pytest.mark.parametrize(
    ("level", "deliver_on"), [pytest.param(4, PUBREL, marks=pytest.mark.soak), (5, PUBLISH)], ids=["mqtt311", "mqtt5"]
)
def test_a_burst_cut_at_every_byte_of_one_of_its_messages(start_node: StartNode, soak: bool, level: int, deliver_on: int) -> None:
    """Another of five messages, and FIN or RST, each time; with ``--soak`` each of them, with both."""
    with exchanges(start_node, level, deliver_on) as run:
        for qos in STEPS:
            for number, cut in enumerate(every_byte(run.sizes, qos)):
                ends = product(range(WINDOW), (False, True)) if soak else [(number % WINDOW, number % 2 == 1)]
                for skip, reset in ends:
                    run.remote.cut(replace(cut, skip=skip, reset=reset))
                    run.publish(qos, WINDOW)
                    run.finish()
                    run.remote.check()
        run.judge()


@pytest.mark.parametrize("level", [4, 5])
def test_a_burst_of_mixed_qos_keeps_its_order(start_node: StartNode, level: int) -> None:
    """The unfinished messages are not one range then: PUBLISHes and PUBRELs go again each in the original order."""
    with exchanges(start_node, level, PUBLISH) as run:
        for qos in STEPS:
            for cut in every_packet(qos):
                for skip in range(3):
                    run.remote.cut(replace(cut, skip=skip))
                    run.publish_mixed([2, 1, 2, 2, 1, 1, 2])
                    run.finish()
                    run.remote.check()
        run.judge()


@pytest.mark.parametrize("level", [4, pytest.param(5, marks=pytest.mark.soak)])
def test_a_resumed_exchange_cut_at_every_byte_of_the_connack(start_node: StartNode, level: int) -> None:
    """The exchange is cut behind each of its packets, and the connection that would resume it is cut while it is made."""
    with exchanges(start_node, level, PUBLISH) as run:
        for qos in STEPS:
            for first in every_packet(qos):
                size = run.sizes[qos, CONNACK]
                for second in (Cut(CONNECT, 0), Cut(CONNECT, 1), Cut(CONNECT), *(Cut(CONNACK, at) for at in range(1, size + 1))):
                    run.remote.cut(first, second)
                    run.publish(qos, 2)
                    run.finish()
                    run.remote.check()
        assert not any(run.remote.connects), "the session is resumed, never cleaned"
        run.judge()


@pytest.mark.parametrize("level", [4, 5])
def test_an_exchange_cut_at_the_same_point_again_and_again(start_node: StartNode, level: int) -> None:
    """A resent packet is cut where its first sending was, three times: the fourth ends it, with the same packet identifier."""
    with exchanges(start_node, level, PUBREL) as run:
        for qos in STEPS:
            for kind in STEPS[qos]:
                cuts = [Cut(kind, run.sizes[qos, kind] - 1)] * 3
                run.remote.cut(*cuts)
                run.publish(qos, WINDOW)
                run.finish()
                run.remote.check()
        run.judge()


@pytest.mark.parametrize("level", [4, 5])
def test_a_publish_that_the_socket_does_not_take_whole(start_node: StartNode, level: int) -> None:
    """The connection ends while the bridge is still writing a large message, so that it never wrote the rest of it."""
    size = 1_000_000
    with exchanges(start_node, level, PUBLISH) as run:
        for qos in STEPS:
            for at in (0, 1, 1000, size // 2, size - 1):
                before = len(run.remote.delivered)
                run.remote.cut(Cut(PUBLISH, at, skip=1))
                run.publish(qos, 1)
                payload = f"{len(run.published):06}".ljust(size, "x")
                run.client.publish("t", payload, qos=qos)
                run.published.append((payload, qos))
                packet = run.client.expect(PUBACK if qos == 1 else PUBREC)
                if qos == 2:
                    run.client.acknowledge(PUBREL, packet.packet_id)
                    run.client.expect(PUBCOMP)
                run.publish(qos, 1)
                run.finish()
                assert len(run.remote.delivered) >= before + 3
        run.judge()


@pytest.mark.parametrize("victim", ["store", "node"])
@one_process_alone
def test_no_pubrel_leaves_before_the_store_has_committed(start_node: StartNode, victim: str) -> None:
    """The store stands still when PUBREC comes: no PUBREL. A kill then forgets the PUBREC, so PUBLISH goes again, with DUP."""
    answering = threading.Event()

    def answer_when_told(_packet: Packet) -> int:
        answering.wait(PATIENCE_S)
        return 0

    with exchanges(start_node, 5, PUBREL) as run:
        since = len(run.remote.packets)
        run.remote.reason_code = answer_when_told
        (payload,) = run.publish(2, 1)
        wait_until(lambda: run.remote.received(PUBLISH, since), 10.0, "PUBLISH")
        run.node.kill("store", signal.SIGSTOP)  # it loses what it was not able to read
        answering.set()
        wait_until(lambda: run.remote.packets[-1].packet.kind == PUBREC, 10.0, "PUBREC")
        holds_for(lambda: not run.remote.received(PUBREL, since), 0.3, "PUBREL before its commit")
        assert run.remote.packets[-1].packet.kind == PUBREC
        if victim == "node":
            run.node.kill_supervisor()
            run.node.start()
            run.client.connect()
        else:
            run.node.wait_replaced(victim, run.node.kill(victim))
        run.finish()
        run.judge()
        assert run.transcript(payload, since) == ["PUBLISH", "DUP", "PUBREL"]


def kill(run: Exchanges, victim: str) -> None:
    """SIGKILL ``victim`` while the cut is held, then let the cut happen and have everything run again."""
    if victim == "node":
        run.node.kill_supervisor()
        run.remote.release()
        run.node.start()
        run.client.connect()
    else:
        old = run.node.kill(victim)
        run.remote.release()
        run.node.wait_replaced(victim, old)
        if run.node.placement == TOGETHER:
            run.client.connect()


def kill_at(run: Exchanges, victim: str, qos: int, *cuts: Cut) -> None:
    """A burst of three messages, cut at the last of ``cuts`` with ``victim`` killed there; then it is carried through."""
    *others, last = cuts
    run.remote.cut(*others, replace(last, hold=True))
    run.publish(qos, 3)
    run.remote.wait_held()
    kill(run, victim)
    run.remote.wait_finished(len(run.published), SETTLED_DEADLINE_S)
    run.remote.wait_established(SETTLED_DEADLINE_S)
    run.judge()


def kill_points(run: Exchanges, qos: int, *, bytewise: bool) -> list[tuple[Cut, ...]]:
    """At the second of three messages, and at the connection that resumes them."""
    cuts = every_byte(run.sizes, qos) if bytewise else every_packet(qos)
    behind = [Cut(CONNECT), Cut(CONNACK)]
    if bytewise:
        behind = [Cut(CONNECT), *(Cut(CONNACK, at) for at in range(1, run.sizes[qos, CONNACK] + 1))]
    points: list[tuple[Cut, ...]] = [(replace(cut, skip=1),) for cut in cuts]
    return points + [(Cut(STEPS[qos][-2], skip=1), cut) for cut in behind]


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_kill_at_every_packet(start_node: StartNode, soak: bool, victim: str) -> None:
    """Before and after each packet at level 4; with ``--soak`` before and after each byte, at both levels."""
    for level, deliver_on in ((4, PUBLISH), (5, PUBREL)) if soak else ((4, PUBLISH),):
        with exchanges(start_node, level, deliver_on) as run:
            for qos in STEPS:
                for cuts in kill_points(run, qos, bytewise=soak):
                    kill_at(run, victim, qos, *cuts)


def test_random_cuts_and_kills(start_node: StartNode, request: pytest.FixtureRequest) -> None:
    """Bursts of mixed QoS, up to three cuts and two kills at any point of them, by seed; ``--soak`` goes on with further seeds."""
    soak_s: float | None = request.config.getoption("--soak")
    end_s = time.monotonic() + (soak_s or 0.0)
    for seed in count(1):
        log.warning("seed %d", seed)  # shown when the test fails
        chance = random.Random(seed)
        with exchanges(start_node, chance.choice((4, 5)), PUBLISH) as run:
            for _ in range(SEED_ROUNDS):
                random_round(run, chance)
            run.judge()
        if time.monotonic() >= end_s:
            break


def random_round(run: Exchanges, chance: random.Random) -> None:
    """One burst, with what goes wrong meanwhile."""
    cuts = [
        Cut(chance.choice(list(NAMES)), chance.choice((0, 1, 2, 3, WHOLE)), chance.randrange(4), reset=chance.random() < 0.5)
        for _ in range(chance.randrange(4))
    ]
    victims = chance.sample(VICTIMS, chance.choice((0, 0, 1, 2)))
    log.warning("%s, killed %s", [name_of(cut) for cut in cuts], victims)
    run.remote.cut(*cuts)
    run.publish_mixed(chance.choices((1, 2), k=chance.randint(1, 8)))
    for victim in victims:
        kill(run, victim)
    run.remote.wait_finished(len(run.published), SETTLED_DEADLINE_S)
    run.remote.forget_cuts()
    run.remote.wait_established(SETTLED_DEADLINE_S)
    run.remote.check()
