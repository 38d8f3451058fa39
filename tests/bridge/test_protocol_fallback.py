"""protocol: auto, at a Mosquitto that takes MQTT 5.0 or does not: its session goes on from version to version."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.bridge.test_foreign_remotes import come, twice, unlost
from tests.bridge.test_remote_subscriptions import subscribed
from tests.conftest import StartNode
from tests.support.link_record import LinkRecord
from tests.support.mosquitto import Mosquitto
from tests.support.node import Config, bridge_config, node_config
from tests.support.proxy import Proxy
from tests.support.publisher import Publisher
from tests.support.subscriber import Subscriber
from tests.support.tape import Tape
from tests.support.waiting import wait_until

MESSAGES, DEADLINE_S = 150, 60.0
OLDER = bytes.fromhex("20020001")  # CONNACK of a broker that knows MQTT 3.1.1 only


def speaks(level: int, row: dict[str, Any]) -> bool:
    """Whether the link stands, by that version."""
    return bool(row["state"] == "connected" and row["link"]["protocol"] == level)


@pytest.mark.parametrize("answer", [OLDER, b""], ids=["says so", "closes"])
def test_nothing_is_lost_or_doubled_when_the_version_changes(answer: bytes, tmp_path: Path, start_node: StartNode) -> None:
    """5.0, then 3.1.1, then 5.0 by an operator's word, in one session, with QoS 2 in flight each way."""
    tape = Tape()
    with (
        Mosquitto(tmp_path / "remote", max_queued_messages=0) as remote,
        Proxy(remote.port, tap=tape) as proxy,
        Subscriber(remote.port, "out/#") as at_remote,
    ):
        keys: Config = {"local_subscriptions": [{"filters": ["out/#"]}], "remote_subscriptions": [{"filters": ["in/#"]}]}
        node = start_node(node_config(bridge_config("remote", proxy.port, protocol="auto", **keys)))
        with (
            Subscriber(node.port, "in/#") as at_node,
            Publisher(node.port, "out/2", qos=2, rate_per_s=300.0) as out,
            Publisher(remote.port, "in/2", qos=2, rate_per_s=300.0) as back,
        ):
            subscribed(node, "remote")
            for level in (5, 4, 5, 4):
                node.wait_lane_until(partial(speaks, level), f"level {level}", bridge="remote")
                for publisher in (out, back):
                    publisher.wait_acknowledged(MESSAGES, DEADLINE_S)
                proxy.refuse(5 if level == 5 else None, answer)
                if level == 5:
                    proxy.cut()
                    node.wait_lane_until(lambda row: row["state"] != "connected", "the link is cut", bridge="remote")
                    proxy.restore()
                else:
                    node.cli("bridge", "restart", str(node.config_path), "remote")
            sent, brought = out.finish(DEADLINE_S), {"in/2": back.finish(DEADLINE_S)}
            record = LinkRecord(tape)
            at_remote.wait_for("out/2", sent, deadline_s=DEADLINE_S)
            wait_until(lambda: come(at_node, brought) >= unlost(record, brought), DEADLINE_S, "all that the remote has sent")
            node.wait_lane("remote", depth=0, ledger_closes=True, deadline_s=DEADLINE_S)

            assert at_remote.arrivals("out/2", sent).are_exact()
            record.judge_out(sent, exactly_once=sent, lowered=False)
            record.judge_back(twice(at_node, "in/2"))
            assert node.lane("remote")["exchange"]["sessions_lost"] == 0


def test_what_was_learnt_outlives_the_node_and_not_the_word_of_an_operator(tmp_path: Path, start_node: StartNode) -> None:
    with Mosquitto(tmp_path / "remote") as remote, Proxy(remote.port) as proxy:
        proxy.refuse(5, OLDER)
        node = start_node(node_config(bridge_config("remote", proxy.port, protocol="auto")))
        node.wait_lane("remote", state="connected")
        assert proxy.connects == [5, 4]

        node.restart()
        node.wait_lane("remote", state="connected")
        assert proxy.connects == [5, 4, 4]

        proxy.refuse(None)
        node.cli("bridge", "restart", str(node.config_path), "remote")
        wait_until(lambda: proxy.connects == [5, 4, 4, 5], 20.0, lambda: str(proxy.connects))
        node.wait_lane_until(partial(speaks, 5), "5.0", bridge="remote")
