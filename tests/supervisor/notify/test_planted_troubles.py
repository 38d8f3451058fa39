"""Troubles that are planted in one real node: each is told by a web service, a program and a topic, once, and so is its end.

A topic is seen from beyond a bridge. Two have real nodes elsewhere: a take-over in ``test_take_over_told.py``, a clock that is set
in ``tests/faults/test_clock_and_descriptors.py``. How long each takes, and ends after a minute of calm: ``test_notice_times.py``.
"""

from __future__ import annotations

import json
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from supervisor.control.client import ControlClient
from tests.supervisor.notify.web_service import WebService
from tests.support.authority import Authority
from tests.support.fake_remote import FakeRemote
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBLISH
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.subscriber import Subscriber
from tests.support.waiting import PATIENCE_S, wait_until
from tests.wire.exchange.test_credential_expiry import jwt
from wire.trouble_kinds import TroubleKind

pytestmark = pytest.mark.process

NOT_AUTHORIZED = 0x87
DAY_S = 86_400
KEPT = 10  # messages that the queue of ``away`` keeps
AWAY, CLOUD = "bridge away:0", "bridge cloud:0"
CALM_LATER = {"disk", "messages_lost", "refused_clients"}  # these stand when the test ends, or have after a minute of calm

Told = tuple[str, str, str]  # state, kind, about


def config(folder: Path, port: int, tls_port: int, remotes: dict[str, int], service: WebService) -> Config:
    hook = folder / "hook"
    hook.write_text(f'#!/bin/sh\ncat >> "{folder / "got"}"\n')
    hook.chmod(0o700)
    http = free_port()
    rule = {
        "name": "all",
        "when": [str(kind) for kind in TroubleKind],
        "for": "0s",
        "age": "1s",
        "full_percent": 50,
        "free": "1000TiB",
        "within": "20d",
        "per_minute": 3,
        "webhook": {"url": service.url},
        "command": [str(hook)],
        "topic": "notices/{node}",
    }
    dead = {"name": "dead", "when": ["link_down"], "for": "0s", "webhook": {"url": f"http://127.0.0.1:{free_port()}/"}}
    away = bridge_config(
        "away",
        remotes["away"],
        local_subscriptions=[{"filters": ["away/#"]}],
        limits={"max_messages": KEPT, "overflow": "drop-oldest"},
    )
    cloud = bridge_config(
        "cloud",
        remotes["cloud"],
        protocol="mqtt5",
        remote={"username": "edge", "password_file": str(folder / "token")},
        local_subscriptions=[{"filters": ["bad/#", "notices/#"]}],
    )
    tls = {"cert_file": str(folder / "node.pem"), "key_file": str(folder / "node.key")}
    listeners = [{"bind": f"127.0.0.1:{port}"}, {"bind": f"127.0.0.1:{tls_port}", "protocol": "tls", "tls": tls}]
    return node_config(away, cloud, notify=[rule, dead], listeners=listeners, http={"bind": f"127.0.0.1:{http}"})


def publish(node: Node, topic: str, count: int) -> None:
    with MqttClient(node.port) as client:
        client.publish_burst(topic, ["x"] * count, qos=1)


def told_of(notices: Iterable[dict[str, Any]]) -> Counter[Told]:
    return Counter((each["state"], each["kind"], each["about"]) for each in notices)


def test_each_is_told_by_webhook_program_and_topic_once_and_so_is_its_end(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    authority.issue("node", days=10)
    token = tmp_path / "token"
    token.write_text(jwt(exp=int(time.time()) + DAY_S))
    for name in ("node.pem", "node.key"):
        (tmp_path / name).write_bytes((authority.folder / name).read_bytes())
        (tmp_path / name).chmod(0o600)
    token.chmod(0o600)
    away, tls_port = Mosquitto(tmp_path / "away"), free_port()
    with FakeRemote() as remote, WebService() as service:
        remote.reason_code = lambda packet: NOT_AUTHORIZED if packet.topic.startswith("bad/") else 0
        node = Node(node_config(), tmp_path / "node")
        node.configure(config(tmp_path, node.port, tls_port, {"away": away.port, "cloud": remote.port}, service))
        with node:
            by_webhook: list[dict[str, Any]] = []

            def wait_told(*wanted: Told) -> None:
                def all_told() -> bool:
                    while not service.taken.empty():
                        by_webhook.append(service.next())
                    return set(wanted) <= set(told_of(by_webhook))

                wait_until(all_told, PATIENCE_S, lambda: f"{set(wanted) - set(told_of(by_webhook))}\n{node.output[-3000:]}")

            certificate = str(tmp_path / "node.pem")
            wait_told(*(("begins", *of) for of in (("link_down", AWAY), ("disk", "store"), ("certificate", certificate))))
            publish(node, "away/1", KEPT + 2)
            publish(node, "bad/1", 1)
            for _ in range(3):
                with socket.create_connection(("127.0.0.1", tls_port)) as sock:
                    sock.sendall(b"no TLS at all\n")
                    sock.recv(1)
            pid = node.kill("http", signal.SIGSTOP)
            standing = {
                ("link_down", AWAY),
                ("queue_age", AWAY),
                ("queue_full", "bridge away"),
                ("messages_lost", AWAY),
                ("dead_letters", "bridge cloud"),
                ("credential", CLOUD),
                ("certificate", certificate),
                ("disk", "store"),
                ("refused_clients", "listener"),
                ("process_down", "http"),
            }
            wait_told(*(("begins", *of) for of in standing))
            assert {words.partition(": ")[0] for words in node.status()["notify"]["standing"]} == {about for _, about in standing}

            node.kill("http", signal.SIGCONT)
            renewed = authority.issue("node", days=30)
            (tmp_path / "node.pem").write_bytes(renewed.cert_file.read_bytes())
            token.write_text(jwt(exp=int(time.time()) + 90 * DAY_S))
            with ControlClient.of_data_dir(node.data_dir) as control:
                control.purge("cloud", dead=True)
            with away:
                ends = {of for of in standing if of[0] not in CALM_LATER}
                wait_told(*(("over", *of) for of in ends))
                node.kill("http")
                wait_told(("happened", "process_ended", "http"))
                node.wait_replaced("http", pid)
                wait_told(*(("over", *of) for of in ends))

                def by_topic() -> list[Any]:
                    received = [
                        packet for packet in remote.received(PUBLISH) if packet.topic == "notices/edge/events" and not packet.dup
                    ]
                    return [json.loads(packet.payload) for packet in received]

                def by_command() -> list[Any]:
                    return [json.loads(line) for line in (tmp_path / "got").read_text().splitlines()]

                def all_agree() -> bool:
                    wait_told()
                    return told_of(by_topic()) == told_of(by_command()) == told_of(by_webhook)

                wait_until(all_agree, PATIENCE_S, lambda: f"{told_of(by_topic())}\n{told_of(by_command())}\n{told_of(by_webhook)}")
            counted = told_of(by_webhook)
            assert {kind for _, kind, _ in counted} == {str(kind) for kind in TroubleKind} - {"take_over", "clock_step"}
            anew = {("process_down", "http"), ("link_down", CLOUD)}  # a process that starts, a token that is shown
            assert {of: count for of, count in counted.items() if count > 1 and of[1:] not in anew} == {}
            with Subscriber(node.port, "notices/+/state/#", client_id="late") as late:

                def kept() -> set[tuple[str, str]]:
                    last = {packet.topic: packet.payload for packet in late.packets}
                    notices = [json.loads(payload) for payload in last.values() if payload]
                    return {(each["kind"], each["about"]) for each in notices}

                def only_what_stands() -> bool:
                    wait_told()
                    last = {(each["kind"], each["about"]): each["state"] for each in by_webhook}
                    stands = {of for of, state in last.items() if state == "begins"}
                    return kept() == stands and ("disk", "store") in stands and {kind for kind, _ in stands} <= CALM_LATER

                wait_until(only_what_stands, PATIENCE_S, lambda: f"{kept()}\n{by_webhook}")
            figures = node.status()["notify"]
            assert "Connection refused" in figures["errors"]["dead:webhook"]
            assert node.status()["ready"]
