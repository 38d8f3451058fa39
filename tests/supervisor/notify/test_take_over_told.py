"""A take-over in a real cluster is told once by web service, program and topic: by who leads now, and by who leads no more."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from supervisor.notify import notice_record
from tests.supervisor.notify.web_service import WebService
from tests.support.cluster import Cluster, Member
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.node import bridge_config, node_config
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process


def test_a_take_over_is_told_once_by_the_node_that_leads_and_by_the_one_that_does_no_more(tmp_path: Path) -> None:
    hook, got = tmp_path / "hook", tmp_path / "got"
    hook.write_text(f'#!/bin/sh\ncat >> "{got}"\n')
    hook.chmod(0o700)
    by_webhook: list[dict[str, Any]] = []

    with Mosquitto(tmp_path / "remote") as remote, WebService() as service, MqttClient(remote.port) as far:

        def by_command() -> list[dict[str, Any]]:
            return [json.loads(line) for line in got.read_text().splitlines()] if got.exists() else []

        def wait_told(text: str) -> None:
            def both() -> bool:
                while not service.taken.empty():
                    by_webhook.append(service.next())
                return all(any(one["text"].startswith(text) for one in told) for told in (by_webhook, by_command()))

            wait_until(both, 60.0, lambda: f"{text}\n{by_webhook}\n{by_command()}\n{cluster.outputs()}")

        def wait_seen(member: Member, role: str) -> None:
            """A look has seen it in that ``role``, and what it had to tell is told: who is killed before may tell it again."""

            def seen() -> bool:
                record = notice_record.read(member.node.data_dir)
                return (record.role, record.waiting) == (role, ())

            wait_until(seen, 60.0, f"a look at {member.name}")

        receivers = {"webhook": {"url": service.url}, "command": [str(hook)], "topic": "notices/{node}"}
        rule = {"name": "roles", "when": ["take_over"], **receivers}
        bridge = bridge_config("cloud", remote.port, local_subscriptions=[{"filters": ["notices/#"]}])
        far.subscribe("notices/#", qos=1)
        with Cluster(node_config(bridge, notify=[rule]), tmp_path, servers=1) as cluster:
            first = cluster.follow()
            second = next(member for member in cluster.members if member is not first)
            cluster.wait_level(second)
            wait_seen(first, "leader")
            wait_seen(second, "standby")
            first.kill()
            assert cluster.follow(but=first) is second
            wait_told(f"{second.name} leads now")
            while json.loads(far.receive().payload)["text"] != f"{second.name} leads now":
                pass  # of the node that led at first
            first.node.spawn()
            wait_told("this node leads no more")  # and who does, where its store knows that at the first look

        for told in (by_webhook, by_command()):
            assert {one: count for one, count in Counter(each["id"] for each in told).items() if count > 1} == {}
