"""A real Prometheus reads a real node, and tells that a link is down, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.supervisor.http.served import TOKENS, serve
from tests.supervisor.metrics.prometheus import PROMETHEUS, Prometheus
from tests.supervisor.metrics.test_alerts import ALERTS
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient
from tests.support.mqtt_packets import PUBACK
from tests.support.node import bridge_config
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.process, pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed")]

MESSAGES = 7


def config(folder: Path, port: int) -> dict[str, Any]:
    """It reads each second, with the alerts of ``configs``, but for how long they wait."""
    alerts = yaml.safe_load(ALERTS.read_text())
    for rule in alerts["groups"][0]["rules"]:
        rule.pop("for", None)
    rules = folder / "alerts.yml"
    rules.write_text(yaml.safe_dump(alerts))
    job = {
        "job_name": "bascule",
        "authorization": {"credentials": TOKENS["view"]},
        "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
    }
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [job],
    }


def test_a_link_that_goes_down_becomes_an_alert_that_says_why_and_ends_when_it_is_back(tmp_path: Path) -> None:
    with (
        Mosquitto(tmp_path / "remote") as remote,
        serve(tmp_path, bridge_config("cloud", remote.port)) as served,
        Prometheus(tmp_path / "prometheus", config(tmp_path, served.port)) as prometheus,
    ):

        def links_down() -> list[dict[str, Any]]:
            return [
                alert
                for alert in prometheus.api("alerts").get("alerts", ())
                if alert["labels"]["alertname"] == "BasculeLinkDown" and alert["state"] == "firing"
            ]

        with MqttClient(served.node.port) as client:
            for number in range(1, MESSAGES + 1):
                client.publish("plant/1", "21.5", qos=1, packet_id=number)
            for _ in range(MESSAGES):  # else the close would reset the connection, and what was not read yet would go
                client.expect(PUBACK)
        wait_until(
            lambda: prometheus.value("sum(bascule_bridge_delivered_messages_total)") == MESSAGES,
            PATIENCE_S,
            "Prometheus has read what was delivered",
            period_s=0.2,
        )
        assert prometheus.value("bascule_ready") == 1
        assert links_down() == []

        remote.kill()
        alert = wait_until(links_down, PATIENCE_S, lambda: f"the alert; {prometheus.api('alerts')}", period_s=0.2)[0]
        assert alert["labels"]["bridge"] == "cloud"
        assert alert["annotations"]["summary"].startswith("cloud of 127.0.0.1:")

        def says_why() -> bool:
            return any("refused" in alert["annotations"]["description"].lower() for alert in links_down())

        wait_until(says_why, PATIENCE_S, lambda: f"the reason; {links_down()}", period_s=0.2)

        remote.start()
        wait_until(lambda: not links_down(), PATIENCE_S, "the alert ends", period_s=0.2)
