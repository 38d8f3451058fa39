"""``bascule queue resend`` and ``import``: what was there before reaches a real remote once more, and once, through kills."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.main import main
from supervisor.control.client import ControlClient
from supervisor.control.imported_messages import ExportedMessages
from tests.conftest import StartNode
from tests.support.mosquitto import Mosquitto
from tests.support.mqtt_client import MqttClient, publish
from tests.support.node import bridge_config, node_config
from tests.support.ports import free_port
from tests.support.subscriber import Subscriber

NUMBERS = [str(number) for number in range(40)]


def test_what_has_left_goes_once_more_and_no_kill_doubles_it(
    source: Mosquitto, sink: Mosquitto, start_node: StartNode, capsys: pytest.CaptureFixture[str]
) -> None:
    """At QoS 2: into another bridge page by page with a kill between two, and by the command into the queue of before."""
    told = [{"filters": ["plant/#"], "provenance": "user-properties"}]
    config = node_config(
        bridge_config("first", source.port, protocol="mqtt5", retention="1h", local_subscriptions=told),
        bridge_config("second", sink.port, protocol="mqtt5", local_subscriptions=[{"filters": ["nothing"]}]),
    )
    with Subscriber(source.port, "#", version=5) as before, Subscriber(sink.port, "#", version=5) as later:
        node = start_node(config)
        with MqttClient(node.port) as client:
            publish(client, "plant/a", *NUMBERS, qos=2)
        node.wait_lane("first", delivered=40, depth=0)
        with ControlClient.of_config(node.config_path) as asked:
            assert asked.resend("first", "r", into="second", count=15).next == 15
            node.wait_replaced("store", node.kill("store"))
            assert asked.resend("first", "r", into="second", count=15).total == 30
            assert asked.resend("first", "r", into="second").next is None
        later.wait_for("plant/a", NUMBERS)
        lane = node.wait_lane("second", delivered=40, depth=0, ledger_closes=True)
        assert (lane["accepted"], lane["resent"]) == (40, 40)
        assert later.payloads("plant/a") == NUMBERS

        words = ["queue", "resend", str(node.config_path), "first", "--from", "10", "--below", "20", "--rate", "1000", "--json"]
        assert main(words) == 0
        assert json.loads(capsys.readouterr().out)["resent"] == 10
        lane = node.wait_lane("first", delivered=50, depth=0, ledger_closes=True)
        assert (lane["accepted"], lane["resent"]) == (50, 10)
        before.wait_for("plant/a", [*NUMBERS, *NUMBERS[10:20]])
    assert before.payloads("plant/a") == [*NUMBERS, *NUMBERS[10:20]]
    marks = [("bascule-resent", "true") in packet.user_properties for packet in before.packets]
    assert marks == [False] * 40 + [True] * 10

    def left(*words: str) -> list[dict[str, Any]]:
        assert main(["queue", "peek", str(node.config_path), "first", "--left", "--json", *words]) == 0
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        assert all(row["state"] == "delivered" and row["left_at"] for row in found)
        return found

    assert [row["payload"] for row in left("--count", "12")] == [*NUMBERS[38:], *NUMBERS[10:20]], "the newest"
    assert [row["seq"] for row in left("--since", "1h", "--count", "3", "--topic", "plant/+")] == [0, 1, 2]
    assert left("--topic", "other/#") == left("--until", "1h") == []
    assert main(["queue", "export", str(node.config_path), "first", "--left", "--topic", "#", "--to", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 50
    assert main(["queue", "peek", str(node.config_path), "first", "--since", "1h"]) == 2
    assert main(["queue", "peek", str(node.config_path), "second", "--left"]) == 1
    assert "retention of bridge 'second' is 0s" in capsys.readouterr().err
    assert main(["queue", "resend", str(node.config_path), "second"]) == 1
    assert "retention of bridge 'second' is 0s" in capsys.readouterr().err
    assert main(["queue", "resend", str(node.config_path), "first", "--since", "soon"]) == 2


def test_an_exported_queue_is_imported_once_into_another_bridge(
    sink: Mosquitto, start_node: StartNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged line is refused before anything goes; the same file does not go twice, whatever was killed in between."""
    rules = [{"filters": ["plant/#"], "destination": "site/{#}"}]
    config = node_config(
        bridge_config("away", free_port(), local_subscriptions=rules),
        bridge_config("second", sink.port, protocol="mqtt5", local_subscriptions=[{"filters": ["nothing"]}]),
    )
    file = tmp_path / "queue.jsonl"
    with Subscriber(sink.port, "#", version=5) as later:
        node = start_node(config)
        with MqttClient(node.port) as client:
            publish(client, "plant/a", *NUMBERS, qos=2)
        node.wait_lane("away", depth=40)
        assert main(["queue", "export", str(node.config_path), "away", "--to", str(file)]) == 0
        whole = file.read_text().splitlines(keepends=True)
        file.write_text("".join([*whole[:20], whole[20][:30] + "\n", *whole[21:]]))
        assert main(["queue", "import", str(node.config_path), "second", str(file)]) == 1
        assert "line 21: it is not JSON" in capsys.readouterr().err
        file.write_text("".join(whole))
        with file.open("rb") as opened, ControlClient.of_config(node.config_path) as asked:
            exported = ExportedMessages(opened)
            asked.import_messages("second", exported.digest, exported.page(0, 15), start=0, below=40)
            node.wait_replaced("store", node.kill("store"))
        assert main(["queue", "import", str(node.config_path), "second", str(file)]) == 0
        assert main(["queue", "import", str(node.config_path), "second", str(file)]) == 0
        assert "imported before" in capsys.readouterr().out
        assert "queue.import" in node.output
        assert "payload_base64" not in node.output, "no payload is logged"
        later.wait_for("site/plant/a", NUMBERS)
        lane = node.wait_lane("second", delivered=40, depth=0, ledger_closes=True)
        assert (lane["accepted"], lane["resent"]) == (40, 40)
        assert later.payloads("site/plant/a") == NUMBERS
