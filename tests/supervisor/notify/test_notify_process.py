"""A real node that tells of its troubles: once, and their end, over restarts; a receiver that is dead costs it nothing."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.supervisor.notify.web_service import WebService
from tests.support.mosquitto import Mosquitto
from tests.support.node import Config, Node, bridge_config, node_config
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def service() -> Iterator[WebService]:
    with WebService() as service:
        yield service


def config(service: WebService, remote_port: int, hook: Path) -> Config:
    rules: list[dict[str, Any]] = [
        {"name": "links", "when": ["link_down"], "for": "1s", "webhook": {"url": service.url}, "command": [str(hook)]},
        {"name": "single", "when": ["process_ended"], "webhook": {"url": service.url}},
        {"name": "dead", "when": ["link_down"], "for": "0s", "webhook": {"url": f"http://127.0.0.1:{free_port()}/"}},
    ]
    return node_config(bridge_config("cloud", remote_port), notify=rules)


def test_a_link_and_a_death_are_told_once_and_the_end_of_one_over_a_restart(tmp_path: Path, service: WebService) -> None:
    hook, got = tmp_path / "hook", tmp_path / "got"
    hook.write_text(f'#!/bin/sh\ncat >> "{got}"\n')
    hook.chmod(0o700)
    remote = Mosquitto(tmp_path / "remote")
    with Node(config(service, remote.port, hook), tmp_path / "node") as node:
        begins = service.next()
        assert (begins["rule"], begins["state"], begins["about"]) == ("links", "begins", "bridge cloud:0")

        pid = node.kill("clients", signal.SIGKILL)
        died = service.next()
        assert (died["rule"], died["state"], died["kind"]) == ("single", "happened", "process_ended")
        assert died["about"] == node.place_of("clients")
        node.wait_replaced("clients", pid)

        pid = node.kill("notify", signal.SIGKILL)
        node.wait_replaced("notify", pid)
        figures = wait_for(node, lambda told: "dead:webhook" in told["errors"])
        assert "Connection refused" in figures["errors"]["dead:webhook"]
        assert any("cloud:0" in words for words in figures["standing"])

        with remote:
            while (over := service.next())["kind"] == "process_ended":
                assert over["about"] in ("notify", died["about"])  # it tells of its own death, and what it may not have told
            assert (over["rule"], over["state"], over["id"]) == ("links", "over", begins["id"])
            assert service.taken.empty()
            wait_until(lambda: len(lines(got)) >= 2, PATIENCE_S, lambda: f"both; there are {lines(got)}")
        assert [one["state"] for one in lines(got)] == ["begins", "over"]
        assert node.status()["ready"]
        assert "secret-path" not in node.output


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def wait_for(node: Node, holds: Any) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    def look() -> bool:
        seen.update(node.status()["notify"])
        return bool(seen) and bool(holds(seen))

    wait_until(look, PATIENCE_S, lambda: f"it is {seen}", period_s=0.1)
    return seen


def test_the_command_tries_each_receiver_without_the_node(tmp_path: Path, service: WebService) -> None:
    node = Node(config(service, free_port(), tmp_path / "no-such"), tmp_path / "node")
    tried = node.cli("notify", "test", str(node.config_path))
    assert tried.returncode == 1
    assert tried.stdout.splitlines()[0] == "links:webhook: taken"
    assert "links:command: there is no program no-such" in tried.stdout
    assert "dead:webhook: http://127.0.0.1:" in tried.stdout
    assert {service.next()["state"] for _ in range(2)} == {"test"}
    assert node.cli("notify", "test", str(node.config_path), "--rule", "single").returncode == 0
    assert "it has links, single, dead" in node.cli("notify", "test", str(node.config_path), "--rule", "x").stderr
