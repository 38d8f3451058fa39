"""``bascule queue`` on a real node whose remote refuses, withholds or is away: listed, shown, exported, replayed, purged."""

from __future__ import annotations

import json
import signal
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.main import main
from supervisor.control.client import ControlClient
from supervisor.control.control_socket import ControlError
from tests.conftest import StartNode
from tests.support.fake_remote import FakeRemote
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Packet
from tests.support.node import HANGS_SOON, Config, Node, bridge_config, node_config
from tests.support.placements import one_process_alone
from tests.support.ports import free_port
from tests.support.publisher import Publisher
from tests.support.waiting import wait_until

NOT_AUTHORIZED, INVALID = 0x87, 0x99


@pytest.fixture
def refusing() -> Iterator[FakeRemote]:
    codes = {"bad": NOT_AUTHORIZED, "odd": INVALID}
    with FakeRemote() as remote:
        remote.reason_code = lambda packet: codes.get(packet.topic.partition("/")[0], 0)
        yield remote
        remote.check()


def texts(packets: list[Packet]) -> list[str]:
    return [packet.payload.decode() for packet in packets]


def to(port: int, **keys: Any) -> Config:
    return node_config(bridge_config("cloud", port, protocol="mqtt5", **keys))


def publish(node: Node, topic: str, *payloads: str | bytes, qos: int = 1) -> None:
    with MqttClient(node.port, version=5) as client:
        for number, payload in enumerate(payloads, start=1):
            client.publish(topic, payload, qos=qos, packet_id=number)
        numbers = range(1, len(payloads) + 1)
        for number in numbers:
            client.expect(PUBACK if qos == 1 else PUBREC, packet_id=number)
        if qos == 2:
            for number in numbers:
                client.acknowledge(PUBREL, number)
            for number in numbers:
                client.expect(PUBCOMP, packet_id=number)


class Typed:
    """Runs ``bascule queue`` in this process; what it prints."""

    def __init__(self, node: Node, capsys: pytest.CaptureFixture[str]) -> None:
        self._config = str(node.config_path)
        self._capsys = capsys

    def __call__(self, verb: str, *words: str, status: int = 0) -> str:
        self._capsys.readouterr()
        found = main(["queue", verb, self._config, *words])
        said = self._capsys.readouterr()
        assert found == status, said
        return said.out if not status else said.err

    def json(self, verb: str, *words: str) -> Any:
        return json.loads(self(verb, *words, "--json"))


def test_what_the_remote_refuses_is_kept_shown_replayed_and_purged(
    refusing: FakeRemote, start_node: StartNode, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Through a kill -9 of the store and a restart of the node; the sums close all the way."""
    node = start_node(to(refusing.port))
    queue = Typed(node, capsys)
    publish(node, "bad/1", "1", "2", "3", qos=1)
    publish(node, "odd/1", "4", b"\xff\x00", qos=2)
    publish(node, "good/1", "5", qos=1)
    row = node.wait_lane("cloud", depth=0, delivered=1, dead_lettered=5, ledger_closes=True)
    assert row["dead_letters"]["held"] == 5
    assert row["dead_letters"]["reasons"] == {"remote_0x87": 3, "remote_0x99": 2}

    text = queue("list")
    assert "dead:cloud" in text
    assert "remote_0x87 3, remote_0x99 2" in text
    shown = queue.json("peek", "cloud", "--dead", "--count", "4")
    assert [(row["topic"], row["qos"], row["payload"], row["reason"]) for row in shown] == [
        ("bad/1", 1, "1", "remote_0x87"),
        ("bad/1", 1, "2", "remote_0x87"),
        ("bad/1", 1, "3", "remote_0x87"),
        ("odd/1", 2, "4", "remote_0x99"),
    ]
    assert shown[0]["from_queue"] == "bridge:cloud:0"
    assert shown[0]["remote"] == f"bridge-cloud@127.0.0.1:{refusing.port}"
    assert "odd/1" in queue("peek", "cloud", "--dead", "--from", "4")

    node.wait_replaced("store", node.kill("store"))
    node.restart()
    path = tmp_path / "dead.jsonl"
    assert "5 messages" in queue("export", "cloud", "--dead", "--to", str(path))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [b64decode(line["payload_base64"]) for line in lines] == [b"1", b"2", b"3", b"4", b"\xff\x00"]
    assert ("payload_text" in lines[3], "payload_text" in lines[4]) == (True, False)
    assert list(tmp_path.glob(".dead*")) == []

    refusing.reason_code = lambda packet: NOT_AUTHORIZED if packet.topic.startswith("bad") else 0
    assert "back in the queue: 0" in queue("replay", "cloud", "--reason", "nothing")
    assert "back in the queue: 1" in queue("replay", "cloud", "--reason", "remote_0x99", "--count", "1")
    node.wait_lane("cloud", depth=0, delivered=2, ledger_closes=True)
    assert texts(refusing.delivered) == ["5", "4"]
    assert queue.json("replay", "cloud") == {"replayed": 4, "damaged": 0, "full": False}, "what dies again is not replayed for ever"
    row = node.wait_lane("cloud", depth=0, delivered=3, dead_lettered=8, accepted=11, ledger_closes=True)
    assert row["dead_letters"]["held"] == 3
    assert row["dead_letters"]["replayed"] == 5

    assert "nothing was done: add --yes" in queue("purge", "cloud", "--dead", status=2)
    assert "3 dead letters purged" in queue("purge", "cloud", "--dead", "--yes")
    assert queue.json("peek", "cloud", "--dead") == []
    dead = node.lane("cloud")["dead_letters"]
    assert (dead["held"], dead["purged"], dead["replayed"], dead["bytes"]) == (0, 3, 5, 0)


@one_process_alone  # together, the clients go down too, and publish QoS 1 again
def test_messages_that_die_while_the_store_is_killed_are_kept_once_each(
    refusing: FakeRemote, start_node: StartNode, capsys: pytest.CaptureFixture[str]
) -> None:
    """queue.dead-or-queued-never-both on real files: whatever the kills cut off, each message is in the queue or among the dead
    letters; in the end, there.
    """
    node = start_node(to(refusing.port, remote={"receive_maximum": 50, "qos2_maximum": 50}))
    with (
        Publisher(node.port, "bad/1", qos=1, rate_per_s=1500.0) as one,
        Publisher(node.port, "odd/2", qos=2, rate_per_s=500.0) as two,
    ):
        for _ in range(4):
            seen = len(refusing.packets)
            wait_until(lambda seen=seen: len(refusing.received(PUBLISH, since=seen)) > 200, 20.0, "messages refused")  # type: ignore[misc]
            node.wait_replaced("store", node.kill("store"))
        sent = {"bad/1": one.finish(), "odd/2": two.finish()}
    node.wait_lane("cloud", depth=0, ledger_closes=True, deadline_s=30.0)
    lines = [json.loads(line) for line in Typed(node, capsys)("export", "cloud", "--dead", "--to", "-").splitlines()]
    for topic, payloads in sent.items():
        kept = [line["payload_text"] for line in lines if line["topic"] == topic]
        assert sorted(kept, key=int) == payloads, f"{topic}: each once"


def test_a_purge_leaves_what_may_have_been_sent_unless_all_goes_and_the_session_too(
    refusing: FakeRemote, start_node: StartNode, capsys: pytest.CaptureFixture[str]
) -> None:
    """The remote holds QoS 2 identifiers; after the whole purge it is asked for a clean session, and takes new messages once."""
    refusing.stalled = True
    node = start_node(to(refusing.port, remote={"receive_maximum": 6, "qos2_maximum": 5}, tier2={"max_messages": 5}))
    queue = Typed(node, capsys)
    publish(node, "t", *map(str, range(40)), qos=2)
    for burst in range(8):
        publish(node, "t", *map(str, range(40 + 500 * burst, 540 + 500 * burst)))
    wait_until(lambda: len(refusing.received(PUBLISH)) == 5, 10.0, "a full window at the remote")
    node.wait_lane("cloud", depth=4040, in_flight=5)
    wait_until(lambda: 40 < queue.json("list", "cloud")["queues"][0]["in_flight"] < 4040, 10.0, "more than the lane has in hand")
    assert [row["state"] for row in queue.json("peek", "cloud", "--count", "6")] == ["in flight"] * 5 + ["handed out"]

    result = queue.json("purge", "cloud", "--yes")
    kept = result["kept"]
    (lane,) = result.pop("kept_lanes")
    assert result == {"purged": 4040 - kept, "kept": kept, "kept_in_flight": kept, "next": None}
    assert (lane["messages"], lane["reason"]) == (kept, "may_have_been_sent")
    assert (lane["remote"], lane["link_up_ms"] > 0) == (f"127.0.0.1:{refusing.port}", True)
    assert 40 < kept < 4040
    row = node.wait_lane("cloud", depth=kept, in_flight=5, ledger_closes=True)
    assert row["dropped"] == {"purged": 4040 - kept}
    assert [row["payload"] for row in queue.json("peek", "cloud", "--count", "5000")] == [str(n) for n in range(kept)]

    before = len(refusing.connects)
    said = queue("purge", "cloud", "--in-flight", "--yes")
    assert f"{kept} messages purged" in said
    wait_until(lambda: True in refusing.connects[before:], 10.0, "the remote is made to forget the identifiers that it holds")
    refusing.stalled = False
    publish(node, "t", "new 1", "new 2", qos=2)
    node.wait_lane("cloud", depth=0, delivered=2, ledger_closes=True)
    assert texts(refusing.delivered) == ["0", "1", "2", "3", "4", "new 1", "new 2"]


def test_what_waits_for_a_remote_that_never_was_there_is_purged_whole_and_never_in_flight(
    start_node: StartNode, capsys: pytest.CaptureFixture[str]
) -> None:
    """More than a block of marks and all of Tier 2, with the node started anew in between: nothing of it was ever sent."""
    node = start_node(to(free_port()))
    queue = Typed(node, capsys)
    for burst in range(24):
        publish(node, "t", *map(str, range(1000 * burst, 1000 * (burst + 1))), qos=1)
    node.wait_lane("cloud", depth=24_000, in_flight=0)
    assert queue.json("list", "cloud")["queues"][0]["in_flight"] == 0
    assert {row["state"] for row in queue.json("peek", "cloud", "--count", "3")} == {"waiting"}
    assert node.stop() == 0
    node.start()
    node.wait_lane("cloud", depth=24_000, in_flight=0)
    purged = {"purged": 24_000, "kept": 0, "kept_in_flight": 0, "kept_lanes": [], "next": None}
    assert queue.json("purge", "cloud", "--yes") == purged
    node.wait_lane("cloud", depth=0, dropped={"purged": 24_000}, ledger_closes=True)


def test_a_purge_says_in_words_what_stays_and_why(
    refusing: FakeRemote, start_node: StartNode, capsys: pytest.CaptureFixture[str]
) -> None:
    refusing.stalled = True
    node = start_node(to(refusing.port))
    queue = Typed(node, capsys)
    publish(node, "t", "1", "2", qos=2)
    wait_until(lambda: len(refusing.received(PUBLISH)) == 2, 10.0, "sent and not answered")
    node.wait_lane("cloud", depth=2, in_flight=2)
    assert node.cli("bridge", "pause", str(node.config_path), "cloud").returncode == 0
    node.wait_lane("cloud", state="paused", in_flight=2)
    publish(node, "t", "3", "4", "5", qos=2)
    said = queue("purge", "cloud", "--yes").splitlines()
    assert said[0] == "cloud: 3 messages purged"
    why = f"  lane 0: 2 stay and may have been sent; the link to 127.0.0.1:{refusing.port} came up last at 2"
    assert said[1].startswith(why)
    assert said[2:] == ["  --in-flight removes them too, and ends the remote's session"]


def test_the_queue_of_a_bridge_that_is_gone_stays_until_it_is_purged(
    start_node: StartNode, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """P7, also for another bridge beside it; and peek, export to standard output, unknown names."""
    node = start_node(to(free_port()))
    queue = Typed(node, capsys)
    publish(node, "t", *map(str, range(700)))
    assert node.stop() == 0
    node.configure(node_config(bridge_config("other", free_port(), protocol="mqtt5")))
    node.start()

    (unserved,) = node.status()["unserved"]
    assert (unserved["queue"], unserved["depth"]) == ("bridge:cloud:0", 700)
    assert [event["queue"] for event in node.events("queue.unserved")] == ["bridge:cloud:0"]
    assert "bridge:cloud:0 700 messages" in node.cli("status", str(node.config_path)).stdout
    rows = {row["queue"]: row for row in queue.json("list")["queues"]}
    assert (rows["bridge:cloud:0"]["configured"], rows["bridge:cloud:0"]["depth"]) == (False, 700)
    assert (rows["bridge:other:0"]["configured"], rows["bridge:other:0"]["depth"]) == (True, 0)
    assert [row["payload"] for row in queue.json("peek", "cloud", "--count", "2", "--from", "600")] == ["600", "601"]
    lines = queue("export", "cloud", "--to", "-").splitlines()
    assert [json.loads(line)["payload_text"] for line in lines] == [str(n) for n in range(700)]
    assert f"make the folder {tmp_path}/none first" in queue("export", "cloud", "--to", str(tmp_path / "none" / "x"), status=75)
    assert "there is no queue of a bridge 'clout'; known: cloud, other" in queue("peek", "clout", status=1)
    assert "bridge 'cloud' has no lane 3; known: 0" in queue("peek", "cloud", "--lane", "3", status=1)
    assert "never had any" in queue("replay", "cloud", status=1)
    assert "--dead goes without" in queue("purge", "cloud", "--dead", "--in-flight", "--yes", status=2)

    assert "700 messages purged" in queue("purge", "cloud", "--in-flight", "--yes")
    assert queue.json("list", "cloud")["queues"][0]["depth"] == 0
    assert node.status()["unserved"] == []


@one_process_alone
def test_an_order_that_a_store_ends_with_is_told_of_and_who_only_looks_is_answered_by_the_next(
    start_node: StartNode, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stopped, so that it cannot answer, until the supervisor takes it for dead."""
    config = to(free_port())
    config["supervision"] |= HANGS_SOON
    node = start_node(config)
    queue = Typed(node, capsys)
    node.kill("store", signal.SIGSTOP)
    with pytest.raises(ControlError, match="the queue store ended meanwhile"):
        ControlClient.of_config(node.config_path).purge("cloud")
    assert "bridge:cloud:0" in queue("list")
    node.kill("store", signal.SIGSTOP)
    assert "bridge:cloud:0" in queue("list")
    node.wait_replaced("store", node.kill("store"))
    assert "0 messages purged" in queue("purge", "cloud", "--yes")
